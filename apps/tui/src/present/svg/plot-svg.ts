/** Plots as self-contained SVG pictures: no script, style sheet or font. */
import type { Drawing, NamedHistogram, Plot } from '../blocks.ts';
import { cutCells, sanitize } from '../cells/cell-text.ts';
import { indexLetters } from '../cells/heatmap.ts';
import { histogramData, type HistogramData } from '../cells/histogram.ts';
import { ridgeOf, roofAt } from '../cells/roofline.ts';
import { formatError, formatMicroseconds, formatNumber } from '../numbers.ts';
import {
  circle,
  COLORS,
  escapeMarkup,
  label,
  line,
  polyline,
  rect,
  SERIES,
  type Point,
  linear,
  logarithmic,
  type Scale,
} from './elements.ts';

const WIDTH = 640;
const LEFT = 64;
const RIGHT = 16;
const TOP = 58;
const BOTTOM = 40;
const BODY = 220;
const BAR_HEIGHT = 22;
const LEGEND_HEIGHT = 18;

/** A body with its height; frame, caption and margins are added around it. */
interface Picture {
  readonly height: number;
  readonly body: readonly string[];
  /** Meanings of the colors and marks, shown below the body. */
  readonly legend?: readonly { readonly color: string; readonly text: string }[];
}

/** Empty if there is nothing to draw. */
export function plotSvg({ drawing, caption = '' }: Plot): string {
  const picture = pictureOf(drawing);
  if (picture === undefined) return '';
  const legend = picture.legend ?? [];
  const below = TOP + picture.height + BOTTOM;
  const height = below + legend.length * LEGEND_HEIGHT;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escapeMarkup(caption)}" font-family="system-ui, sans-serif" font-size="12">`,
    rect({ left: 0, top: 0, width: WIDTH, height }, COLORS.paper),
    ...captionLines(caption),
    ...picture.body,
    ...legend.flatMap(({ color, text }, index) => [
      rect({ left: LEFT, top: below + index * LEGEND_HEIGHT - 9, width: 10, height: 10 }, color),
      label([LEFT + 16, below + index * LEGEND_HEIGHT], text, { color: COLORS.ink }),
    ]),
    '</svg>',
  ].join('\n');
}

const CAPTION_CHARACTERS = 92;

/**
 * The caption in two lines: the kind of plot, and below it the subject. The whole caption is also the picture's
 * accessible name.
 */
function captionLines(caption: string): string[] {
  const [what, ...of] = caption.split(': ');
  return [
    label([8, 17], cutCells(sanitize(what ?? ''), CAPTION_CHARACTERS), { color: COLORS.ink }),
    label([8, 33], cutCells(sanitize(of.join(': ')), CAPTION_CHARACTERS)),
  ];
}

function pictureOf(drawing: Drawing): Picture | undefined {
  switch (drawing.type) {
    case 'histogram':
      return histogramPicture(drawing);
    case 'bars':
      return barsPicture(drawing);
    case 'ecdf':
      return ecdfPicture(drawing);
    case 'mirrored':
      return mirroredPicture(drawing);
    case 'roofline':
      return rooflinePicture(drawing);
    case 'race':
      return racePicture(drawing);
    case 'heat':
      return heatPicture(drawing);
  }
}

type Of<Type extends Drawing['type']> = Extract<Drawing, { type: Type }>;

const [X0, X1] = [LEFT, WIDTH - RIGHT];
const Y_BOTTOM = TOP + BODY;

const endOf = ({ low, binWidth, counts }: HistogramData): number => low + binWidth * counts.length;

function frame(
  x: Scale,
  y: Scale,
  { xText, yText }: { xText: (value: number) => string; yText: (value: number) => string },
): string[] {
  return [
    ...y.ticks.flatMap((tick) => [
      line([X0, y.place(tick)], [X1, y.place(tick)], { color: COLORS.grid }),
      label([X0 - 6, y.place(tick) + 4], yText(tick), { anchor: 'end' }),
    ]),
    ...x.ticks.map((tick) => label([x.place(tick), Y_BOTTOM + 16], xText(tick), { anchor: 'middle' })),
    line([X0, Y_BOTTOM], [X1, Y_BOTTOM], { color: COLORS.faint }),
  ];
}

