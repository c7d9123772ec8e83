/** Blocks as lines of plain text, for pipes and logs. Nothing is cut, and each fact has its own line. */
import type { CodeFrame } from '@flashcore/shared/contract';
import type { Block, Code, Fact, FindingBlock, Heading, Notice, Plot, TableBlock } from '../blocks.ts';
import { codeFrameRows, codeRows, layTable, plotRows, verbatimRows } from '../cells/cells-painter.ts';
import { cellWidth, sanitize, wrapWords } from '../cells/cell-text.ts';
import { rowText, run, type Row } from '../cells/row.ts';
import type { Role } from '../roles.ts';
import { paintLine, type ReportFormat } from './report-format.ts';

const INDENT = 2;
const LABEL_WIDTH = 11;
const MOST_LABEL_WIDTH = 20;
const PLOT_ROWS = 9;

/** The report as lines, with an empty line before each section except the first. */
export const plainLines = (blocks: readonly Block[], format: ReportFormat): string[] =>
  plainRows(blocks, format).map((row) => plainLine(row, format));

/** A row in the format's style, without trailing spaces. */
export function plainLine(row: Row, format: ReportFormat): string {
  let left = rowText(row).trimEnd().length;
  const pieces = row.map(({ text, ...piece }) => {
    const kept = text.slice(0, Math.max(0, left));
    left -= text.length;
    return { ...piece, text: sanitize(kept) };
  });
  return paintLine(
    pieces.filter(({ text }) => text !== ''),
    format,
  );
}

/** The report as rows that are not sanitized yet. */
export function plainRows(blocks: readonly Block[], format: ReportFormat): Row[] {
  return blocks.flatMap((block, index) =>
    block.kind === 'heading' && index > 0 ? [[], ...rowsOf(block, format)] : rowsOf(block, format),
  );
}

function rowsOf(block: Block, format: ReportFormat): Row[] {
  switch (block.kind) {
    case 'heading':
      return headingRows(block, format);
    case 'facts':
      return factsRows(block.facts, { format, indent: INDENT });
    case 'table':
      return tableRows(block, format);
    case 'notice':
      return noticeRows(block, format);
    case 'finding':
      return findingRows(block, format);
    case 'code':
      return codeLines(block, format);
    case 'verbatim':
      return verbatimRows(block);
    case 'plot':
      return indentedPlot(block, format);
    case 'outcome':
      return [[run(block.word.toUpperCase(), block.role), run(`  ${block.job}`)]];
  }
}

/** A title followed by its remark, or with the remark below if it does not fit. */
function headingRows({ title, remark }: Heading, format: ReportFormat): Row[] {
  if (remark === '') return [[run(title, 'title')]];
  return title.length + 2 + remark.length <= format.width
    ? [[run(title, 'title'), run(`  ${remark}`, 'dim')]]
    : [[run(title, 'title')], ...paragraph(remark, { format, indent: INDENT, role: 'dim' })];
}

interface Place {
  readonly format: ReportFormat;
  readonly indent: number;
  readonly role?: Role | undefined;
}

function paragraph(text: string, { format, indent, role }: Place): Row[] {
  return wrapWords(text, Math.max(20, format.width - indent), format.uncut).map((line): Row => [
    run(' '.repeat(indent)),
    run(line, role),
  ]);
}

/**
 * Lines such as "  label      value". A long value wraps beside its label; a label that is much longer has its own
 * line.
 */
function factsRows(facts: readonly Fact[], { format, indent }: Place): Row[] {
  const longest = Math.max(...facts.map(({ label }) => label.length), 0);
  const labelWidth = longest + 2 <= MOST_LABEL_WIDTH ? Math.max(LABEL_WIDTH, longest + 2) : LABEL_WIDTH;
  return facts.flatMap(({ label, value, role }): Row[] => {
    const lines = wrapWords(value, format.width - indent - labelWidth, format.uncut);
    const head: Row = [run(' '.repeat(indent)), run(label.padEnd(labelWidth), 'dim')];
    const first: Row[] = label.length < labelWidth ? [[...head, run(lines.shift() ?? '', role)]] : [head];
    return [...first, ...lines.map((line): Row => [run(' '.repeat(indent + labelWidth)), run(line, role)])];
  });
}

