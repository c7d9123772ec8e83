/** The first two rows: runner, connection, device, job and its progress; then the tabs and a tally of the gates. */
import { JobState, Phase } from '@flashcore/shared/contract';
import { cutCells } from '../../present/cells/cell-text.ts';
import { progressBar } from '../../present/cells/bars.ts';
import { formatElapsed, formatSeconds } from '../../present/numbers.ts';
import { fitRow, rowWidth, run, type Row } from '../../present/cells/row.ts';
import { fitParts, type Part } from '../../present/cells/table.ts';
import { VIEWS, VIEW_TITLES, isSingle, type AppState } from '../../state/app-state.ts';
import { isBeingRead, type JobView, type PhaseView } from '../../state/job-view.ts';
import {
  attachedJob,
  clockOf,
  currentPhase,
  elapsedMs,
  hasDuration,
  jobShare,
  runningFallback,
  shownVariant,
  timeGap,
  waitText,
  waitsSince,
} from '../../state/selectors.ts';
import { gateTally } from '../../state/gate-board.ts';
import { isSourceChanged, SOURCE_CHANGED } from '../../state/chosen.ts';
import { liveBenchmark, samplesText } from '../dashboard/latency-live.ts';
import { tallyRuns } from '../dashboard/gates-rail.ts';
import { MODE_WORDS, PHASE_WORDS, jobMark, jobTitle } from '../../present/words.ts';
import { SIMULATED_BADGE } from '../pane/view.ts';

const BAR_CELLS = 14;
const SHORT_TITLE = 18;
/** For each form of the address: the cut one comes after "source changed since", the whole one before the device. */
const ADDRESS_RANKS = [9, 3.8, 1.9];

export const headRows = (state: AppState, columns: number): Row[] => [
  headerRow(state, columns),
  tabsRow(state, columns),
];

/** One row of exactly `width` cells. Parts are left out only once all parts have their shortest form. */
export function headerRow(state: AppState, width: number): Row {
  const parts = [
    { rank: 5, forms: [[run('fa-tui', 'title')]] },
    { rank: 0, formRanks: ADDRESS_RANKS, forms: connectionForms(state) },
    { rank: 1, growRank: 4, forms: deviceForms(state) },
    ...jobParts(state, attachedJob(state)),
  ];
  return fitRow([run(' '), ...fitParts(parts, width - 2)], width);
}

function connectionForms({ connection, runner }: AppState): Row[] {
  const long = runner.embedded ? 'embedded runner' : `runner ${runner.label}`;
  const short = runner.embedded ? 'embedded' : runner.label;
  if (connection === 'connected')
    return [
      [run('● ', 'good'), run(`${long}, connected`)],
      [run('● ', 'good'), run(short)],
      [run('● ', 'good'), run(cutCells(short, 14))],
      [run('●', 'good')],
    ];
  return [
    [run(`○ ${connection} `, 'warn'), run(long)],
    [run(`○ ${connection} `, 'warn'), run(short)],
    [run(`○ ${connection}`, 'warn')],
  ];
}

function deviceForms(state: AppState): Row[] {
  const device = attachedJob(state)?.device ?? state.host?.devices[0];
  if (device === undefined) return [[run('no device', 'dim')]];
  if (!device.simulated) return [[run(device.name)], [run(device.deviceId)]];
  // The badge appears only here on the screen, so it is never cut.
  const badge = run(` ${SIMULATED_BADGE} `, 'simulated');
  return [[run(`${device.name} `), badge], [run(`${device.deviceId} `), badge], [badge]];
}

function jobParts(state: AppState, job: JobView | undefined): Part[] {
  if (job === undefined) return [{ rank: 2, forms: [[run('no job', 'dim')]] }];
  const title = jobTitle(job);
  return [
    { rank: 3, forms: [[run(title, 'title')], [run(cutCells(title, SHORT_TITLE), 'title')]] },
    // How long an ended job took matters less than its whole title.
    {
      rank: 2,
      ...(job.state === JobState.ENDED && { growRank: 3.5 }),
      forms: progressForms(job, clockOf(state, job)),
    },
    ...(job.name === state.ui.pinned
      ? [{ rank: 2.4, forms: [[run('P pinned', 'accent')], [run('P', 'accent')]] satisfies Row[] }]
      : []),
    ...(isSourceChanged(state, job)
      ? [
          {
            rank: 2.5,
            growRank: 1.8,
            forms: [
              [run(`Δ ${SOURCE_CHANGED}`, 'warn')],
              [run('Δ source changed', 'warn')],
              [run('Δ source', 'warn')],
            ] satisfies Row[],
          },
        ]
      : []),
  ];
}

