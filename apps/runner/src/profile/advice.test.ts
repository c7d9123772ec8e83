import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { adviceFor, type Figures } from './advice.ts';

interface Named {
  name: string;
  value: number;
}
interface Stored {
  result: {
    variants: {
      build: { arch: string; entries: { shapes: string[]; occupancyLimiter: string }[] };
      profile: { metrics: Named[]; stalls: Named[] };
    }[];
  };
}

/** Figures measured for each kernel on an H200, in the form that advice needs. */
function measured(): [string, Figures][] {
  return globSync(join(measuredFolder('h200-2026-11-21'), 'run.*.json'))
    .sort()
    .map((path) => {
      const { result } = JSON.parse(readFileSync(path, 'utf8')) as Stored;
      const { build, profile } = result.variants[0]!;
      const values = new Map(profile.metrics.map(({ name, value = 0 }) => [name, value]));
      const launched = build.entries.find(({ shapes }) => shapes.includes('2x8x512x64')) ?? build.entries[0];
      const figures: Figures = {
        metric: (name) => values.get(name),
        stalls: profile.stalls.map(({ name, value = 0 }) => ({ name, value })),
        occupancyLimiter: launched?.occupancyLimiter,
        arch: build.arch,
        accumulate: 'fp32',
      };
      return [basename(path).replace(/^run\.|\.json$/g, ''), figures];
    });
}

test("each kernel's figures measured on an H200 trigger the expected rules of advice", () => {
  const rules = measured().map(([kernel, figures]) => [kernel, adviceFor(figures).map(({ rule }) => rule)]);
  expect(Object.fromEntries(rules)).toMatchInlineSnapshot(`
    {
      "fa_s512_v3": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
      ],
      "fa_s512_v3_wmma": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
      ],
      "fa_tc_s512": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
      ],
      "fa_v1_baseline": [
        "latency-bound",
        "stall wait",
      ],
      "fa_v2_wmma": [
        "bank conflicts",
        "latency-bound",
        "stall short_scoreboard",
      ],
      "flashcore_v10": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
      ],
      "flashcore_v11": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
        "stall long_scoreboard",
      ],
      "flashcore_v5": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
      ],
      "flashcore_v6": [
        "registers or occupancy",
        "latency-bound",
      ],
      "flashcore_v7": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
        "stall short_scoreboard",
      ],
      "flashcore_v8": [
        "registers or occupancy",
        "latency-bound",
        "stall wait",
        "stall short_scoreboard",
      ],
      "flashcore_v9": [
        "registers or occupancy",
        "bank conflicts",
        "latency-bound",
        "stall wait",
        "stall short_scoreboard",
      ],
    }
  `);
});

test('no rule contradicts a counter', () => {
  const kernels = measured();
  expect(kernels).toHaveLength(12);
  for (const [kernel, figures] of kernels) {
    const rules = adviceFor(figures).map(({ rule }) => rule);
    const of = (name: string): number => figures.metric(name)!;
    expect([kernel, rules.includes('bank conflicts')]).toEqual([kernel, of('smem_bank_conflict_percent') >= 5]);
    expect([kernel, rules.includes('spills')]).toEqual([
      kernel,
      of('local_load_instructions') + of('local_store_instructions') > 0,
    ]);
    if (rules.includes('memory-bound')) expect(of('dram_throughput_percent')).toBeGreaterThan(80);
    if (rules.includes('latency-bound')) expect(of('tensor_pipe_percent')).toBeLessThan(40);
    if (rules.includes('registers or occupancy'))
      expect(of('registers_per_thread') > 64 || of('resident_ctas_per_sm') < 4).toBe(true);
  }
});

test('bank conflicts of 5 % are reported, but several wavefronts per request are not: ldmatrix needs them', () => {
  const rulesOf = (conflicts: number, wavefronts: number): string[] =>
    adviceFor({
      metric: (name) => ({ smem_bank_conflict_percent: conflicts, smem_wavefronts_per_request: wavefronts })[name],
      stalls: [],
      occupancyLimiter: undefined,
      arch: 'sm_90',
      accumulate: undefined,
    }).map(({ rule }) => rule);
  expect([rulesOf(0, 9), rulesOf(4.9, 9), rulesOf(5, 1)]).toEqual([[], [], ['bank conflicts']]);
});

test('advice leaves out what the source already does', () => {
  const figures: Figures = {
    metric: (name) => ({ registers_per_thread: 172, resident_ctas_per_sm: 2 })[name],
    stalls: [],
    ...{ occupancyLimiter: 'registers', arch: 'sm_89', accumulate: undefined },
  };
  const text = (...words: string[]): string =>
    adviceFor({ ...figures, sourceHas: (word) => words.includes(word) })[0]!.text;
  expect([text(), text('__restrict__'), text('__restrict__', '__launch_bounds__')]).toEqual([
    'Narrow the live ranges of fragments, mark pointers __restrict__, avoid large local arrays, and give __launch_bounds__',
    'Narrow the live ranges of fragments, avoid large local arrays, and give __launch_bounds__',
    'Narrow the live ranges of fragments and avoid large local arrays',
  ]);
});