function tableRows(block: TableBlock, format: ReportFormat): Row[] {
  if (format.uncut !== true && isTooWide(block, format.width - INDENT)) return listedRows(block, format);
  const laid = layTable(block, format.uncut ? Infinity : format.width - INDENT);
  const indented = (row: Row | undefined): Row => [run(' '.repeat(INDENT)), ...(row ?? [])];
  return [
    indented(laid.header),
    ...block.rows.flatMap(({ note }, index): Row[] => [
      indented(laid.rows[index]),
      ...(note === undefined ? [] : paragraph(note.text, { format, indent: 2 * INDENT, role: note.role ?? 'dim' })),
    ]),
  ];
}

/** True for a table that does not fit and has no column that may be shortened or dropped. */
const isTooWide = ({ columns, rows }: TableBlock, width: number): boolean =>
  columns.every(({ shrinkTo, drop }) => shrinkTo === undefined && drop === undefined) &&
  columns.reduce(
    (sum, { title }, index) =>
      sum + 2 + Math.max(cellWidth(title), ...rows.map(({ cells }) => cellWidth(cells[index]?.text ?? ''))),
    -2,
  ) > width;

/** Each row as labelled values, with an empty line between rows. */
const listedRows = ({ columns, rows }: TableBlock, format: ReportFormat): Row[] =>
  rows.flatMap(({ cells, note }, index): Row[] => [
    ...(index === 0 ? [] : [[]]),
    ...factsRows(
      columns.flatMap(({ title }, column) => {
        const { text, role } = cells[column] ?? { text: '' };
        return text === '' ? [] : [{ label: title, value: text, role }];
      }),
      { format, indent: INDENT },
    ),
    ...(note === undefined ? [] : paragraph(note.text, { format, indent: 2 * INDENT, role: note.role ?? 'dim' })),
  ]);

function noticeRows({ text, role, mark }: Notice, format: ReportFormat): Row[] {
  if (mark === undefined) return paragraph(text, { format, indent: INDENT, role });
  const [first = [], ...rest] = paragraph(text, { format, indent: INDENT + mark.length + 1 });
  return [[run(`${' '.repeat(INDENT)}${mark} `, role), ...first.slice(1)], ...rest];
}

function findingRows(
  { word, message, facts, remedy, frame, otherFrames = [] }: FindingBlock,
  format: ReportFormat,
): Row[] {
  const indent = 2 * INDENT;
  const told = remedy === '' ? facts : [...facts, { label: 'remedy', value: remedy }];
  return [
    [run(' '.repeat(INDENT)), run(word.toUpperCase(), 'bad')],
    ...paragraph(message, { format, indent }),
    ...[frame, ...otherFrames].flatMap((each) => frameRows(each, format)),
    ...factsRows(told, { format, indent }),
  ];
}

const codeLines = (code: Code, format: ReportFormat): Row[] =>
  codeRows(code, format.uncut ? Infinity : format.width - INDENT).map((row): Row => [run(' '.repeat(INDENT)), ...row]);

const frameRows = (frame: CodeFrame | undefined, { width, uncut }: ReportFormat): Row[] =>
  frame === undefined
    ? []
    : codeFrameRows(frame, uncut ? Infinity : width - 2 * INDENT).map((row): Row => [
        run(' '.repeat(2 * INDENT)),
        ...row,
      ]);

const indentedPlot = (plot: Plot, { width }: ReportFormat): Row[] =>
  plotRows(plot, { width: width - 2 * INDENT, height: PLOT_ROWS }).map((row): Row => [
    run(' '.repeat(2 * INDENT)),
    ...row,
  ]);
