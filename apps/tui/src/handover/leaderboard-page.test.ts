import { create } from '@bufbuild/protobuf';
import { GetJobResponseSchema, GetLeaderboardResponseSchema, TimingMode, Verdict } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { leaderboardPage } from './leaderboard-page.ts';

const place = {
  deviceName: 'NVIDIA H200',
  shape: parseShape('2x8x512x64'),
  mode: TimingMode.HOT,
  protocol: 'flashcore-protocol 4',
};
const latency = { samples: 107, p50Us: 5.76, p90Us: 6, p50LowUs: 5.754, p50HighUs: 5.766 };
const BUILD = 'b'.repeat(64);

test('a page has the table, the evidence for each row, and the command that repeats it; foreign text is never interpreted', () => {
  const board = create(GetLeaderboardResponseSchema, {
    place,
    baselineKernel: 'fa_v1_baseline',
    entries: [
      { label: 'mine <script>', kernelId: 'mine', latency, job: 'jobs/1', owner: 'ada', rank: 1, champion: true },
      { label: 'sdpa/cudnn', latency: { ...latency, p50Us: 9 }, job: 'jobs/1', sdpaVersion: 'PyTorch 2.11', rank: 2 },
      { label: 'gone', kernelId: 'gone', latency: { ...latency, p50Us: 9.5 }, job: 'jobs/2', rank: 3 },
      { label: 'beyond the limit', kernelId: 'beyond', latency, job: 'jobs/3', rank: 4 },
    ],
  });
  const found = create(GetJobResponseSchema, {
    job: { name: 'jobs/1' },
    result: {
      ranking: { ranked: true, rulesDigest: 'r'.repeat(64) },
      provenance: {
        plan: 'merge',
        seeds: ['1', '2', '3', '4', '5'],
        gatesDigest: 'a'.repeat(64),
        sourceDigest: 'c'.repeat(64),
        hostName: 'gpu01',
        device: { name: 'NVIDIA H200', driverVersion: '580.1' },
      },
      variants: [
        {
          build: { buildId: BUILD },
          verify: { cases: [{ verdict: Verdict.PASS }, { verdict: Verdict.PASS }] },
          comparison: { reason: 'FASTER on 2x8x512x64' },
        },
      ],
    },
  });
  const page = leaderboardPage(board, { limit: 3, jobs: new Map([['jobs/1', found]]) });
  const rowOf = (label: string): string => page.slice(page.indexOf(`<h3>${label}`)).split('<h3>')[1]!;
  for (const told of [
    ...['jobs/1', 'ada', 'merge', '1 2 3 4 5', 'FASTER on 2x8x512x64', 'gpu01', 'NVIDIA H200, driver 580.1'],
    ...['a'.repeat(64), 'c'.repeat(64), 'r'.repeat(64), BUILD, '2 of 2 cases'],
    `<dt>repeat it</dt><dd>fa-tui run ${BUILD} --plan merge</dd>`,
  ])
    expect(rowOf('1  mine')).toContain(told);
  expect(rowOf('2  sdpa/cudnn')).not.toContain('repeat it');
  expect(rowOf('3  gone')).toContain('the result of jobs/2 is not there any more');
  expect(page).not.toMatch(/<script|beyond the limit<\/h3>/);
});
