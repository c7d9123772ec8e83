/** Scales from values to positions, with tick values for the axis. */

export interface Scale {
  readonly place: (value: number) => number;
  readonly ticks: readonly number[];
}

export interface Range {
  readonly low: number;
  readonly high: number;
}

const WANTED_TICKS = 5;

/** `from` is the position of the low end. */
export function linear({ low, high }: Range, from: number, to: number): Scale {
  const span = Math.max(high - low, Math.abs(high) * 1e-9, Number.MIN_VALUE);
  return {
    place: (value) => from + ((value - low) / span) * (to - from),
    ticks: roundSteps({ low, high: low + span }),
  };
}

/**
 * Logarithmic scale. There is a tick at each power of ten, and also at 2 and 5 if those are few. Both ends must be
 * above 0.
 */
export function logarithmic({ low, high }: Range, from: number, to: number): Scale {
  const [first, last] = [Math.log10(low), Math.log10(Math.max(high, low * 1.01))];
  const factors = last - first < 2.5 ? [1, 2, 5] : [1];
  const ticks: number[] = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); power++)
    for (const factor of factors) ticks.push(factor * 10 ** power);
  return {
    place: (value) => from + ((Math.log10(value) - first) / (last - first)) * (to - from),
    ticks: ticks.filter((tick) => tick >= low && tick <= high),
  };
}

/** Multiples of 1, 2 or 5 times a power of ten. */
function roundSteps({ low, high }: Range): number[] {
  const rough = (high - low) / WANTED_TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(low / step);
  const count = Math.max(0, Math.min(2 * WANTED_TICKS, Math.floor(high / step) - first + 1));
  return Array.from({ length: count }, (_, index) => (first + index) * step);
}
