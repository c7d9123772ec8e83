/** The command table. */
import { VIEWS, type ViewId } from '../state/app-state.ts';
import { attachedJob, variantsOf } from '../state/selectors.ts';
import type { Store } from '../state/store.ts';
import type { Command } from './command.ts';
import { COPY_COMMANDS } from './copy-commands.ts';
import { JOB_COMMANDS } from './job-commands.ts';
import { LOG_COMMANDS } from './log-commands.ts';
import { SOURCE_COMMANDS } from './source-commands.ts';
import { MOVE_COMMANDS } from './move-commands.ts';
import { LATENCY_COMMANDS, MAP_COMMANDS, inMap } from './view-commands.ts';

const VIEW_HELP: Record<ViewId, string> = {
  run: 'Run: phases, findings and the live log',
  correct: 'Correct: errors of every case, error map',
  latency: 'Latency: statistics and live histogram',
  profile: 'Profile: registers, occupancy, counters',
  gates: 'Gates: value, target, distance and reason of each',
  jobs: 'Jobs of the runner, history of experiments',
  kernels: 'Kernels: the ladder, manifests, run one',
  host: 'Host: runner, devices, tools',
};

const VIEW_COMMANDS: Command[] = VIEWS.map((view, index) => ({
  id: `show-${view}`,
  keys: [String(index + 1)],
  group: 'views',
  help: VIEW_HELP[view],
  run: ({ store }) => store.dispatch({ type: 'show', view }),
}));

function toggleMouse(store: Store): void {
  store.dispatch({ type: 'toggle', what: 'mouse' });
  store.dispatch({
    type: 'notice',
    text: store.state.ui.mouse
      ? 'Mouse on: the wheel moves, a click selects; your terminal selects text with Shift'
      : 'Mouse off',
    tone: 'info',
  });
}

const PROGRAM_COMMANDS: Command[] = [
  {
    id: 'next-view',
    keys: ['tab', 'l', 'right'],
    group: 'views',
    help: 'Next view',
    when: (state) => !inMap(state),
    run: ({ store }) => store.dispatch({ type: 'next-view', step: 1 }),
  },
  {
    id: 'previous-view',
    keys: ['shift+tab', 'h', 'left'],
    group: 'views',
    help: 'Previous view',
    when: (state) => !inMap(state),
    run: ({ store }) => store.dispatch({ type: 'next-view', step: -1 }),
  },
  {
    id: 'zoom',
    keys: ['+', '_'],
    group: 'views',
    help: 'This view alone over the whole screen, and back',
    hint: 'zoom',
    when: ({ ui }) => ui.zoomed || (ui.columns >= 100 && ui.rows >= 30),
    run: ({ store }) => store.dispatch({ type: 'zoom' }),
  },
  {
    id: 'next-variant',
    keys: ['v'],
    group: 'views',
    help: 'The other variant: as asked for, or USE_WMMA=0',
    hint: 'variant',
    when: (state) => variantsOf(attachedJob(state)).length > 1,
    run: ({ store }) => store.dispatch({ type: 'next-variant' }),
  },
  {
    id: 'mouse',
    keys: ['m'],
    group: 'program',
    help: 'Mouse: wheel and clicks, or none (default)',
    run: ({ store }) => toggleMouse(store),
  },
  {
    id: 'help',
    keys: ['?', ':', 'ctrl+p'],
    group: 'program',
    help: 'Every command: type to search, Enter runs',
    hint: 'help',
    run: ({ store }) => store.dispatch({ type: 'overlay', overlay: { kind: 'help', query: '', selected: 0 } }),
  },
  {
    id: 'leave',
    keys: ['q', 'Q', 'ctrl+c'],
    group: 'program',
    help: 'Leave fa-tui; jobs go on',
    hint: 'detach',
    run: ({ leave }) => leave(),
  },
];

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  ...VIEW_COMMANDS,
  ...MAP_COMMANDS,
  ...PROGRAM_COMMANDS.filter(({ group }) => group === 'views'),
  ...LATENCY_COMMANDS,
  ...MOVE_COMMANDS,
  ...LOG_COMMANDS,
  ...JOB_COMMANDS,
  ...SOURCE_COMMANDS,
  ...COPY_COMMANDS,
  ...PROGRAM_COMMANDS.filter(({ group }) => group === 'program'),
];
