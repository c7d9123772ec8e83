import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ArtifactKind,
  ArtifactSchema,
  FindingKind,
  GetHostResponseSchema,
  JobKind,
  JobEventSchema,
  JobSchema,
  JobState,
  KernelSchema,
  ListJobsResponseSchema,
  TimingMode,
  type Job,
  type JobEvent,
} from '@flashcore/shared/contract';
import { sha256Of } from '@flashcore/shared/kernels';
import { shellWord } from '@flashcore/shared/text';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LISTED_PROBLEMS } from '../testing/decode-job.ts';
import { fakeRunner } from '../testing/fake-runner.ts';
import { measuredEvents, modelledEvents } from '../testing/measured-job.ts';
import { VIEW_SCENES, enterScene } from '../testing/scenes.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from '../testing/sample-job.ts';
import { openTerminal, type TestTerminal } from '../testing/terminal.tsx';
import { heading, notice } from '../present/blocks.ts';
import type { AppState } from '../state/app-state.ts';
import { savedViewOf } from '../state/saved-view.ts';
import { attachedJob, jobsOf, kernelsOf, raceOfAttached, railJobsOf } from '../state/selectors.ts';
import { COMMANDS, commandsHere, findCommands } from '../keymap/commands.ts';

const ESCAPE = '\u001b';
const RAW: Record<string, string> = {
  tab: '\t',
  'shift+tab': `${ESCAPE}[Z`,
  enter: '\r',
  escape: ESCAPE,
  space: ' ',
  up: `${ESCAPE}[A`,
  down: `${ESCAPE}[B`,
  right: `${ESCAPE}[C`,
  left: `${ESCAPE}[D`,
  pageup: `${ESCAPE}[5~`,
  pagedown: `${ESCAPE}[6~`,
  home: `${ESCAPE}[H`,
  end: `${ESCAPE}[F`,
  'ctrl+c': '\u0003',
  'ctrl+d': '\u0004',
  'ctrl+u': '\u0015',
  'ctrl+l': '\u000c',
  'ctrl+p': '\u0010',
  'ctrl+z': '\u001a',
};
const CTRL_U = '\u0015';
const raw = (key: string): string => RAW[key] ?? key;

let terminal: TestTerminal;
beforeEach(async () => {
  terminal = openTerminal({ columns: 120, rows: 40, session: true, runner: fakeRunner({ events: sampleEvents() }) });
  // The session finds and shows the running job, without any key.
  await terminal.screen();
  expect(terminal.store.state.attached).toBe(SAMPLE_JOB);
});
afterEach(() => {
  terminal.close();
  // vitest may end its process without the event on which the program removes its copies.
  for (const { file } of terminal.edited)
    if (file.includes('read-only-copy')) rmSync(dirname(file), { recursive: true, force: true });
});

const ui = () => terminal.store.state.ui;

/** Shows a search over variants in a terminal without a session, whose job has the search's name. */
async function enterSearch(): Promise<void> {
  terminal.close();
  terminal = openTerminal({ columns: 120, rows: 40 });
  await enterScene(terminal, VIEW_SCENES['tune-race']!);
}

/** Folders that are removed after the test. */
const folders: string[] = [];
afterEach(() => folders.splice(0).forEach((folder) => rmSync(folder, { recursive: true })));

/** A folder with this kernel.yaml. */
function kernelWith(manifest: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'fa-keys-'));
  folders.push(folder);
  writeFileSync(join(folder, 'kernel.yaml'), manifest);
  return folder;
}

function show(events: readonly JobEvent[]): void {
  const [first] = events;
  if (first !== undefined) terminal.store.dispatch({ type: 'attach', job: first.job });
  for (const event of events) terminal.store.dispatch({ type: 'job-event', event });
}

function showTwoFindings(): void {
  const events = modelledEvents('bank_conflict_32way');
  const finding = events.find(({ payload }) => payload.case === 'finding')!;
  show([...events, { ...finding, sequence: BigInt(events.length + 1) }]);
}

const withoutRail = (): void => terminal.store.dispatch({ type: 'resize', columns: 80, rows: 24 });

const IN_PROBLEMS = {
  stage: () => {
    terminal.store.dispatch({ type: 'problems', problems: LISTED_PROBLEMS });
    const kernel = create(KernelSchema, { kernelId: 'norm', problem: 'my_norm' });
    terminal.store.dispatch({ type: 'kernels', kernels: [kernel] });
  },
};

/** For each command, keys that lead to a state where it has an effect, and a check for the effect. */
const REACH: Record<
  string,
  { stage?: () => void | Promise<void>; first?: string; shows: (before: AppState, after: AppState) => boolean }
