/** View 1: phases with their progress, what is wrong with the kernel, and the log. */
import { JobState } from '@flashcore/shared/contract';
import { progressBar } from '../../present/cells/bars.ts';
import { formatSeconds } from '../../present/numbers.ts';
import { fitRow, flowRows, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { phaseShare, type JobView, type PhaseView } from '../../state/job-view.ts';
import { attachedJob, elapsedMs, phaseVerdict } from '../../state/selectors.ts';
import { PHASE_WORDS, VERDICT_MARKS, findingWord, jobMark, jobTitle } from '../../present/words.ts';
import { logRemark, logRows } from './log.ts';
import type { PaneContent, Size, View } from '../pane/view.ts';

const BAR_CELLS = 12;
// Findings take at most this share of the pane: the log below them has the whole story.
const FINDINGS_SHARE = 0.3;
const SMALL_PANE = 14;
// As the runner's log does: a shorter wait is not worth a word.
const TELL_WAIT_MS = 500;

export const runView: View = ({ state, log, search }, size) => {
  const job = attachedJob(state);
  if (job === undefined) return { title: '1 Run', body: welcome(state.runner.embedded, size) };
  const slice = { log, search, position: state.ui.log };
  return {
    title: `1 Run  ${jobTitle(job)}`,
    remark: logRemark(slice),
    body: [...headRows(job, state.now, size), ...logRows(slice, runLogSize(job, state.now, size))],
  };
};

/** What the phases and findings above leave for the log. */
export const runLogSize = (job: JobView, now: number, size: Size): Size => ({
  width: size.width,
  height: Math.max(0, size.height - headRows(job, now, size).length),
});

const headRows = (job: JobView, now: number, size: Size): Row[] => [
  ...jobRows(job, now, size),
  ...findingRows(job, size),
  [run('─'.repeat(size.width), 'border')],
];

/** The log alone, for layouts where the view above it is another one. */
export function logPane({ state, log, search }: Parameters<View>[0], size: Size): PaneContent {
  const slice = { log, search, position: state.ui.log };
  return { title: '1 Log', remark: logRemark(slice), body: logRows(slice, size) };
}

/** How the job stands and its phases; in little room one row of each. */
export function jobRows(job: JobView, now: number, { width, height }: Size): Row[] {
  const { mark, role, word } = jobMark(job);
  const about = job.state === JobState.ENDED && job.summary !== '' ? job.summary : (job.error?.message ?? '');
  const first: Row = [run(`${mark} ${word}`, role), run(`  ${formatSeconds(elapsedMs(job, now) / 1000)}`, 'dim')];
  // A finding that the summary only repeats stands below in full, with its threads and what to do.
  const told = job.variants.some(({ findings }) => findings.some(({ message }) => about.includes(message)));
  const summary =
    about === '' || told ? [] : wrapRows(about, width, { role: job.state === JobState.ENDED ? role : 'dim' });
  const phases = flowRows([...job.phases.map((phase) => phaseRuns(phase, job, now)), ...waitRuns(job, now)], width, 3);
  // A small pane keeps how the job stands and the last phases: the log must stay readable.
  if (height < SMALL_PANE)
    return [fitRow([...first, run('  '), run(about.replaceAll('\n', ' '), role)], width), ...phases.slice(-1)];
  return [first, ...summary, ...phases.slice(-Math.floor(height / 3))];
}

function phaseRuns(phase: PhaseView, job: JobView, now: number): Row {
  const seconds = formatSeconds(Math.max(0, (phase.endTime ?? now) - phase.startTime) / 1000);
  const name = `${PHASE_WORDS[phase.phase]}${phase.variant === '' ? '' : ` ${phase.variant}`}`;
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

/** After a build a job may wait for its device to open. */
function waitRuns({ state, phases }: JobView, now: number): Row[] {
  const since = phases.at(-1)?.endTime;
  if (state !== JobState.RUNNING || since === undefined || now - since < TELL_WAIT_MS) return [];
  return [
    [
      run('● ', 'accent'),
      run('waiting for the device', 'title'),
      run(` ${formatSeconds((now - since) / 1000)}`, 'dim'),
    ],
  ];
}

function findingRows(job: JobView, { width, height }: Size): Row[] {
  const rows = job.variants.flatMap(({ findings, fallback, label }) =>
    findings.flatMap((finding): Row[] => [
      ...wrapRows(
        `${findingWord(finding.kind).toUpperCase()}${fallback ? ` (${label})` : ''}: ${finding.message}`,
        width,
        { role: 'bad' },
      ),
      ...finding.threads
        .slice(0, 4)
        .map(({ thread, block, place }): Row => [
          run(`  thread (${thread.join(',')}) of block (${block.join(',')}) `, 'dim'),
          run(place),
        ]),
      ...(finding.remedy === '' ? [] : wrapRows(`→ ${finding.remedy}`, width, { role: 'accent', hang: 2 })),
    ]),
  );
  return rows.slice(0, Math.floor(height * FINDINGS_SHARE));
}

function welcome(embedded: boolean, { width }: Size): Row[] {
  const lines = [
    'No job on this screen yet.',
    '',
    '7 lists the kernels: Enter on one builds, verifies and benchmarks it and judges it by the gates.',
    '6 lists the jobs of this runner: Enter shows one, running or ended.',
    '? lists every command. q leaves; jobs go on without fa-tui.',
    '',
    embedded
      ? 'The runner was started for you on this machine; --runner host:port takes another.'
      : 'The runner is another process; it keeps running when you leave.',
  ];
  return lines.flatMap((line) => (line === '' ? [[]] : wrapRows(line, width)));
}
