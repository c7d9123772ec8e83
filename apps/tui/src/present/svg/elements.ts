/** The few SVG elements for plots. Every text is escaped here, and no other file writes markup. */
import { entryOf } from '@flashcore/shared/text';
import { sanitize } from '../cells/cell-text.ts';

export const COLORS = {
  paper: '#ffffff',
  ink: '#1f2933',
  faint: '#66727f',
  grid: '#dde2e8',
  // Colors that color-blind readers can distinguish (Okabe and Ito 2008).
  first: '#0072b2',
  second: '#d55e00',
  third: '#009e73',
  fourth: '#cc79a7',
} as const;

export const SERIES = [COLORS.first, COLORS.second, COLORS.third, COLORS.fourth] as const;

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Makes foreign text safe as content and as an attribute: no control characters, tags or quotes. */
export const escapeMarkup = (text: string): string =>
  sanitize(text.replaceAll('\n', ' ')).replace(/[&<>"']/g, (character) => entryOf(ENTITIES, character) ?? character);

/** Rounds to two decimals, a hundredth of a pixel. */
const at = (value: number): string => String(Number((Number.isFinite(value) ? value : 0).toFixed(2)));

export type Point = readonly [x: number, y: number];

export interface Ink {
  readonly color: string;
  readonly width?: number;
  readonly dashed?: boolean;
}

export const line = ([x1, y1]: Point, [x2, y2]: Point, ink: Ink): string =>
  polyline(
    [
      [x1, y1],
      [x2, y2],
    ],
    ink,
  );

export const polyline = (points: readonly Point[], { color, width = 1, dashed = false }: Ink): string =>
  `<polyline points="${points.map(([x, y]) => `${at(x)},${at(y)}`).join(' ')}" fill="none" stroke="${color}" stroke-width="${width}"${dashed ? ' stroke-dasharray="3 4"' : ''}/>`;

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** `title` is the tooltip. */
export function rect({ left, top, width, height }: Box, fill: string, title = ''): string {
  const place = `x="${at(left)}" y="${at(top)}" width="${at(Math.max(0, width))}" height="${at(Math.max(0, height))}"`;
  return title === ''
    ? `<rect ${place} fill="${fill}"/>`
    : `<rect ${place} fill="${fill}"><title>${escapeMarkup(title)}</title></rect>`;
}

export const circle = ([x, y]: Point, radius: number, fill: string, title: string): string =>
  `<circle cx="${at(x)}" cy="${at(y)}" r="${radius}" fill="${fill}"><title>${escapeMarkup(title)}</title></circle>`;

export interface TextLook {
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly color?: string;
}

export const label = ([x, y]: Point, text: string, { anchor = 'start', color = COLORS.faint }: TextLook = {}): string =>
  `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}" fill="${color}">${escapeMarkup(text)}</text>`;
