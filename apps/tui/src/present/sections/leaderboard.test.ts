import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { GetLeaderboardResponseSchema, TimingMode } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { plainLines } from '../plain/plain-painter.ts';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { leaderboardBlocks } from './leaderboard.ts';

const place = {
  deviceName: 'NVIDIA H200',
  shape: parseShape('2x8x512x64'),
  mode: TimingMode.HOT,
  protocol: 'flashcore-protocol 3',
};
const entry = (kernelId: string, p50Us: number) => ({
  label: kernelId,
  kernelId,
  latency: { samples: 107, p50Us, p90Us: p50Us * 1.1, p50LowUs: p50Us * 0.999, p50HighUs: p50Us * 1.001 },
  job: 'jobs/01234567-89ab-4def-8123-456789abcdef',
  time: timestampFromMs(Date.UTC(2026, 10, 21, 11)),
  owner: 'ada',
});
const board = create(GetLeaderboardResponseSchema, {
  place,
  places: [
    { ...place, results: 3 },
    { ...place, mode: TimingMode.COLD, results: 2 },
  ],
  baselineKernel: 'fa_v1_baseline',
  leftOut: 'Left out: 2 measured by flashcore-protocol 2; only results by flashcore-protocol 3 compare with each other',
  entries: [
    {
      ...entry('flashcore_v11', 5.76),
      tflops: 186.4,
      registers: 168,
      speedup: 1.558,
      sdpaInTurns: true,
      speedupOverBaseline: 18.49,
      champion: true,
      labels: { search: '2026-11-22-1a2b3c4d', trial: '7', parents: '3,5' },
    },
    { ...entry('', 8.98), label: 'sdpa/cudnn', sdpaVersion: 'PyTorch 2.11.0' },
    {
      ...entry('fa_v1_baseline', 106.5),
      speedup: 0.0843,
      speedupOverBaseline: 1,
      lineage: ['fa_v1_baseline'],
    },
  ],
});
const WIDE = { ...PLAIN, width: 190 };

test('a row has p50 with its interval, p90, TFLOP/s, registers, both speedups, origin, client and time', () => {
  expect(plainLines(leaderboardBlocks(board, { limit: 50 }), WIDE)).toEqual([
    'Leaderboard  2x8x512x64 hot on NVIDIA H200, flashcore-protocol 3',
    '  #  kernel                p50         95 % interval       p90  TFLOP/s  registers  vs baseline    vs SDPA  from                                        who  when         job',
    '  1  ★ flashcore_v11  5.760 us  5.754 us to 5.766 us  6.336 us    186.4        168      18.49 x    1.558 x  search 2026-11-22-1a2b3c4d, trial 7 of 3,5  ada  11-21 11:00  01234567',
    '  2  sdpa/cudnn       8.980 us  8.971 us to 8.989 us  9.878 us        -          -            -          -  PyTorch 2.11.0                              ada  11-21 11:00  01234567',
    '  3  fa_v1_baseline   106.5 us  106.4 us to 106.6 us  117.2 us        -          -          1 x  ≈0.0843 x  -                                           ada  11-21 11:00  01234567',
    "  vs baseline: over the runner's own fa_v1_baseline, on the same device, shape, dtype, mode and protocol",
    '  vs SDPA: over the fastest backend, measured in turns in the same job; ≈: over its row here',
    '  ★ champion',
    '  Left out: 2 measured by flashcore-protocol 2; only results by flashcore-protocol 3 compare with each other',
    '  results elsewhere: 2x8x512x64 cold on NVIDIA H200, flashcore-protocol 3 (2)',
  ]);
});

test('there is a host column if the hosts of the measurements were recorded', () => {
  const [first, ...others] = board.entries;
  const known = create(GetLeaderboardResponseSchema, {
    ...board,
    entries: [{ ...first!, hostName: 'node7', schedulerJob: '12' }, ...others],
  });
  const lines = plainLines(leaderboardBlocks(known, { limit: 50 }), { ...WIDE, width: 200 });
  expect(lines[1]).toMatch(/ who +on +when +job$/);
  expect(lines[2]).toMatch(/ ada +node7, pilot 12 +11-21/);
  expect(lines[3]).toMatch(/ ada +- +11-21/);
});

test('a narrow table keeps the speedups; --limit shortens the table and says so', () => {
  const lines = plainLines(leaderboardBlocks(board, { limit: 1 }), PLAIN);
  expect(lines.join('\n')).toMatch(/vs baseline +vs SDPA/);
  expect(lines.join('\n')).toContain('2 more: --limit');
  expect(lines.join('\n')).not.toContain('sdpa/cudnn');
});

test('an empty board gives the reason and the places that have results', () => {
  const empty = create(GetLeaderboardResponseSchema, { ...board, entries: [], emptyReason: 'No valid result yet' });
  expect(plainLines(leaderboardBlocks(empty, { limit: 50 }), WIDE)).toEqual([
    'Leaderboard  2x8x512x64 hot on NVIDIA H200, flashcore-protocol 3',
    '  No valid result yet',
    '  results elsewhere: 2x8x512x64 cold on NVIDIA H200, flashcore-protocol 3 (2)',
  ]);
});

test('a table of means names their shapes, and equal entries share a rank', () => {
  const mean = (us: number, rank: number) => ({
    label: `k${us}`,
    kernelId: `k${us}`,
    rank,
    mean: {
      us,
      lowUs: us - 0.01,
      highUs: us + 0.01,
      cases: [
        { shape: parseShape('2x8x512x64'), weight: 3, p50Us: us + 1 },
        { shape: parseShape('1x8x512x64'), weight: 1, p50Us: us - 1 },
      ],
    },
    job: 'jobs/01234567-89ab-4def-8123-456789abcdef',
  });
  const means = create(GetLeaderboardResponseSchema, {
    place: { ...place, shape: undefined, caseSet: 'success' },
    baselineKernel: 'fa_v1_baseline',
    entries: [mean(5.5, 1), mean(5.51, 1), mean(7, 3)],
  });
  const lines = plainLines(leaderboardBlocks(means, { limit: 50 }), WIDE);
  expect(lines[0]).toBe('Leaderboard  mean over success hot on NVIDIA H200, flashcore-protocol 3');
  expect(lines.slice(2, 5).map((line) => line.trim().split(/ {2,}/).slice(0, 5))).toEqual([
    ['1=', 'k5.5', '5.500 us', '5.490 us to 5.510 us', '2x8x512x64 6.500 us (weight 3), 1x8x512x64 4.500 us'],
    ['1=', 'k5.51', '5.510 us', '5.500 us to 5.520 us', '2x8x512x64 6.510 us (weight 3), 1x8x512x64 4.510 us'],
    ['3', 'k7', '7.000 us', '6.990 us to 7.010 us', '2x8x512x64 8.000 us (weight 3), 1x8x512x64 6.000 us'],
  ]);
  expect(lines.join('\n')).toContain('=: a tie, the 95 % intervals overlap');
  expect(lines.join('\n')).toContain('mean: weighted geometric mean of the medians');
});
