/** The drawing functions for pictures outside of fa-tui. */
export { linear, logarithmic, type Scale } from './axes.ts';
export { circle, COLORS, escapeMarkup, label, line, polyline, rect } from './elements.ts';
