import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  GetJobResponseSchema,
  ListChampionsResponseSchema,
  ListJobsResponseSchema,
  Outcome,
  type JobEvent,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../present/cells/row.ts';
import { compareHeadRows, comparePane } from '../screens/pinned/pinned-pages.ts';
import { Store } from '../session/store.ts';
import { initialState, type ComparePage } from '../state/app-state.ts';
import { samplesOf } from '../state/pinned.ts';
import { measuredEvents, measuredJob } from '../testing/measured-job.ts';
import { compare } from './compare.ts';
import { CommandContext } from './context.ts';
import { ExitCode } from '../exit-code.ts';

const [V10, V9] = [measuredJob('flashcore_v10'), measuredJob('flashcore_v9')];
const NAMES = [V10.job!.name, V9.job!.name] as const;
const EVENTS: Record<string, JobEvent[]> = {
  [NAMES[0]]: measuredEvents('flashcore_v10'),
  [NAMES[1]]: measuredEvents('flashcore_v9'),
};

/** Samples computed from the digest, because stored results do not contain samples. */
function artifact(sha256: string): Buffer {
  const middle = 5 + Number.parseInt(sha256.slice(0, 4), 16) / 65_536;
  return Buffer.from(Float32Array.from({ length: 101 }, (_, index) => middle + (index - 50) / 100).buffer);
}

const champion = {
  job: NAMES[1],
  kernelId: 'flashcore_v10',
  deviceName: V10.result!.provenance!.device!.name,
  protocol: V10.result!.provenance!.protocol,
  dtype: V10.result!.provenance!.dtype,
  shapes: V10.result!.variants[0]!.benchmarks.flatMap(({ shape }) => shape ?? []),
};

async function compared(other: string, { json = false, champions = [champion], first = NAMES[0] } = {}) {
  const text = { stdout: '', stderr: '' };
  const stream = (name: keyof typeof text) => ({ write: (piece: string) => void (text[name] += piece) });
  const context = new CommandContext(
    { stdin: {}, stdout: stream('stdout'), stderr: stream('stderr'), environment: {} },
    { color: 'never', json },
  );
  const client = {
    getJob: ({ name }: { name: string }) =>
      Promise.resolve(create(GetJobResponseSchema, { job: name === NAMES[0] ? V10.job! : V9.job! })),
    async *watch(name: string) {
      yield* EVENTS[name]!;
      await Promise.resolve();
    },
    readArtifact: (sha256: string) => Promise.resolve(artifact(sha256)),
    listJobs: ({ kernelId }: { kernelId: string }) =>
      Promise.resolve(
        create(ListJobsResponseSchema, {
          jobs: [
            { ...V10.job!, name: 'jobs/stopped', outcome: Outcome.CANCELLED },
            V10.job!,
            { ...V10.job!, name: 'jobs/older' },
            V9.job!,
          ].filter((job) => kernelId === '' || job.kernelId === kernelId),
        }),
      ),
    listChampions: () => Promise.resolve(create(ListChampionsResponseSchema, { champions })),
  } as unknown as RunnerClient;
  context.withRunner = (body) => body({ client } as Parameters<typeof body>[0]);
  const code = await compare(first, other, context);
  return { code, ...text };
}

/** The rows of the screen's comparison: the table of times, then all figures. */
function screenRows(): string[] {
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 200, rows: 90, now: 0 }) });
  for (const event of Object.values(EVENTS).flat()) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'attach', job: NAMES[0] });
  store.dispatch({ type: 'pin', job: NAMES[1] });
  const results = [V10, V9].flatMap(({ result }) => result!.variants.flatMap(({ benchmarks }) => benchmarks));
  for (const { samples } of results)
    if (samples !== undefined)
      store.dispatch({ type: 'samples', sha256: samples.sha256, samples: samplesOf(artifact(samples.sha256)) });
  const rows = (page: ComparePage): string[] => {
    const state = { ...store.state, ui: { ...store.state.ui, comparePage: page } };
    return comparePane(state, { width: 190, height: 88 })
      .body.slice(compareHeadRows(state, { width: 190 }))
      .map((row) => rowText(row).replace('▸', ' '));
  };
  return [
    ...rows('latency').filter((row) => /\[\d+\./.test(row)),
    ...rows('figures').filter((row) => /\d {2,}/.test(row)),
  ];
}

test("compare shows every figure of the screen's comparison, and identifies both sides by their jobs", async () => {
  const { code, stdout } = await compared(NAMES[1]);
  expect(code).toBe(ExitCode.PASSED);
  const cells = (row: string): string => row.trim().split(/ {2,}/).join('  ');
  const printed = stdout.split('\n').map(cells);
  const shown = screenRows().map(cells);
  expect(shown.length).toBeGreaterThan(15);
  expect(shown.filter((row) => !printed.includes(row))).toEqual([]);
  expect(stdout).toMatch(/^ *case +mode +\S{8} p50 +\S{8} p50 +speedup \[95 %\] +\S{8} is$/m);
});

test('without a second job, compare uses the champion; with --json it prints one JSON document', async () => {
  const { stdout } = await compared('', { json: true });
  const document = JSON.parse(stdout) as { before: { job: string }; times: unknown[]; figures: unknown[] };
  expect(document.before.job).toBe(NAMES[1]);
  expect(document.times[0]).toMatchObject({
    mode: expect.any(String) as string,
    ratio: { low: expect.any(Number) as number },
  });
  expect(document.figures).toContainEqual(expect.objectContaining({ group: 'Build', name: 'registers/thread' }));
  expect((await compared('')).stdout).toMatch(/ champion p50 /);
});

test('for a job without a champion, and without a second job, the error says what to name', async () => {
  await expect(compared('', { champions: [] })).rejects.toThrow(/has no champion to compare with: name a second job/);
});

test('a kernel name selects its last finished job, and an unknown name is refused with what is accepted', async () => {
  const { stdout } = await compared('flashcore_v9', { json: true, first: 'flashcore_v10' });
  const { before, after } = JSON.parse(stdout) as { before: { job: string }; after: { job: string } };
  expect([after.job, before.job]).toEqual(NAMES);
  await expect(compared('nosuch')).rejects.toThrow(
    "nosuch: must be a job's name or its first digits, or a kernel with a finished job; fa-tui jobs lists both",
  );
});
