/** The focused pane as text to paste: plain text, Markdown, the underlying data as JSON, or a picture. */
import { frame, insideOf } from '../present/cells/frame.ts';
import { rowText } from '../present/cells/row.ts';
import { rowsToSvg } from '../present/cells/svg.ts';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import type { Snapshot } from '../state/log-search.ts';
import { focusedPane } from './chrome/layout.ts';
import { screenOf } from './chrome/message.ts';
import { wholeLine } from './run/log.ts';
import { viewResults } from './view-results.ts';
import { VIEW_FUNCTIONS } from './views.ts';

export type CopyFormat = 'text' | 'markdown' | 'json' | 'svg';
const EXTENSIONS: Record<CopyFormat, string> = { text: 'txt', markdown: 'md', json: 'json', svg: 'svg' };

export function copyOf(snapshot: Snapshot, format: CopyFormat): { text: string; fileName: string } {
  const { view } = snapshot.state.ui;
  const pane = focusedPane(screenOf(snapshot.state));
  const { body, ...border } = VIEW_FUNCTIONS[view](snapshot, insideOf(pane));
  // In view 1 the whole log is copied, unwrapped, because the log is the part that people paste.
  const lines = view === 'run' ? wholeLog(snapshot) : body.map((row) => rowText(row).trimEnd());
  const { blocks, data } = viewResults(snapshot, view);
  const results = (): string =>
    blocks.length > 0 ? markdownOf(blocks) : `\`\`\`\n${lines.join('\n').trimEnd().replaceAll('```', "'''")}\n\`\`\`\n`;
  const text = {
    text: () => `${lines.join('\n').trimEnd()}\n`,
    markdown: () => `**${border.title}**${border.badge === undefined ? '' : ` (${border.badge})`}\n\n${results()}`,
    json: () => `${JSON.stringify(data, null, 2)}\n`,
    svg: () => rowsToSvg(frame(border, body, pane), pane.width),
  }[format]();
  return { text, fileName: `${view}.${EXTENSIONS[format]}` };
}

const wholeLog = ({ log }: Snapshot): string[] =>
  Array.from({ length: log.end - log.start }, (_, index) => log.at(log.start + index)).flatMap((line) =>
    line === undefined ? [] : [rowText(wholeLine(line)).trimEnd()],
  );

/** Cells in which no row of a list is cut. */
const UNCUT_CELLS = 1_000;

/** The row under the cursor, without its mark and in full, however narrow the screen is. */
export function selectedLine(snapshot: Snapshot): string | undefined {
  const { state } = snapshot;
  const { view, log: position } = state.ui;
  if (view === 'run') {
    // The line at which a search stopped. If the log is following, the last line.
    const line = snapshot.log.at(position.follow ? snapshot.log.end - 1 : position.top);
    return line?.text;
  }
  const { height } = insideOf(focusedPane(screenOf(state)));
  const { body } = VIEW_FUNCTIONS[view](snapshot, { width: UNCUT_CELLS, height });
  const row = body.find((candidate) => candidate.some(({ selected }) => selected));
  if (row === undefined) return undefined;
  // Next to a list are the details of its row.
  const text = rowText(row.filter(({ selected }) => selected));
  return text.replace(/^▸ /, '').replace(/ {3,}/g, '  ').trim();
}
