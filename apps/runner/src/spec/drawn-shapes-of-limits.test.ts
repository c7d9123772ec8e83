/** Checks which shapes are drawn from which limits, over many runs. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema, type Device, type Shape } from '@flashcore/shared/contract';
import {
  attention,
  caseFlops,
  checkShape,
  formatShape,
  parseCases,
  parseManifest,
  resolveVariant,
  scopeOfShape,
  tensorElements,
} from '@flashcore/shared/kernels';
import { inFull } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { drawForRun, drawShapes, type Below } from './drawn-shapes.ts';

const read = (path: string): string => readFileSync(join(REPOSITORY_ROOT, 'kernels', path), 'utf8');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');
/** Enough runs to measure in what share of them a failing shape is drawn. */
const RUNS = 40;
/** Enough for a property that every run must have. */
const FEW_RUNS = 6;

const emulator = create(DeviceSchema, { simulated: true, multiprocessors: 58, memoryBytes: 2n ** 33n });
const gpu = create(DeviceSchema, { multiprocessors: 132, memoryBytes: 2n ** 37n });

/** Deterministic numbers for a seed. */
function numbers(seed: number): Below {
  let state = seed;
  return (count) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
}

interface Drawing {
  device?: Device;
  limits?: string;
  count?: number;
}

function drawn(path: string, { device = emulator, limits, count = FEW_RUNS }: Drawing = {}) {
  const text = read(`${path}/kernel.yaml`);
  const manifest = parseManifest(
    limits === undefined ? text : text.replace(/limits:\n( .*\n)+/, `limits:\n${limits}\n`),
    path,
  );
  const resolved = resolveVariant(manifest, {}, device);
  const runs = Array.from({ length: count }, (_, seed) =>
    drawShapes({ manifest, resolved, cases, device }, numbers(seed)),
  );
  for (const shape of runs.flat()) expect(checkShape(manifest, resolved, shape), formatShape(shape)).toBeUndefined();
  return runs;
}

/** Shapes on which kernels written for known shapes fail; some need several conditions at once. */
const WRONG_ON: Record<string, (shape: Shape) => boolean> = {
  'more heads than a case has': (shape) => all(shape) > 32,
  'CTAs beyond a wave': (shape) => all(shape) > 148 && shape.sequenceLength > 1,
  'five batches': ({ batch }) => batch >= 5,
  'five batches, causal': ({ batch, causal }) => batch >= 5 && causal,
  'five batches of 129 keys': ({ batch, sequenceLength }) => batch >= 5 && sequenceLength > 128,
  'a thousand heads': (shape) => all(shape) > 1000,
  'an odd number of heads': ({ heads }) => heads > 3 && heads % 2 === 1,
  'many odd heads': ({ heads }) => heads > 9 && heads % 2 === 1,
  'long and causal': ({ sequenceLength, causal }) => sequenceLength > 512 && causal,
  'long without a mask': ({ sequenceLength, causal }) => sequenceLength > 512 && !causal,
  'beyond 1,024': ({ sequenceLength }) => sequenceLength > 1024,
  'causal, ragged, many heads': (shape) => shape.causal && shape.sequenceLength % 2 === 1 && all(shape) > 6,
  'one key beyond a tile': ({ sequenceLength, causal }) => sequenceLength > 64 && sequenceLength % 64 === 1 && !causal,
  'the same, causal': ({ sequenceLength, causal }) => sequenceLength > 64 && sequenceLength % 64 === 1 && causal,
  'one key short of a tile': ({ sequenceLength }) => sequenceLength % 64 === 63,
  'between 256 and 512': ({ sequenceLength }) => sequenceLength > 256 && sequenceLength < 512,
};
const WRONG_ON_WIDTHS: typeof WRONG_ON = {
  'wide and causal': (shape) => shape.causal && shape.headDim > 64 && all(shape) > 2,
  'small head dimensions': ({ headDim }) => headDim < 32,
  'between 64 and 128': ({ headDim }) => headDim > 64 && headDim < 128,
};
const WRONG_ON_GROUPS: typeof WRONG_ON = {
  'groups of three, five or more heads': (shape) => groupOf(shape) > 1 && !Number.isInteger(Math.log2(groupOf(shape))),
  'groups of two, four or more heads': (shape) => groupOf(shape) > 1 && Number.isInteger(Math.log2(groupOf(shape))),
};
/** Tiles of 64 are the only ones that the kernel's manifest names. */
const WRONG_BEYOND_TILES: typeof WRONG_ON = Object.fromEntries(
  [48, 80, 96, 160, 192].map((tile) => [
    `one key beyond a tile of ${tile}`,
    ({ sequenceLength }: Shape) => sequenceLength > tile && sequenceLength % tile === 1,
  ]),
);
/** How many heads of Q share one of several heads of K and V; 1 if there is one head of K and V. */
function groupOf(shape: Shape): number {
  const { H, Hkv } = scopeOfShape(attention(), shape) as Record<'H' | 'Hkv', number>;
  return Hkv === 1 ? 1 : H / Hkv;
}
const all = ({ batch, heads }: Shape): number => batch * heads;
/** Least share of runs that must draw a failing shape. */
const SHARE = 0.85;
/**
 * The same share for a kernel with windows, sinks and capped logits, whose more numerous forms have to fit into the
 * same number of shapes.
 */
