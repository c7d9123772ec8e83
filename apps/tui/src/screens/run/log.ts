/**
 * The log: its last lines when following, or else a window of it. Long lines wrap; matches of the search are marked.
 */
import { formatCount, formatTimeOfDay } from '../../present/numbers.ts';
import { cutCells, padCells, wrapCells, takeCells } from '../../present/cells/cell-text.ts';
import { run, type Role, type Row, type Run } from '../../present/cells/row.ts';
import type { LogPosition } from '../../state/app-state.ts';
import type { LogLine, LogTone } from '../../present/sections/event-lines.ts';
import type { LogBuffer } from '../../state/log-buffer.ts';
import type { LogSearch } from '../../state/log-search.ts';
import type { Size } from '../pane/view.ts';

const TONE_ROLES: Record<LogTone, Role> = {
  plain: 'text',
  routine: 'dim',
  phase: 'accent',
  good: 'good',
  bad: 'bad',
  warn: 'warn',
};
const SOURCE_CELLS = 6;
const WIDE = 100;

interface LogSlice {
  readonly log: LogBuffer;
  readonly search: LogSearch | undefined;
  readonly position: LogPosition;
}

/** The visible rows of the log. Only lines in the window are laid out. */
export function logRows({ log, search, position }: LogSlice, { width, height }: Size): Row[] {
  const numbers = position.filter && search !== undefined ? search.matches : undefined;
  const { wrap, left } = position;
  const layOut = (line: LogLine): Row[] => lineRows(line, { width, wrap, left, search });
  if (position.follow) return lastRows(log, numbers, height, layOut);
  const rows: Row[] = [];
  for (const line of linesFrom(log, numbers, firstShown({ log, search, position }, { width, height }))) {
    rows.push(...layOut(line));
    if (rows.length >= height) break;
  }
  return rows.slice(0, height);
}

const SHARE_BEFORE_HIT = 1 / 3;

/** The first line of the window. Before a line that a search jumped to, a third of the rows shows what led to it. */
function firstShown({ log, search, position }: LogSlice, size: Size): number {
  const { top, wrap, isHit = false } = position;
  const numbers = position.filter && search !== undefined ? search.matches : undefined;
  // Where few lines match, the pane shows all of them rather than only those from the top one on.
  if (numbers !== undefined) return Math.min(top, firstOfLast(log, numbers, size, wrap));
  if (!isHit) return top;
  let first = top;
  let room = Math.floor(size.height * SHARE_BEFORE_HIT);
  while (first > log.start) {
    const line = log.at(first - 1);
    room -=
      line === undefined ? Infinity : lineRows(line, { width: size.width, wrap, left: 0, search: undefined }).length;
    if (room < 0) break;
    first -= 1;
  }
  // After the last hit the window ends with the log.
  return Math.min(first, firstOfLast(log, undefined, size, wrap));
}

/**
 * Text such as "3/96": the number of the match at the top, or of the last match when following, and the number of all
 * matches.
 */
function matchText(search: LogSearch, log: LogBuffer, { follow, top }: LogPosition): string {
  const count = search.matches.length;
  return count === 0
    ? 'no hits'
    : `${formatCount(Math.max(1, search.place(follow ? log.end : top)))}/${formatCount(count)} hits`;
}

/** A search without hits filters nothing. */
const isFiltered = ({ filter }: LogPosition, search: LogSearch): boolean => filter && search.matches.length > 0;

/** Text such as "1,204 lines  following", or the position of the window. */
export function logRemark({ log, search, position }: LogSlice): string {
  const hits =
    search === undefined
      ? ''
      : `/${search.query}/ ${matchText(search, log, position)}${isFiltered(position, search) ? ', only these' : ''}  `;
  const lines = `${formatCount(log.end)} line${log.end === 1 ? '' : 's'}`;
  const sideways = position.left > 0 ? `from column ${position.left + 1}, ` : '';
  return (
    hits +
    sideways +
    (position.follow
      ? `${lines}, following`
      : `${position.isHit ? 'at' : 'from'} line ${formatCount(position.top + 1)} of ${lines}, f follows`)
  );
}

/**
 * The first line to show after scrolling by `by` lines, and whether the log still follows. In a filtered log, only
 * matching lines are counted. Scrolling up ends following. Only a key starts it again, so that the log never moves
 * against the user's will.
 */
