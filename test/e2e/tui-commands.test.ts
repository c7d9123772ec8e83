/**
 * Presses the first key of every command of fa-tui's table in a real pseudo-terminal, with a real runner on the
 * emulator. A command that has no step here fails the test. keys.test.tsx presses all keys, without a runner.
 */
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { COMMANDS } from '@flashcore/fa-tui/commands';
import { Terminal } from '@flashcore/tools/terminal';
import { waitFor } from '@flashcore/shared/testing';
import { ownersKernels } from '@flashcore/runner/testing-daemon';
import { Home, ROOT } from '../support/home.ts';

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
  delete: `${ESCAPE}[3~`,
};
const raw = (key: string): string =>
  RAW[key] ?? (key.startsWith('ctrl+') ? String.fromCharCode(key.charCodeAt(5) & 0x1f) : key);

interface Step {
  /** The command's key; absent: the first one of the table. */
  readonly key?: string;
  /** Keys to press before the command's key, starting in view 1. */
  readonly first?: string;
  /** A text that the screen shows only after the key. */
  readonly shows: RegExp | ((screen: string) => boolean);
  /**
   * A text that the screen shows once the keys before the command's have worked; absent: the test waits until the
   * screen stops changing.
   */
  readonly ready?: RegExp;
  /** Keys to press after the command's, so that the next step starts from an unchanged view 1. */
  readonly undo?: string;
}

const view = (number: number, name: string): Step => ({
  first: number === 1 ? '2' : '1',
  ready: number === 1 ? /\[2 Correct\]/ : /\[1 Run\]/,
  shows: new RegExp(`\\[${number} ${name}\\]`),
});

/** Whether the cursor's row of view 5, right of the rail, has changed. */
const cursorAway =
  (from: RegExp) =>
  (screen: string): boolean =>
    !from.test(
      screen
        .split('\n')
        .map((line) => line.split('││').at(-1) ?? '')
        .find((line) => line.includes('▸ ')) ?? '',
    );

