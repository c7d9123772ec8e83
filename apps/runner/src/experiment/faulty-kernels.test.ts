import { FindingKind, Outcome, type Finding } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { ALL_TESTS, inFull, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

let fixture: TestPlanner;
/** On fibres. Only the long form has a test that needs it. */
let fibres: TestPlanner;

beforeAll(() => {
  fixture = openTestPlanner();
  fibres = openTestPlanner(undefined, { emulatorEngine: 'fibres' });
});

afterAll(() => Promise.all([fixture.close(), fibres.close()]));

const kernel = (kernelId: string): { source: { case: 'kernelId'; value: string } } => ({
  source: { case: 'kernelId', value: kernelId },
});

interface Verified {
  outcome: Outcome;
  findings: Finding[];
}

async function verify(kernelId: string, shape = '1x1x64x64'): Promise<Verified> {
  const { outcome } = await fixture.run('verify', {
    kernel: kernel(kernelId),
    settings: { shapes: [parseShape(shape)], seedCount: 1 },
  });
  return { outcome: outcome.outcome, findings: outcome.result.variants[0]!.findings };
}

/** The short form compiles one kernel for each kind of fault. */
const ONE_OF_EACH = ['syntax_error', 'out_of_bounds', 'nan_output'];
const NAMED: [kernelId: string, outcome: Outcome, kind: FindingKind, message: RegExp][] = [
  ['syntax_error', Outcome.COMPILE_FAILED, FindingKind.COMPILE_FAILED, /^syntax_error\.cu:[56]:\d+: expected/],
  [
    'out_of_bounds',
    Outcome.CRASHED,
    FindingKind.OUT_OF_BOUNDS,
    /Thread \(63,0,0\) of block \(0,0,0\)(?: \(warp 1, lane 31\))? wrote .*at the first byte past the end of O, at out_of_bounds\.cu:\d+/,
  ],
  ['misaligned_address', Outcome.CRASHED, FindingKind.MISALIGNED_ADDRESS, /read \d+ bytes at V \+ 2 bytes/],
  ['nan_output', Outcome.WRONG_RESULT, FindingKind.NAN_OUTPUT, /4,096 of 4,096 elements are NaN/],
  [
    'unwritten_output',
    Outcome.WRONG_RESULT,
    FindingKind.UNWRITTEN_OUTPUT,
    /64 of 4,096 elements were never written, all in row s63, first at b0 h0 s63 d0/,
  ],
];
test.each(inFull(NAMED, ([kernelId]) => ONE_OF_EACH.includes(kernelId)))(
  '%s gets the right finding',
  { timeout: 120_000 },
  namedForWhatItIs,
);

const RESEMBLING: [kernelId: string, remedy: unknown][] = [
  ['scale_forgotten', 'This is the output of the mutant scale_forgotten: logits are not divided by sqrt(D)'],
  ['mask_off_by_one', expect.stringMatching(/^(?!This is the output)/)],
];
// The test below also compiles mask_off_by_one.
test.each(inFull(RESEMBLING, ([kernelId]) => kernelId === 'mask_off_by_one'))(
  'the remedy of %s says what its output resembles',
  { timeout: 120_000 },
  async (kernelId, remedy) => {
    const { findings } = await verify(kernelId, '1x1x64x64c');
    expect(findings.find(({ kind }) => kind === FindingKind.WRONG_RESULT)?.remedy).toEqual(remedy);
  },
);

// These findings come from ptxas's report about the compiled code.
test.skipIf(missing('nvcc')).each([
  [
    'missing_entry',
    Outcome.FAILED,
    FindingKind.MISSING_ENTRY,
    /launches missing_entry, but the compiled code has only missing_entry_old/,
  ],
  [
    'static_smem_69kb',
    Outcome.COMPILE_FAILED,
    FindingKind.SMEM_LIMIT,
    /69\.0 KiB of static shared memory, 48\.0 KiB is the most: float Q_smem/,
  ],
  // Spills only cost time, so the kernel passes.
  [
    'register_spills',
    Outcome.PASSED,
    FindingKind.REGISTER_SPILLS,
    /^register_spills spills on sm_\d+: [\d,]+ bytes of stores, [\d,]+ bytes of loads/,
  ],
])('%s gets its finding from its build', { timeout: 120_000 }, namedForWhatItIs);

async function namedForWhatItIs(kernelId: string, ...wanted: [Outcome, FindingKind, RegExp]): Promise<void> {
  expectFinding(await verify(kernelId), ...wanted);
}

function expectFinding(found: Verified, outcome: Outcome, kind: FindingKind, message: RegExp): void {
  expect({
    outcome: Outcome[found.outcome],
    kind: FindingKind[found.findings[0]?.kind ?? 0],
    message: found.findings[0]?.message,
  }).toEqual({
    outcome: Outcome[outcome],
    kind: FindingKind[kind],
    message: expect.stringMatching(message) as string,
  });
}

test(
  'a missing barrier is reported as a race with both source lines, ahead of the wrong results that it causes',
  { timeout: 120_000 },
  async () => {
    const { findings } = await verify('missing_syncthreads', '1x1x128x64');
    expect(findings.map(({ kind }) => FindingKind[kind])[0]).toBe('RACE');
    expect(findings[0]!.message).toMatch(
      /missing_syncthreads\.cu:\d+.*attend_row\.cuh:\d+|attend_row\.cuh:\d+.*missing_syncthreads\.cu:\d+/,
    );
    // The race has the source of both accesses.
    const [race] = findings;
    const places = [race!.frame!, ...race!.otherFrames].map(({ file, line }) => `${file}:${line}`);
    expect(places.length).toBeGreaterThan(1);
    for (const place of places) expect(race!.message).toContain(place);
  },
);

test('a deadlock lists its threads by the line where they wait', { timeout: 120_000 }, async () => {
  const found = await verify('divergent_barrier');
  const wanted = /32 threads in __syncthreads\(\) at divergent_barrier\.cu:6/;
  expectFinding(found, Outcome.CRASHED, FindingKind.DEADLOCK, wanted);
  const { findings } = found;
  const places = Map.groupBy(findings[0]!.threads, ({ place }) => place);
  expect([findings[0]!.threadCount, [...places.keys()]]).toEqual([
    64,
    ['__syncthreads() at divergent_barrier.cu:6', '__syncwarp() at divergent_barrier.cu:7'],
  ]);
});

// The short form has worker-life.test.ts, whose endless loop has a limit of half a second instead of eight.
if (ALL_TESTS)
  test(
    'an endless loop ends within fifteen seconds, and the next kernel is unharmed',
    { timeout: 120_000 },
    async () => {
      const secondsOf = async (kernel: string) => {
        const started = performance.now();
        const result = await verify(kernel);
        return { result, seconds: (performance.now() - started) / 1000 };
      };
      // How long a right kernel takes shows how busy the machine is.
      const { seconds: usual } = await secondsOf('fa_v1_baseline');
      const { result: endless, seconds } = await secondsOf('endless_loop');
      expect([Outcome[endless.outcome], FindingKind[endless.findings[0]!.kind]]).toEqual(['TIMED_OUT', 'TIMED_OUT']);
      expect(endless.findings[0]!.threads.map(({ place }) => place)).toEqual(
        expect.arrayContaining([expect.stringMatching(/^(runs|running) at endless_loop\.cu:(7|8)$/)]),
      );
      expect(seconds).toBeLessThan(15 + usual);
      expect(Outcome[(await verify('fa_v1_baseline')).outcome]).toBe('PASSED');
    },
  );

if (ALL_TESTS)
  test(
    "an array larger than a thread's stack is reported as too much stack and not as an access past a tensor",
    { timeout: 120_000 },
    async () => {
      const manifest = `id: large_array
title: A large local array
lesson: "an emulated thread has 128 KB"
source: large_array.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches:
  - { entry: large_array, grid: ["B * H * S", 1, 1], block: [64, 1, 1], arguments: [Q, O] }
`;
      const source = `#include <cuda_fp16.h>
extern "C" __global__ void large_array(const half* Q, half* O) {
  float local[61440];
  for (int i = 0; i < 61440; ++i) local[i] = __half2float(Q[threadIdx.x]) + i;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < 61440; i += 7) sum += local[(i * 31) % 61440];
  O[blockIdx.x * 64 + threadIdx.x] = __float2half(sum);
}
`;
      const { outcome } = await fibres.run('verify', {
        kernel: fibres.upload({ 'kernel.yaml': manifest, 'large_array.cu': source }),
        settings: { shapes: [parseShape('1x1x16x64')], seedCount: 1 },
      });
      expect(outcome.result.variants[0]!.findings[0]?.message).toMatch(
        /Thread \(0,0,0\) of block \(\d+,0,0\) used more than the emulator's 128 KB of stack a thread/i,
      );
    },
  );

test('a wrong mask is reported by what fails: every causal shape, and no other', { timeout: 120_000 }, async () => {
  const { outcome } = await fixture.run('verify', {
    kernel: kernel('mask_off_by_one'),
    settings: { shapes: ['1x1x64x64', '1x1x64x64c', '2x1x64x64', '2x1x64x64c'].map(parseShape), seedCount: 1 },
  });
  const [finding] = outcome.result.variants[0]!.findings;
  expect(finding?.remedy).toMatch(
    /^(?:Both|All \d) (?:cases|shapes) with causal=1 fail, the \d others pass: look at the mask \(mask_off_by_one\.cu:5\)/,
  );
});
