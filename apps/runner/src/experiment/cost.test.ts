import { expect, test } from 'vitest';
import { costOf, parseRates } from './cost.ts';

const none = parseRates([]);
const device = (name: string) => ({ name, simulated: false });

test('an L4 has a default rate with its source, and a configured rate takes precedence', () => {
  expect(costOf(device('NVIDIA L4'), 3600, none)).toEqual({
    costUsd: 0.68,
    usdPerHour: 0.68,
    rateSource: expect.stringContaining('default for the NVIDIA L4') as string,
  });
  expect(costOf(device('NVIDIA L4'), 1800, parseRates(['l4=0.80']))).toEqual({
    costUsd: 0.4,
    usdPerHour: 0.8,
    rateSource: "the runner's configuration",
  });
});

test('the cost of a device without a rate is unknown, and the result says what to set; the emulator has no cost', () => {
  expect(costOf(device('NVIDIA H200'), 10, none)).toEqual({
    costMissing: expect.stringMatching(/^cost not known; set .*--usd-per-hour "NVIDIA H200=2.50"/) as string,
  });
  expect(costOf(device('NVIDIA H200'), 36, parseRates(['NVIDIA L4=0.7; NVIDIA H200 = 3.6']))).toMatchObject({
    costUsd: 0.036,
  });
  expect(costOf({ name: 'flashcore CPU emulator (L4 limits)', simulated: true }, 10, none)).toEqual({
    costMissing: expect.stringContaining('emulator') as string,
  });
});

test.each(['NVIDIA L4', 'NVIDIA L4=', '=0.68', 'NVIDIA L4=cheap', 'NVIDIA L4=-1', 'NVIDIA L4=1e9'])(
  'parseRates() refuses %s',
  (text) => {
    expect(() => parseRates([text])).toThrow(RangeError);
  },
);