const STEPS: Record<string, Step> = {
  'show-run': view(1, 'Run'),
  'show-correct': view(2, 'Correct'),
  'show-latency': view(3, 'Latency'),
  'show-profile': view(4, 'Profile'),
  'show-gates': view(5, 'Gates'),
  'show-jobs': view(6, 'Jobs'),
  'show-kernels': view(7, 'Kernels'),
  'show-host': view(8, 'Host'),
  problems: { first: '7', shows: /7 Problems/, undo: 't' },
  'show-problem': { first: '7tg', ready: /7 Problems/, shows: /7 Problem attention/, undo: `${ESCAPE}t` },
  'leave-problem': { first: '7tg\r', ready: /7 Problem attention/, shows: /7 Problems/, undo: 't' },
  'run-problem': {
    first: '7tg\r',
    ready: /7 Problem attention/,
    shows: /Enter runs, Esc closes/,
    undo: `${ESCAPE}${ESCAPE}t`,
  },
  'into-map': { first: '2', shows: /Esc leaves the map/, undo: ESCAPE },
  'map-left': { first: '2\rllllllllhhhh', shows: /▸ s\d+\.\.\d+ d16\.\.23/, undo: ESCAPE },
  'map-right': { first: '2\rhhhhhhhhll', shows: /▸ s\d+\.\.\d+ d24\.\.31/, undo: ESCAPE },
  'leave-map': { first: '2\r', shows: /row 1 of \d+ ─/ },
  // Tab goes into the rail of jobs if there is one.
  'next-view': { key: 'l', first: '1', shows: /\[2 Correct\]/ },
  'previous-view': { first: '1', shows: /\[8 Host\]/ },
  zoom: { first: '2', ready: /\[2 Correct\][^]*─ Jobs/, shows: (screen) => !/─ Jobs/.test(screen), undo: '+' },
  'next-variant': { first: '5', shows: /5 Gates {2}USE_WMMA=0/, undo: 'v' },
  distribution: { first: '3G', ready: /100 %/, shows: (screen) => !/100 %/.test(screen), undo: 'pp' },
  // The comparison starts with the sources, because the two jobs timed different shapes.
  'next-comparison-page': {
    first: '6gjjb6kc',
    ready: /latency figures \[source\]/,
    shows: /\[latency\] figures source/,
    undo: 'ddc',
  },
  up: { first: '5gj', shows: /▸ . Register spills/ },
  down: { first: '5g', ready: /▸ . Register spills/, shows: cursorAway(/Register spills/), undo: 'g' },
  'half-page-up': { first: '5G', ready: /▸ . Achieved occupancy/, shows: cursorAway(/Achieved occupancy/), undo: 'g' },
  'half-page-down': { first: '5g', ready: /▸ . Register spills/, shows: cursorAway(/Register spills/), undo: 'g' },
  'page-up': { first: '5G', ready: /▸ . Achieved occupancy/, shows: cursorAway(/Achieved occupancy/), undo: 'g' },
  'page-down': { first: '5g', ready: /▸ . Register spills/, shows: cursorAway(/Register spills/), undo: 'g' },
  'detail-down': { first: '3G', shows: /page 2 of \d/, undo: 'K' },
  'detail-up': { first: '3G', shows: /page ([2-9]) of \1,/, undo: 'J' },
  first: { first: '5G', shows: /▸ . Register spills/ },
  last: { first: '5g', shows: /▸ . Achieved occupancy/, undo: 'g' },
  search: { first: '1', shows: /\n \/█/, undo: ESCAPE },
  'next-match': { first: '1/gate\rg', shows: /hits {2}at line (?!1 of)\d+ of/, undo: `${ESCAPE}f` },
  'previous-match': { first: '1/gate\rG', shows: /hits {2}at line \d+ of/, undo: `${ESCAPE}f` },
  filter: { first: '1/gate\r', shows: /hits, only these/, undo: `&${ESCAPE}f` },
  'clear-search': {
    first: '1/gate\r',
    ready: /\/gate\/ \d+\/\d+ hits/,
    shows: (screen) => !/\/gate\/ \d+\/\d+ hits/.test(screen),
    undo: 'f',
  },
  'next-error': { first: '1', shows: /The log has no error|f follows/, undo: 'G' },
  follow: { first: '1', shows: /f follows/, undo: 'f' },
  wrap: { first: '1', shows: (screen) => /│ \d\d:\d\d:\d\d.*…/.test(screen), undo: 'w' },
  'log-left': { first: '1>>', shows: /from column 21,/, undo: 'w' },
  'log-right': { first: '1', shows: /from column 21,/, undo: 'w' },
  // Needs a failing case, so it is tested below, in the job with two variants.
  'next-head': { first: '2', shows: /batch 0 head 0/, undo: '[' },
  'previous-head': { first: '2', shows: /batch 0 head 1/, undo: ']' },
  'show-job': { first: '6gjj', shows: /\[1 Run\][^]*1 Run {2}fa_v1_baseline/, undo: '6k\r' },
  'older-job': { first: '1', shows: /1 Run {2}fa_v1_baseline/, undo: '{' },
  'newer-job': { first: '1', shows: /1 Run {2}toggled/, undo: '}' },
  'into-rail': { first: '1', shows: /back to view/, undo: ESCAPE },
  'leave-rail': { first: '1\t', ready: /back to view/, shows: (screen) => !screen.includes('back to view') },
  // The first row is the folder that was run.
  'run-kernel': { first: '7gjj', shows: /─ Run fa_v2_wmma/, undo: ESCAPE },
  'new-kernel': { first: '7', ready: /\[7 Kernels\]/, shows: /name of your copy of /, undo: ESCAPE },
  rerun: { first: '1', shows: /● running|· queued/ },
  'change-form': { first: '1', shows: /─ Run flashcore_v6/, undo: ESCAPE },
  // Cancels the job that rerun started.
  cancel: { ready: /● running/, shows: /Cancel flashcore_v6[^\n]*\?/, undo: 'y' },
  pin: { first: '6gj', shows: /Pinned: flashcore_v6/ },
  compare: { first: '6gjjb6k', shows: /against the pinned job/, undo: 'c' },
  'watch-folder': { first: '1', shows: /folder to watch: .*kernels\/flashcore_v6█/, undo: ESCAPE },
  // The gate requires all parity cases; here only one small shape was verified.
  accept: { first: '1', shows: /Cannot accept flashcore_v6[^]*not ranked: cases other than the plan's/ },
  reject: { first: '1', shows: /Reject \w{8}: flashcore_v6/, undo: ESCAPE },
  undo: { first: '1', shows: /Cannot undo flashcore_v6[^]*neither accepted nor rejected/ },
  'sort-list': { first: '6t', shows: /by latency/, undo: 'tt' },
  'filter-list': { first: '6', shows: /\n \/█/, undo: ESCAPE },
  'clear-filter': { first: '6/v6\r', ready: /only "v6"/, shows: (screen) => !/only "v6"/.test(screen) },
  history: { first: '6', shows: /6 History/, undo: 'tt' },
  faulty: { first: '7', shows: /faulty ones too/, undo: 'F' },
  'open-notes': {
    first: '7',
    ready: /\[7 Kernels\]/,
    shows: /is a read-only copy of the notes of |Opened [^]*NOTES\.md/,
  },
  'edit-source': { first: '1', shows: /Edited |was not changed|is a copy of what the runner compiled/ },
  copy: { first: '5', shows: /t text {2}m Markdown/, undo: ESCAPE },
  'copy-line': { first: '5', shows: /it is in \S*line\.txt|clipboard/ },
  'command-log': { first: '5', shows: /─ Command log/, undo: ESCAPE },
  'lab-log': { first: '5', shows: /─ Lab log/, undo: ESCAPE },
  mouse: { first: '5', shows: /Mouse on/, undo: 'm' },
  help: { first: '1', shows: /search: █/, undo: ESCAPE },
};

// These commands add a job, so they have a test of their own: a test that runs a second time finds the same jobs.
const ADDING = ['rerun', 'cancel'];
// Commands that are tested in lent-terminal.test.ts, tui.test.ts or fa-tui's keys.test.tsx. The emulator's leaderboard
// has no places.
const WITHOUT_STEP = [
  ...['leave', 'redraw', 'suspend', 'next-place', 'next-finding', 'hottest-line'],
  ...[
    'fix-manifest',
    'run-variant',
    'mark-job',
    'mark-all',
    'clear-marks',
    'cancel-waiting',
    'instructions',
    'leave-instructions',
  ],
];
// Tested separately in this file.
const APART = [...WITHOUT_STEP, ...ADDING, 'next-variant', 'next-head', 'previous-head'];
const IN_ORDER = COMMANDS.filter(({ id }) => !APART.includes(id));

const home = new Home();
// copy-line writes a file that the user keeps.
Object.assign(home.env, { TMPDIR: home.path });
const recordingOfTwo = join(home.path, 'toggled.jsonl');

// This kernel is wrong with USE_WMMA=1, so USE_WMMA=0 is run too.
const TOGGLED = {
  'kernel.yaml': `id: toggled
title: Wrong with USE_WMMA
lesson: "a fixture of this test"
source: toggled.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
limits: [{ require: "D == 64", because: "rows have 64 elements" }]
parameters: { USE_WMMA: { values: [1, 0], default: 1, about: "1: wrong" } }
launches:
  - { entry: toggled, grid: ["ceil(S / 64)", "B * H", 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }
`,
  'toggled.cu': `#include "faulty/attend_row.cuh"
ROW_KERNEL(toggled) {
  RowState state = attended(row);
  if (USE_WMMA) state.row_sum *= 2.0f;
  store_row(row.O, state);
}
`,
};

beforeAll(async () => {
  const small = ['--seeds', '1', '--shape', '1x2x64x64', '--samples', '40', '--max-seconds', '10'];
  // The cases of a ranked run would take the emulator a minute, so this runner's owner uses small cases.
  const { process: owners } = await home.startDaemonAt('127.0.0.1:0', '--kernels', ownersKernels(home.path));
  expect(home.faTui(['run', 'fa_v1_baseline'])).toMatchObject({ exitCode: 0 });
  owners.kill();
  await once(owners, 'exit');
  expect(home.faTui(['run', 'flashcore_v6', ...small])).toMatchObject({ exitCode: 0 });
  mkdirSync(join(home.path, 'toggled'));
  for (const [name, text] of Object.entries(TOGGLED)) writeFileSync(join(home.path, 'toggled', name), text);
  expect(home.faTui(['run', join(home.path, 'toggled'), ...small, '--record', recordingOfTwo])).toMatchObject({
    exitCode: 1,
  });
}, 180_000);
afterAll(() => home[Symbol.asyncDispose]());

const open = (args: string[], of = home): Terminal =>
  new Terminal(join(ROOT, 'node_modules/.bin/fa-tui'), args, {
    columns: 120,
    rows: 40,
    cwd: ROOT,
    env: { ...of.env, EDITOR: 'true', VISUAL: 'true' },
  });

const QUIET_MS = 50;

/** Waits until nothing was written for a while, and returns the screen. */
async function settle(terminal: Terminal): Promise<string> {
  for (let seen = -1; seen !== terminal.output.length;) {
    seen = terminal.output.length;
    // eslint-disable-next-line flashcore/no-fixed-wait -- only time shows that nothing more is drawn
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  }
  return terminal.text();
}

const ANSWERED_WITHIN_MS = 500;
// Nothing is drawn if a key leads to the current view.
const BROUGHT_WITHIN_MS = 200;

/** Waits, for at most this many milliseconds, until something was written after `length` characters. */
async function answered(terminal: Terminal, length: number, milliseconds: number): Promise<void> {
  await waitFor('an answer', () => terminal.output.length !== length || undefined, milliseconds).catch(() => undefined);
}

/**
 * Types one key at a time. Escape is distinguished from an escape sequence by a pause, so the next key waits until
 * something was drawn for it.
 */
async function typeAll(terminal: Terminal, keys: string): Promise<void> {
  for (const key of keys.match(/\u001b\[[\d;]*[A-Za-z~]|\u001b|[^\u001b]+/g) ?? []) {
    const before = terminal.output.length;
    terminal.type(key);
    if (key !== ESCAPE) continue;
    await answered(terminal, before, ANSWERED_WITHIN_MS);
    await settle(terminal);
  }
}

const SHOWN_WITHIN_MS = 30_000;

/** Presses one key. Returns what went wrong, or undefined. */
async function press(
  terminal: Terminal,
  key: string,
  { first = '', ready, shows, undo = '' }: Step,
): Promise<string | undefined> {
  const isShown = (screen: string): boolean => (typeof shows === 'function' ? shows(screen) : shows.test(screen));
  const { length } = terminal.output;
  await typeAll(terminal, first);
  if (first !== '') await answered(terminal, length, BROUGHT_WITHIN_MS);
  if (ready !== undefined) await terminal.waitFor(ready);
  const before = await settle(terminal);
  await typeAll(terminal, raw(key));
  await waitFor('the step', () => isShown(terminal.text()) || undefined, SHOWN_WITHIN_MS).catch(() => undefined);
  const after = terminal.text();
  await typeAll(terminal, `${undo}1`);
  await settle(terminal);
  if (isShown(before)) return `what ${key} is to show was there before it was pressed:\n${before}`;
  return isShown(after) ? undefined : `${key} did not show ${String(shows)}; before:\n${before}\nafter:\n${after}`;
}

/** Presses keys one after another. Returns what went wrong, with the command. */
async function walk(
  terminal: Terminal,
  keys: readonly { readonly id: string; readonly key: string }[],
): Promise<string[]> {
  const problems: string[] = [];
  for (const { id, key } of keys) {
    const problem = await press(terminal, STEPS[id]!.key ?? key, STEPS[id]!);
    if (problem !== undefined) problems.push(`${id}: ${problem}`);
  }
  return problems;
}

const keysOf = (id: string): readonly string[] => COMMANDS.find((command) => command.id === id)!.keys;

test('every command of the table has a step here', () => {
  expect(COMMANDS.map(({ id }) => id).filter((id) => STEPS[id] === undefined && !WITHOUT_STEP.includes(id))).toEqual(
    [],
  );
  expect(Object.keys(STEPS).filter((id) => !COMMANDS.some((command) => command.id === id))).toEqual([]);
});

test.concurrent(
  'every command works by its first key, with a runner',
  async () => {
    const terminal = open([]);
    try {
      // The newest job has two variants; select the one before it.
      await terminal.waitFor(/1 Run {2}toggled[^]*following/);
      await typeAll(terminal, '6gj\r');
      await terminal.waitFor(/1 Run {2}flashcore_v6[^]*following/);
      expect(
        await walk(
          terminal,
          IN_ORDER.map(({ id, keys }) => ({ id, key: keys[0] ?? '' })),
        ),
      ).toEqual([]);
      terminal.type('q');
      expect(await terminal.exit).toBe(0);
    } finally {
      terminal.kill('SIGKILL');
    }
  },
  180_000,
);

test('r runs the job on the screen again, and x cancels the new job', async () => {
  const terminal = open([]);
  try {
    await terminal.waitFor(/\[1 Run\][^]*following/);
    await typeAll(terminal, '6/v6\r');
    await terminal.waitFor(/only "v6"/);
    await typeAll(terminal, 'g\r');
    await terminal.waitFor(/1 Run {2}flashcore_v6[^]*following/);
    expect(
      await walk(
        terminal,
        ADDING.map((id) => ({ id, key: keysOf(id)[0]! })),
      ),
    ).toEqual([]);
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
}, 120_000);

test("a accepts the result on the screen with a note, u undoes it, X rejects it, and the runner's audit trail has all three decisions", async () => {
  // In a separate home, because the owner's rules must not change between the run and its acceptance.
  await using own = new Home();
  await own.startDaemonAt('127.0.0.1:0', '--kernels', ownersKernels(own.path));
  expect(own.faTui(['run', 'fa_v1_baseline'])).toMatchObject({ exitCode: 0 });
  const terminal = open([], own);
  try {
    await terminal.waitFor(/1 Run[^]*following/);
    terminal.type('a');
    await terminal.waitFor(/Accept \w{8}: fa_v1_baseline[^]*There is no champion yet/);
    terminal.type('first champion\r');
    // The answer shows a moment before the dialog closes; keys typed in between would go into its note.
    await terminal.waitFor(
      /^(?![^]*There is no champion yet)[^]*accepted by local[^]*first champion[^]*Accepted: fa_v1_baseline \(\w{8}\) is the champion/,
    );
    terminal.type('u');
    await terminal.waitFor(/Undoes the decision \(accepted by local/);
    terminal.type('\r');
    await terminal.waitFor(/^(?![^]*Undoes the decision)[^]*Undone for fa_v1_baseline/);
    terminal.type('X');
    await terminal.waitFor(/Reject \w{8}: fa_v1_baseline/);
    terminal.type('no better\r');
    await terminal.waitFor(/rejected by local[^]*Rejected: fa_v1_baseline/);
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
  const { decisions } = JSON.parse(own.faTui(['champions', '--trail', '--json']).stdout) as {
    decisions: { kind: string; note?: string }[];
  };
  expect(decisions.map(({ kind, note = '' }) => `${kind} ${note}`.trim())).toEqual([
    'DECISION_KIND_REJECTED no better',
    'DECISION_KIND_UNDONE',
    'DECISION_KIND_ACCEPTED first champion',
  ]);
}, 120_000);

test.concurrent(
  'on a recorded job with two variants v shows the other one, commands work without a runner, and Ctrl-C leaves',
  async () => {
    const terminal = open(['replay', recordingOfTwo, '--speed', '0']);
    try {
      await terminal.waitFor(/1 Run {2}toggled[^]*wrong result/);
      const keys = [
        { id: 'next-head', key: ']' },
        { id: 'previous-head', key: '[' },
        { id: 'next-variant', key: 'v' },
        ...['next-view', 'search', 'copy', 'command-log', 'help'].map((id) => ({ id, key: keysOf(id).at(-1)! })),
      ];
      expect(await walk(terminal, keys)).toEqual([]);
      terminal.type('\u0003');
      expect(await terminal.exit).toBe(0);
    } finally {
      terminal.kill('SIGKILL');
    }
  },
  60_000,
);
