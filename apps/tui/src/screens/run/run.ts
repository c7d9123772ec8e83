/** View 1 in a single pane: the job's state, a line each for correctness, latency and gates, and the log. */
import { JobState, Outcome, Verdict, type GateResult } from '@flashcore/shared/contract';
import { progressBar, sampleStrip } from '../../present/cells/bars.ts';
import { formatError, formatInUnit, formatMicroseconds, formatSeconds } from '../../present/numbers.ts';
import { cellWidth, wrapCells } from '../../present/cells/cell-text.ts';
import { firstRows, fitRow, rowWidth, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { shownFinding } from '../../state/source-place.ts';
import { gateTarget } from '../../present/gate-marks.ts';
import {
  MODE_WORDS,
  PHASE_WORDS,
  VERDICT_MARKS,
  findingWord,
  jobMark,
  jobTitle,
  caseText,
  summaryText,
  variantWord,
  runningText,
} from '../../present/words.ts';
import { gateReason } from '../../present/sections/gates.ts';
import { phaseBars } from '../../present/sections/phase-times.ts';
import type { AppState } from '../../state/app-state.ts';
import { gateTally, isOpen } from '../../state/gate-board.ts';
import { checkedOf } from '../../state/variants.ts';
import { isBeingRead, phaseShare, type JobView, type PhaseView } from '../../state/job-view.ts';
import {
  attachedJob,
  clockOf,
  elapsedMs,
  hasDuration,
  phaseVerdict,
  raceOfAttached,
  isSuperseded,
  runningFallback,
  shownVariant,
  shownVariantText,
  variantsOf,
  timeGap,
  waitText,
  waitedText,
  waitsSince,
  busyHostText,
} from '../../state/selectors.ts';
import { LARGEST_ERROR, limitText } from '../../present/sections/cases.ts';
import { failedProbes, parityTally, worstCase } from '../dashboard/correct-live.ts';
import { countText, editHint, findingBody } from '../dashboard/finding-pane.ts';
import { tallyRuns } from '../dashboard/gates-rail.ts';
import { halfWidthText, liveBenchmark, samplesText } from '../dashboard/latency-live.ts';
import { raceTexts } from '../latency/tune-race.ts';
import { noAnswer, nothingText } from '../pane/nothing.ts';
import type { PaneContent, Size, View } from '../pane/view.ts';
import { logRemark, logRows } from './log.ts';
import { standingOf } from '../gates/decision-pane.ts';

const BAR_CELLS = 12;
const LABEL_CELLS = 9;
/** Cells for the bars of all phases together. */
const TIME_CELLS = 24;
const STRIP_CELLS = 24;
// A finding takes at most this share of the pane, because the log below has the details.
const FINDING_SHARE = 0.6;

export const runView: View = ({ state, log, search }, size) => {
  const job = attachedJob(state);
  if (job === undefined) return { title: '1 Run', body: welcome(state, size) };
  const slice = { log, search, position: state.ui.log };
  return {
    title: `1 Run  ${jobTitle(job)}${fallbackShown(state)}`,
    remark: logRemark(slice),
    body: [...headRows(state, job, size), ...logRows(slice, runLogSize(state, size))],
  };
};

/** The size left for the log below the other rows. */
export function runLogSize(state: AppState, size: Size): Size {
  const job = attachedJob(state);
  const head = job === undefined ? 0 : headRows(state, job, size).length;
  return { width: size.width, height: Math.max(0, size.height - head) };
}

/** Only the log, for layouts that show the other parts in their own panes. */
export function logPane({ state, log, search }: Parameters<View>[0], size: Size): PaneContent {
  const slice = { log, search, position: state.ui.log };
  const job = attachedJob(state);
  if (job === undefined && state.ui.view === 'run') return { title: '1 Run', body: welcome(state, size) };
  const title =
    job !== undefined && state.ui.view === 'run'
      ? `1 Run  ${jobTitle(job)}  ${jobMark(job).mark} ${jobMark(job).word}${fallbackShown(state)}`
      : 'Log';
  return { title, remark: logRemark(slice), body: logRows(slice, size) };
}

/** The title is the job's, so it says when the rows below are about the fallback. */
const fallbackShown = (state: AppState): string =>
  shownVariant(state)?.fallback === true ? `, shown: ${shownVariantText(state)}` : '';

function headRows(state: AppState, job: JobView, { width, height }: Size): Row[] {
  const finding = findingRows(state, { width, height: Math.floor(height * FINDING_SHARE) });
  return [
    // The finding is shown in full below, so the summary would only repeat it.
    ...jobRows(job, clockOf(state, job), width, finding.length > 0 ? '' : rejection(state, job)),
    ...busyLine(state, width),
    correctLine(state, width),
    ...(finding.length > 0 ? finding : [latencyLine(state, width)]),
    ...gatesLine(state, width),
    ...otherVariantLine(state, job, width),
    ...(finding.length > 0 ? [] : timeLine(job, width)),
    [run('─'.repeat(width), 'border')],
  ];
}

/** Says why a build takes long. */
function busyLine(state: AppState, width: number): Row[] {
  const text = busyHostText(state);
  return text === undefined ? [] : [line('host', [run(text, 'warn')], width)];
}

/** Says why the gates rejected a correct kernel: in the summary this comes last and would be cut off. */
function rejection(state: AppState, { name, outcome }: JobView): string | undefined {
  if (isSuperseded(state, name)) return 'A newer save replaced it';
  const rejecting = (shownVariant(state)?.gates ?? []).filter(isRejecting);
  const [first] = rejecting;
  if (outcome !== Outcome.FAILED || first === undefined) return undefined;
  const titles = rejecting.map(({ title }) => `"${title}"`).join(', ');
  return `rejected by ${titles}${rejecting.length === 1 ? `: ${gateReason(first)}` : ''}`;
}

const isRejecting = ({ verdict, level }: GateResult): boolean => verdict === Verdict.FAIL && level === 'hard';

/** Time per phase of an ended job, longest first; only as many phases as fit. */
function timeLine(job: JobView, width: number): Row[] {
  const { result } = job;
  if (result === undefined || result.phaseTimes.length === 0) return [];
  const bars = phaseBars(result, waitedText(job)).sort((a, b) => b.value - a.value);
  const all = bars.reduce((sum, { value }) => sum + value, 0);
  const parts = bars.map(({ label, value }, index): Row => {
    const cells = Math.max(1, Math.round((TIME_CELLS * value) / all));
    const role = index % 2 === 0 ? 'bar' : 'barAlternative';
    return [run(`${'█'.repeat(cells)} `, role), run(`${label} `), run(`${formatSeconds(value)}  `, 'dim')];
  });
  const fitting = parts.findIndex((_, index) => LABEL_CELLS + rowWidth(parts.slice(0, index + 1).flat()) - 2 > width);
  return [line('time', parts.slice(0, fitting < 0 ? parts.length : Math.max(1, fitting)).flat(), width)];
}

/** The verdict of an ended job takes at most this many rows. */
const VERDICT_ROWS = 4;

/** As jobRow(), with the whole verdict of an ended job in as many rows as it needs. */
function jobRows(job: JobView, now: number, width: number, about = aboutText(job)): Row[] {
  const head = stateRuns(job, now);
  const text = about.replaceAll('\n', ' ');
  if (job.state !== JobState.ENDED || rowWidth(head) + cellWidth(text) <= width)
    return [jobRow(job, now, width, about)];
  const [first = '', ...others] = wrapCells(text, width - rowWidth(head));
  const rest = others.length === 0 ? [] : wrapRows(others.join(' '), width - LABEL_CELLS);
  return [
    [...head, run(first)],
    ...firstRows(rest, VERDICT_ROWS - 1, width - LABEL_CELLS).map((row) => [run(' '.repeat(LABEL_CELLS)), ...row]),
  ];
}

/** The job's state and current activity; `about` in place of its summary. */
export function jobRow(job: JobView, now: number, width: number, about?: string): Row {
  const head = stateRuns(job, now);
  return fitRow([...head, ...aboutRuns(job, { now, room: width - rowWidth(head) }, about)], width);
}

function stateRuns(job: JobView, now: number): Row {
  const { mark, role, word } = jobMark(job);
  return [
    run(`${mark} ${word}`, role),
    // A job that never ran shows no time, because "0 ms" would look like a measurement.
    run(
      job.startTime === undefined || isBeingRead(job) || !hasDuration(job)
        ? '  '
        : `  ${formatSeconds(elapsedMs(job, now) / 1000)}  `,
      'dim',
    ),
  ];
}

/** As many whole clauses of a text as fit, and at least the first, which the row may cut. The log has all of it. */
function wholeClauses(text: string, room: number): string {
  if (cellWidth(text) <= room) return text;
  const ends = [...text.matchAll(/[,;] /g)].map(({ index }) => index);
  const end = ends.findLast((index) => cellWidth(text.slice(0, index)) <= room - 2);
  return end === undefined ? text : `${text.slice(0, end)} …`;
}

const aboutText = (job: JobView): string => summaryText(job) || (job.error?.message ?? '');

function aboutRuns(job: JobView, { now, room }: { now: number; room: number }, about = aboutText(job)): Row {
  // The phase that happened to be the last one says nothing about how the job ended.
  if (job.state === JobState.ENDED) return about === '' ? [] : [run(wholeClauses(about.replaceAll('\n', ' '), room))];
  const phase = job.phases.at(-1);
  return phase === undefined ? [] : [...phaseRuns(phase, job, now), ...waitRuns(job, now)];
}

export function phaseRuns(phase: PhaseView, job: JobView, now: number): Row {
  const seconds = formatSeconds(Math.max(0, (phase.endTime ?? now) - phase.startTime) / 1000);
  const isFallback = job.variants.some(({ label, fallback }) => fallback && label === phase.variant);
  const name = [PHASE_WORDS[phase.phase], isFallback ? 'fallback' : '', variantWord(phase.variant)]
    .filter(Boolean)
    .join(' ');
  const steps = phase.steps > 0 ? ` ${Math.floor(phase.done)}/${phase.steps}` : '';
  if (phase.endTime !== undefined) {
    const { mark, role } = VERDICT_MARKS[phaseVerdict(job, phase)];
    return [run(`${mark} `, role), run(name), run(`${steps} ${seconds}`, 'dim')];
  }
  const share = phaseShare(phase);
  return [
    run('● ', 'accent'),
    run(name, 'title'),
    run(steps, 'accent'),
    ...(share === undefined ? [] : [run(' '), ...progressBar(share, BAR_CELLS)]),
    run(` ${seconds}`, 'dim'),
  ];
}

function waitRuns(job: JobView, now: number): Row {
  const since = waitsSince(job, now);
  if (since === undefined) return [];
  return [
    run('   ● ', 'accent'),
    run(waitText(job, now), 'title'),
    run(`${timeGap(waitText(job, now))}${formatSeconds((now - since) / 1000)}`, 'dim'),
  ];
}

const line = (label: string, rest: Row, width: number): Row =>
  fitRow([run(label.padEnd(LABEL_CELLS), 'dim'), ...rest], width);

function correctLine(state: AppState, width: number): Row {
  const variant = shownVariant(state);
  if (variant === undefined || (variant.cases.length === 0 && variant.verifying === undefined))
    return line('correct', [run(nothingText(state, 'correct'), 'dim')], width);
  const failed =
    failedProbes(variant.verify).length > 0 || variant.cases.some(({ verdict }) => verdict === Verdict.FAIL);
  const worst = worstCase(variant);
  const { verifying } = variant;
  // The tolerance grows with the value, so the largest error may not be the one nearest to its limit.
  const judged = [...variant.cases, ...failedProbes(variant.verify)];
  const largest = Math.max(...judged.map(({ maxAbsError }) => maxAbsError));
  const limit = worst === undefined ? '' : limitText(worst);
  return line(
    'correct',
    [
      run(failed ? '✗ ' : '✓ ', failed ? 'bad' : 'good'),
      run(parityTally(variant)),
      ...(verifying === undefined ? [] : [run(`  ● ${caseText(verifying.shape)} ${runningText(verifying)}`, 'accent')]),
      ...(worst === undefined
        ? []
        : [run(`  ${LARGEST_ERROR} ${formatError(largest)}${limit === '' ? '' : `, ${limit} of limit`}`, 'dim')]),
    ],
    width,
  );
}

/** What the fallback of a failed variant showed, or what the variant itself did while the fallback is shown. */
function otherVariantLine(state: AppState, job: JobView, width: number): Row[] {
  const other = variantsOf(job).find((variant) => variant !== shownVariant(state));
  if (other === undefined) return [];
  const failed =
    other.build?.succeeded === false ||
    other.findings.length > 0 ||
    checkedOf(other).some(({ verdict }) => verdict === Verdict.FAIL);
  const running = other === runningFallback(job);
  const mark = running ? run('● ', 'accent') : run(failed ? '✗ ' : '✓ ', failed ? 'bad' : 'good');
  const tally = other.cases.length === 0 ? '' : `  ${parityTally(other)}`;
  const decides = other.fallback === (job.plan?.fallback === 'continue');
  return [
    line(
      other.fallback ? 'fallback' : 'asked',
      [
        mark,
        run(other.label),
        run(decides ? '  decides' : '  decides nothing', 'dim'),
        run('  v shows it', 'key'),
        run(tally),
      ],
      width,
    ),
  ];
}

function latencyLine(state: AppState, width: number): Row {
  const race = raceOfAttached(state);
  if (race) {
    const { leader, size } = raceTexts(race);
    const first = leader === '' ? [] : [run(`${leader}  `, 'accent')];
    return line('latency', [...first, run('3', 'key'), run(` the ${size}`)], width);
  }
  const shown = liveBenchmark(shownVariant(state));
  const latency = shown?.latency;
  if (shown === undefined || latency === undefined || latency.samples === 0)
    return line('latency', [run(nothingText(state, 'latency'), 'dim')], width);
  const half = halfWidthText(latency);
  const figures = [
    run(shown.result === undefined ? '● ' : '✓ ', shown.result === undefined ? 'accent' : 'good'),
    run(`${caseText(shown.shape)} ${MODE_WORDS[shown.mode]} p50 `),
    run(formatMicroseconds(latency.p50Us), 'title'),
    run(`${half === undefined ? '' : ` ${half}`}  n ${samplesText(shown)}  `, 'dim'),
  ];
  const room = Math.min(STRIP_CELLS, width - LABEL_CELLS - rowWidth(figures));
  return line('latency', [...figures, ...(room > 0 ? sampleStrip(shown.recent, room) : [])], width);
}

/** The tally and the possible decision, on two rows if one is too narrow. */
function gatesLine(state: AppState, width: number): Row[] {
  const gates = shownVariant(state)?.gates ?? [];
  if (gates.length === 0) return [line('gates', [run(nothingText(state, 'gates'), 'dim')], width)];
  const standing = standingOf(state);
  const failed = gates.find(isRejecting);
  const tally = [
    ...tallyRuns(gateTally(gates, attachedJob(state))),
    ...(failed === undefined ? [] : [run('  ✗', 'bad'), run(` ${failed.title}: ${wrongFigure(failed)}`)]),
    ...(attachedJob(state)?.outcome === Outcome.PASSED ? openRuns(gates) : []),
  ];
  if (standing?.matters !== true) return [line('gates', tally, width)];
  const decision = run(`  ${standing.text}`, standing.role);
  return LABEL_CELLS + rowWidth([...tally, decision]) <= width
    ? [line('gates', [...tally, decision], width)]
    : [line('gates', tally, width), line('', [run(standing.text, standing.role)], width)];
}

/** Text such as "72 KiB, target <= 48 KiB" or "85.7 %, not 100 %". */
function wrongFigure(gate: GateResult): string {
  const target = gateTarget(gate);
  if (gate.value === undefined) return target;
  const value = formatInUnit(gate.value, gate.unit);
  return target.startsWith('= ') ? `${value}, not ${target.slice('= '.length)}` : `${value}, target ${target}`;
}

/** A job can pass with hard gates that have no answer, so they are named. */
function openRuns(gates: readonly GateResult[]): Row {
  const open = gates.filter((gate) => gate.level === 'hard' && isOpen(gate));
  return open.length === 0 ? [] : [run(`  open: ${open.map(({ title }) => title).join(', ')}`, 'warn')];
}

function findingRows(state: AppState, size: Size): Row[] {
  const shown = shownFinding(state);
  if (shown === undefined) return [];
  const [first, ...rest] = findingBody(shown, { ...size, height: Math.max(2, size.height - 1) });
  const { fallback, label } = shown.variant;
  const title = `${findingWord(shown.finding.kind).toUpperCase()}${fallback ? ` (${label})` : ''}`;
  const passed = attachedJob(state)?.outcome === Outcome.PASSED;
  const keys = [countText(shown), editHint(shown)].filter((text) => text !== '').join(', ');
  return [
    // A finding about a kernel that passed is advice.
    fitRow(
      [passed ? run('⚠', 'warn') : run('✗', 'bad'), run(` ${title}`, 'title'), run(`  ${keys}`, 'key')],
      size.width,
    ),
    ...(first === undefined ? [] : [first]),
    ...rest,
  ];
}

function welcome(state: AppState, { width }: Size): Row[] {
  const lines = [
    state.connection === 'connected' ? 'No job on this screen yet.' : noAnswer(state),
    '',
    '7 lists the kernels: Enter on one builds, verifies and benchmarks it, then evaluates the gates.',
    'N in 7 starts a kernel of your own as a copy of the selected one; in a shell: fa-tui new ~/my_kernel.',
    '6 lists the jobs of this runner: Enter shows one.',
    '? lists all commands. q quits; jobs keep running.',
    '',
    state.runner.embedded
      ? 'The runner was started on this machine; --runner host:port uses another one.'
      : 'The runner is another process; it keeps running when you leave.',
  ];
  return lines.flatMap((text) => (text === '' ? [[]] : wrapRows(text, width)));
}
