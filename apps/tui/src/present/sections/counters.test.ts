import { create } from '@bufbuild/protobuf';
import { ProfileResultSchema, TimeEstimateSchema, Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { estimateText, profileBlocks } from './counters.ts';

test('the counters behind a figure are listed below it, even in a pipe, and no counter is named twice', () => {
  const [load, store] = ['ld', 'st'].map((op) => `l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_${op}.sum`);
  const profile = create(ProfileResultSchema, {
    verdict: Verdict.PASS,
    metrics: [
      { name: 'smem_bank_conflict_percent', value: 3.31, unit: '%', source: `modelled ${load}, ${store}` },
      { name: load!, value: 384, source: `modelled ${load}` },
    ],
  });
  const lines = plainLines(profileBlocks(profile), { ...PLAIN, uncut: true });
  expect(lines.slice(1, 6).map((line) => line.trim().split(/ {2,}/))).toEqual([
    ['counter', 'value', 'source'],
    ['smem_bank_conflict_percent', '3.31 %'],
    [`modelled ${load},`],
    [store],
    [load, '384', 'modelled'],
  ]);
});

test('an estimate is always shown with its device and errors, and a missing estimate with the reason', () => {
  const estimate = create(TimeEstimateSchema, {
    device: 'NVIDIA H200',
    latencyUs: 27.24,
    meanErrorPercent: 8.8,
    ratioErrorPercent: 8.4,
  });
  const missing = create(TimeEstimateSchema, { device: 'NVIDIA H200', missing: 'the model has no time for wgmma' });
  expect([estimate, missing, undefined].map(estimateText)).toEqual([
    '27.24 us hot on NVIDIA H200, by a model (mean error 9 %, between two builds of a kernel 8 %); not measured, and no gate uses it',
    'none: the model has no time for wgmma',
    '',
  ]);
});