> = {
  ...Object.fromEntries(
    ['run', 'correct', 'latency', 'profile', 'gates', 'jobs', 'kernels', 'host'].map((view) => [
      `show-${view}`,
      { first: view === 'run' ? '2' : '1', shows: (_: AppState, after: AppState) => after.ui.view === view },
    ]),
  ),
  'into-rail': { first: '1', shows: (_, { ui: after }) => after.inRail && after.view === 'run' },
  'leave-rail': { first: '1\t', shows: (before, { ui: after }) => before.ui.inRail && !after.inRail },
  'next-view': { stage: withoutRail, first: '1', shows: (_, { ui: after }) => after.view === 'correct' },
  'previous-view': { stage: withoutRail, first: '1', shows: (_, { ui: after }) => after.view === 'host' },
  zoom: { shows: (before, after) => after.ui.zoomed !== before.ui.zoomed },
  'next-variant': { shows: (before, after) => after.ui.variant !== before.ui.variant },
  up: { first: '2', shows: (before, after) => after.ui.selected.correct === before.ui.selected.correct - 1 },
  down: { first: '2', shows: (before, after) => after.ui.selected.correct === before.ui.selected.correct + 1 },
  'half-page-up': { first: '5G', shows: (before, after) => after.ui.selected.gates < before.ui.selected.gates },
  'half-page-down': { first: '5', shows: (before, after) => after.ui.selected.gates > before.ui.selected.gates },
  'page-up': { first: '1', shows: (before, after) => before.ui.log.follow && !after.ui.log.follow },
  'page-down': { first: '5', shows: (before, after) => after.ui.selected.gates > before.ui.selected.gates },
  'detail-down': { first: '2', shows: (_, after) => after.ui.detail === 1 },
  'detail-up': { first: '2', shows: (_, after) => after.ui.detail === -1 },
  first: { first: '1', shows: (_, after) => !after.ui.log.follow && after.ui.log.top === 0 },
  last: { first: '1g', shows: (_, after) => after.ui.log.follow },
  search: { shows: (_, after) => after.ui.overlay?.kind === 'search' },
  'next-match': { first: '1/ptxas\r', shows: (before, after) => after.ui.log.top !== before.ui.log.top },
  'previous-match': { first: '1/ptxas\r', shows: (before, after) => after.ui.log.top < before.ui.log.top },
  filter: { first: '1/ptxas\r', shows: (_, after) => after.ui.log.filter },
  'clear-search': { first: '1/ptxas\r', shows: (_, after) => after.ui.log.query === '' },
  'next-error': { first: '1', shows: (before, after) => before.ui.log.follow && !after.ui.log.follow },
  follow: { shows: (before, after) => after.ui.log.follow !== before.ui.log.follow },
  wrap: { first: '1', shows: (before, after) => after.ui.log.wrap !== before.ui.log.wrap },
  'log-left': { first: '1>>', shows: (_, after) => after.ui.log.left === 20 },
  'log-right': { first: '1', shows: (_, after) => after.ui.log.left === 20 && !after.ui.log.wrap },
  'older-job': { shows: (before, after) => after.attached !== before.attached && after.ui.view === before.ui.view },
  'newer-job': { first: '1}', shows: (before, after) => after.attached !== before.attached },
  'show-job': {
    first: '6jjj',
    shows: (before, after) => after.ui.view === 'run' && after.attached !== before.attached,
  },
  problems: { first: '7', shows: (_, { ui: after }) => after.kernelList === 'problems' },
  'show-problem': { ...IN_PROBLEMS, first: '7t', shows: (_, { ui: after }) => after.kernelList === 'definition' },
  'leave-problem': { ...IN_PROBLEMS, first: '7t\r', shows: (_, { ui: after }) => after.kernelList === 'problems' },
  'run-problem': { ...IN_PROBLEMS, first: '7tj\r', shows: (_, { ui: after }) => after.overlay?.kind === 'form' },
  'fix-manifest': {
    stage: () => {
      const broken = kernelWith('id: broken\nlaunches:\n  - grid: 1\n');
      const manifestError = 'kernel.yaml:3: launches[0].grid: must be a list';
      const kernel = { ...create(KernelSchema, { kernelId: 'broken', manifestError }), folder: broken };
      terminal.store.dispatch({ type: 'kernels', kernels: [kernel] });
    },
    first: '7',
    shows: () => /kernel\.yaml$/.test(terminal.edited[0]?.file ?? '') && terminal.edited[0]?.line === 3,
  },
  'run-kernel': {
    first: '7j',
    shows: (_, after) => after.ui.overlay?.kind === 'form' && after.ui.overlay.form.kernel.kernelId === 'fa_v2_wmma',
  },
  'change-form': {
    first: '1',
    shows: (_, after) => after.ui.overlay?.kind === 'form' && after.ui.overlay.form.kernel.kernelId === 'flashcore_v6',
  },
  'into-map': {
    first: '2',
    shows: (_, { ui: after }) => after.mapCursor?.row === 20 && after.mapCursor.column === 5,
  },
  'map-left': {
    first: '2\r',
    shows: (_, { ui: after }) => after.mapCursor?.column === 4 && after.view === 'correct',
  },
  'map-right': {
    first: '2\r',
    shows: (_, { ui: after }) => after.mapCursor?.column === 6 && after.view === 'correct',
  },
  'next-head': { first: '2', shows: (_, { ui: after }) => after.mapHead === 0 },
  'previous-head': { first: '2', shows: (_, { ui: after }) => after.mapHead === 15 },
  'leave-map': {
    first: '2\r',
    shows: (before, { ui: after }) => before.ui.mapCursor !== undefined && after.mapCursor === undefined,
  },
  'next-finding': { stage: showTwoFindings, first: '1', shows: (_, after) => after.ui.finding === 1 },
  instructions: {
    stage: () => enterScene(terminal, VIEW_SCENES['profile-ptx']!),
    first: '4i',
    shows: (before, { ui: after }) => before.ui.listing === undefined && after.listing === 0,
  },
  'leave-instructions': {
    stage: () => enterScene(terminal, VIEW_SCENES['profile-ptx']!),
    first: '4',
    shows: (before, { ui: after }) => before.ui.listing === 0 && after.listing === undefined,
  },
  'hottest-line': {
    stage: () => show(modelledEvents('bank_conflict_32way')),
    first: '4',
    shows: (_, after) => after.ui.selected.profile > 0,
  },
  'run-variant': {
    stage: async () => {
      await enterSearch();
      const { kernelId = '' } = attachedJob(terminal.store.state) ?? {};
      const parameters = [{ name: 'BLOCK_Q', values: [64n, 32n], defaultValue: 64n }];
      terminal.store.dispatch({ type: 'kernels', kernels: [create(KernelSchema, { kernelId, parameters })] });
    },
    first: '3',
    shows: (_, { ui: after }) => after.overlay?.kind === 'form',
  },
  'new-kernel': {
    first: '7j',
    shows: (_, { ui: after }) => after.overlay?.kind === 'new-kernel' && after.overlay.from === 'fa_v2_wmma',
  },
  distribution: { first: '3', shows: (_, after) => after.ui.distribution === 'histogram' },
  'next-comparison-page': { first: '6tgb1c', shows: (_, after) => after.ui.comparePage === 'figures' },
  rerun: { first: '1', shows: () => terminal.runner.started.includes('flashcore_v6') },
  'open-notes': {
    first: '7jjj',
    shows: () => /fa-tui-read-only-copy-\w+\/NOTES\.md$/.test(terminal.edited[0]?.file ?? ''),
  },
  'edit-source': { first: '1', shows: () => terminal.edited.length === 1 },
  pin: { first: '6tg', shows: (_, after) => after.ui.pinned === 'jobs/11111111-0000-4000-8000-000000000003' },
  compare: {
    first: '6tgb1',
    shows: (_, after) => after.ui.comparing && after.ui.view === 'latency' && after.attached === SAMPLE_JOB,
  },
  'watch-folder': { shows: (_, after) => after.ui.overlay?.kind === 'watch-folder' },
  'sort-list': { first: '6t', shows: (_, after) => after.ui.historySort === 'latency' },
  'filter-list': { first: '7', shows: (_, after) => after.ui.overlay?.kind === 'list-filter' },
  'clear-filter': { first: '6/wmma\r', shows: (_, after) => after.ui.filters.jobs === '' },
  accept: { first: '1', shows: (_, after) => after.notice?.text.startsWith('Cannot accept') === true },
  reject: { first: '1', shows: (_, after) => after.ui.overlay?.kind === 'decide' },
  undo: { first: '1', shows: (_, after) => after.notice?.text.startsWith('Cannot undo') === true },
  'mark-job': { first: '6/v7\r', shows: (_, after) => after.ui.marked.length === 1 },
  'mark-all': { first: '6', shows: (_, after) => after.ui.marked.length === 2 },
  'clear-marks': {
    first: '6/v7\r ',
    shows: (before, after) => before.ui.marked.length === 1 && after.ui.marked.length === 0,
  },
  'cancel-waiting': { shows: (_, after) => after.ui.overlay?.kind === 'confirm' },
  cancel: { first: '6/v7\r', shows: (_, after) => after.ui.overlay?.kind === 'confirm' },
  'next-place': { first: '6tt', shows: (_, after) => after.leaderboard?.place?.mode === TimingMode.COLD },
  history: { first: '6', shows: (_, after) => after.ui.jobList === 'history' },
  faulty: { first: '7', shows: (_, after) => after.kernels.some(({ kernelId }) => kernelId === 'divergent_barrier') },
  copy: { shows: (_, after) => after.ui.overlay?.kind === 'copy' },
  'copy-line': { first: '5', shows: () => terminal.copied[0]?.fileName === 'line.txt' },
  'lab-log': {
    stage: () => terminal.onLabLog(() => Promise.resolve([heading('Lab log')])),
    shows: (_, after) => after.ui.overlay?.kind === 'lab-log' && after.ui.overlay.blocks !== undefined,
  },
  'command-log': { shows: (_, after) => after.ui.overlay?.kind === 'commands' },
  mouse: { shows: (_, after) => after.ui.mouse && terminal.written().includes('\u001b[?1000h\u001b[?1006h') },
  help: { shows: (_, after) => after.ui.overlay?.kind === 'help' },
  redraw: { shows: () => terminal.written().split('\u001b[?1049h').length === 3 },
  suspend: { shows: () => terminal.stopped.length === 1 },
  leave: { shows: () => terminal.left() },
};

describe('every command of the table', () => {
  for (const command of COMMANDS) {
    for (const key of command.keys) {
      test(`${command.id} by ${key}`, async () => {
        const reach = REACH[command.id];
        expect(reach, `no way to reach ${command.id} is written down here`).toBeDefined();
        await reach?.stage?.();
        if (reach?.first !== undefined) await terminal.press(reach.first);
        const before = terminal.store.state;
        expect(reach?.shows(before, before), 'what the key shows was there before it was pressed').toBe(false);
        await terminal.press(raw(key));
        await expect.poll(() => reach?.shows(before, terminal.store.state)).toBe(true);
      });
    }
  }
});

test('Tab gives the cursor to the rail, where j, k, g and G show its jobs and the keys of jobs act on the one shown', async () => {
  const names = railJobsOf(terminal.store.state).map(({ name }) => name);
  const place = (): number => names.indexOf(terminal.store.state.attached ?? '');
  await terminal.press('6G');
  const inView6 = ui().selected.jobs;
  await terminal.press('\t');
  const walk: number[] = [place()];
  for (const key of ['G', 'k', 'k', 'g', 'j']) {
    await terminal.press(key);
    walk.push(place());
  }
  const last = names.length - 1;
  expect(walk).toEqual([names.indexOf(SAMPLE_JOB), last, last - 1, last - 2, 0, 1]);
  expect(await terminal.screen()).toMatch(/j k step, Tab: back/);
  await terminal.press('b');
  expect([ui().pinned ?? terminal.store.state.notice?.text, ui().view]).toEqual([
    expect.stringMatching(new RegExp(`${names[1]!}|Only a job that has ended`)),
    'jobs',
  ]);
  // The rail leaves the cursor of view 6 alone, and a number goes to its view.
  expect([ui().selected.jobs, inView6]).toEqual([inView6, inView6]);
  await terminal.press('3');
  expect([ui().inRail, ui().view]).toEqual([false, 'latency']);
});

test('a screen without the rail never has its cursor there', async () => {
  const inRail: boolean[] = [];
  for (const hide of [() => terminal.press('+'), () => Promise.resolve(withoutRail())]) {
    await terminal.press('1\t');
    inRail.push(ui().inRail);
    await hide();
    inRail.push(ui().inRail);
    await terminal.press('+');
  }
  expect(inRail).toEqual([true, false, true, false]);
});

test('a message disappears as soon as it is out of date', async () => {
  const said = () => terminal.store.state.notice?.text;
  const other = 'jobs/99999999-0000-4000-8000-000000000000';
  const events = sampleEvents().map((event) => ({ ...event, job: other }));
  show(events.slice(0, -1));
  await terminal.press('1b');
  expect(said()).toBe('Only a job that has ended can be pinned');
  terminal.store.dispatch({ type: 'job-event', event: events.at(-1)! });
  expect(said()).toBeUndefined();
  await terminal.press('b');
  expect(said()).toMatch(/^Pinned: /);
  terminal.store.dispatch({ type: 'pin', job: undefined });
  expect(said()).toBeUndefined();
  await terminal.press(`${ESCAPE}[200~pasted${ESCAPE}[201~`);
  expect(said()).toMatch(/^Ignored the pasted text/);
  await terminal.press('/');
  expect(said()).toBeUndefined();
  await terminal.press(ESCAPE);
  await terminal.press('7j\r');
  await terminal.press('z');
  expect(said()).toMatch(/takes only its choices|has only one choice/);
  await terminal.press(raw('down'));
  expect(said()).toBeUndefined();
});

