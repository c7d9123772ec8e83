import { expect, test } from 'vitest';
import { countedAdvice } from './counted-advice.ts';

const LANES = 32;
const launch = (counts: Record<string, number>, lines: Record<string, Record<string, number>> = {}) => ({
  entry: 'attend',
  blocks: 1,
  counts: { lanes: LANES * counts['instructions']!, ...counts },
  lines,
});

test('advice for a scalar kernel names its largest instruction families and their lines', () => {
  const advice = countedAdvice(
    launch(
      {
        ...{ instructions: 1000, memory: 320, conversion: 280, fma: 200, integer: 150 },
        ...{ shared_load_requests: 200, shared_load_wavefronts: 260 },
      },
      {
        'k.cu:38': { conversion: 70, shared_load_requests: 50 },
        'k.cu:127': { conversion: 140, shared_load_requests: 120 },
        'k.cu:140': { conversion: 30 },
      },
    ),
  );
  expect(advice.map(({ rule, evidence }) => [rule, evidence])).toEqual([
    [
      'shared loads',
      'memory instructions are 32 % of all; 200 shared-memory loads (260 wavefronts) for 200 multiply-adds; most on line 127 (60 %) and line 38 (25 %)',
    ],
    ['conversions', 'conversions are 28 % of all instructions; most on line 127 (50 %) and line 38 (25 %)'],
  ]);
});

test('a kernel whose instructions are well spent gets no advice', () => {
  const tensor = launch({
    instructions: 1000,
    memory: 200,
    tensor: 300,
    fma: 100,
    integer: 200,
    shared_load_requests: 90,
  });
  expect(countedAdvice(tensor)).toEqual([]);
});

test('scattered loads and idle lanes have rules of their own', () => {
  const counts = { instructions: 100, lanes: 1600, global_load_requests: 10, global_load_sectors: 320 };
  expect(countedAdvice(launch(counts)).map(({ rule }) => rule)).toEqual(['idle lanes', 'scattered loads']);
});