const SHARE_OF_FORMS = 0.65;

const WRONG: [kernel: string, on: typeof WRONG_ON, least: number][] = [
  ['flashcore_v6', WRONG_ON, SHARE],
  ['flashcore_v12', WRONG_ON, SHARE_OF_FORMS],
  ['corpus/cheats_shapes', { ...WRONG_ON, ...WRONG_ON_WIDTHS }, SHARE],
  ['corpus/shapes_hidden_tile', WRONG_BEYOND_TILES, SHARE],
  ['corpus/shapes_group_of_seven', WRONG_ON_GROUPS, SHARE],
];

test.each(inFull(WRONG, ([kernel]) => kernel === 'flashcore_v6'))(
  'nearly every run of %s draws each pair and many triples of sizes, within seconds',
  { timeout: 240_000 },
  (kernel, wrongOn, least) => {
    const runs = drawn(kernel, { count: RUNS });
    for (const shapes of runs) {
      // Twenty, half as many in all forms, two with most attributes, those with a single query or key, and those with
      // the greatest lengths.
      expect(shapes.length).toBeLessThanOrEqual(38);
      expect(
        shapes.every((shape) => tensorElements(attention(), shape) <= 2 ** 18 && caseFlops(attention(), shape) <= 6e8),
      ).toBe(true);
      expect(shapes.reduce((sum, shape) => sum + caseFlops(attention(), shape), 0)).toBeLessThanOrEqual(3.6e9);
    }
    const seldom = Object.entries(wrongOn)
      .map(([name, isWrong]) => ({ name, share: runs.filter((shapes) => shapes.some(isWrong)).length / RUNS }))
      .filter(({ share }) => share < least);
    expect(seldom).toEqual([]);
    expect(new Set(runs.map((shapes) => shapes.map(formatShape).join())).size).toBe(RUNS);
  },
);

test('shapes for a GPU have longer rows, and heads up to the limit or beyond 65,535 where there is none', () => {
  for (const [kernel, most] of [
    ['fa_v1_baseline', 65_535],
    ['flashcore_v10', 65_536],
  ] as const)
    for (const shapes of drawn(kernel, { device: gpu })) {
      expect(Math.max(...shapes.map(({ batch, heads }) => batch * heads))).toBeGreaterThanOrEqual(
        most === 65_535 ? most : 65_535,
      );
      expect(shapes.every((shape) => tensorElements(attention(), shape) <= 2 ** 23)).toBe(true);
    }
  const longest = drawn('flashcore_v10', { device: gpu }).flatMap((shapes) =>
    shapes.map((shape) => shape.sequenceLength),
  );
  expect(Math.max(...longest)).toBeGreaterThan(6_000);
});