test('n without a search names the key that makes a new kernel', async () => {
  await terminal.press('1n');
  expect(terminal.store.state.notice?.text).toMatch(/For a new kernel: 7, then N$/);
  await terminal.press('7n');
  expect(terminal.store.state.notice?.text).toMatch(/^N, as a capital letter, makes a kernel of yours/);
});

test('Enter on a variant of a search opens the form with its parameters', async () => {
  await enterSearch();
  const { kernelId = '' } = attachedJob(terminal.store.state) ?? {};
  const rows = raceOfAttached(terminal.store.state)!.rows;
  // Every value that a variant of the race has, the first one as default.
  const parameters = Object.keys(rows[0]!.parameters).map((name) => {
    const values = [...new Set(rows.map((row) => row.parameters[name]!))];
    return { name, values: [999n, ...values], defaultValue: 999n };
  });
  terminal.store.dispatch({ type: 'kernels', kernels: [create(KernelSchema, { kernelId, parameters })] });
  await terminal.press('3gj\r');
  const { overlay } = ui();
  const fields = overlay?.kind === 'form' ? overlay.form.fields : [];
  const chosen = fields
    .filter(({ id }) => id.startsWith('param:'))
    .map(({ label, choices, chosen: at }) => [label, BigInt(choices[at]!)]);
  expect(Object.fromEntries(chosen)).toEqual(rows[1]!.parameters);
});

test('N in view 7 makes a copy under the typed name and moves the cursor to it; a refused name stays to be corrected', async () => {
  const made: string[][] = [];
  terminal.onNewKernel((name, from) => {
    if (name === 'bad') return Promise.reject(new Error('bad exists already: give another name'));
    made.push([name, from]);
    return Promise.resolve(listFolder('good'));
  });
  await terminal.press('7j');
  await terminal.press('Nbad\r');
  expect(await terminal.screen()).toMatch(/name of your copy of fa_v2_wmma: bad.*bad exists already/);
  await terminal.press(CTRL_U);
  await terminal.press('good\r');
  expect([made, ui().overlay]).toEqual([[['good', 'fa_v2_wmma']], undefined]);
  expect(terminal.store.state.commandLog.at(-1)?.text).toBe('fa-tui new good --from fa_v2_wmma');
  expect(terminal.store.state.notice?.text).toMatch(/^\/work of mine\/good is your copy of fa_v2_wmma: e edits it/);
});

test('N says at once that the copy is being made, and makes it once, however often Enter is pressed', async () => {
  const made: string[] = [];
  const slow = Promise.withResolvers<void>();
  terminal.onNewKernel(async (name) => {
    made.push(name);
    await slow.promise;
    return listFolder('good');
  });
  await terminal.press('7jNgood\r');
  expect(await terminal.screen()).toMatch(/name of your copy of fa_v2_wmma: good█ {2}making the copy/);
  await terminal.press('\rx\r');
  slow.resolve();
  await expect.poll(() => terminal.store.state.notice?.text).toMatch(/good is your copy of fa_v2_wmma: e edits it/);
  expect([made, ui().overlay]).toEqual([['good'], undefined]);
});

test('Escape closes the prompt of N while the copy is made, and a failure is then a message above the open dialog', async () => {
  const slow = Promise.withResolvers<never>();
  terminal.onNewKernel(() => slow.promise);
  await terminal.press('7jNgood\r');
  await terminal.press(ESCAPE);
  await terminal.press('/');
  slow.reject(new Error('the disk is full'));
  await expect.poll(() => terminal.store.state.notice?.text).toBe('the disk is full');
  expect(ui().overlay?.kind).toBe('list-filter');
});

/** Makes the runner list a kernel in a folder. */
function listFolder(kernelId: string): string {
  const folder = `/work of mine/${kernelId}`;
  const { listKernels } = terminal.runner;
  Object.assign(terminal.runner, {
    listKernels: async (request?: Parameters<typeof listKernels>[0]) => {
      const answer = await listKernels(request);
      return { ...answer, kernels: [{ ...create(KernelSchema, { kernelId }), folder }, ...answer.kernels] };
    },
  });
  return folder;
}

test('N removes a filter that hides the copy, so that the keys which the message names act on the copy', async () => {
  terminal.onNewKernel(() => Promise.resolve(listFolder('good')));
  await terminal.press('7/v2\r');
  await terminal.press('Ngood\r');
  expect([ui().filters.kernels, kernelsOf(terminal.store.state)[ui().selected.kernels]?.kernelId]).toEqual([
    '',
    'good',
  ]);
  await terminal.press('\r');
  expect(ui().overlay).toMatchObject({ kind: 'form', form: { kernel: { kernelId: 'good' } } });
});

test('the message after N offers no keys while view 7 does not list the copy', async () => {
  terminal.onNewKernel(() => Promise.resolve('/work of mine/other'));
  await terminal.press('7Nother\r');
  expect(terminal.store.state.notice?.text).toBe(
    '/work of mine/other is your copy of fa_v1_baseline: 7 does not list it yet, fa-tui run /work of mine/other runs it',
  );
});

test('the bar of view 7 says run for a kernel that never ran, and source for one that is not yours', async () => {
  const bar = async () => (await terminal.screen()).split('\n').at(-1);
  await terminal.resize(160, 40);
  await terminal.press('7gj');
  expect(await bar()).toMatch(/r rerun fa_v2_wmma .*e source/);
  await terminal.press('j');
  expect(await bar()).toMatch(/r run flashcore_v5 /);
  listFolder('good');
  await terminal.press('F');
  await expect.poll(() => terminal.store.state.kernels[0]?.kernelId).toBe('good');
  await terminal.press('g');
  expect(await bar()).toMatch(/r run good .*e edit/);
  await terminal.resize(80, 24);
  expect(await bar()).toMatch(/e edit/);
});

test('r in view 7 whose filter has no hit says so, and nothing of a kernel that is not listed', async () => {
  await terminal.press('7/gqa_rows\rr');
  expect([terminal.store.state.notice?.text, terminal.runner.started]).toEqual([
    'No kernel has "gqa_rows": Esc shows all',
    [],
  ]);
});

test('N on a problem copies its first kernel, and shows the copy among the kernels', async () => {
  IN_PROBLEMS.stage();
  const made: string[][] = [];
  terminal.onNewKernel((...asked) => {
    made.push(asked);
    return Promise.resolve('/work of mine/norm2');
  });
  await terminal.press('7tj');
  await terminal.press('N');
  await terminal.press('norm2\r');
  expect([made, ui().kernelList]).toEqual([[['norm2', 'norm']], 'kernels']);
});

