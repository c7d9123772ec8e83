/** Blocks as rows of cells, for a pane of the terminal program. */
import type { CodeFrame } from '@flashcore/shared/contract';
import type {
  Block,
  Code,
  Drawing,
  Fact,
  FindingBlock,
  Heading,
  NamedHistogram,
  Notice,
  Plot,
  TableBlock,
  TableRow,
  Verbatim,
} from '../blocks.ts';
import { formatNumber } from '../numbers.ts';
import { piece, type Role } from '../roles.ts';
import { labelledBars } from './bars.ts';
import { Canvas } from './canvas.ts';
import { cutCells, sanitize, padCells, type FrameLine, frameLines } from './cell-text.ts';
import { ecdf } from './ecdf.ts';
import { heatMap } from './heatmap.ts';
import { histogram, histogramData } from './histogram.ts';
import { mirroredHistogram } from './mirrored.ts';
import { roofline } from './roofline.ts';
import { flowRows, labelled, rowWidth, run, wrapRows, type Row } from './row.ts';
import { table, type Table } from './table.ts';

/** Default height of a plot, in rows. */
export const PLOT_ROWS = 9;

/** Each block in as many rows as it needs. No row is wider than `width`. */
export const blockRows = (blocks: readonly Block[], width: number): Row[] =>
  blocks.flatMap((block) => rowsOf(block, width));

function rowsOf(block: Block, width: number): Row[] {
  switch (block.kind) {
    case 'heading':
      return headingRows(block, width);
    case 'facts':
      return factRows(block.facts, width);
    case 'table':
      return tableRows(block, width);
    case 'notice':
      return noticeRows(block, width);
    case 'finding':
      return findingRows(block, width);
    case 'code':
      return codeRows(block, width);
    case 'verbatim':
      return verbatimRows(block);
    case 'plot':
      return plotRows(block, { width, height: PLOT_ROWS });
    case 'outcome':
      return wrapRows(`${block.word}  ${block.job}`, width, { role: block.role });
  }
}

export const verbatimRows = ({ lines }: Verbatim): Row[] => lines.map((line) => [run(sanitize(line))]);

/** The title with its remark next to it, or below it if there is not enough room. */
export function headingRows({ title, remark }: Heading, width: number): Row[] {
  if (remark === '') return wrapRows(title, width, { role: 'title' });
  const beside: Row = [run(title, 'title'), run(`  ${remark}`, 'dim')];
  return rowWidth(beside) <= width
    ? [beside]
    : [...wrapRows(title, width, { role: 'title' }), ...wrapRows(remark, width, { role: 'dim', indent: 2 })];
}

/** Puts as many facts into each row as fit. */
export const factRows = (facts: readonly Fact[], width: number): Row[] =>
  flowRows(
    facts.map(({ label, value, role }) => labelled(label, value, role)),
    width,
  );

/** Lays out header and rows in `width`. */
export const layTable = ({ columns, rows }: TableBlock, width: number): Table =>
  table(
    columns.map((column, index) => ({ ...column, cell: ({ cells }: TableRow) => cells[index] ?? piece('') })),
    rows,
    width,
  );

function tableRows(block: TableBlock, width: number): Row[] {
  const laid = layTable(block, width);
  return [
    laid.header,
    ...block.rows.flatMap(({ note }, index): Row[] => [
      laid.rows[index] ?? [],
      ...(note === undefined ? [] : wrapRows(note.text, width, { role: note.role ?? 'dim', indent: 4 })),
    ]),
  ];
}

/** If there is a mark, only the mark is colored, otherwise the text. */
export function noticeRows({ text, role, mark }: Notice, width: number): Row[] {
  if (mark === undefined) return wrapRows(text, width, { role, hang: 2 });
  const [first = [], ...rest] = wrapRows(text, width, { indent: mark.length + 1 });
  return [[run(`${mark} `, role), ...first.slice(1)], ...rest];
}

function findingRows({ word, message, facts, remedy }: FindingBlock, width: number): Row[] {
  return [
    ...noticeRows({ kind: 'notice', mark: '✗', role: 'bad', text: `${word.toUpperCase()}: ${message}` }, width),
    ...facts.flatMap(({ label, value }) => wrapRows(`${label} ${value}`, width, { role: 'dim', indent: 2, hang: 4 })),
    ...(remedy === '' ? [] : noticeRows({ kind: 'notice', mark: '→', role: 'accent', text: remedy }, width)),
  ];
}

const FRAME_ROLES: Record<FrameLine['kind'], Role> = { meant: 'text', around: 'dim', caret: 'bad' };

