import { describe, expect, it } from 'vitest';
import { judgeSlow } from './sampling.ts';

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