function histogramPicture({ histogram, marks }: Of<'histogram'>): Picture | undefined {
  const data = histogramData(histogram);
  if (data === undefined) return undefined;
  const x = linear({ low: data.low, high: endOf(data) }, X0, X1);
  const y = linear({ low: 0, high: 1.12 * Math.max(1, ...data.counts) }, Y_BOTTOM, TOP);
  const beyond = [data.underflow > 0 && `${data.underflow} below`, data.overflow > 0 && `${data.overflow} above`];
  const remark = beyond.filter(Boolean).join(', ');
  return {
    height: BODY,
    body: [
      ...frame(x, y, { xText: (us) => formatMicroseconds(us, endOf(data)), yText: formatNumber }),
      ...barsOf(data, x, y, COLORS.first),
      ...marks.flatMap(({ label: name, value }) => [
        line([x.place(value), TOP], [x.place(value), Y_BOTTOM], { color: COLORS.second, dashed: true }),
        label([x.place(value) + 3, TOP + 10], `${name} ${formatMicroseconds(value)}`, { color: COLORS.second }),
      ]),
      ...(remark === '' ? [] : [label([X1, Y_BOTTOM + 32], `samples beyond the axis: ${remark}`, { anchor: 'end' })]),
    ],
  };
}

const barsOf = (data: HistogramData, x: Scale, y: Scale, color: string): string[] =>
  data.counts.flatMap((count, bin) => {
    if (count === 0) return [];
    const [from, to] = [data.low + bin * data.binWidth, data.low + (bin + 1) * data.binWidth];
    const [top, bottom] = [Math.min(y.place(count), y.place(0)), Math.max(y.place(count), y.place(0))];
    const box = { left: x.place(from), top, width: x.place(to) - x.place(from) - 0.5, height: bottom - top };
    return [rect(box, color, `${count} from ${formatMicroseconds(from)} to ${formatMicroseconds(to)}`)];
  });

function barsPicture({ bars, full }: Of<'bars'>): Picture | undefined {
  if (bars.length === 0) return undefined;
  const from = 230;
  const room = X1 - 130 - from;
  return {
    height: bars.length * BAR_HEIGHT,
    body: bars.flatMap(({ label: name, value, text }, index) => {
      const top = TOP + index * BAR_HEIGHT;
      const width = (Math.max(0, value) / full) * room;
      return [
        label([from - 8, top + 14], name, { anchor: 'end', color: COLORS.ink }),
        rect({ left: from, top: top + 3, width, height: BAR_HEIGHT - 8 }, COLORS.first),
        label([from + width + 6, top + 14], text),
      ];
    }),
  };
}

const PERCENT_TICKS = [0, 0.25, 0.5, 0.75, 0.9, 1];

/** Curves of the share of samples at or below a time. */
function ecdfPicture({ curves }: Of<'ecdf'>): Picture | undefined {
  const drawn = curves.flatMap((curve) => {
    const data = histogramData(curve.histogram);
    return data === undefined ? [] : [{ curve, data }];
  });
  if (drawn.length === 0) return undefined;
  const high = Math.max(...drawn.map(({ data }) => endOf(data)));
  const x = linear({ low: Math.min(...drawn.map(({ data }) => data.low)), high }, X0, X1);
  const y = { ...linear({ low: 0, high: 1 }, Y_BOTTOM, TOP), ticks: PERCENT_TICKS };
  return {
    height: BODY,
    body: [
      ...frame(x, y, { xText: (us) => formatMicroseconds(us, high), yText: (share) => `${Math.round(share * 100)} %` }),
      ...drawn.map(({ data }, index) => polyline(curvePoints(data, x, y), { color: seriesColor(index), width: 2 })),
    ],
    legend: drawn.map(({ curve }, index) => ({ color: seriesColor(index), text: curveText(curve) })),
  };
}

