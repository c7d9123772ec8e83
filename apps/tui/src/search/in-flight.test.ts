/** Tests evolve() with a runner whose answers depend on the candidate's text and take time to arrive. */
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import {
  BenchmarkSettingsSchema,
  ComparisonVerdict,
  DeviceSchema,
  GetJobResponseSchema,
  JobEventSchema,
  JobState,
  KernelReferenceSchema,
  Outcome,
  ProfileSettingsSchema,
  RunExperimentRequestSchema,
  TimingMode,
  VariantSchema,
  Verdict,
  VerifySettingsSchema,
  type GetJobResponse,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { ALL_TESTS, inFull } from '@flashcore/shared/testing';
import { afterEach, expect, test } from 'vitest';
import type { Connection } from '../connection/connect.ts';
import { evolve, isComplete } from './evolve.ts';
import { SearchStore, type SearchPlan } from './search-store.ts';
import type { Trial } from './trial.ts';

const SHAPE = parseShape('1x1x64x64');
const MANIFEST = `id: k
title: t
lesson: l
source: k.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }]
`;

/**
 * Answers with the last digit of the seed and the base's number, so that sometimes two islands propose the same code.
 */
const PROPOSER = String.raw`sed -E 's/.*"seed":[0-9]*([0-9]),.*"base":\{"trial":([0-9]+),.*/{"name":"\1 \2","thought":"t\1","files":{"k.cu":"\1 of \2"}}/'`;

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newSearch(change: Partial<SearchPlan>): SearchStore {
  const home = mkdtempSync(path.join(tmpdir(), 'fa-'));
  folders.push(home);
  return SearchStore.create(
    { FLASHCORE_HOME: home },
    {
      id: 'search',
      kernelId: 'k',
      kernel: 'k',
      proposer: PROPOSER,
      proposerSeconds: 60,
      config: 'full',
      trials: 24,
      population: 5,
      islands: 3,
      seed: 7,
      maxUsd: null,
      maxDeviceSeconds: null,
      options: {},
      root: { files: { 'kernel.yaml': MANIFEST, 'k.cu': 'the root' }, parameters: {} },
      notes: '',
      ...change,
    },
  );
}

/** A number from 0 to 1 that is derived from the text. */
const figureOf = (text: string): number =>
  ([...text].reduce((sum, each) => (Math.imul(sum, 31) + each.codePointAt(0)!) >>> 0, 7) % 997) / 997;

/**
 * The result of a candidate: a third of the candidates are wrong, and about half of the others are faster than their
 * base.
 */
function resultOf(name: string, text: string): GetJobResponse {
  const figure = figureOf(text);
  const isRight = text === 'the root' || figure < 0.67;
  const ratio = 0.9 + figure / 2;
  const verdict = ratio > 1.06 ? ComparisonVerdict.FASTER : ComparisonVerdict.WITHIN_MARGIN;
  return create(GetJobResponseSchema, {
    job: { name, state: JobState.ENDED, outcome: isRight ? Outcome.PASSED : Outcome.WRONG_RESULT, summary: 'ended' },
    result: {
      variants: [
        {
          label: 'default',
          build: {
            succeeded: true,
            entries: [{ entry: 'k', registersPerThread: 32 + Math.floor(figure * 200), ctasPerSm: 1 }],
          },
          verify: {
            passedCases: isRight ? 1 : 0,
            cases: [{ shape: SHAPE, verdict: isRight ? Verdict.PASS : Verdict.FAIL, elements: 4096n }],
          },
          comparison: {
            verdict,
            reason: `${ratio}`,
            shapes: [{ shape: SHAPE, mode: TimingMode.HOT, verdict, time: { ratio, low: ratio, high: ratio } }],
          },
        },
      ],
    },
  });
}

interface FakeRunner {
  connection: Connection;
  /** Names of the candidates whose jobs began, in order. */
  begun: string[];
  /** The largest number of jobs that ran at the same time. */
  most: () => number;
}

/** `millis` is the duration of a candidate's job. */
function fakeRunner(millis: (text: string) => number): FakeRunner {
  const results = new Map<string, GetJobResponse>();
  const begun: string[] = [];
  let [running, most] = [0, 0];
  const client = {
    uploadFolder: async (folder: string) => {
      const file = path.join(folder, 'k.cu');
      const written = () => statSync(file, { bigint: true }).ctimeNs;
      const before = written();
      // eslint-disable-next-line flashcore/no-fixed-wait -- an upload takes time
      await sleep(10);
      if (written() !== before) throw new Error(`${file} changed while it was uploaded`);
      const value = readFileSync(file, 'utf8');
      return create(KernelReferenceSchema, { source: { case: 'kernelId', value } });
    },
    async *start(_method: string, request: object, { signal }: { signal?: AbortSignal }) {
      signal?.throwIfAborted();
      const { kernel, options } = create(RunExperimentRequestSchema, request);
      const text = kernel?.source.case === 'kernelId' ? kernel.source.value : '';
      const name = `jobs/${options?.requestId}`;
      begun.push(text);
      running += 1;
      most = Math.max(most, running);
      try {
        yield create(JobEventSchema, { job: name, payload: { case: 'started', value: {} } });
        // eslint-disable-next-line flashcore/no-fixed-wait -- jobs that take different times
        await sleep(millis(text), undefined, { signal });
      } finally {
        running -= 1;
      }
      results.set(name, resultOf(name, text));
      yield create(JobEventSchema, { job: name, payload: { case: 'finished', value: {} } });
    },
    getJob: ({ name }: { name: string }) => Promise.resolve(results.get(name)!),
    cancelJob: () => Promise.resolve(),
  };
  return { connection: { client } as unknown as Connection, begun, most: () => most };
}

interface Run {
  inFlight: number;
  runner: FakeRunner;
  signal?: AbortSignal;
  onTrial?: (trial: Trial) => void;
}

const run = (store: SearchStore, { inFlight, runner, signal, onTrial }: Run): Promise<Trial[]> =>
  evolve({
    store,
    inFlight,
    connection: runner.connection,
    device: create(DeviceSchema, { deviceId: 'gpu0', name: 'NVIDIA X1' }),
    settings: {
      deviceId: '',
      verify: create(VerifySettingsSchema),
      benchmark: create(BenchmarkSettingsSchema),
      profile: create(ProfileSettingsSchema),
      plan: '',
      maxQueueSeconds: 0,
      maxRunSeconds: 60,
    },
    variant: create(VariantSchema),
    environment: process.env,
    signal: signal ?? new AbortController().signal,
    onTrial: onTrial ?? (() => undefined),
    onNote: () => undefined,
  });

/** Keeps only the metrics of each evaluation, because a job's name contains a digest of its request's id. */
const withoutJobs = (trials: readonly Trial[]): object[] =>
  trials.map(({ evaluation, ...trial }) => ({ ...trial, metrics: evaluation?.metrics }));

/** Durations that often let later trials end before earlier ones. */
const uneven = (text: string): number => 5 + 60 * figureOf(`${text} takes`);

// The short form continues a search with another number of trials in flight, in the next test.
if (ALL_TESTS)
  test('the number of trials in flight changes only how trials overlap, not their results', async () => {
    const [one, ...more] = [1, 3, 2].map((inFlight) => ({ inFlight, runner: fakeRunner(uneven) }));
    const [three] = more;
    const told: number[] = [];
    const alone = withoutJobs(await run(newSearch({}), one!));
    for (const each of more) {
      const onTrial = each === three ? ({ trial }: Trial) => told.push(trial) : undefined;
      expect(withoutJobs(await run(newSearch({}), { ...each, onTrial }))).toEqual(alone);
    }
    for (const { inFlight, runner } of [one!, ...more]) expect(runner.most()).toBe(inFlight);
    expect(told).toEqual(Array.from({ length: 25 }, (_, index) => index));
    // The search contains everything that an overlap could confuse: accepted and wrong trials, and code that another
    // island had proposed.
    expect(alone).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ status: 'accepted', operator: 'crossover' }),
        expect.objectContaining({ status: 'wrong' }),
        expect.objectContaining({
          why: expect.stringMatching(/^The code and parameters of trial \d+ again/) as string,
        }),
      ]),
    );
    const codes = three!.runner.begun;
    expect(codes).toHaveLength(new Set(codes).size);
    expect(withoutJobs(await run(newSearch({ seed: 8 }), { ...three!, runner: fakeRunner(uneven) }))).not.toEqual(
      alone,
    );
  });