function progressForms(job: JobView, now: number): Row[] {
  const { mark, role, word } = jobMark(job);
  if (isBeingRead(job))
    return [[run(`${mark} ${word}`, role), run(', reading its events', 'dim')], [run(`${mark} ${word}`, role)]];
  const seconds = elapsedMs(job, now) / 1000;
  if (job.state !== JobState.RUNNING) {
    const state = run(`${mark} ${word}`, role);
    // The duration as lists show it, or else in whole seconds.
    const times = hasDuration(job) ? [formatSeconds(seconds), formatElapsed(seconds)] : [''];
    return [...times.map((time) => [state, run(time && ` ${time}`, 'dim')]), [state]];
  }
  const clock = run(hasDuration(job) ? ` ${formatElapsed(seconds)}` : '', 'dim');
  if (waitsSince(job, now) !== undefined) {
    const wait = waitText(job, now);
    const waits = run(wait, 'accent');
    return [[waits, { ...clock, text: clock.text.replace(/^ /, timeGap(wait)) }], [waits]];
  }
  const phase = currentPhase(job);
  const share = jobShare(job);
  const fallback = runningFallback(job);
  const name = run(
    phase === undefined ? word : [PHASE_WORDS[phase.phase], fallback?.label].filter(Boolean).join(' '),
    'accent',
  );
  if (phase === undefined || share === undefined) return [[name, clock], [name]];
  const percent = run(` ${String(Math.round(share * 100)).padStart(3)} %`);
  return [
    [name, run(detailOf(job, phase), 'dim'), ...progressBar(share, BAR_CELLS), percent, clock],
    [name, run(' '), ...progressBar(share, 8), percent, clock],
    [name, percent, clock],
    [name, percent],
  ];
}

/** Text such as " hot 39/~56" for a benchmark, or the steps of other phases; empty for a build. */
function detailOf(job: JobView, phase: PhaseView): string {
  const live = phase.phase === Phase.BENCHMARK ? liveBenchmark(job.variants.at(-1)) : undefined;
  if (live?.latency === undefined || live.result !== undefined)
    return phase.steps === 0 ? ' ' : ` ${Math.floor(phase.done)}/${phase.steps} `;
  return ` ${MODE_WORDS[live.mode]} ${samplesText(live)} `;
}

/** Tabs, the current one in brackets; at the right end a tally of the gates. */
export function tabsRow(state: AppState, width: number): Row {
  const others = isSingle(state.ui) ? runningOthers(state) : 0;
  const tabs: Row = VIEWS.flatMap((view, index) => [
    run(index === 0 ? '' : ' '),
    view === state.ui.view ? run(`[${VIEW_TITLES[view]}]`, 'focus') : run(VIEW_TITLES[view], 'dim'),
    ...(view === 'jobs' && others > 0 ? [run(` ●${others}`, 'accent')] : []),
  ]);
  const left: Row = [run(' '), ...(rowWidth(tabs) <= width - 1 ? tabs : shortTabs(state))];
  const gates = gatesRuns(state);
  const forms = gates.length === 0 ? [] : [[run('gates ', 'dim'), ...gates], gates];
  const fitting = forms.find((form) => rowWidth(left) + rowWidth(form) + 2 <= width) ?? [];
  const gap = width - rowWidth(left) - rowWidth(fitting) - 1;
  return fitRow(gap >= 1 ? [...left, run(' '.repeat(gap)), ...fitting] : left, width);
}

/** Number of running jobs that are not on the screen. Without the rail, nothing else shows them. */
const runningOthers = ({ jobs, attached }: AppState): number =>
  jobs.filter(({ name, state }) => state === JobState.RUNNING && name !== attached).length;

/** Short tabs such as "1 2 [3 Latency] 4 …" for screens too narrow for the words. */
const shortTabs = (state: AppState): Row =>
  VIEWS.flatMap((view, index) => [
    run(index === 0 ? '' : ' '),
    view === state.ui.view ? run(`[${VIEW_TITLES[view]}]`, 'focus') : run(VIEW_TITLES[view].slice(0, 1), 'dim'),
  ]);

function gatesRuns(state: AppState): Row {
  const gates = shownVariant(state)?.gates ?? [];
  return gates.length === 0 ? [] : tallyRuns(gateTally(gates, attachedJob(state)));
}
