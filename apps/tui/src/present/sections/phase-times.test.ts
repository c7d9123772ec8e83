import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { JobResultSchema, Phase } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { phaseTimeBlocks } from './phase-times.ts';

const job = { createTime: timestampFromMs(1_000), startTime: timestampFromMs(1_500) };

test('there is a bar for the queue, for each phase and for the time between phases; short times are left out', () => {
  const result = create(JobResultSchema, {
    deviceSeconds: 5,
    phaseTimes: [
      { phase: Phase.PRECHECK, variant: 'USE_WMMA=1', seconds: 0.001 },
      { phase: Phase.BUILD, variant: 'USE_WMMA=1', seconds: 2, waitSeconds: 0.5 },
      { phase: Phase.VERIFY, variant: 'USE_WMMA=1', seconds: 1 },
      { phase: Phase.BUILD, variant: 'USE_WMMA=0', seconds: 1 },
    ],
  });
  const lines = plainLines(phaseTimeBlocks(job, result), { ...PLAIN, width: 60 });
  expect(lines.map((line) => line.replace(/[█▏▎▍▌▋▊▉]+ +/, '| '))).toEqual([
    'Time  5.50 s from the request to the verdict',
    '    queued                 | 500 ms',
    '    build USE_WMMA=1       | 1.50 s',
    '    waiting for the device | 500 ms',
    '    verify USE_WMMA=1      | 1.00 s',
    '    build USE_WMMA=0       | 1.00 s',
    '    between                | 999 ms',
  ]);
});

test('an older result without phase times has no such section', () => {
  expect(phaseTimeBlocks(job, create(JobResultSchema, { deviceSeconds: 5 }))).toEqual([]);
});

test('a phase that ran in two parts has one bar', () => {
  const phaseTimes = [21.5, 0.071].map((seconds) => ({ phase: Phase.COMPARE, variant: 'default', seconds }));
  const lines = plainLines(phaseTimeBlocks(job, create(JobResultSchema, { deviceSeconds: 21.571, phaseTimes })), PLAIN);
  expect(lines.filter((line) => line.includes('compare')).map((line) => line.replace(/[█▏▎▍▌▋▊▉]+ +/, '| '))).toEqual([
    '    compare | 21.6 s',
  ]);
});