test('a search that was cut off while trials were in flight continues as if it had not been cut off', async () => {
  const whole = withoutJobs(await run(newSearch({}), { inFlight: 3, runner: fakeRunner(uneven) }));
  const store = newSearch({});
  for (const after of inFull([4, 5, 11], (trial) => trial !== 5)) {
    const stop = new AbortController();
    const cut = run(store, {
      inFlight: 3,
      runner: fakeRunner(uneven),
      signal: stop.signal,
      onTrial: ({ trial }) => {
        if (trial >= after) stop.abort(new Error('cut off'));
      },
    });
    await expect(cut).rejects.toThrow();
    expect(isComplete(store, store.trials())).toBe(false);
  }
  const last = fakeRunner(uneven);
  expect(withoutJobs(await run(store, { inFlight: 2, runner: last }))).toEqual(whole);
  expect(last.begun.length).toBeLessThan(whole.length);
});

test('patience ends a search after the same trial, however many are in flight', async () => {
  const plan = { patience: 2, trials: 100, seed: 3 };
  const ends = await Promise.all(
    [1, 3].map(async (inFlight) => (await run(newSearch(plan), { inFlight, runner: fakeRunner(uneven) })).length),
  );
  expect(ends[0]).toBe(ends[1]);
  expect(ends[0]).toBeLessThan(60);
});

test('an error that ends the search also ends the trials in flight, and is thrown', async () => {
  const runner = fakeRunner((text) => (text === 'the root' ? 1 : 60_000));
  const proposer = `if read request; case "$request" in *'"trial":2,"island"'*) true;; *) false;; esac; then exec /no-such-program-here; fi; echo "$request" | ${PROPOSER}`;
  await expect(run(newSearch({ proposer }), { inFlight: 3, runner })).rejects.toThrow(/no-such-program-here/);
});
