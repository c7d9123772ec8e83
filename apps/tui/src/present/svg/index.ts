/** What pictures outside of fa-tui are drawn with. */
export { linear, logarithmic, type Scale } from './axes.ts';
export { circle, COLORS, escapeMarkup, label, line, polyline, rect } from './elements.ts';