const seriesColor = (index: number): string => SERIES[index % SERIES.length] ?? COLORS.first;
const curveText = ({ label: name, p50Us }: NamedHistogram): string => `${name}, p50 ${formatMicroseconds(p50Us)}`;

function curvePoints(data: HistogramData, x: Scale, y: Scale): Point[] {
  const all = data.underflow + data.overflow + data.counts.reduce((sum, count) => sum + count, 0);
  let below = data.underflow;
  const points: Point[] = [[x.place(data.low), y.place(below / Math.max(1, all))]];
  data.counts.forEach((count, bin) => {
    below += count;
    points.push([x.place(data.low + (bin + 1) * data.binWidth), y.place(below / Math.max(1, all))]);
  });
  return points;
}

/** Each side is scaled to its own highest bar. */
function mirroredPicture({ upper, lower }: Of<'mirrored'>): Picture | undefined {
  const [above, below] = [histogramData(upper.histogram), histogramData(lower.histogram)];
  if (above === undefined || below === undefined) return undefined;
  const range = { low: Math.min(above.low, below.low), high: Math.max(endOf(above), endOf(below)) };
  const x = linear(range, X0, X1);
  const middle = TOP + BODY / 2;
  const up = linear({ low: 0, high: Math.max(1, ...above.counts) }, middle, TOP);
  const down = linear({ low: 0, high: Math.max(1, ...below.counts) }, middle, Y_BOTTOM);
  const median = (us: number, to: number, color: string): string =>
    line([x.place(us), middle], [x.place(us), to], { color, width: 2, dashed: true });
  return {
    height: BODY,
    body: [
      ...x.ticks.map((tick) =>
        label([x.place(tick), Y_BOTTOM + 16], formatMicroseconds(tick, range.high), { anchor: 'middle' }),
      ),
      ...barsOf(above, x, up, COLORS.first),
      ...barsOf(below, x, down, COLORS.second),
      line([X0, middle], [X1, middle], { color: COLORS.faint }),
      median(upper.p50Us, TOP, COLORS.ink),
      median(lower.p50Us, Y_BOTTOM, COLORS.ink),
    ],
    legend: [
      { color: COLORS.first, text: curveText(upper) },
      { color: COLORS.second, text: curveText(lower) },
    ],
  };
}

function rooflinePicture({ ceilings, points }: Of<'roofline'>): Picture {
  const ridge = ridgeOf(ceilings);
  const intensities = [ridge, ...points.map(({ intensity }) => intensity)];
  const xRange = { low: Math.min(...intensities) / 4, high: Math.max(...intensities) * 4 };
  const least = Math.min(roofAt(ceilings, xRange.low), ...points.map(({ tflops }) => tflops)) / 1.5;
  const x = logarithmic(xRange, X0, X1);
  const y = logarithmic({ low: least, high: ceilings.peakTflops * 1.6 }, Y_BOTTOM, TOP);
  const roof: Point[] = [xRange.low, ridge, xRange.high].map((intensity) => [
    x.place(intensity),
    y.place(roofAt(ceilings, intensity)),
  ]);
  return {
    height: BODY,
    body: [
      ...frame(x, y, { xText: formatNumber, yText: formatNumber }),
      polyline(roof, { color: COLORS.ink, width: 2 }),
      label([8, TOP - 4], 'TFLOP/s'),
      label([X1, Y_BOTTOM + 32], 'FLOP a byte', { anchor: 'end' }),
      label([X1, y.place(ceilings.peakTflops) - 6], `${formatNumber(ceilings.peakTflops)} TFLOP/s`, { anchor: 'end' }),
      label([X0 + 4, y.place(roofAt(ceilings, xRange.low)) + 20], `${formatNumber(ceilings.memoryGbPerSecond)} GB/s`),
      ...points.map(({ intensity, tflops, label: name }, index) =>
        circle([x.place(intensity), y.place(tflops)], 5, seriesColor(index), name),
      ),
    ],
    legend: points.map(({ label: name }, index) => ({ color: seriesColor(index), text: name })),
  };
}

