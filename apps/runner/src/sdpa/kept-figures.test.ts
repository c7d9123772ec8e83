/** SDPA's figures that one job measures and later jobs reuse. */
import { fileURLToPath } from 'node:url';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { KeptSamples } from './kept-figures.ts';
import { SdpaBenchmark } from './sdpa-benchmark.ts';
import { SdpaShape } from './sdpa-shape.ts';

const pythonTest = test.skipIf(missing('python3'));

const FAKE = fileURLToPath(new URL('fake-sdpa.py', import.meta.url));
/** The fake process has two backends. */
const ROUNDS_A_TURN = 2;
const CANDIDATE_US = [5, 5.5, 6];

let sdpa: SdpaBenchmark | undefined;
beforeEach(() => vi.stubEnv('PYTHON_FAKE_SDPA', ''));
afterEach(async () => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await sdpa?.close();
  sdpa = undefined;
});

/** Result of a job that takes six turns with SDPA. */
async function measure(job: string, { reuse = true, shape = '1x2x64x64' } = {}) {
  sdpa ??= new SdpaBenchmark({ script: FAKE, ordinal: 0, folder: '/none' });
  let rounds = 0;
  const opened = (await sdpa.openShape(attentionCase(parseShape(shape), 'fp16'), {
    modes: ['hot'],
    signal: new AbortController().signal,
    onSamples: () => void rounds++,
    keeping: { job, reuse },
  })) as SdpaShape;
  for (let turn = 0; turn < 6; ++turn) await opened.turn('hot');
  const results = opened.results('hot', CANDIDATE_US);
  return {
    turns: rounds / ROUNDS_A_TURN,
    results: results.map(({ name, latency, speedup, reused }) => ({
      name,
      samples: latency!.samples,
      speedup,
      ...(reused && { reused: [reused.job, reused.drift, reused.checkSamples] }),
    })),
    missing: opened.missing('hot'),
  };
}

const measured = [
  { name: 'sdpa/cudnn', samples: 180, speedup: 2 },
  { name: 'sdpa/flash', samples: 180, speedup: 21 / 5.5 },
];
const asMeasuredIn = (job: string) => measured.map((result) => ({ ...result, reused: [job, 0, 60] }));

pythonTest(
  'later jobs on the same graphs use the kept figures, check them in two turns, and name the job that measured them',
  async () => {
    expect(await measure('jobs/a')).toMatchObject({ turns: 6, results: measured });
    for (const job of ['jobs/b', 'jobs/c'])
      expect(await measure(job)).toMatchObject({ turns: 2, results: asMeasuredIn('jobs/a') });
  },
);

pythonTest('a job that may not use kept figures measures again, and later jobs use its figures', async () => {
  await measure('jobs/a');
  expect(await measure('jobs/b', { reuse: false })).toMatchObject({ turns: 6, results: measured });
  expect(await measure('jobs/c')).toMatchObject({ turns: 2, results: asMeasuredIn('jobs/b') });
});

pythonTest('kept figures last an hour, and no longer than the graphs that they were measured on', async () => {
  await measure('jobs/a');
  const { now } = Date;
  vi.spyOn(Date, 'now').mockImplementation(() => now() + 3_601_000);
  expect(await measure('jobs/b')).toMatchObject({ turns: 6, results: measured });
  await measure('jobs/c', { shape: '1x2x128x64' });
  expect(await measure('jobs/d')).toMatchObject({ turns: 6, results: measured });
});

pythonTest('if the first check differs by more than 1.5 %, the job measures all turns', async () => {
  vi.stubEnv('PYTHON_FAKE_SDPA', 'slower after 12');
  await measure('jobs/a');
  const { turns, results } = await measure('jobs/b');
  expect([turns, results.map(({ samples }) => samples)]).toEqual([6, [180, 180]]);
  expect(results[0]!.speedup).toBeCloseTo(2 * 1.2, 6);
  expect((await measure('jobs/c')).results[0]).toMatchObject({ reused: ['jobs/b', 0, 60] });
});

pythonTest('if a later check differs by more than 1.5 %, the job makes up for the turns that it left out', async () => {
  vi.stubEnv('PYTHON_FAKE_SDPA', 'slower after 14');
  await measure('jobs/a');
  const { turns, results, missing } = await measure('jobs/b');
  expect([turns, missing]).toEqual([6, 'sdpa/efficient: no head dimension of 7; sdpa/math: out of memory']);
  expect(results.map(({ name, samples }) => [name, samples])).toEqual([
    ['sdpa/cudnn', 180],
    ['sdpa/flash', 180],
  ]);
  expect(results[0]).not.toHaveProperty('reused');
  expect(await measure('jobs/c')).toMatchObject({
    turns: 2,
    results: [{ reused: ['jobs/b', expect.any(Number), 60] }, {}],
  });
});

test('a bimodal figure stays valid if a check samples one mode more often, but not if both modes shift', () => {
  const modes = (low: number, high: number): number[] =>
    Array.from({ length: 25 }, (_, sample) => (sample % 2 === 0 ? high : low) + 0.01 * (sample % 5));
  const measured = [...modes(11.7, 12.6), 11.7, 11.7, 11.8];
  const kept = new KeptSamples(new Map([['cudnn', measured]]), { job: 'jobs/a', atMs: 0 });
  const drifted = (...turns: number[][]) => kept.drifted(new Map([['cudnn', turns]]));
  expect(drifted(modes(11.7, 12.6))).toBeUndefined();
  expect(drifted(modes(12.1, 13))).toMatch(/^sdpa\/cudnn drifted 3\.\d % from jobs\/a/);
});
