/** Blocks as rows of cells, for a pane of the terminal program. */
import type { CodeFrame } from '@flashcore/shared/contract';
import type { Block, Code, Drawing, Fact, FindingBlock, Heading, Notice, TableBlock, TableRow } from '../blocks.ts';
import { piece, type Role } from '../roles.ts';
import { labelledBars } from './bars.ts';
import { cutCells } from './cell-text.ts';
import { histogram, histogramData } from './histogram.ts';
import { flowRows, labelled, rowWidth, run, wrapRows, type Row } from './row.ts';
import { table, type Table } from './table.ts';
import { type FrameLine, frameLines } from './code-frame.ts';

/** Rows of a plot that nobody gave another height. */
export const PLOT_ROWS = 9;

/** Each block in as many rows as it takes, none wider than `width`. */
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
    case 'plot':
      return drawingRows(block.drawing, { width, height: PLOT_ROWS });
    case 'outcome':
      return wrapRows(`${block.word}  ${block.job}`, width, { role: block.role });
  }
}

/** The title, its remark beside it where it fits, else below. */
export function headingRows({ title, remark }: Heading, width: number): Row[] {
  if (remark === '') return wrapRows(title, width, { role: 'title' });
  const beside: Row = [run(title, 'title'), run(`  ${remark}`, 'dim')];
  return rowWidth(beside) <= width
    ? [beside]
    : [...wrapRows(title, width, { role: 'title' }), ...wrapRows(remark, width, { role: 'dim', indent: 2 })];
}

/** As many facts in a row as fit. */
export const factRows = (facts: readonly Fact[], width: number): Row[] =>
  flowRows(
    facts.map(({ label, value, role }) => labelled(label, value, role)),
    width,
  );

/** Header and rows laid out in `width`. */
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

/** A mark has the colour alone; without one the text has it. */
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

/** Source lines with their numbers; a caret under the place. */
export const codeRows = ({ file, frame }: Code, width: number): Row[] => [
  [run(cutCells(`${file}:${frame.line}${frame.column > 0 ? `:${frame.column}` : ''}`, width), 'accent')],
  ...codeFrameRows(frame, width),
];

export const codeFrameRows = (frame: CodeFrame, width: number): Row[] =>
  frameLines(frame, width).map(({ gutter, text, kind }): Row => [run(gutter, 'dim'), run(text, FRAME_ROLES[kind])]);

export interface DrawingSize {
  readonly width: number;
  readonly height: number;
}

export function drawingRows(drawing: Drawing, { width, height }: DrawingSize): Row[] {
  switch (drawing.type) {
    case 'bars':
      return labelledBars(drawing.bars, { width, full: drawing.full });
    case 'histogram': {
      const data = histogramData(drawing.histogram);
      return data === undefined ? [] : histogram(data, { width, height, marks: drawing.marks });
    }
  }
}