test('most runs draw a head dimension that is in no list', () => {
  const runs = drawn('cheating/shapes_listed_widths', { count: RUNS });
  const wrong = runs.filter((shapes) =>
    shapes.some(({ headDim }) => headDim > 16 && headDim % 8 >= 2 && headDim % 8 <= 6),
  );
  expect(wrong.length).toBeGreaterThan(SHARE * RUNS);
});

test('every run draws a head dimension outside the cases, for a kernel that takes one', () => {
  for (const shapes of drawn('cheating/shapes_unlisted_head_dim'))
    expect(shapes.some(({ headDim }) => headDim === 96)).toBe(true);
});

test.each([
  ['multiples of 16', '  - { require: "D == 64 && S % 16 == 0", because: "x" }'],
  ['one length', '  - { require: "D == 64 && S == 512", because: "x" }'],
  ['few heads', '  - { require: "D == 64 && B * H <= 8", because: "x" }'],
  ['short rows', '  - { require: "D == 64 && S <= 64", because: "x" }'],
])('limits that exclude some classes of shapes leave the others: %s', (_, limits) => {
  for (const shapes of drawn('fa_v1_baseline', { limits })) expect(shapes.length).toBeGreaterThan(0);
});

test.each(['B * H >= 4', 'B >= 2 && H >= 2', 'B * H >= 5 && causal == 0', 'B == 2 && H == 8'])(
  'if limits refuse a single head, a kernel is still tried on other shapes: %s',
  { timeout: 240_000 },
  (limits) => {
    for (const shapes of drawn('fa_v1_baseline', { limits: `  - { require: "D == 64 && ${limits}", because: "x" }` }))
      expect(shapes.length).toBeGreaterThan(5);
  },
);

test('if the limits allow no shape but that of a case, every run draws that shape', { timeout: 240_000 }, () => {
  const limits = 'D == 64 && B == 2 && H == 8 && S == 512 && Skv == S && Hkv == H';
  for (const shapes of drawn('fa_v1_baseline', { limits: `  - { require: "${limits}", because: "x" }`, device: gpu }))
    expect(shapes.map(formatShape)).toContain('2x8x512x64');
});

test('limits that exclude everything leave no shape', () => {
  expect(drawn('fa_v1_baseline', { limits: '  - { require: "S > 2000000000", because: "x" }' }).flat()).toEqual([]);
});

test('draws do not depend on the request: two runs of the same request differ', () => {
  const manifest = parseManifest(read('flashcore_v6/kernel.yaml'), 'flashcore_v6');
  const kernel = { manifest, resolved: resolveVariant(manifest), cases, device: emulator };
  const [first, second] = [drawForRun(kernel), drawForRun(kernel)];
  expect(first.seeds).toHaveLength(2);
  expect(first.seeds).not.toEqual(second.seeds);
  expect(first.shapes.map(formatShape)).not.toEqual(second.shapes.map(formatShape));
});

/** Values of the shapes drawn in runs of an example kernel. */
function drawnValues(kernel: string, device = emulator) {
  const folder = join(REPOSITORY_ROOT, 'examples/kernels', kernel);
  const manifest = parseManifest(readFileSync(join(folder, 'kernel.yaml'), 'utf8'), kernel);
  const path = join(REPOSITORY_ROOT, 'problems', manifest.problem.id, 'cases.yaml');
  const ofProblem =
    manifest.problem.id === 'attention' ? cases : parseCases(readFileSync(path, 'utf8'), path, manifest.problem);
  const resolved = resolveVariant(manifest, {}, device);
  return Array.from({ length: 10 }, (_, seed) =>
    drawShapes({ manifest, resolved, cases: ofProblem, device }, numbers(seed)).map((shape) => {
      expect(checkShape(manifest, resolved, shape), formatShape(shape)).toBeUndefined();
      return scopeOfShape(manifest.problem, shape);
    }),
  );
}

type Values = Readonly<Record<string, number>>;

