/**
 * Blocks as one self-contained HTML file: no script, plots as inline SVG. Every text of a block is escaped here so that
 * a kernel's title can't become markup. In addition, a policy in the page refuses scripts.
 */
import type { Block, Fact, FindingBlock, Heading, Notice, Plot, TableBlock } from '../blocks.ts';
import { codeFrameRows, drawingRows, verbatimRows } from '../cells/cells-painter.ts';
import { rowText } from '../cells/row.ts';
import { colouredParts, type Piece, type Role } from '../roles.ts';
import { escapeMarkup } from '../svg/elements.ts';
import { plotSvg } from '../svg/plot-svg.ts';

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;background:#fff;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.2rem;border-bottom:1px solid #dde2e8}h3{font-size:1.05rem}
.remark{color:#66727f;font-weight:normal}.scroll{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;font-size:.92rem}
th,td{padding:.25rem .7rem;border-bottom:1px solid #dde2e8;text-align:left;vertical-align:top}.right{text-align:right;font-variant-numeric:tabular-nums}
.note{color:#66727f;font-size:.88rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dt{color:#66727f}dd{margin:0}
pre{background:#f4f6f8;padding:.7rem;overflow-x:auto}figure{margin:1rem 0}svg{max-width:100%;height:auto}
.good{color:#00704a}.bad{color:#b00020}.warn{color:#8a5a00}`;

export function htmlPage(title: string, blocks: readonly Block[]): string {
  return [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escapeMarkup(title)}</title>`,
    `<style>${STYLE}</style>`,
    '</head>',
    '<body>',
    ...blocks.map(elementOf).filter((text) => text !== ''),
    '</body>',
    '</html>',
    '',
  ].join('\n');
}

function elementOf(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return headingElement(block);
    case 'facts':
      return factList(block.facts);
    case 'table':
      return tableElement(block);
    case 'notice':
      return noticeElement(block);
    case 'finding':
      return findingElement(block);
    case 'code':
      return `<p class="note">${escapeMarkup(`${block.file}:${block.frame.line}`)}</p>\n${preformatted(codeFrameRows(block.frame, Infinity).map(rowText))}`;
    case 'verbatim':
      return preformatted(verbatimRows(block).map(rowText));
    case 'outcome':
      return `<p><strong class="${block.role}">${escapeMarkup(block.word)}</strong> ${escapeMarkup(block.job)}</p>`;
    case 'plot':
      return plotElement(block);
  }
}

const noticeElement = ({ text, role, mark }: Notice): string =>
  mark === undefined
    ? `<p class="${role}">${escapeMarkup(text)}</p>`
    : `<p>${markElement(mark, role)} ${escapeMarkup(text)}</p>`;

const markElement = (mark: string, role: Role): string => `<span class="${role}">${escapeMarkup(mark)}</span>`;

function headingElement({ title, remark, level }: Heading): string {
  const tail = remark === '' ? '' : ` <span class="remark">${escapeMarkup(remark)}</span>`;
  const tag = `h${level ?? 3}`;
  return `<${tag}>${escapeMarkup(title)}${tail}</${tag}>`;
}

const factList = (facts: readonly Fact[]): string =>
  facts.length === 0
    ? ''
    : `<dl>${facts.map(({ label, value }) => `<dt>${escapeMarkup(label)}</dt><dd>${escapeMarkup(value)}</dd>`).join('')}</dl>`;

function tableElement({ columns, rows }: TableBlock): string {
  const looks = (index: number, role = ''): string => {
    const names = [columns[index]?.align === 'right' ? 'right' : '', role].filter((name) => name !== '');
    return names.length === 0 ? '' : ` class="${names.join(' ')}"`;
  };
  const head = columns.map(({ title }, index) => `<th${looks(index)}>${escapeMarkup(title)}</th>`).join('');
  const body = rows.flatMap(({ cells, note }) => [
    `<tr>${cells.map((cell, index) => cellElement(cell, (role) => looks(index, role))).join('')}</tr>`,
    ...(note === undefined
      ? []
      : [`<tr><td class="note" colspan="${columns.length}">${escapeMarkup(note.text)}</td></tr>`]),
  ]);
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>\n${body.join('\n')}\n</tbody></table></div>`;
}

function cellElement(cell: Piece, looks: (role?: Role) => string): string {
  const [first, rest] = colouredParts(cell);
  return rest === undefined || first?.role === undefined
    ? `<td${looks(cell.role)}>${escapeMarkup(cell.text)}</td>`
    : `<td${looks()}>${markElement(first.text, first.role)}${escapeMarkup(rest.text)}</td>`;
}

function findingElement({ word, message, facts, remedy }: FindingBlock): string {
  const told = remedy === '' ? facts : [...facts, { label: 'remedy', value: remedy }];
  return `<p><strong class="bad">${escapeMarkup(word)}</strong>: ${escapeMarkup(message)}</p>\n${factList(told)}`;
}

/** A drawing that the SVG painter does not support is shown as text. */
function plotElement(plot: Plot): string {
  const picture = plotSvg(plot);
  if (picture !== '') return `<figure>${picture}</figure>`;
  const rows = drawingRows(plot.drawing, { width: 72, height: 9 }).map(rowText);
  return rows.length === 0 ? '' : preformatted(rows);
}

const preformatted = (rows: readonly string[]): string =>
  `<pre>${rows.map((row) => escapeMarkup(row.trimEnd())).join('\n')}</pre>`;
