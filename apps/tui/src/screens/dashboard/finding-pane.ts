/** The kernel's finding, in place of its latency: text, surrounding source and remedy. */
import { notice } from '../../present/blocks.ts';
import { noticeRows } from '../../present/cells/cells-painter.ts';
import { Outcome, type CodeFrame, type Finding } from '@flashcore/shared/contract';
import { firstRows, run, textRow, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import { inputsText } from '../../present/sections/findings.ts';
import { findingWord } from '../../present/words.ts';
import { attachedJob } from '../../state/selectors.ts';
import { shownFinding, type ShownFinding } from '../../state/source-place.ts';
import type { Size, View } from '../pane/view.ts';
import { frameLines, type FrameLine } from '../../present/cells/cell-text.ts';

export const findingPane: View = ({ state }, size) => {
  const shown = shownFinding(state);
  if (shown === undefined) return { title: 'Finding', body: [textRow('Nothing was found to be wrong.', 'dim')] };
  const { finding } = shown;
  const place = countText(shown);
  return {
    // A finding about a kernel that passed is advice.
    title: `${attachedJob(state)?.outcome === Outcome.PASSED ? '⚠' : '✗'} ${findingWord(finding.kind)}`,
    remark: `${place === '' ? '' : `${place}, `}${editHint(shown)}`,
    body: findingBody(shown, size),
  };
};

/** Text such as "finding 2 of 3, o next"; empty if there is only one. */
export const countText = ({ place, count }: Pick<ShownFinding, 'place' | 'count'>): string =>
  count > 1 ? `finding ${place + 1} of ${count}, o next` : '';

export const editHint = ({ finding: { frame } }: ShownFinding): string =>
  frame === undefined ? 'no line known, e edits the source' : `e edits ${frame.file}:${frame.line}`;

/**
 * Message, inputs, frame, threads and remedy. The message is shortened before the remedy. Where it is, the rows of the
 * threads come before both, because they give the places of a race in short. The inputs have one row, and more where
 * rows are left.
 */
export function findingBody({ finding }: Pick<ShownFinding, 'finding'>, { width, height }: Size): Row[] {
  const message = wrapRows(finding.message, width, { role: 'text' });
  const source = finding.frame === undefined ? [] : frameRows(finding.frame, width);
  const remedy = finding.remedy === '' ? [] : noticeRows(notice(finding.remedy, 'accent', '→'), width);
  const threads = finding.threads
    .slice(0, 2)
    .map(({ thread, block, place }): Row => [
      run(`thread (${thread.join(',')}) of block (${block.join(',')}) `, 'dim'),
      run(`${place}${callerText(finding.message, place)}`),
    ]);
  const on = inputsText(finding);
  const allInputs =
    on === '' ? [] : wrapRows(`${finding.inputs.length > 1 ? 'inputs' : 'input'} ${on}`, width, { role: 'dim' });
  const withInputs = firstRows(allInputs, 1, width);
  // The whole remedy says more than the inputs, which the log has as well.
  const fits = height >= 1 + withInputs.length + source.length + threads.length + remedy.length;
  const inputs = fits || remedy.length === 0 ? withInputs : [];
  const wanted = source.length + inputs.length + Math.min(remedy.length, 2);
  const kept = message.length > height - wanted ? threads.length : 0;
  const messageRows = firstRows(message, Math.max(1, height - wanted - kept), width);
  const left = height - messageRows.length - source.length - inputs.length;
  const remedyRows = firstRows(remedy, Math.max(0, Math.min(remedy.length, left - kept)), width);
  const threadRows = threads.slice(0, Math.max(0, left - remedyRows.length));
  const spare = left - remedyRows.length - threadRows.length;
  const inputRows = firstRows(allInputs, inputs.length + Math.max(0, spare), width);
  const rows = [...messageRows, ...inputRows, ...source, ...threadRows, ...remedyRows];
  return [...rows, ...otherSource(finding, { width, height: height - rows.length })].slice(0, height);
}

/**
 * Text such as ", called at line 92": the place that calls the function of a thread's place. Only the message has it.
 */
function callerText(message: string, place: string): string {
  const own = place.split(' ').at(-1) ?? '';
  const [, caller = ''] = own === '' ? [] : message.split(`${own} (called at `);
  if (caller === '') return '';
  const [file = '', line = ''] = caller.slice(0, caller.indexOf(')')).split(':');
  return `, called at ${own.startsWith(`${file}:`) ? `line ${line}` : `${file}:${line}`}`;
}

/** The other places that the message names, such as the second access of a race; only whole frames. */
function otherSource({ otherFrames, frame }: Finding, { width, height }: Size): Row[] {
  const rows: Row[] = [];
  for (const other of otherFrames) {
    const title = other.file === frame?.file ? `line ${other.line}` : `${other.file}:${other.line}`;
    const more = [[run(title, 'dim')], ...frameRows(other, width)];
    if (rows.length + more.length > height) break;
    rows.push(...more);
  }
  return rows;
}

const FRAME_ROLES: Record<FrameLine['kind'], Role> = { around: 'dim', caret: 'bad', meant: 'title' };

export const frameRows = (frame: CodeFrame, width: number): Row[] =>
  frameLines(frame, width).map(({ gutter, text, kind }): Row => [run(gutter, 'dim'), run(text, FRAME_ROLES[kind])]);
