/** Blocks as Markdown, for issues and reports. Tables stay tables, facts become a list, and plots are text drawings. */
import type { Block, Fact, FindingBlock, TableBlock } from '../blocks.ts';
import { codeRows, drawingRows, verbatimRows } from '../cells/cells-painter.ts';
import { sanitize } from '../cells/cell-text.ts';
import { rowText, type Row } from '../cells/row.ts';

const PLOT_WIDTH = 72;
const PLOT_HEIGHT = 9;

/** Paragraphs separated by empty lines. */
export const markdownOf = (blocks: readonly Block[]): string =>
  `${blocks
    .map(paragraphOf)
    .filter((text) => text !== '')
    .join('\n\n')}\n`;

function paragraphOf(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return `${'#'.repeat(block.level ?? 3)} ${markdownText(block.title)}${block.remark === '' ? '' : `\n\n${markdownText(block.remark)}`}`;
    case 'facts':
      return block.facts.map(factLine).join('\n');
    case 'table':
      return tableText(block);
    case 'notice':
      return block.mark === undefined
        ? asParagraph(markdownText(block.text))
        : `${block.mark} ${markdownText(block.text)}`;
    case 'finding':
      return findingText(block);
    case 'code':
      return fenced(codeRows(block, Infinity));
    case 'verbatim':
      return fenced(verbatimRows(block));
    case 'outcome':
      return `**${markdownText(block.word)}** ${markdownText(block.job)}`;
    case 'plot':
      return [
        ...(block.caption === undefined ? [] : [markdownText(block.caption), '']),
        fenced(drawingRows(block.drawing, { width: PLOT_WIDTH, height: PLOT_HEIGHT })),
      ].join('\n');
  }
}

const factLine = ({ label, value }: Fact): string => `- ${markdownText(label)}: ${markdownText(value)}`;

function tableText({ columns, rows }: TableBlock): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const notes = rows.flatMap(({ cells, note }) =>
    note === undefined ? [] : [`- ${markdownText(cells[0]?.text ?? '')}: ${markdownText(note.text)}`],
  );
  const table = [
    line(columns.map(({ title }) => markdownText(title))),
    line(columns.map(({ align }) => (align === 'right' ? '---:' : '---'))),
    ...rows.map(({ cells }) => line(cells.map(({ text }) => markdownText(text)))),
  ].join('\n');
  // Below the table, a note is no longer next to its row, so equal notes share one bullet.
  return notes.length === 0 ? table : `${table}\n\n${[...new Set(notes)].join('\n')}`;
}

function findingText({ word, message, facts, remedy }: FindingBlock): string {
  const told = remedy === '' ? facts : [...facts, { label: 'remedy', value: remedy }];
  return [`**${markdownText(word)}**: ${markdownText(message)}`, ...told.map(factLine)].join('\n');
}

/** Puts rows between fences that are longer than any fence in the rows. */
function fenced(rows: readonly Row[]): string {
  const lines = rows.map((row) => rowText(row).trimEnd());
  const longest = Math.max(2, ...lines.flatMap((line) => (line.match(/`+/g) ?? []).map(({ length }) => length)));
  const fence = '`'.repeat(longest + 1);
  return [fence, ...lines, fence].join('\n');
}

/**
 * Keeps foreign text from becoming structure (a cell, a tag, emphasis, a formula) and from having an effect where the
 * page is posted: mentioning someone, referring to an issue, or becoming a link.
 */
export const markdownText = (text: string): string =>
  inert(sanitize(text.replaceAll('\n', ' ')).replace(/[\\`*_<>|[\]~$]|&(?=#?\w+;)/g, (character) => `\\${character}`));

/** An entity rather than the character, so that it is visible in the source. */
const ZERO_WIDTH_SPACE = '&#8203;';

/**
 * Breaks up mentions, issue numbers and links, which GitHub finds even in escaped Markdown: @name, #1, GH-1, ://, www.
 */
const inert = (text: string): string =>
  text.replace(/@(?=[\w\\-])|#(?=\d)|\bGH-(?=\d)|:(?=\/\/)|\bwww(?=\.)/gi, (found) => `${found}${ZERO_WIDTH_SPACE}`);

/** Keeps a paragraph that begins with foreign text from becoming a heading, a list or a rule. */
const asParagraph = (text: string): string =>
  text.replace(/^(\s*)(?=[#+-](?:[#\s-]|$))|^(\s*\d+)(?=[.)](?:\s|$))/, (before) => `${before}\\`);