test('e on an example of the installation opens a read-only copy and says how to make one to edit', async () => {
  const folder = kernelWith('id: shipped\nsource: shipped.cu\n');
  writeFileSync(join(folder, 'shipped.cu'), 'code');
  const kernel = { ...create(KernelSchema, { kernelId: 'shipped', title: 'An example' }), folder, isExample: true };
  terminal.store.dispatch({ type: 'kernels', kernels: [kernel] });
  await terminal.press('7');
  expect(await terminal.screen()).toMatch(/example: \//);
  await terminal.press('e');
  expect(terminal.edited[0]?.file).toMatch(/fa-tui-read-only-copy-/);
  expect(terminal.store.state.notice?.text).toMatch(/shipped is an example of this installation\. N in 7 makes a copy/);
});

test('Escape and a key that arrive in one read both have their effect', async () => {
  await terminal.press('?');
  await terminal.press(`${ESCAPE}8`);
  expect([ui().overlay, ui().view]).toEqual([undefined, 'host']);
});

test("the form of a problem cycles through the problem's kernels only, also when a name is typed, and the faulty ones come last", async () => {
  const kernels = [
    create(KernelSchema, { kernelId: 'heaviest', problem: 'my_norm', expectedFinding: FindingKind.RACE }),
    create(KernelSchema, { kernelId: 'attends' }),
    create(KernelSchema, { kernelId: 'norm', problem: 'my_norm' }),
    create(KernelSchema, { kernelId: 'norm_fast', problem: 'my_norm' }),
  ];
  terminal.store.dispatch({ type: 'problems', problems: LISTED_PROBLEMS });
  terminal.store.dispatch({ type: 'kernels', kernels });
  const chosen = (): string => {
    const { overlay } = ui();
    return overlay?.kind === 'form' ? overlay.form.kernel.kernelId : '';
  };
  await terminal.press('7tj\r\r');
  await terminal.press(raw('up'));
  const seen: string[] = [];
  for (let step = 0; step < 4; step++) {
    seen.push(chosen());
    await terminal.press(raw('right'));
  }
  expect(seen).toEqual(['norm', 'norm_fast', 'heaviest', 'norm']);
  await terminal.press('heav');
  expect(chosen()).toBe('heaviest');
  await terminal.press(ESCAPE);
  // The faulty ones can be hidden here too.
  const before = terminal.store.state.ui.faulty;
  await terminal.press('F');
  expect(terminal.store.state.ui.faulty).toBe(!before);
});

test('r on a job opened from the list starts a job of the same kind, whatever the last form was', async () => {
  const { store, runner } = terminal;
  const verify = create(JobSchema, {
    name: 'jobs/aaaaaaaa-0000-4000-8000-000000000001',
    kind: JobKind.VERIFY,
    state: JobState.ENDED,
    kernelId: 'flashcore_v5',
    label: 'flashcore_v5',
  });
  store.dispatch({ type: 'jobs', jobs: [verify] });
  store.dispatch({ type: 'attach', job: verify.name });
  store.dispatch({ type: 'job-opened', job: verify.name });
  const started: string[] = [];
  const { start } = runner;
  runner.start = (method, ...rest) => {
    started.push(method);
    return start(method, ...rest);
  };
  await terminal.press('1r');
  expect(started).toEqual(['verify']);
  expect(store.state.commandLog.at(-1)?.text).toBe('fa-tui verify flashcore_v5');
});

test('Escape that clears the filter of view 7 leaves the cursor on its kernel', async () => {
  await terminal.press('7/v6\r');
  await terminal.press(ESCAPE);
  const { state } = terminal.store;
  expect([state.ui.filters.kernels, kernelsOf(state)[state.ui.selected.kernels]?.kernelId]).toEqual([
    '',
    'flashcore_v6',
  ]);
});

test('a key that has no effect here shows the reason and the remedy, and the next key removes the message', async () => {
  const notice = () => terminal.store.state.notice?.text;
  await terminal.press('c');
  expect(notice()).toMatch(/^Nothing is pinned: b pins a job/);
  await terminal.press('P');
  expect(notice()).toBe('The leaderboard of this runner is here: 6, then t twice');
  terminal.store.dispatch({ type: 'tick', now: terminal.store.state.now + 2_000 });
  await terminal.press('5');
  expect(notice()).toBe(undefined);
  await terminal.press(ESCAPE);
  await terminal.press('~');
  expect(notice()).toBe(undefined);
});

test('the key c on a running job says that only ended jobs can be compared with the pinned one, and b unpins the pinned job', async () => {
  const { store } = terminal;
  const job = store.state.attached!;
  await terminal.press('b');
  expect(store.state.ui.pinned).toBe(job);
  store.dispatch({ type: 'attach', job: 'jobs/running' });
  await terminal.press('c');
  expect(store.state.notice?.text).toBe('Only a job that has ended can be compared with the pinned one');
  store.dispatch({ type: 'attach', job });
  await terminal.press('b');
  expect([store.state.ui.pinned, store.state.notice?.text]).toEqual([
    undefined,
    expect.stringMatching(/^No longer pinned: /),
  ]);
});

test('in the form, the cursor skips the fields that its command does not take', async () => {
  await terminal.press('7j\rh');
  expect(await terminal.screen()).toMatch(/▸ phases +← tune →/);
  const { overlay } = terminal.store.state.ui;
  const ids = (): string => {
    const { overlay: shown } = terminal.store.state.ui;
    return shown?.kind === 'form' ? (shown.form.fields[shown.form.selected]?.id ?? '') : '';
  };
  expect(overlay?.kind).toBe('form');
  const visited: string[] = [];
  for (let step = 0; step < 4; step++) {
    await terminal.press('\u001b[B');
    visited.push(ids());
  }
  expect(visited).toEqual(['param:USE_WMMA', 'shape', 'shape', 'shape']);
});

test('if a list of view 6 is empty, its keys apply to no job; pressing 6 again shows the jobs', async () => {
  for (const event of modelledEvents('bank_conflict_32way')) terminal.store.dispatch({ type: 'job-event', event });
  const [{ job = '' } = {}] = modelledEvents('bank_conflict_32way');
  terminal.store.dispatch({ type: 'attach', job });
  await terminal.press('6tt/nobody\rb');
  expect([ui().jobList, ui().pinned]).toEqual(['leaderboard', undefined]);
  await terminal.press('6');
  expect(ui().jobList).toBe('jobs');
});

test('x while only a fallback runs that decides nothing asks whether to stop the fallback', async () => {
  const job = 'jobs/99999999-0000-4000-8000-000000000009';
  show(
    sampleEvents()
      .slice(0, -1)
      .map((event) => ({ ...event, job })),
  );
  await terminal.press('1x');
  expect(await terminal.screen()).toContain(
    'Stop the fallback of flashcore_v6 USE_WMMA=1 (99999999)? The verdict stays.',
  );
});

describe('the lab log', () => {
  const LEFT = SAMPLE_START_MS - 60_000;
  const asked: number[] = [];
  const top = (): number | undefined => {
    const { overlay } = ui();
    return overlay?.kind === 'lab-log' ? overlay.top : undefined;
  };
  beforeEach(() => {
    asked.length = 0;
    terminal.onLabLog((since) => {
      asked.push(since);
      return Promise.resolve(Array.from({ length: 100 }, (_, index) => notice(`line ${index} of the log`)));
    });
  });

  test('is scrolled and copied over the view, and its other keys change nothing', async () => {
    await terminal.press('2L');
    expect(await terminal.screen()).toMatch(/\[2 Correct\][^]*Lab log[^]*line 0 of the log[^]*rows 1-34 of 100/);
    await terminal.press('jj k');
    expect(top()).toBe(33);
    await terminal.press('G');
    expect(await terminal.screen()).toContain('line 99 of the log');
    await terminal.press('kxr3y');
    expect([top(), ui().view]).toEqual([65, 'correct']);
    expect(terminal.copied).toEqual([
      { text: expect.stringContaining('line 99 of the log') as string, fileName: 'lab-log.md' },
    ]);
    await terminal.press('g');
    expect(top()).toBe(0);
    await terminal.press('q');
    expect([top(), terminal.left()]).toEqual([undefined, false]);
  });

  test('keys count as visits, and a screen that changes by itself does not', async () => {
    terminal.store.dispatch({ type: 'tick', now: LEFT + 5000 });
    await terminal.screen();
    expect(terminal.inputs()).toBe(0);
    await terminal.press('2');
    expect(terminal.inputs()).toBe(1);
  });

  test('begins when the user left, and t turns to all jobs', async () => {
    terminal.store.dispatch({ type: 'restore', view: { ...savedViewOf(terminal.store.state), leftAt: LEFT } });
    const jobs = terminal.store.state.jobs.map((job) => ({
      ...job,
      endTime: timestampFromMs(LEFT + 1),
      state: JobState.ENDED,
    }));
    Object.assign(terminal.runner, {
      listJobs: () => Promise.resolve(create(ListJobsResponseSchema, { jobs })),
    });
    terminal.store.dispatch({ type: 'jobs', jobs });
    await terminal.press('L');
    expect(await terminal.screen()).toMatch(/Lab log since \d\d:\d\d[^]*t all jobs/);
    await terminal.press('t');
    expect(await terminal.screen()).toMatch(/Lab log ─[^]*t since you left/);
    await terminal.press('t');
    expect(asked).toEqual([LEFT, 0, LEFT]);
  });

  test('that cannot be read says why', async () => {
    terminal.onLabLog(() => Promise.reject(new Error('the runner is away')));
    await terminal.press('L');
    expect([top(), terminal.store.state.notice?.text]).toEqual([
      undefined,
      'Could not read the lab log: the runner is away',
    ]);
  });
});

test('the key s in view 4 sorts the lines with the largest figure first and scrolls to them, and the hottest line is marked', async () => {
  show(modelledEvents('bank_conflict_32way'));
  await terminal.resize(80, 24);
  await terminal.press('4G');
  const scrolled = ui().selected.profile;
  await terminal.press('s');
  expect(scrolled).toBeGreaterThan(ui().selected.profile);
  expect((await terminal.screen()).split('\n').slice(3, 6).join('\n')).toMatch(
    /Lines of .* by instructions[^]*line +instr\.[^]*▸ \d+ +\d+\.\d %/,
  );
});

test('H in view 4 jumps to the line that the verdict names, and the bar of a small terminal has the keys of the view', async () => {
  show(modelledEvents('bank_conflict_32way'));
  await terminal.resize(80, 24);
  await terminal.press('4');
  const top = await terminal.screen();
  const [, named] = /bound by shared memory[^]*?line\s+(\d+)/.exec(top.replaceAll(/[│\n]/g, ' ')) ?? [];
  expect(top.split('\n').at(-1)).toMatch(/H most wavefronts .*s sort {2}e edit/);
  await terminal.press('H');
  expect(await terminal.screen()).toMatch(new RegExp(`▸ ${named} `));
});

test('after H and zoom, in view 4, the hottest line stays on the screen', async () => {
  show(modelledEvents('bank_conflict_32way'));
  await terminal.press('4sHkkk');
  for (const key of ['', '+', '+', 'GH+']) {
    await terminal.press(key);
    expect(await terminal.screen(), key).toMatch(/▸ \d+ +\d/);
  }
  // The line that is at the top stays there.
  await terminal.press('+4gH');
  const topLine = async () =>
    (await terminal.screen())
      .split('\n')
      .find((row) => /│ {3,6}\d+ {2}/.test(row))
      ?.slice(-60, -40);
  const before = await topLine();
  await terminal.press('+');
  expect((await terminal.screen()).includes(before ?? '?')).toBe(true);
});

test('at another width, view 4 begins at its verdict, because its rows have changed', async () => {
  show(modelledEvents('bank_conflict_32way'));
  await terminal.press('4H');
  expect(ui().selected.profile).toBeGreaterThan(0);
  await terminal.resize(80, 24);
  expect(await terminal.screen()).toMatch(/bound by shared memory/);
});

test('the column names stay in place while the source lines scroll', async () => {
  show(modelledEvents('bank_conflict_32way'));
  await terminal.resize(80, 24);
  await terminal.press('4');
  for (let presses = 0; presses < 30 && !/line +instr\./.test((await row(3))!); presses++) await terminal.press('j');
  const first = await row(4);
  await terminal.press('jj');
  expect(await row(3)).toMatch(/line +instr\./);
  expect(await row(4)).not.toBe(first);
});

const row = async (index: number) => (await terminal.screen()).split('\n')[index];

test("next to the PTX, the cursor stays on its source line when the lines are sorted, and J shows the line's next instructions", async () => {
  await enterScene(terminal, VIEW_SCENES['profile-ptx']!);
  const about = async () => /(\d+) PTX instructions? of line (\d+)(?:, place (\d+))?/.exec(await terminal.screen());
  expect((await about())?.slice(1)).toEqual(['328', '34', '1']);
  await terminal.press('J');
  expect((await about())?.slice(1)).toEqual(['328', '34', '2']);
  await terminal.press('jss');
  expect((await about())?.[2]).toBe('35');
  // When sorted by bank conflicts, the first line is the only one that has conflicts.
  await terminal.press('g');
  expect((await about())?.[2]).toBe('34');
  expect(await terminal.screen()).toMatch(/▸ +34 /);
});

test('no two commands share a key in a state where both apply', () => {
  const byKey = new Map<string, string[]>();
  for (const { id, keys } of COMMANDS) for (const key of keys) byKey.set(key, [...(byKey.get(key) ?? []), id]);
  // Enter and / have a different command in each view, and the error map uses the arrows itself; the `when` of each
  // command excludes the others. Space marks a job that has not ended, and pages in all other places. Tab goes to
  // the rail where there is one.
  expect([...byKey].filter(([, ids]) => ids.length > 1)).toEqual([
    ['tab', ['into-rail', 'leave-rail', 'next-view']],
    [
      'enter',
      [
        'leave-rail',
        'into-map',
        'leave-map',
        'run-variant',
        'show-job',
        'fix-manifest',
        'run-kernel',
        'show-problem',
        'run-problem',
      ],
    ],
    [
      'escape',
      ['leave-rail', 'leave-map', 'clear-marks', 'leave-instructions', 'clear-search', 'leave-problem', 'clear-filter'],
    ],
    ['h', ['map-left', 'previous-view']],
    ['left', ['map-left', 'previous-view']],
    ['l', ['map-right', 'next-view']],
    ['right', ['map-right', 'next-view']],
    ['space', ['mark-job', 'page-down']],
    ['o', ['open-notes', 'next-finding']],
    ['/', ['search', 'filter-list']],
    ['N', ['previous-match', 'new-kernel']],
    ['t', ['history', 'problems']],
  ]);
});

test('o in view 7 never turns to the findings of the shown job', async () => {
  showTwoFindings();
  await terminal.press('7/zzz\r');
  await terminal.press('o');
  expect(terminal.store.state.ui.finding).toBe(0);
  expect(await terminal.screen()).toContain('The selected kernel has no notes');
});

test('the filter of view 6 leaves the rail as it is, and a click on a hidden job of the rail shows all jobs again', async () => {
  await terminal.press('6/v7\r');
  expect(await terminal.screen()).toMatch(/1 of 1 job, only "v7"/);
  await terminal.press('1');
  expect(await terminal.screen()).toMatch(/fa_v2_wmma[^]* 5 jobs ─╯/);
  await terminal.press('m');
  const rail = (await terminal.screen()).split('\n');
  const job = rail.findIndex((line) => line.includes(' fa_v2_wmma'));
  await terminal.press(`\u001b[<0;12;${job + 1}M\u001b[<0;12;${job + 1}m`);
  expect([ui().filters.jobs, jobsOf(terminal.store.state)[ui().selected.jobs]?.kernelId]).toEqual(['', 'fa_v2_wmma']);
});

test('the bar of view 6 on a small terminal says that rows can be marked', async () => {
  await terminal.resize(80, 24);
  await terminal.press('6/v7\r\u001b');
  expect((await terminal.screen()).split('\n').at(-1)).toMatch(/space mark {2}/);
});

test("the form's bar names the keys of the field with the cursor", async () => {
  const bar = async () => (await terminal.screen()).split('\n').at(-1);
  await terminal.press('7\r');
  expect(await bar()).toMatch(/field {2}← → value {2}(type a name {2})?Enter run/);
  await terminal.press('\u001b[A'.repeat(20));
  await terminal.press('./mine');
  expect(await bar()).toMatch(/field {2}← → cursor {2}ctrl\+u clear {2}Enter run/);
});

test('with a filter, the keys that change and remove it are in the bar of a small terminal too', async () => {
  await terminal.resize(80, 24);
  await terminal.press('6/v7\r');
  expect((await terminal.screen()).split('\n').at(-1)).toMatch(/\/ filter {2}escape show all/);
});

test('Y copies the whole row of a list, and only the row, however narrow the screen is', async () => {
  await terminal.resize(80, 24);
  await terminal.press('6/fa_v2\rY');
  expect(terminal.copied[0]?.text).toMatch(
    /^11111111 {2}✓ {2}fa_v2_wmma {2}experiment .* all 7 cases pass; every hard gate passes or was not measured\n$/,
  );
  await terminal.resize(160, 40);
  await terminal.press(`7${ESCAPE}`);
  await terminal.press('gY');
  expect(terminal.copied[1]?.text).toMatch(/^fa_v1_baseline .* Scalar attention on shared-memory tiles\n$/);
});

test('/ filters the jobs and the kernels, Enter keeps the filter, Escape shows all rows again', async () => {
  await terminal.press('6/v2\r');
  expect(await terminal.screen()).toMatch(/fa_v2_wmma[^]*only "v2"/);
  await terminal.press(ESCAPE);
  expect([ui().filters.jobs, ui().view]).toEqual(['', 'jobs']);
  await terminal.press('7/flashcore\rj\r');
  expect(ui().overlay).toMatchObject({ kind: 'form', form: { kernel: { kernelId: 'flashcore_v6' } } });
  await terminal.press(ESCAPE);
  await terminal.press(ESCAPE);
  await terminal.press('/nothing of the kind\r');
  expect(await terminal.screen()).toMatch(/No kernel has "nothing of the kind"\. \/ changes/);
  await terminal.press(ESCAPE);
  await terminal.press('/sqrt mean\r');
  expect(await terminal.screen()).toMatch(/No kernel has "sqrt mean", but 1 problem \(t\)\. \/ changes/);
  await terminal.press('t/wmma\r');
  expect(await terminal.screen()).toMatch(/No problem has "wmma", but \d+ kernels? \(t\)\. \/ changes/);
  await terminal.press(`${ESCAPE}`);
  await terminal.press('t');
  await terminal.press(ESCAPE);
  await terminal.press('6t/wmma\r');
  expect(ui().filters.history).toBe('wmma');
  await terminal.press(ESCAPE);
  expect(ui().filters.history).toBe('');
});

test('the help lists every command, finds commands by words, and runs the one under the cursor', async () => {
  await terminal.press('?');
  expect(findCommands('').length).toBe(COMMANDS.length);
  await terminal.press('latency histogram');
  expect(await terminal.screen()).toMatch(/▸ 3 .*Latency: statistics and live histogram/);
  await terminal.press('\r');
  expect([ui().view, ui().overlay]).toEqual(['latency', undefined]);
});

test('a search in the help that matches no key names the shell command that may be meant', async () => {
  await terminal.press('?evol');
  expect(await terminal.screen()).toMatch(/No key matches "evol"\. In a shell there is fa-tui evolve; --help says/);
});

test('the help begins with the commands of the view, and keeps its order while the job changes', async () => {
  await terminal.press('2?');
  const first = findCommands('', { ...terminal.store.state, here: commandsHere(terminal.store.state) });
  expect(first.slice(0, 3).map(({ id }) => id)).toEqual(['into-map', 'next-head', 'previous-head']);
  const rows = async () => (await terminal.screen()).split('\n').slice(4, 12);
  const before = await rows();
  expect(before[1]).toMatch(/▸ enter +In 2: move a cursor over the error map/);
  show(modelledEvents('bank_conflict_32way'));
  expect(await rows()).toEqual(before);
});

test('no help text is cut at 80 columns', async () => {
  await terminal.resize(80, 24);
  await terminal.press('?');
  for (let page = 0; page < 6; page++) {
    expect((await terminal.screen()).split('\n').slice(2)).not.toContainEqual(expect.stringContaining('…'));
    await terminal.press(raw('pagedown'));
  }
});

test('cancelling asks first, and a key other than y cancels nothing', async () => {
  await terminal.press('6/v7\rx');
  expect(await terminal.screen()).toMatch(/Cancel flashcore_v7 [^(]*\(\w{8}\)\? +y yes/);
  await terminal.press('n');
  expect([terminal.runner.cancelled, ui().overlay]).toEqual([[], undefined]);
  await terminal.press('xy');
  expect(terminal.runner.cancelled).toEqual(['jobs/77777777-0000-4000-8000-000000000002']);
});

test.each(['?', 'R', '/'])(
  'Ctrl-Z suspends and Ctrl-L redraws in the prompt of %s, too, and the prompt stays open',
  async (opens) => {
    await terminal.press(`1${opens}`);
    const { overlay } = ui();
    expect(overlay).toBeDefined();
    await terminal.press(raw('ctrl+z'));
    await expect.poll(() => terminal.stopped).toHaveLength(1);
    await terminal.press(raw('ctrl+l'));
    await expect.poll(() => terminal.written().split('\u001b[?1049h').length).toBe(4);
    expect(ui().overlay).toEqual(overlay);
  },
);

test('space marks jobs, and x cancels all of them after one question that gives their number', async () => {
  const { jobs } = terminal.store.state;
  const waiting = ['first', 'second', 'third', 'fourth'].map((label, index) =>
    create(JobSchema, {
      name: `jobs/${label}`,
      label: `${label} PAD=4`,
      kernelId: label,
      state: JobState.QUEUED,
      queuePosition: index + 1,
      owner: 'local',
    }),
  );
  const theirs = create(JobSchema, {
    name: 'jobs/theirs',
    label: 'theirs',
    state: JobState.QUEUED,
    queuePosition: 5,
    owner: 'ada',
  });
  const ended = jobs.filter(({ state }) => state === JobState.ENDED);
  const list = (): void => terminal.store.dispatch({ type: 'jobs', jobs: [...waiting, theirs, ...ended] });
  list();
  await terminal.press('6/first\rA');
  expect(ui().marked).toEqual(['jobs/first']);
  const clear = '\u0015';
  for (const keys of ['/', clear, 'second\rA', '/', clear, '\r']) await terminal.press(keys);
  expect(await terminal.screen()).toMatch(/· # first[^]*· # second[^]*, 2 marked/);
  await terminal.press('x');
  expect(await terminal.screen()).toContain('Cancel 2 marked jobs: first (first), second (second)?');
  await terminal.press('y');
  expect([terminal.runner.cancelled, ui().marked]).toEqual([['jobs/first', 'jobs/second'], []]);
  // Another user's job waits too, but must not be cancelled.
  list();
  const { caller } = create(GetHostResponseSchema, { caller: { name: 'local' } });
  terminal.store.dispatch({ type: 'host', host: terminal.store.state.host!, caller });
  await terminal.press('C');
  expect(await terminal.screen()).toContain(
    'Cancel 4 waiting jobs: first (first), second (second), third (third) and 1 other?',
  );
  await terminal.press('n');
  expect(terminal.runner.cancelled).toHaveLength(2);
});

test('a search typed in one chunk finds and marks matches, and moves to the next one', async () => {
  await terminal.press('1/spill\r');
  expect(ui().log).toMatchObject({ query: 'spill', follow: false });
  expect(await terminal.screen()).toMatch(/\/spill\/ \d\/\d hits/);
  await terminal.press(ESCAPE);
  expect(ui().log.query).toBe('');
});

test('Ctrl-U and text that arrive in one chunk replace the text of a prompt', async () => {
  await terminal.press('7/abc');
  await terminal.press('\u0015fa_v2\r');
  expect(await terminal.screen()).toMatch(/fa_v2_wmma/);
  expect(ui().filters.kernels).toBe('fa_v2');
});

test('the log follows a search during typing, and Escape returns to the position before', async () => {
  await terminal.press('1/ptx');
  expect(ui().log).toMatchObject({ query: 'ptx', follow: false });
  expect(await terminal.screen()).toMatch(/\/ptx\/ (\d+)\/\1 hits/);
  await terminal.press('zzz');
  expect([ui().log.follow, await terminal.screen()]).toEqual([true, expect.stringMatching(/\/ptxzzz\/ no hits/)]);
  await terminal.press(ESCAPE);
  expect(ui().log).toMatchObject({ query: '', follow: true });
  await terminal.press('/Used \\d+ reg\r');
  expect(await terminal.screen()).toMatch(/hits[^]*Used 56 registers|Used 56 registers[^]*hits/);
});

test('copying view 1 takes the whole log without added line breaks, and Y takes the current line', async () => {
  await terminal.press('1yt');
  const lines = terminal.copied[0]!.text.trimEnd().split('\n');
  expect(lines.length).toBe(terminal.store.log.end);
  expect(lines.some((line) => line.length > 120)).toBe(true);
  await terminal.press('Y');
  expect(terminal.copied[1]).toEqual({
    text: `${terminal.store.log.at(terminal.store.log.end - 1)!.text}\n`,
    fileName: 'line.txt',
  });
});

test('the reason why a key does nothing goes with the view that it is about', async () => {
  await terminal.press('1o');
  expect(terminal.store.state.notice?.text).toMatch(/^There is no other finding: /);
  await terminal.press('2');
  expect(terminal.store.state.notice).toBeUndefined();
});

test('a question and its answers are on the screen once', async () => {
  await terminal.press('C');
  expect((await terminal.screen()).match(/y yes +any key no/g)).toHaveLength(1);
  await terminal.press(ESCAPE);
});

test('a search in the help for a command that the form of view 7 runs finds the form', () => {
  const { state } = terminal.store;
  for (const query of ['tune', 'verify'])
    expect(findCommands(query, { ...state, here: [] }).map(({ id }) => id)).toContain('run-kernel');
});

test('PageDown in the help moves by as many rows as the screen shows', async () => {
  await terminal.press('?');
  await terminal.press(raw('pagedown'));
  expect(ui().overlay).toMatchObject({ kind: 'help', selected: 30 });
});

test('a filter that is typed again replaces the one from before; Enter keeps it and Backspace edits it', async () => {
  await terminal.press('7/fa_v1\r/');
  expect(await terminal.screen()).toMatch(/\/fa_v1█ {2}typing replaces it/);
  await terminal.press('v6');
  expect(await terminal.screen()).toMatch(/\/v6█(?! {2}typing)/);
  await terminal.press('\r');
  expect(ui().filters.kernels).toBe('v6');
  await terminal.press('/\r');
  expect(ui().filters.kernels).toBe('v6');
  await terminal.press('/');
  await terminal.press('\u007f');
  expect([ui().filters.kernels, ui().overlay]).toMatchObject(['v', { text: 'v' }]);
});

test('Ctrl-U clears the filter of a list and the search of the log, as in every prompt', async () => {
  await terminal.press('6/v7');
  expect(await terminal.screen()).toMatch(/ctrl\+u clear.*"failures" shows only those/);
  await terminal.press(CTRL_U);
  expect([ui().overlay, ui().filters.jobs]).toMatchObject([{ kind: 'list-filter', text: '' }, '']);
  await terminal.press('\r1/gate');
  await terminal.press(CTRL_U);
  expect(ui().overlay).toMatchObject({ kind: 'search', text: '' });
});

test('every prompt is edited as in a shell: arrows, Ctrl-A, Ctrl-W, Ctrl-U, Delete, Backspace', async () => {
  const text = (): unknown => {
    const overlay = ui().overlay;
    return overlay?.kind === 'help' ? overlay.query : overlay !== undefined && 'text' in overlay && overlay.text;
  };
  for (const open of ['?', '1/', '6/', '7N', 'W']) {
    await terminal.press(open);
    await terminal.press(CTRL_U);
    await terminal.press('abc de');
    await terminal.press(raw('left'));
    await terminal.press('X');
    expect([open, text()]).toEqual([open, 'abc dXe']);
    await terminal.press('\u0017');
    await terminal.press('\u0001');
    await terminal.press('\u001b[3~');
    expect([open, text()]).toEqual([open, 'bc e']);
    expect(await terminal.screen()).toContain('▏bc e');
    await terminal.press(CTRL_U);
    expect([open, text()]).toEqual([open, '']);
    await terminal.press('\u001b');
  }
});

test('leaving an editor without a change is not reported as an edit', async () => {
  await terminal.press('7je');
  expect(terminal.store.state.notice?.text).toMatch(/fa_v2_wmma\.cu was not changed/);
});

test('view 3 of a search names the key for the form of a variant on a narrow screen, too', async () => {
  await enterSearch();
  await terminal.resize(80, 24);
  const { kernelId = '' } = attachedJob(terminal.store.state) ?? {};
  terminal.store.dispatch({ type: 'kernels', kernels: [create(KernelSchema, { kernelId })] });
  await terminal.press('3');
  expect((await terminal.screen()).split('\n').at(-1)).toContain('enter form of variant');
});

test('the message about an edit goes once a job of that kernel starts, or another folder is watched', async () => {
  const folder = kernelWith('id: mine\n');
  const mine = { ...create(KernelSchema, { kernelId: 'mine' }), folder };
  terminal.onEdit(({ file }) => writeFileSync(file, `${file} ${terminal.edited.length}`));
  const listed = (...more: readonly Job[]) =>
    terminal.store.dispatch({ type: 'jobs', jobs: [...more, ...terminal.store.state.jobs] });
  const job = (kernelId: string, name: string) => create(JobSchema, { name, kernelId, state: JobState.QUEUED });
  const said = () => terminal.store.state.notice?.text;
  listed(job('mine', 'jobs/before'));
  await terminal.press('7');
  terminal.store.dispatch({ type: 'kernels', kernels: [mine] });
  await terminal.press('e');
  expect(said()).toBe(`Edited ${folder}/kernel.yaml: r runs it again, W runs every save`);
  listed(job('other', 'jobs/other'));
  expect(said()).toMatch(/^Edited /);
  listed(job('mine', 'jobs/after'));
  expect(said()).toBeUndefined();
  terminal.store.dispatch({ type: 'kernels', kernels: [mine] });
  await terminal.press('e');
  expect(said()).toMatch(/^Edited /);
  terminal.store.dispatch({ type: 'watching', folder });
  expect(said()).toBeUndefined();
  terminal.store.dispatch({ type: 'kernels', kernels: [mine] });
  await terminal.press('e');
  expect(said()).toBe(`Edited ${folder}/kernel.yaml: every save runs`);
});

test('Enter on a kernel opens its form; Enter runs the chosen and typed values, and r repeats them', async () => {
  await terminal.press('7j\r');
  expect(await terminal.screen()).toMatch(/Run fa_v2_wmma[^]*kernel +← fa_v2_wmma →[^]*USE_WMMA +← 1 →/);
  await terminal.press('jjl');
  expect(await terminal.screen()).toMatch(/USE_WMMA +← 0 →[^]*tensor cores; 0: the scalar loop/);
  // Typed character by character, because h, j, k, l and q are text here.
  await terminal.press('j2x8x512x64c, 1x1x65x32');
  expect(await terminal.screen()).toMatch(/shapes +2x8x512x64c, 1x1x65x32█ +typed/);
  await terminal.press('\r');
  expect([terminal.runner.started, ui().overlay, ui().view]).toEqual([['fa_v2_wmma'], undefined, 'run']);
  expect(terminal.runner.requests[0]).toMatchObject({
    variant: { parameters: { USE_WMMA: 0n } },
    verify: { shapes: [{ sequenceLength: 512, causal: true }, { sequenceLength: 65 }] },
  });
  await terminal.press('r');
  expect(terminal.runner.requests[1]).toEqual(terminal.runner.requests[0]);
});

test('r repeats the last form until a job is opened from a list; then it repeats that job', async () => {
  await terminal.press('7jj\r\r');
  await terminal.press('6gjj\r');
  await terminal.press('r');
  expect(terminal.runner.started).toEqual(['flashcore_v5', 'fa_v2_wmma']);
});

test('view 7 shows that a kernel is being run', async () => {
  await terminal.press('7');
  expect(await terminal.screen()).toMatch(/flashcore_v6 +● running/);
});

test('the form names a typed folder in its title and its command line', async () => {
  await terminal.press('7\rk./mine');
  expect(await terminal.screen()).toMatch(/Run \.\/mine[^]*In a shell: fa-tui run \.\/mine/);
});

test('the form shows which fields its command does not take, and which values tune tries', async () => {
  await terminal.press('7j\rh');
  expect(await terminal.screen()).toMatch(
    /phases +← tune →[^]*USE_WMMA +← 1, 0 → +all are tried[^]*not used by tune: plan, [a-z, ]*seeds, [^]*fa-tui tune fa_v2_wmma/,
  );
  await terminal.press('\r');
  expect([terminal.runner.started, terminal.runner.requests[0]]).toEqual([
    ['fa_v2_wmma'],
    expect.objectContaining({ parameters: [], seed: 1 }),
  ]);
});

test('an unsupported shape is refused before the start, and another kernel keeps the typed text', async () => {
  await terminal.press('7gjjj\r');
  await terminal.press('jjjj1x1x64x32\r');
  expect(await terminal.screen()).toMatch(
    /flashcore_v6 cannot run 1x1x64x32: it requires D == 64, because[^]*fix shapes before it can run/,
  );
  expect(terminal.runner.started).toEqual([]);
  await terminal.press(raw('up').repeat(5) + raw('left'));
  expect(await terminal.screen()).toMatch(/Run flashcore_v5[^]*1x1x64x32/);
  await terminal.press('\r');
  expect(terminal.runner.started).toEqual(['flashcore_v5']);
});

test('a view is copied as text, Markdown, data or picture, and the name of the file is shown', async () => {
  await terminal.press('5yt');
  await terminal.press('ymyjys');
  const [text, markdown, json, svg] = terminal.copied;
  expect(text?.text).toMatch(/^ *gate .*value/m);
  expect(markdown?.text).toMatch(/^\*\*5 Gates[^]*\n### Gates\n[^]*\n\| ✓ Registers\/thread \| pass \|/);
  expect((JSON.parse(json?.text ?? '') as { gateId: string }[]).length).toBeGreaterThan(3);
  expect(svg?.text).toMatch(/^<svg [^]*<text [^]*<\/svg>\n$/);
  expect(terminal.copied.map(({ fileName }) => fileName)).toEqual(['gates.txt', 'gates.md', 'gates.json', 'gates.svg']);
  expect(await terminal.screen()).toMatch(/it is in \/tmp\/gates\.svg/);
});

test('the key e opens the source at the place that the job points to, or in view 7 the source of the selected kernel, and then redraws the screen', async () => {
  const before = await terminal.screen();
  await terminal.press('e');
  await terminal.press('7je');
  await terminal.press('1');
  const kernels = fileURLToPath(new URL('../../../../kernels/', import.meta.url));
  expect(terminal.edited).toEqual([
    { file: `${kernels}flashcore_v6/flashcore_v6.cu`, line: 87, column: 9 },
    { file: `${kernels}fa_v2_wmma/fa_v2_wmma.cu`, line: 0, column: 0 },
  ]);
  expect(terminal.written().split('\u001b[?1049h').length).toBe(4);
  expect((await terminal.screen()).split('\n').slice(0, -2)).toEqual(before.split('\n').slice(0, -2));
});

test("the key e asks before it opens a file that differs from an older job's source, and offers the job's copy", async () => {
  const text = Buffer.from('// as it was');
  const source = create(ArtifactSchema, {
    ...{ kind: ArtifactKind.SOURCE, fileName: 'flashcore_v9.cu', sha256: sha256Of(text) },
  });
  terminal.runner.artifacts.set(source.sha256, text);
  const events = measuredEvents('flashcore_v9');
  const built = events.findIndex(({ payload }) => payload.case === 'buildResult');
  const { payload } = events[built]!;
  if (payload.case !== 'buildResult') throw new Error('no build');
  const value = { ...payload.value, artifacts: [source] };
  show([...events.slice(0, built), { ...events[built]!, payload: { ...payload, value } }]);
  const newer = create(JobSchema, { name: 'jobs/newer', kernelId: 'flashcore_v9', state: JobState.ENDED });
  terminal.store.dispatch({ type: 'jobs', jobs: [newer, ...terminal.store.state.jobs] });
  await terminal.press('1e');
  expect(await terminal.screen()).toMatch(
    /flashcore_v9\.cu differs from this job's source\. {2}y edit it {2}c the job's copy {2}any key neither/,
  );
  await terminal.press('n');
  expect(terminal.edited).toEqual([]);
  await terminal.press('e');
  await terminal.screen();
  await terminal.press('c');
  expect(terminal.edited[0]?.file).toMatch(/fa-tui-read-only-copy-\w+\/flashcore_v9\.cu$/);
  await terminal.press('e');
  await terminal.screen();
  await terminal.press('y');
  expect(terminal.edited[1]?.file).toMatch(/kernels\/flashcore_v9\/flashcore_v9\.cu$/);
});

test('the key e in view 4 opens the hottest line, and next to the PTX it opens the line under the cursor', async () => {
  await enterScene(terminal, { ...VIEW_SCENES['profile-ptx']!, keys: '4He' });
  const hottest = terminal.edited[0]!;
  expect((await terminal.screen()).includes(`▸ ${hottest.line} `)).toBe(true);
  await terminal.press('ijje');
  const listed = /▸ +(\d+) /.exec(await terminal.screen())?.[1];
  expect(listed).not.toBe(String(hottest.line));
  expect(terminal.edited[1]).toEqual({ ...hottest, line: Number(listed) });
});

const pasted = (text: string): string => `\u001b[200~${text}\u001b[201~`;

test('pasted text never runs as keys: without a prompt it is refused', async () => {
  await terminal.press(pasted('q\n6e:'));
  expect([terminal.left(), ui().view, ui().overlay, terminal.edited]).toEqual([false, 'run', undefined, []]);
  expect(terminal.store.state.notice?.text).toMatch(/^Ignored the pasted text: no prompt is open/);
});

test('pasted text is typed into the open prompt as one line', async () => {
  await terminal.press('/');
  await terminal.press(pasted('\n first line\r\n\tsecond\u0007 q\n'));
  expect(ui().overlay).toMatchObject({ kind: 'search', text: 'first line second q' });
});

test('the command log has the command line for everything that keys started, cancelled or decided', async () => {
  await terminal.press('@');
  expect(await terminal.screen()).toMatch(/Command log[^]*No key has started/);
  await terminal.press(ESCAPE);
  await terminal.press('7j\rjjl\r');
  await terminal.press('6/v7\rxy');
  for (const keys of ['W', CTRL_U, '~', '\u0014', '\r']) await terminal.press(keys);
  expect(terminal.store.state.commandLog.map(({ text }) => text)).toEqual([
    'fa-tui run fa_v2_wmma --set USE_WMMA=0',
    'fa-tui cancel 77777777',
    `fa-tui watch-source ${shellWord(homedir())} --quick`,
  ]);
  await terminal.resize(240, 60);
  expect(await terminal.screen()).toMatch(/@ command log/);
  await terminal.press('@ky');
  expect([terminal.copied[0]?.text, ui().overlay]).toEqual(['fa-tui cancel 77777777\n', undefined]);
});

test('a question is not answered by pasted text', async () => {
  await terminal.press('6/v7\r');
  await terminal.press('x');
  expect(ui().overlay?.kind).toBe('confirm');
  await terminal.press(pasted('y'));
  expect(ui().overlay?.kind).toBe('confirm');
});

test('click and wheel move the cursor while the mouse is on, and leaving turns the mouse off', async () => {
  const click = (column: number, row: number): string => `\u001b[<0;${column};${row}M\u001b[<0;${column};${row}m`;
  await terminal.press(click(30, 2));
  expect(ui().view).toBe('run');
  await terminal.press('m');
  const tabs = (await terminal.screen()).split('\n')[1]!;
  await terminal.press(click(tabs.indexOf('7 Kernels') + 2, 2));
  expect(ui().view).toBe('kernels');
  const lines = (await terminal.screen()).split('\n');
  const row = lines.findIndex((line) => line.includes('  flashcore_v5 '));
  await terminal.press(click(lines[row]!.indexOf('flashcore_v5') + 1, row + 1));
  expect(ui().selected.kernels).toBe(2);
  await terminal.press('\u001b[<64;50;10M');
  expect([ui().view, ui().selected.kernels]).toEqual(['kernels', 0]);
  // A click on a job in the rail selects the job in view 6, whatever list view 6 showed before.
  await terminal.press('6t7');
  const rail = (await terminal.screen()).split('\n');
  const job = rail.findIndex((line) => line.includes(' fa_v2_wmma'));
  await terminal.press(click(12, job + 1));
  expect([ui().view, ui().jobList, jobsOf(terminal.store.state)[ui().selected.jobs]?.kernelId]).toEqual([
    ...['jobs', 'jobs', 'fa_v2_wmma'],
  ]);
  await terminal.press('q');
  expect(terminal.written().lastIndexOf('\u001b[?1000l')).toBeGreaterThan(
    terminal.written().lastIndexOf('\u001b[?1000h'),
  );
});

test('the prompt of W completes paths with Tab, and Ctrl-T in it chooses to run the smallest case first', async () => {
  await terminal.press('W');
  await terminal.press(CTRL_U);
  await terminal.press(`${process.cwd()}/app`);
  await terminal.press('\t');
  expect(ui().overlay).toMatchObject({ kind: 'watch-folder', text: `${process.cwd()}/apps/`, quick: false });
  await terminal.press('\u0014');
  expect(ui().overlay).toMatchObject({ quick: true });
  expect(await terminal.screen()).toMatch(/smallest case first: on/);
});

test('the prompt of W expands ~ to the home folder, and reports a missing folder while keeping the typed text', async () => {
  await terminal.press('W');
  await terminal.press(CTRL_U);
  await terminal.press('~/no such folder\r');
  expect(await terminal.screen()).toMatch(/folder to watch: ~\/no such folder█ +no such folder$/m);
  expect(terminal.store.state.watching).toBeUndefined();
  await terminal.press('x');
  expect(await terminal.screen()).not.toMatch(/█ +no such folder/);
  await terminal.press(CTRL_U);
  await terminal.press('~\r');
  expect([ui().overlay, terminal.store.state.watching?.folder]).toEqual([undefined, homedir()]);
  await terminal.press('W');
  expect([terminal.store.state.watching, terminal.store.state.notice?.text]).toEqual([
    undefined,
    `Stopped watching ${homedir()}`,
  ]);
});

test('leaving cancels nothing and restores the terminal', async () => {
  await terminal.press('q');
  expect([terminal.left(), terminal.runner.cancelled]).toEqual([true, []]);
  expect(terminal.written()).toMatch(/\u001b\[\?1049h/);
  expect(terminal.written().slice(terminal.written().lastIndexOf('\u001b[?1049l'))).toMatch(/\u001b\[\?25h/);
});

test('Ctrl-C closes an open prompt, and without one leaves', async () => {
  for (const keys of ['/abc', '7\r', '?', 'W', '6/v7', '7gN']) {
    await terminal.press(`1${ESCAPE}`);
    await terminal.press(keys);
    await terminal.press(raw('ctrl+c'));
    expect([terminal.left(), ui().overlay], keys).toEqual([false, undefined]);
  }
  await terminal.press(raw('ctrl+c'));
  expect(terminal.left()).toBe(true);
});

test('in the form, Ctrl-U clears a typed field, and a field that takes no text says so', async () => {
  await terminal.press('7j\r');
  await terminal.press('jjj2x8x512x64c');
  await terminal.press(CTRL_U);
  expect(await terminal.screen()).toMatch(/▸ shapes +← verify parity, time canonical →/);
  await terminal.press(raw('down'));
  await terminal.press('z');
  expect(terminal.store.state.notice?.text).toMatch(/ takes only its choices: ← → change it$/);
});

test('p is offered in view 3 only where there is a plot, which three samples are too few for', async () => {
  const withSamples = (samples: number) =>
    sampleEvents().map((event): JobEvent => {
      const { payload } = event;
      if (payload.case !== 'benchmarkProgress' && payload.case !== 'benchmarkResult') return event;
      const { latency } = payload.value;
      return {
        ...event,
        payload: {
          ...payload,
          value: { ...payload.value, ...(latency && { latency: { ...latency, samples } }) },
        } as typeof payload,
      };
    });
  const bar = async () => (await terminal.screen()).split('\n').at(-1);
  const open = async (samples: number): Promise<void> => {
    terminal.close();
    terminal = openTerminal({ columns: 120, rows: 40 });
    await terminal.screen();
    show(withSamples(samples));
    await terminal.press('3');
  };
  await open(200);
  await expect.poll(bar).toMatch(/p plot/);
  await open(3);
  await expect.poll(() => terminal.screen()).toMatch(/3 samples, .*: a distribution needs 5/);
  expect(await bar()).not.toMatch(/p plot/);
  await terminal.press('p');
  expect([ui().distribution, terminal.store.state.notice?.text]).toEqual([
    'both',
    '3 shows the plots of a measurement once it has 5 samples; there p changes them',
  ]);
});

test('the message of a refused decision disappears when the view changes', async () => {
  await terminal.press('1a');
  expect(terminal.store.state.notice?.text).toMatch(/^Cannot accept /);
  await terminal.press(RAW.right!);
  expect([ui().view, terminal.store.state.notice]).toEqual(['correct', undefined]);
});

test('a key of the log, pressed in another view, points to view 1; without a job it says that there is no log', async () => {
  const said = () => terminal.store.state.notice?.text;
  for (const key of ['E', 'f']) {
    await terminal.press(`7gj${key}`);
    expect(said()).toBe('1 shows the log; this key works there');
    await terminal.press('1');
    expect(said()).toBeUndefined();
  }
  terminal.close();
  terminal = openTerminal({ columns: 120, rows: 40 });
  await terminal.press('E');
  expect(said()).toBe('There is no log: no job is shown');
});

test('the message that the log has no error goes once it gets one', async () => {
  const job = 'jobs/44444444-0000-4000-8000-000000000004';
  const [first] = sampleEvents();
  terminal.store.dispatch({ type: 'job-event', event: { ...first!, job } });
  terminal.store.dispatch({ type: 'attach', job });
  await terminal.press('1E');
  const said = () => terminal.store.state.notice?.text;
  expect(said()).toBe('The log has no error');
  const payload = { case: 'finding', value: { message: 'a race' } } as const;
  const event = create(JobEventSchema, { job, sequence: first!.sequence + 1n, payload });
  terminal.store.dispatch({ type: 'job-event', event });
  terminal.store.dispatch({ type: 'tick', now: terminal.store.state.now + 1 });
  expect(said()).toBeUndefined();
});

test('the message about a pinned job goes when another view or job is shown', async () => {
  await terminal.press('1b');
  expect(terminal.store.state.notice?.text).toMatch(/^Pinned: /);
  await terminal.press('3');
  expect(terminal.store.state.notice).toBeUndefined();
});

test('the key t in view 7 shows the problems; Enter opens a definition, and Enter in the definition opens the form of a kernel', async () => {
  await terminal.press('7');
  await terminal.press('t');
  await expect.poll(() => terminal.screen()).toMatch(/7 Problems [^]*▸ broken[^]*✗ problems\/broken\/problem.yaml:3/);
  await terminal.press('/');
  await terminal.press('mean');
  await terminal.press(raw('enter'));
  expect(await terminal.screen()).toMatch(/▸ my_norm +rows N groups .* 4 +1 /);
  await terminal.press(raw('enter'));
  expect(await terminal.screen()).toMatch(/7 Problem my_norm [^]*groups +1 +groups of columns[^]*G +in +\[rows, N\]/);
  expect(await terminal.screen()).toMatch(/Not run yet, so not among the kernels: my_norm_v1/);
  // The only kernel of the problem is in a folder that this session does not read.
  await terminal.press(raw('enter'));
  expect(terminal.store.state.ui.overlay).toBeUndefined();
  const kernel = create(KernelSchema, { kernelId: 'norm', problem: 'my_norm' });
  terminal.store.dispatch({ type: 'kernels', kernels: [kernel] });
  await terminal.press(raw('enter'));
  await expect
    .poll(() => terminal.screen())
    .toMatch(/Run norm [^]*shapes [^]*cases +← parity → +default, 1 of 2[^]*fa-tui run norm/);
  await terminal.press(raw('right'));
  await terminal.press(ESCAPE);
  await terminal.press(ESCAPE);
  expect(await terminal.screen()).toMatch(/7 Problems .*\n[^]*▸ my_norm/);
  await terminal.press('7');
  expect(await terminal.screen()).toMatch(/7 Kernels .*\n[^]*▸ norm/);
});