function racePicture({ best, trials }: Of<'race'>): Picture | undefined {
  const values = [...best, ...trials.map(({ value }) => value)];
  if (values.length === 0) return undefined;
  const range = { low: Math.min(...values), high: Math.max(...values) };
  const x = linear({ low: 0, high: Math.max(1, best.length - 1) }, X0, X1);
  const y = linear(range, Y_BOTTOM, TOP);
  const steps = best.flatMap((value, trial): Point[] => [
    [x.place(trial), y.place(best[trial - 1] ?? value)],
    [x.place(trial), y.place(value)],
  ]);
  return {
    height: BODY,
    body: [
      ...frame(x, y, { xText: formatNumber, yText: (value) => `${formatNumber(value)} x` }),
      polyline(steps, { color: COLORS.first, width: 2 }),
      ...trials.map(({ trial, value, good }) =>
        circle(
          [x.place(trial), y.place(value)],
          good ? 5 : 3,
          good ? COLORS.third : COLORS.faint,
          `trial ${trial}: ${formatNumber(value)} x`,
        ),
      ),
      label([X1, Y_BOTTOM + 32], 'trial', { anchor: 'end' }),
    ],
    legend: [
      { color: COLORS.first, text: 'best accepted so far' },
      { color: COLORS.third, text: 'became the best' },
      { color: COLORS.faint, text: 'right' },
    ],
  };
}

/**
 * Colors range from white (no error) to the darkest (the largest error), logarithmic over three decades. NaN is black.
 */
function heatPicture({ map, isNamed }: Of<'heat'>): Picture | undefined {
  const { rows, columns, blockRows, blockColumns, maxAbsError } = map;
  if (rows === 0 || columns === 0) return undefined;
  const finite = maxAbsError.filter((value) => Number.isFinite(value) && value > 0);
  const largest = finite.reduce((most, value) => Math.max(most, value), 0);
  const [cellWidth, cellHeight] = [(X1 - X0) / columns, BODY / rows];
  const letters = indexLetters({ ...map, isNamed });
  const share = (value: number): number =>
    largest === 0 || value <= 0 ? 0 : Math.max(0, Math.min(1, 1 + Math.log10(value / largest) / 3));
  return {
    height: BODY,
    body: [
      ...maxAbsError.slice(0, rows * columns).map((value, index) => {
        const [row, column] = [Math.floor(index / columns), index % columns];
        const place = {
          left: X0 + column * cellWidth,
          top: TOP + row * cellHeight,
          width: cellWidth,
          height: cellHeight,
        };
        const title = `${letters.row}${row * blockRows} ${letters.column}${column * blockColumns}: ${formatError(value)}`;
        return rect(place, Number.isFinite(value) ? heatColor(share(value)) : '#000000', title);
      }),
      label([X0 - 6, TOP + 10], `${letters.row}0`, { anchor: 'end' }),
      label([X0 - 6, Y_BOTTOM], `${letters.row}${rows * blockRows - 1}`, { anchor: 'end' }),
      label([X0, Y_BOTTOM + 16], `${letters.column}0`),
      label([X1, Y_BOTTOM + 16], `${letters.column}${columns * blockColumns - 1}`, { anchor: 'end' }),
      label([X0, Y_BOTTOM + 32], `white: none; darkest: ${formatError(largest)}; three decades; black: no number`),
    ],
  };
}

const heatColor = (share: number): string => {
  const channel = (from: number, to: number): string =>
    Math.round(from + (to - from) * share)
      .toString(16)
      .padStart(2, '0');
  return `#${channel(0xff, 0xb3)}${channel(0xff, 0x2d)}${channel(0xff, 0x00)}`;
};
