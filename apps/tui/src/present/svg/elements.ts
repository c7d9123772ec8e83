/** Scales, and the few SVG elements for plots. Every text is escaped here, and no other file writes markup. */
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

interface TextLook {
  readonly anchor?: 'start' | 'middle' | 'end';
  readonly color?: string;
}

export const label = ([x, y]: Point, text: string, { anchor = 'start', color = COLORS.faint }: TextLook = {}): string =>
  `<text x="${at(x)}" y="${at(y)}" text-anchor="${anchor}" fill="${color}">${escapeMarkup(text)}</text>`;

/** Maps values to positions, with tick values for the axis. */
export interface Scale {
  readonly place: (value: number) => number;
  readonly ticks: readonly number[];
}

export interface Range {
  readonly low: number;
  readonly high: number;
}

const WANTED_TICKS = 5;

/** `from` is the position of the low end. */
export function linear({ low, high }: Range, from: number, to: number): Scale {
  const span = Math.max(high - low, Math.abs(high) * 1e-9, Number.MIN_VALUE);
  return {
    place: (value) => from + ((value - low) / span) * (to - from),
    ticks: roundSteps({ low, high: low + span }),
  };
}

/**
 * Logarithmic scale. There is a tick at each power of ten, and also at 2 and 5 if those are few. Both ends must be
 * above 0.
 */
export function logarithmic({ low, high }: Range, from: number, to: number): Scale {
  const [first, last] = [Math.log10(low), Math.log10(Math.max(high, low * 1.01))];
  const factors = last - first < 2.5 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); power++)
    for (const factor of factors) ticks.push(factor * 10 ** power);
  return {
    place: (value) => from + ((Math.log10(value) - first) / (last - first)) * (to - from),
    ticks: ticks.filter((tick) => tick >= low && tick <= high),
  };
}

/** Multiples of 1, 2 or 5 times a power of ten. */
function roundSteps({ low, high }: Range): number[] {
  const rough = (high - low) / WANTED_TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(low / step);
  const count = Math.max(0, Math.min(2 * WANTED_TICKS, Math.floor(high / step) - first + 1));
  return Array.from({ length: count }, (_, index) => (first + index) * step);
}