/** Shapes on which kernels of other problems and of attention's other forms fail; nearly every run must draw each. */
const ELSEWHERE: Record<string, Record<string, (values: Values) => boolean>> = {
  rmsnorm: {
    'more columns than a case': ({ N }) => N! > 8192,
    'one column beyond a tile': ({ N }) => N! > 256 && N! % 256 === 1,
    'one column': ({ N }) => N === 1,
    'rows beyond a wave': ({ rows }) => rows! > 148,
    'odd rows': ({ rows }) => rows! > 2 && rows! % 2 === 1,
  },
  gemm_tiles: {
    'long sums': ({ K }) => K! > 1024,
    'many rows, few columns': ({ M, N }) => M! > 512 && N! < 130,
    'few rows, many columns': ({ M, N }) => M! < 130 && N! > 512,
    'a ragged sum': ({ K }) => K! > 16 && K! % 16 !== 0,
    'one row of A': ({ M, N, K }) => M === 1 && (N! > 16 || K! > 16),
  },
  gqa_rows: {
    'heads in groups': ({ H, Hkv }) => H! > Hkv! && Hkv! > 1,
    'one head of K and V': ({ H, Hkv }) => H! > 1 && Hkv === 1,
    'more keys than queries': ({ S, Skv }) => Skv! > S!,
    'fewer keys than queries': ({ S, Skv }) => Skv! < S!,
    'aligned to the end': ({ causal }) => causal === 2,
    'a window': ({ window }) => window! > 0,
    'a softcap': ({ softcap }) => softcap! > 0,
    'ALiBi aligned to the end': ({ alibi, causal }) => alibi === 1 && causal === 2,
    'a bias without a mask': ({ bias, causal }) => bias === 1 && causal === 0,
    'sinks under a window': ({ sinks, window }) => sinks === 1 && window! >= 0,
    'a softcap under a window': ({ softcap, window }) => softcap! > 0 && window! >= 0,
    'one query of many keys': ({ S, Skv }) => S === 1 && Skv! > 64,
    'many queries of few keys': ({ S, Skv }) => S! > 256 && Skv! <= 16,
    'five attributes at once': ({ window, softcap, sinks, alibi, bias }) =>
      window! >= 0 && [softcap, sinks, alibi, bias].every(Boolean),
    'a window and no other attribute': ({ window, softcap, sinks, alibi, bias }) =>
      window! >= 0 && ![softcap, sinks, alibi, bias].some(Boolean),
  },
  merge_rows: { 'as many splits as there may be': ({ splits }) => splits === 1024 },
  decode_paged: {
    'a window of a few keys': ({ window }) => window! > 0 && window! < 16,
    'a softcap with a fraction': ({ softcap }) => softcap! % 0.125 !== 0,
    'a softcap beyond 2,000': ({ softcap }) => softcap! > 2000,
  },
  selected_rows: {
    'a lone list among several keys': ({ B, S, Hkv, Skv }) => B! * S! * Hkv! === 1 && Skv! > 8,
  },
  varlen_rows: {
    'a lone sequence of several tokens': ({ B, T }) => B === 1 && T! > 8,
    'several sequences': ({ B }) => B! > 3,
  },
  mla_rows: { 'a lone sequence in pages': ({ B, Skv, page }) => B === 1 && Skv! > page! },
};

test.each(Object.entries(ELSEWHERE))('%s: every axis and attribute that it uses is drawn', (kernel, wrongOn) => {
  const runs = drawnValues(kernel);
  const seldom = Object.entries(wrongOn).filter(
    ([, isWrong]) => runs.filter((shapes) => shapes.some(isWrong)).length < SHARE * runs.length,
  );
  expect(seldom.map(([name]) => name)).toEqual([]);
});

test("shapes for a GPU exceed a grid's limit in y, and a problem's own reference computes them in seconds", () => {
  for (const shapes of drawnValues('rmsnorm', gpu)) {
    expect(Math.max(...shapes.map(({ rows }) => rows!))).toBeGreaterThanOrEqual(65_535);
    expect(shapes.reduce((sum, { rows, N }) => sum + rows! * N!, 0)).toBeLessThan(24 * 2 ** 20);
  }
});
