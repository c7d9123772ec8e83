import { describe, expect, it } from 'vitest';
import { dropSlow } from './sampling.ts';

describe('samples that the device was slow in', () => {
  const clocksMhz = [1980, 1700, 1980];
  const fell = [false, true, false];

  it('are dropped one by one where the clock fell', () => {
    expect(dropSlow({ clocksMhz, fell, throttled: false }, { turns: false })).toEqual({ dropped: [1], slowed: 0 });
  });

  it('are kept and counted in turns, where the other side has no clocks to drop by', () => {
    expect(dropSlow({ clocksMhz, fell, throttled: false }, { turns: true })).toEqual({ dropped: [], slowed: 1 });
  });

  it.each([true, false])('are dropped with their batch where the device was throttled (in turns: %s)', (turns) => {
    expect(dropSlow({ clocksMhz, fell, throttled: true }, { turns })).toEqual({ dropped: [0, 1, 2], slowed: 0 });
  });
});
