import { describe, expect, it } from 'vitest';
import type { ClockStamps } from './clock-stamps.ts';
import type { Conditions } from './conditions.ts';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import { judgeSlow, SlowDown } from './sampling.ts';

describe('samples that the device was slow in', () => {
  const clocksMhz = [1980, 1700, 1980];
  const fell = [false, true, false];

  it('are dropped one by one where the clock fell', () => {
    expect(judgeSlow({ clocksMhz, fell, throttled: false }, { turns: false })).toEqual({
      dropped: [1],
      slowed: 0,
      throttled: 0,
    });
  });

  it('are dropped with their batch where the device was throttled', () => {
    expect(judgeSlow({ clocksMhz, fell, throttled: true }, { turns: false })).toEqual({
      dropped: [0, 1, 2],
      slowed: 0,
      throttled: 0,
    });
  });

  it('are kept and counted in turns, where the other side has no clocks to drop by', () => {
    expect(judgeSlow({ clocksMhz, fell, throttled: false }, { turns: true })).toEqual({
      dropped: [],
      slowed: 1,
      throttled: 0,
    });
  });

  it('are kept in turns also where the device was throttled, for the other side keeps its own', () => {
    expect(judgeSlow({ clocksMhz, fell, throttled: true }, { turns: true })).toEqual({
      dropped: [],
      slowed: 0,
      throttled: 3,
    });
  });
});

describe('two builds in turns', () => {
  // A draws little power and runs at 1980 MHz, B draws much and runs at 1500 MHz: neither slowed down.
  const block = [1980, 1500, 1500, 1980];
  const blocks = (count: number): number[] => Array.from({ length: count }, () => block).flat();
  const slowDown = (clocks: number[]): SlowDown =>
    new SlowDown({ facts: { simulated: false } } as CudaDriver, {
      stamps: { read: () => clocks } as unknown as ClockStamps,
      conditions: { throttled: () => false } as unknown as Conditions,
      mode: 'hot',
    });

  it('keep a clock of their own each: a build that draws more power has not slowed down', () => {
    const { fell } = slowDown(blocks(50)).batch(200, [0, 1, 2, 3]);
    expect(fell.some(Boolean)).toBe(false);
    const asOne = slowDown(blocks(50)).batch(200);
    expect(asOne.fell.some(Boolean)).toBe(true);
  });

  it('still lose a sample whose clock fell against those of its own place', () => {
    const clocks = [...blocks(20), 1980, 1400, 1500, 1980];
    const { fell } = slowDown(clocks).batch(84, [0, 1, 2, 3]);
    expect(fell.flatMap((each, index) => (each ? [index] : []))).toEqual([81]);
  });
});