export function scrolledLog(
  { log, search, position }: LogSlice,
  by: number,
  size: Size,
): { follow: boolean; top: number } {
  const numbers = position.filter && search !== undefined ? search.matches : undefined;
  const last = firstOfLast(log, numbers, size, position.wrap);
  if (position.follow && by >= 0) return { follow: true, top: last };
  const from = position.follow ? last : firstShown({ log, search, position }, size);
  if (numbers === undefined) return { follow: false, top: Math.max(log.start, Math.min(last, from + by)) };
  const place = numbers.findIndex((number) => number >= from);
  return {
    follow: false,
    top: Math.min(last, numbers[Math.max(0, (place < 0 ? numbers.length : place) + by)] ?? last),
  };
}

/** Number of the first line of the last screenful. */
function firstOfLast(
  log: LogBuffer,
  numbers: readonly number[] | undefined,
  { width, height }: Size,
  wrap: boolean,
): number {
  let rows = 0;
  let first = numbers?.at(-1) ?? Math.max(0, log.end - 1);
  for (let index = (numbers?.length ?? log.end) - 1; index >= (numbers === undefined ? log.start : 0); index--) {
    const number = numbers?.[index] ?? index;
    const line = log.at(number);
    if (line === undefined) break;
    rows += lineRows(line, { width, wrap, left: 0, search: undefined }).length;
    if (rows > height) break;
    first = number;
  }
  return first;
}

function lastRows(
  log: LogBuffer,
  numbers: readonly number[] | undefined,
  height: number,
  layOut: (line: LogLine) => Row[],
): Row[] {
  const blocks: Row[][] = [];
  let count = 0;
  for (
    let index = (numbers?.length ?? log.end) - 1;
    index >= (numbers === undefined ? log.start : 0) && count < height;
    index--
  ) {
    const line = log.at(numbers?.[index] ?? index);
    if (line === undefined) break;
    const rows = layOut(line);
    count += rows.length;
    blocks.unshift(rows);
  }
  return blocks.flat().slice(-height);
}

function* linesFrom(log: LogBuffer, numbers: readonly number[] | undefined, top: number): Generator<LogLine> {
  const candidates = numbers?.filter((number) => number >= top);
  for (
    let index = 0, number = Math.max(top, log.start);
    candidates === undefined ? number < log.end : index < candidates.length;
    index++, number++
  ) {
    const line = log.at(candidates?.[index] ?? number);
    if (line !== undefined) yield line;
  }
}

/** A whole line for the terminal to wrap, so that text copied from there has no added line breaks. */
export function wholeLine({ time, source, text, tone }: LogLine): Row {
  return [
    run(`${formatTimeOfDay(time).slice(0, 12)} `, 'dim'),
    run(`${padCells(source, SOURCE_CELLS)} `, 'dim'),
    run(text, TONE_ROLES[tone]),
  ];
}

interface LineLook {
  width: number;
  wrap: boolean;
  left: number;
  search: LogSearch | undefined;
}

function lineRows({ time, source, text, tone }: LogLine, { width, wrap, left, search }: LineLook): Row[] {
  const clock = formatTimeOfDay(time).slice(0, width >= WIDE ? 12 : 8);
  const head: Run[] = [run(`${clock} `, 'dim'), run(`${padCells(source, SOURCE_CELLS)} `, 'dim')];
  const indent = clock.length + 1 + SOURCE_CELLS + 1;
  const pieces = wrap ? wrapCells(text, Math.max(1, width - indent)) : [windowOf(text, left, width - indent)];
  return pieces.map((piece, index): Row => [
    ...(index === 0 ? head : [run(' '.repeat(indent))]),
    ...marked(piece, TONE_ROLES[tone], search),
  ]);
}

/** The part of a cut line from cell `left` on, with "…" where there is more. */
function windowOf(text: string, left: number, width: number): string {
  if (left === 0) return cutCells(text, width);
  const rest = text.slice(takeCells(text, left).length);
  return rest === '' ? '' : cutCells(`…${rest.slice(1)}`, width);
}

/** The text with the search matches highlighted. A match across a line break is not marked. */
function marked(text: string, role: Role, search: LogSearch | undefined): Run[] {
  const ranges = search?.ranges(text) ?? [];
  if (ranges.length === 0) return [run(text, role)];
  const runs: Run[] = [];
  let end = 0;
  for (const [from, to] of ranges) {
    if (from > end) runs.push(run(text.slice(end, from), role));
    runs.push(run(text.slice(from, to), 'match'));
    end = to;
  }
  return end < text.length ? [...runs, run(text.slice(end), role)] : runs;
}
