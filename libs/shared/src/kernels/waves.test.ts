import { expect, test } from 'vitest';
import { launchWaves } from './waves.ts';

test('the busiest multiprocessor sets the pace of one wave, and the last wave that of several', () => {
  const of = (ctas: number, ctasPerSm: number, multiprocessors: number) => {
    const { waves, tailEfficiencyPercent, text } = launchWaves({ shape: '', ctas, ctasPerSm, multiprocessors });
    return [Number(waves.toFixed(2)), Math.round(tailEfficiencyPercent), text];
  };
  expect([of(128, 1, 132), of(128, 4, 132), of(140, 2, 132), of(2048, 4, 58), of(132, 1, 132)]).toEqual([
    [0.97, 97, '128 CTAs on 132 SMs: one wave, 3 % idle'],
    [0.24, 97, '128 CTAs on 132 SMs: one wave, 3 % idle'],
    [0.53, 53, '140 CTAs on 132 SMs: one wave, 47 % idle'],
    [8.83, 98, '2,048 work items in 8.8 waves on 58 SMs, 2 % idle'],
    [1, 100, '132 CTAs on 132 SMs: one wave, 0 % idle'],
  ]);
});