/** Source lines with their numbers, and a caret under the place. */
export const codeRows = ({ file, frame }: Code, width: number): Row[] => [
  [run(cutCells(`${file}:${frame.line}${frame.column > 0 ? `:${frame.column}` : ''}`, width), 'accent')],
  ...codeFrameRows(frame, width),
];

export const codeFrameRows = (frame: CodeFrame, width: number): Row[] =>
  frameLines(frame, width).map(({ gutter, text, kind }): Row => [run(gutter, 'dim'), run(text, FRAME_ROLES[kind])]);

/** The caption, if there is one, and the drawing. */
export const plotRows = ({ drawing, caption }: Plot, size: DrawingSize): Row[] => [
  ...(caption === undefined ? [] : wrapRows(sanitize(caption), size.width, { role: 'dim' })),
  ...drawingRows(drawing, size),
];

interface DrawingSize {
  readonly width: number;
  readonly height: number;
}

export function drawingRows(drawing: Drawing, size: DrawingSize): Row[] {
  const { width, height } = size;
  switch (drawing.type) {
    case 'bars':
      return labelledBars(drawing.bars, { width, full: drawing.full });
    case 'histogram': {
      const data = histogramData(drawing.histogram);
      return data === undefined ? [] : histogram(data, { width, height, marks: drawing.marks });
    }
    case 'ecdf':
      return ecdfRows(drawing.curves, size);
    case 'mirrored': {
      const [upper, lower] = [histogramData(drawing.upper.histogram), histogramData(drawing.lower.histogram)];
      const medians = [drawing.upper.p50Us, drawing.lower.p50Us] as const;
      return upper && lower ? mirroredHistogram({ upper, lower }, { ...size, medians }) : [];
    }
    case 'roofline':
      return rooflineRows(drawing, size);
    case 'race':
      return raceRows(drawing, size);
    case 'heat':
      return heatMap({ ...drawing.map, isNamed: drawing.isNamed, values: drawing.map.maxAbsError }, size);
  }
}

const CURVE_ROLES: readonly Role[] = ['bar', 'barAlternative', 'accent', 'warn'];

function ecdfRows(curves: readonly NamedHistogram[], size: DrawingSize): Row[] {
  const drawn = curves.flatMap(({ histogram }, index) => {
    const data = histogramData(histogram);
    return data === undefined ? [] : [{ data, role: CURVE_ROLES[index % CURVE_ROLES.length] ?? 'bar' }];
  });
  return drawn.length === 0 ? [] : ecdf(drawn, size);
}

const POINT_MARKS = '◆◇ABCDEFGH';

/** The plot, and below it the meaning of its marks. */
function rooflineRows({ ceilings, points }: Drawing & { type: 'roofline' }, size: DrawingSize): Row[] {
  const marked = points.map((point, index) => ({ ...point, mark: POINT_MARKS[index] ?? '+', role: 'accent' as const }));
  return [
    ...roofline({ ...ceilings, points: marked }, size),
    ...marked.flatMap(({ mark, label }) => wrapRows(`${mark} ${label}`, size.width, { hang: 2 })),
  ];
}

/** Exactly `height` rows of `width` cells: the curve, and the numbers of the first and the last trial. */
function raceRows(
  { best, trials }: Drawing & { type: 'race' },
  { width, height }: { readonly width: number; readonly height: number },
): Row[] {
  const values = [...best, ...trials.map(({ value }) => value)];
  if (values.length === 0) return [];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = Math.max(1, best.length - 1);
  const canvas = new Canvas({ width, height: height - 1 });
  const columnOf = (trial: number): number => Math.round((trial / last) * (canvas.dotColumns - 1));
  const rowOf = (value: number): number =>
    Math.round((1 - (value - low) / Math.max(high - low, Number.EPSILON)) * (canvas.dotRows - 1));
  best.forEach((value, trial) => {
    if (trial === 0) return;
    const before = best[trial - 1] ?? value;
    canvas.line([columnOf(trial - 1), rowOf(before)], [columnOf(trial), rowOf(before)], 'bar');
    canvas.line([columnOf(trial), rowOf(before)], [columnOf(trial), rowOf(value)], 'bar');
  });
  for (const { trial, value, good } of trials)
    canvas.text(Math.floor(columnOf(trial) / 2), Math.floor(rowOf(value) / 4), good ? '◆' : '·', {
      role: good ? 'good' : 'dim',
    });
  canvas.text(0, 0, `${formatNumber(high)} x`, { role: 'dim', gently: true });
  const end = `trial ${best.length - 1}`;
  return [...canvas.rows(), [run(padCells(`0${end.padStart(width - 1)}`, width), 'dim')]];
}
