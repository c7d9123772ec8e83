import { readFileSync, readdirSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { FlashcoreError } from '../contract/errors.ts';
import { kernelMessage, loadManifest, parseManifest } from './manifest.ts';
import { checkShape, planLaunches } from './launch-plan.ts';
import { attentionCase, parseShape } from './shape.ts';
import { type DeviceFacts, archMismatch, resolveVariant } from './variant.ts';

const KERNELS = join(import.meta.dirname, '../../../../kernels');

const SPLIT_KV = `
id: split_kv
title: Keys and values in pieces
lesson: small grids leave SMs idle
after: flashcore_v9
source: split_kv.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
limits:
  - { require: "D == 64 || D == 128", because: "tiles are laid out for these" }
  - { require: "S % BLOCK_KV == 0", because: "no ragged tile" }
parameters:
  USE_WMMA: { values: [1, 0], default: 1, about: tensor cores }
  BLOCK_KV: { values: [64, 128], default: 64, about: keys a tile }
  SPLITS: { values: [1, 4], default: 4, about: pieces }
  STAGES: { values: [2], default: 2, about: "cp.async stages" }
configs:
  wide: { BLOCK_KV: 128, SPLITS: 1 }
compile: { maxrregcount: 128 }
constants:
  ROW_BYTES: "D * 2 + 16"
  halves: "BLOCK_KV * STAGES"
  STAGE_BYTES: "halves * 2"
  SMEM_BYTES: "BLOCK_KV * ROW_BYTES * STAGES"
workspace:
  partial_O: "4 * B * H * S * D * SPLITS"
launches:
  - entry: attend
    grid: ["ceil(S / 64)", "B * H", SPLITS]
    block: [128, 1, 1]
    shared_bytes: SMEM_BYTES
    cluster: [1, 1, 1]
    l2_persist: [K, V]
    arguments: [Q, { tensor_map: { tensor: K, box: [64, BLOCK_KV], swizzle: 128B } }, V, partial_O, B, S, scale, causal, SPLITS, { int32: "S / 2" }, { float32: "scale * 1.5" }]
  - entry: combine
    when: "SPLITS > 1"
    grid: ["B * H", 1, 1]
    block: [64, 1, 1]
    l2_persist: { tensors: [O], when: 'USE_WMMA == 0' }
    arguments: [partial_O, O]
`;

test('compiler flags come from a closed list and are part of every variant', () => {
  const withFlags = (flags: string): string =>
    SPLIT_KV.replace('compile: { maxrregcount: 128 }', `compile: { flags: [${flags}] }`);
  const manifest = parseManifest(withFlags('"-std=c++20", --expt-extended-lambda, "-Xptxas=-dlcm=cg"'), 'kernel.yaml');
  expect(resolveVariant(manifest).flags).toEqual(['-std=c++20', '--expt-extended-lambda', '-Xptxas=-dlcm=cg']);
  for (const refused of [
    '-I/etc',
    '--compiler-bindir=/tmp/sh',
    '"-Xptxas=-O3 -o /tmp/x"',
    '"-std=c++17", "-std=c++20"',
  ])
    expect(() => parseManifest(withFlags(refused), 'kernel.yaml')).toThrow(/compile\.flags/);
});

const ALIKE = SPLIT_KV.slice(0, SPLIT_KV.indexOf('launches:')).concat(`launches:
  - each:
      - { entry: short_rows, when: "S <= 64", with: { rows: 16, threads: 32 * 2 } }
      - { entry: long_rows, when: "S > 64", cluster: [1, 2, 1], with: { rows: 64, threads: BLOCK_KV } }
    grid: ["ceil(S / rows)", "B * H", 1]
    block: [threads / 2, 1, 1]
    shared_bytes: 2 * rows
    arguments: [Q, rows, { int32: "rows + 1" }, { tensor_map: { tensor: K, box: [64, rows] } }]
`);

/** SPLIT_KV with a different last argument of its first launch. */
const passing = (argument: string): string => SPLIT_KV.replace('{ float32: "scale * 1.5" }', argument);

test('a struct by value has fields by name and offset, with every kind of argument', () => {
  const manifest = parseManifest(
    passing(`{ struct: { bytes: 256, fields: {
      q: { at: 0, value: Q }, mask: { at: 8, value: null }, "stride[0]": { at: 16, value: { int64: "S * D * 2e6" } },
      is_causal: { at: 24, value: { bool: "causal * 7" } }, rows: { at: 28, value: S }, softmax.scale: { at: 32, value: scale },
      factor: { at: 40, value: { float64: "scale * 3" } }, parts: { at: 48, value: partial_O },
      map: { at: 128, value: { tensor_map: { tensor: K, box: [64, 8] } } } } } }`),
    'kernel.yaml',
  );
  const [launch] = planLaunches(manifest, resolveVariant(manifest), parseShape('2x8x512x64c')).launches;
  expect(launch!.arguments.at(-1)).toEqual({
    kind: 'struct',
    bytes: 256,
    fields: [
      { name: 'q', at: 0, value: { kind: 'tensor', tensor: 'Q' } },
      { name: 'mask', at: 8, value: { kind: 'null' } },
      { name: 'stride[0]', at: 16, value: { kind: 'int64', value: 65_536_000_000 } },
      { name: 'is_causal', at: 24, value: { kind: 'bool', value: 1 } },
      { name: 'rows', at: 28, value: { kind: 'int32', value: 512 } },
      { name: 'softmax.scale', at: 32, value: { kind: 'float32', value: 0.125 } },
      { name: 'factor', at: 40, value: { kind: 'float64', value: 0.375 } },
      { name: 'parts', at: 48, value: { kind: 'workspace', name: 'partial_O' } },
      { name: 'map', at: 128, value: { kind: 'tensorMap', tensor: 'K', box: [64, 8], swizzle: 'none' } },
    ],
  });
});

test('a packed struct has fields at any offset, and integers of one and two bytes', () => {
  const struct = (packed: boolean) =>
    passing(`{ struct: { bytes: 16, packed: ${packed}, fields: { flag: { at: 0, value: { int8: "-causal" } },
      q: { at: 1, value: Q }, rows: { at: 9, value: { int16: S } }, scale: { at: 11, value: scale } } } }`);
  const manifest = parseManifest(struct(true), 'kernel.yaml');
  const planned = (shape: string) => planLaunches(manifest, resolveVariant(manifest), parseShape(shape)).launches[0]!;
  expect(planned('2x8x512x64c').arguments.at(-1)).toEqual({
    kind: 'struct',
    bytes: 16,
    fields: [
      { name: 'flag', at: 0, value: { kind: 'int8', value: -1 } },
      { name: 'q', at: 1, value: { kind: 'tensor', tensor: 'Q' } },
      { name: 'rows', at: 9, value: { kind: 'int16', value: 512 } },
      { name: 'scale', at: 11, value: { kind: 'float32', value: 0.125 } },
    ],
  });
  expect(() => planned('1x1x65536x64')).toThrow(
    /fields\.rows\.value: must be an integer of -32768 to 32767, got 65536/,
  );
  expect(() => parseManifest(struct(false), 'kernel.yaml')).toThrow(/unless the struct is packed, got 1/);
});

test('an argument with `when` is passed only by the variants that have it, and only they have it as an output', () => {
  const manifest = parseManifest(
    passing('{ tensor: LSE, when: "WRITE_LSE == 1" }').replace(
      /^parameters:\n/m,
      'parameters:\n  WRITE_LSE: { values: [0, 1], default: 0, about: "1: also writes LSE" }\n',
    ),
    'kernel.yaml',
  );
  const planned = (WRITE_LSE: number) => {
    const { launches, tensors } = planLaunches(
      manifest,
      resolveVariant(manifest, { parameters: { WRITE_LSE } }),
      parseShape('2x8x512x64c'),
    );
    return [launches[0]!.arguments.filter((each) => 'tensor' in each && each.tensor === 'LSE'), outputsOf(tensors)];
  };
  expect(planned(0)).toEqual([[], ['O']]);
  expect(planned(1)).toEqual([[{ kind: 'tensor', tensor: 'LSE' }], ['O', 'LSE']]);
});

const outputsOf = (tensors: readonly { name: string; direction: string }[]): string[] =>
  tensors.filter(({ direction }) => direction === 'out').map(({ name }) => name);

const stored = (layouts: string): string => SPLIT_KV.replace('workspace:', `layouts: { ${layouts} }\nworkspace:`);

test('a layout gives the order of dimensions in memory, in the variants for whose parameters `when` holds', () => {
  const text = stored('Q: [B, S, H, D], K: { order: [B, Skv, Hkv, D], when: SPLITS == 1 }, V: [B, Hkv, Skv, Dv]');
  const manifest = parseManifest(text, 'kernel.yaml');
  const layoutsOfTensors = (parameters: Record<string, number>) =>
    planLaunches(manifest, resolveVariant(manifest, { parameters }), parseShape('2x4x64x64')).tensors.map(
      ({ name, dims, layout }) => [name, dims, layout],
    );
  const [dims, order] = [
    [2, 4, 64, 64],
    [0, 2, 1, 3],
  ];
  // V keeps the problem's order.
  expect(layoutsOfTensors({ SPLITS: 4 })).toEqual([
    ['Q', dims, order],
    ['K', dims, undefined],
    ['V', dims, undefined],
    ['O', dims, undefined],
  ]);
  expect(layoutsOfTensors({ SPLITS: 1 })[1]).toEqual(['K', dims, order]);
});

test.each([
  ['Q: [B, H, S]', /layouts\.Q: must have each dimension of Q \[B, H, S, D\] once, got \[B, H, S\]/],
  ['Q: [B, H, S, S]', /layouts\.Q: must have each dimension of Q \[B, H, S, D\] once, got \[B, H, S, S\]/],
  ['Q: { order: [B, S, H], when: SPLITS }', /layouts\.Q\.order: must have each dimension/],
  ['Z: [B, S, H, D]', /layouts\.Z: unknown tensor "Z"/],
  ['Q: { order: [B, S, H, D], when: "S > 64" }', /layouts\.Q\.when: unknown name "S"/],
  ['Q: { order: [B, S, H, D] }', /layouts\.Q\.when: /],
  ['K: [B, D, Hkv, Skv]', /tensor_map\.tensor: must have the last dimension last in memory for a tensor map/],
])('the layouts { %s } are refused', (layouts, message) => {
  expect(() => parseManifest(stored(layouts), 'kernel.yaml')).toThrow(message);
});

test.each([
  ['S <= 64', /arguments\[\d+\]\.when: must use parameters alone, .* got S$/m],
  ['WRITE_LES == 1', /arguments\[\d+\]\.when: unknown name "WRITE_LES"/],
])('an argument under the condition %s is refused', (when, message) => {
  expect(() => parseManifest(passing(`{ tensor: LSE, when: "${when}" }`), 'kernel.yaml')).toThrow(message);
});

test.each([
  [
    'q: { at: 4, value: Q }',
    /fields\.q\.at: must be a multiple of 8, as a tensor is, unless the struct is packed, got 4/,
  ],
  ['q: { at: 12, value: S }, k: { at: 12, value: S }', /fields\.k\.at: must be at least 16, where q ends, got 12/],
  ['q: { at: 16, value: S }', /fields\.q\.at: must be at most 12, where 16 bytes have room for a int32, got 16/],
  ['q: { at: 0, value: { struct: {} } }', /fields\.q\.value: must be a name, null, /],
  ['q: { at: 0, value: W }', /fields\.q\.value: unknown argument "W"/],
  ['q: { at: 0, value: { int64: T } }', /fields\.q\.value\.int64: unknown name "T"/],
  ['q-1: { at: 0, value: S }', /the name of a field, such as scale/],
  ['q: { at: -4, value: S }', /fields\.q\.at/],
])('a struct with the fields %s is refused', (fields, message) => {
  expect(() => parseManifest(passing(`{ struct: { bytes: 16, fields: { ${fields} } } }`), 'kernel.yaml')).toThrow(
    message,
  );
});

test("a cooperative launch is marked in its launch plan and needs the emulator's PTX engine", () => {
  const manifest = parseManifest(
    SPLIT_KV.replace('block: [64, 1, 1]', 'block: [64, 1, 1]\n    cooperative: true'),
    'kernel.yaml',
  );
  const { launches } = planLaunches(manifest, resolveVariant(manifest), parseShape('2x8x512x64'));
  expect([manifest.emulated, ...launches.map(({ cooperative }) => cooperative)]).toEqual(['ptx', undefined, true]);
});

test('a programmatic launch is marked in its launch plan, unless it is the first launch', () => {
  const all = SPLIT_KV.replace(/^( *)grid:/gm, '$1programmatic: true\n$1grid:');
  const manifest = parseManifest(all, 'kernel.yaml');
  const { launches } = planLaunches(manifest, resolveVariant(manifest), parseShape('2x8x512x64'));
  expect(launches.map(({ programmatic }) => programmatic)).toEqual([undefined, true]);
});

test("a tensor in a struct is one of the launches' tensors", () => {
  const manifest = parseManifest(
    passing('{ struct: { bytes: 8, fields: { lse: { at: 0, value: LSE } } } }'),
    'kernel.yaml',
  );
  const { tensors } = planLaunches(manifest, resolveVariant(manifest), parseShape('1x1x64x64'));
  expect(tensors.map(({ name }) => name)).toContain('LSE');
});

test('launches that differ in a few names share everything else', () => {
  const manifest = parseManifest(ALIKE, 'kernel.yaml');
  const launched = (shape: string) => planLaunches(manifest, resolveVariant(manifest), parseShape(shape)).launches;
  const Q = { kind: 'tensor', tensor: 'Q' };
  const mapped = (rows: number) => ({ kind: 'tensorMap', tensor: 'K', box: [64, rows], swizzle: 'none' });
  expect(launched('1x2x64x64')).toEqual([
    {
      entry: 'short_rows',
      grid: [4, 2, 1],
      block: [32, 1, 1],
      sharedBytes: 32,
      l2Persist: [],
      arguments: [Q, { kind: 'int32', value: 16 }, { kind: 'int32', value: 17 }, mapped(16)],
    },
  ]);
  expect(launched('1x2x128x64')).toEqual([
    {
      entry: 'long_rows',
      grid: [2, 2, 1],
      block: [32, 1, 1],
      sharedBytes: 128,
      cluster: [1, 2, 1],
      l2Persist: [],
      arguments: [Q, { kind: 'int32', value: 64 }, { kind: 'int32', value: 65 }, mapped(64)],
    },
  ]);
});

test('a name that a launch defines does not replace a part of a number, such as "e3" in 1e3', () => {
  const manifest = parseManifest(
    ALIKE.replace('2 * rows', '1e3 + e3').replaceAll('with: { ', 'with: { e3: 5, '),
    'kernel.yaml',
  );
  const [launch] = planLaunches(manifest, resolveVariant(manifest), parseShape('1x2x64x64')).launches;
  expect(launch!.sharedBytes).toBe(1005);
});

test('launches in `each` lists count towards the maximum number of launches in a manifest', () => {
  const launch = '      - { entry: short_rows, with: { rows: 16, threads: 64 } }\n';
  const list = ALIKE.replace(/ {2}- each:\n(?: {6}.*\n)+/, `  - each:\n${launch.repeat(17)}`);
  const twice = `${list}${list.slice(list.indexOf('  - each:'))}`;
  expect(parseManifest(list, 'kernel.yaml').launches).toHaveLength(17);
  expect(() => parseManifest(twice, 'kernel.yaml')).toThrow('launches: must have at most 32 launches, got 34');
});

test.each([
  ['a name that another launch lacks', 'with: { rows: 16, ', 'with: { ', 'launches[0].grid[0]: unknown name "rows"'],
  [
    'a name that a parameter has already',
    'rows: 64',
    'SPLITS: 64',
    'launches[0].each[1].with.SPLITS: the name "SPLITS" is taken',
  ],
  ['a name that a tensor has already', 'rows: 64', 'Q: 64', 'launches[0].each[1].with.Q: the name "Q" is taken'],
  [
    'a name that a function has already',
    'rows: 64',
    'ceil: 64',
    'launches[0].each[1].with.ceil: the name "ceil" is taken',
  ],
  [
    'a value that uses another name of the same launch',
    'threads: BLOCK_KV',
    'threads: rows',
    'with.threads: unknown name "rows"',
  ],
  ['a wrong expression', 'threads: BLOCK_KV', 'threads: "64 +"', 'launches[0].each[1].with.threads: '],
  [
    'a shared field that one launch repeats',
    'with: { rows: 16, ',
    'block: [1, 1, 1], with: { rows: 16, ',
    'each[0]: unknown key "block"',
  ],
  [
    'an empty list of launches',
    ALIKE.slice(ALIKE.indexOf('each:'), ALIKE.indexOf('    grid')),
    'each: []\n',
    'each: must have at least one',
  ],
])('the error about launches that share their fields names the place: %s', (_, written, instead, message) => {
  expect(() => parseManifest(ALIKE.replace(written, instead), 'kernel.yaml')).toThrow(message);
});

test('an entry may have a C++ name of hundreds of characters', () => {
  const entry = `_Z6attendI${'5Tiles'.repeat(60)}EvPfi`;
  const manifest = parseManifest(SPLIT_KV.replace('entry: attend', `entry: ${entry}`), 'kernel.yaml');
  expect(manifest.launches[0]!.entry).toBe(entry);
  expect(() => parseManifest(SPLIT_KV.replace('entry: attend', 'entry: "a;b"'), 'kernel.yaml')).toThrow(/mangled/);
});

test('an entry may be spelled in C++, but without characters that could end the text around it', () => {
  const parsed = (entry: string) =>
    parseManifest(SPLIT_KV.replace('entry: attend', `entry: ${JSON.stringify(entry)}`), 'kernel.yaml').launches[0]!
      .entry;
  const longest = `k<${'1'.repeat(4093)}>`;
  for (const entry of ['fwd<64, true>', 'ns::fwd<Traits<64>, float>', '::k<(4 * 2)>', longest])
    expect(parsed(entry)).toBe(entry);
  const refused = ['k<1>;', 'k<1>{', 'k}', '#k', 'k<1\n>', 'k<1\u2028>', "k<'a'>", 'k<"a">', 'k\\', 'k</*1>', 'k<1>//'];
  for (const entry of [...refused, `${longest}>`, '<k>', ''])
    expect(() => parsed(entry), entry).toThrow(/C\+\+ spelling/);
});

test('a manifest that uses every feature becomes a launch plan', () => {
  const manifest = parseManifest(SPLIT_KV, 'split_kv/kernel.yaml');
  const resolved = resolveVariant(manifest);
  expect(resolved).toEqual({
    label: 'USE_WMMA=1 BLOCK_KV=64 SPLITS=4',
    parameters: { USE_WMMA: 1, BLOCK_KV: 64, SPLITS: 4, STAGES: 2 },
    dtype: 'fp16',
    constants: { halves: 128, STAGE_BYTES: 256 },
    defines: ['-DUSE_WMMA=1', '-DBLOCK_KV=64', '-DSPLITS=4', '-DSTAGES=2', '-DSTAGE_BYTES=256'],
    arch: undefined,
    maxRegisters: 128,
    fastMath: true,
    flags: [],
    keepPtx: false,
    keepSass: false,
  });
  expect(planLaunches(manifest, resolved, parseShape('2x8x512x64c'))).toEqual({
    ...attentionCase(parseShape('2x8x512x64c'), 'fp16'),
    accumulate: 'fp32',
    launches: [
      {
        entry: 'attend',
        grid: [8, 16, 4],
        block: [128, 1, 1],
        sharedBytes: 64 * 144 * 2,
        cluster: [1, 1, 1],
        l2Persist: ['K', 'V'],
        arguments: [
          { kind: 'tensor', tensor: 'Q' },
          { kind: 'tensorMap', tensor: 'K', box: [64, 64], swizzle: '128B' },
          { kind: 'tensor', tensor: 'V' },
          { kind: 'workspace', name: 'partial_O' },
          { kind: 'int32', value: 2 },
          { kind: 'int32', value: 512 },
          { kind: 'float32', value: 0.125 },
          { kind: 'int32', value: 1 },
          { kind: 'int32', value: 4 },
          { kind: 'int32', value: 256 },
          { kind: 'float32', value: 0.1875 },
        ],
      },
      {
        entry: 'combine',
        grid: [16, 1, 1],
        block: [64, 1, 1],
        sharedBytes: 0,
        l2Persist: [],
        arguments: [
          { kind: 'workspace', name: 'partial_O' },
          { kind: 'tensor', tensor: 'O' },
        ],
      },
    ],
    workspace: [{ name: 'partial_O', bytes: 4 * 2 * 8 * 512 * 64 * 4 }],
  });
  const wide = resolveVariant(manifest, {
    config: 'wide',
    parameters: { USE_WMMA: 0n },
    maxRegisters: 64,
    fastMath: false,
  });
  expect(wide.label).toBe('USE_WMMA=0 BLOCK_KV=128 SPLITS=1 maxrregcount=64 fast_math=0');
  expect(planLaunches(manifest, wide, parseShape('2x8x512x64')).launches.map(({ entry }) => entry)).toEqual(['attend']);
  const scalar = resolveVariant(manifest, { parameters: { USE_WMMA: 0n } });
  expect(planLaunches(manifest, scalar, parseShape('2x8x512x64')).launches.map(({ l2Persist }) => l2Persist)).toEqual([
    ['K', 'V'],
    ['O'],
  ]);
});

test('the error names the first limit that a shape violates', () => {
  const manifest = parseManifest(SPLIT_KV, 'split_kv/kernel.yaml');
  const resolved = resolveVariant(manifest);
  expect(
    ['1x1x64x64', '1x1x100x64', '1x1x100x32'].map(
      (shape) => checkShape(manifest, resolved, parseShape(shape))?.require,
    ),
  ).toEqual([undefined, 'S % BLOCK_KV == 0', 'D == 64 || D == 128']);
  expect(() => planLaunches(manifest, resolved, parseShape('1x1x100x64'))).toThrow(
    expect.objectContaining({
      reason: 'SHAPE_UNSUPPORTED',
      metadata: { kernel: 'split_kv', shape: '1x1x100x64', limit: 'S % BLOCK_KV == 0' },
      message: 'split_kv does not take 1x1x100x64: it requires S % BLOCK_KV == 0, because no ragged tile',
    }) as Error,
  );
  // A grid that exceeds CUDA's own limit is an error of the shape.
  expect(() => planLaunches(manifest, resolved, parseShape('70000x1x64x64'))).toThrow(
    expect.objectContaining({
      reason: 'SHAPE_UNSUPPORTED',
      metadata: { kernel: 'split_kv', shape: '70000x1x64x64', limit: 'grid.y <= 65535' },
    }) as Error,
  );
});

test('a kernel with a tensor that only some cases have takes those cases, and its plan for them has the tensor', () => {
  const plain = parseManifest(SPLIT_KV, 'split_kv/kernel.yaml');
  const takesSinks = parseManifest(SPLIT_KV.replace('V, partial_O, B', 'V, sink_logits, partial_O, B'), 'kernel.yaml');
  const shape = (text: string) => parseShape(`2x8x512x64${text}`);
  expect(checkShape(plain, resolveVariant(plain), shape(',sinks=1'))).toEqual({
    require: 'sinks == 0',
    because: 'its kernel.yaml does not use sinks',
  });
  const inputs = (text: string) =>
    planLaunches(takesSinks, resolveVariant(takesSinks), shape(text))
      .tensors.filter(({ direction }) => direction === 'in')
      .map(({ name, dims }) => `${name} ${dims.join('x')}`);
  expect([inputs(''), inputs(',sinks=1')].map((each) => each.slice(3))).toEqual([[], ['sink_logits 8']]);
});

test('the error names every wrong field of a variant', () => {
  const manifest = parseManifest(SPLIT_KV, 'split_kv/kernel.yaml');
  const error = thrown(() =>
    resolveVariant(manifest, {
      config: 'wid',
      parameters: { BLOCK_KV: 96n, USE_WMA: 1n, constructor: 1n },
      maxRegisters: 8,
      arch: 'sm_75',
    }),
  );
  expect(error.reason).toBe('INVALID_VARIANT');
  expect(error.violations).toEqual([
    { field: 'variant.config', description: 'unknown config "wid" (did you mean "wide"?)' },
    { field: 'variant.parameters.BLOCK_KV', description: 'must be one of 64, 128, got 96' },
    { field: 'variant.parameters.USE_WMA', description: 'unknown parameter "USE_WMA" (did you mean "USE_WMMA"?)' },
    {
      field: 'variant.parameters.constructor',
      description: 'unknown parameter "constructor": known are USE_WMMA, BLOCK_KV, SPLITS, STAGES',
    },
    { field: 'variant.max_registers', description: "must be 16 to 255, or 0 for the manifest's, got 8" },
    { field: 'variant.arch', description: 'the kernel needs sm_80 or later, got sm_75' },
  ]);
});

test('an exact architecture matches only itself', () => {
  const hopper = { minArch: 'sm_90a', exactArch: true };
  expect(['sm_90a', 'sm_90', 'sm_89', 'sm_100', '90'].map((arch) => archMismatch(hopper, arch) === undefined)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});

test.each([
  ['source: split_kv.cu', 'sorce: split_kv.cu', 'sorce', /unknown key "sorce" \(did you mean "source"\?\)/],
  ['title: Keys and values in pieces', '', 'title', /must be a text, got nothing/],
  ['min_arch: sm_80', 'min_arch: 80', 'min_arch', /:7: min_arch: must be an architecture such as sm_80, got 80/],
  ['min_arch: sm_80', '', 'min_arch', /exactly one/],
  [
    'source: split_kv.cu',
    'source: ../../etc/passwd.cu',
    'source',
    /a \.cu, \.cuh, \.ptx, \.cubin or \.py file of the kernel's folder/,
  ],
  ['"D == 64 || D == 128"', '"D = 64"', 'limits[0].require', /in "D = 64"/],
  [
    '"S % BLOCK_KV == 0"',
    '"S % BLOK_KV == 0"',
    'limits[1].require',
    /unknown name "BLOK_KV" in .* \(did you mean "BLOCK_KV"\?\)/,
  ],
  ['ROW_BYTES: "D * 2 + 16"', 'ROW_BYTES: "SMEM_BYTES * 2"', 'constants.ROW_BYTES', /unknown name "SMEM_BYTES"/],
  ['default: 1,', 'default: 2,', 'parameters.USE_WMMA.default', /one of `values`/],
  ['  STAGES: {', '  S: {', 'parameters.S', /a parameter name/],
  ['  STAGES: {', '  CUDA_ARCH: {', 'parameters.CUDA_ARCH', /not reserved/],
  ['  STAGES: {', '  ROW_BYTES: {', 'constants.ROW_BYTES', /taken by parameters/],
  ['  ROW_BYTES: ', '  CUDA_BYTES: ', 'constants.CUDA_BYTES', /not reserved/],
  [
    'lesson: small',
    'problem: atention\nlesson: small',
    'problem',
    /:4: problem: unknown problem "atention" \(did you mean "att/,
  ],
  ['  ROW_BYTES: ', '  Q: ', 'constants.Q', /the name "Q" is taken by the problem attention/],
  ['lesson: small', 'lesson: small\nnotes: none', 'notes', /belongs in NOTES\.md, next to kernel\.yaml/],
  ['wide: { BLOCK_KV: 128', 'wide: { BLOCK_KV: 96', 'configs.wide.BLOCK_KV', /one of 64, 128, got 96/],
  [
    'partial_O, B, S,',
    'partial_P, B, S,',
    'launches[0].arguments[3]',
    /unknown argument "partial_P" \(did you mean "partial_O"\?\)/,
  ],
  [
    '{ float32: "scale * 1.5" }',
    '{ float16: "scale" }',
    'launches[0].arguments[10]',
    /must be a name, null, \{ int32: expression \}/,
  ],
  [
    'l2_persist: [K, V]',
    'l2_persist: [K, W]',
    'launches[0].l2_persist[1]',
    /unknown tensor "W": known are Q, K, V, sink_logits, alibi_slopes, bias_values, O/,
  ],
  [
    'l2_persist: [K, V]',
    'l2_persist: [sink_logits]',
    'launches[0].l2_persist[0]',
    /only where sinks: name it as an arg/,
  ],
  [
    'tensor: K,',
    'tensor: sink_logits,',
    'launches[0].arguments[1].tensor_map',
    /cases have sink_logits only where sinks/,
  ],
  ["when: 'USE_WMMA == 0' }", "when: 'USE_WMA' }", 'launches[1].l2_persist.when', /did you mean "USE_WMMA"/],
  ["tensors: [O], when: 'USE_WMMA == 0'", 'tensors: [O]', 'launches[1].l2_persist.when', /l2_persist\.when/],
  ['block: [64, 1, 1]', 'block: [64, 1]', 'launches[1].block', /three expressions/],
  ['lesson: small', 'lesson: [small', '', /not valid YAML/],
  ['lesson: small', 'title: small', '', /line 4: not valid YAML: the key "title" appears twice/],
])('a manifest with %j replaced by %j is refused at %j', (was, is, key, message) => {
  const error = thrown(() => parseManifest(SPLIT_KV.replace(was, is), 'split_kv/kernel.yaml'));
  expect(error.reason).toBe('INVALID_MANIFEST');
  expect(error.message).toMatch(message);
  expect(error.metadata['path']).toBe('split_kv/kernel.yaml');
  if (key !== '') expect(error.violations.map(({ field }) => field).join(' ')).toContain(key === 'sorce' ? '' : key);
});

test.each([
  ['grid: ["B * H", 1, 1]', 'grid: ["B / 3", 1, 1]', 'launches[1].grid[0]'],
  ['block: [64, 1, 1]', 'block: [64, 32, 1]', 'launches[1].block'],
  ['partial_O: "4 *', 'partial_O: "4 / (S - S) *', 'workspace.partial_O'],
  ['when: "SPLITS > 1"', 'when: "1 % 0"', 'launches[1].when'],
  ['{ int32: "S / 2" }', '{ int32: "S / 3" }', 'launches[0].arguments[9]'],
])('an expression without a usable value is reported as a fault of the manifest: %j replaced by %j', (was, is, key) => {
  const manifest = parseManifest(SPLIT_KV.replace(was, is), 'split_kv/kernel.yaml');
  expect(thrown(() => planLaunches(manifest, resolveVariant(manifest), parseShape('2x8x512x64')))).toMatchObject({
    reason: 'INVALID_MANIFEST',
    metadata: { path: 'split_kv/kernel.yaml', key },
  });
});

test('aliases cannot expand a manifest without limit', () => {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
    .split('')
    .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefghi'[index]}`).join(',')}]`)
    .join('\n')}`;
  expect(thrown(() => parseManifest(bomb, 'kernel.yaml')).reason).toBe('INVALID_MANIFEST');
});

test('the error for a folder without kernel.yaml names the folder', async () => {
  using folder = temporaryFolder();
  await expect(loadManifest(folder.path)).rejects.toMatchObject({
    reason: 'INVALID_MANIFEST',
    metadata: { path: join(folder.path, 'kernel.yaml') },
    message: `No kernel folder, there is no ${join(folder.path, 'kernel.yaml')}: give a folder with a kernel.yaml`,
  });
});

test('the launches of the example in kernels/README.md can be planned', () => {
  const example =
    /## kernel\.yaml[^]*?```yaml\n([^]*?)```/.exec(readFileSync(join(KERNELS, 'README.md'), 'utf8'))?.[1] ?? '';
  const manifest = parseManifest(example, 'README.md');
  const { launches } = planLaunches(manifest, resolveVariant(manifest), parseShape('2x8x512x64'));
  expect(launches.map(({ entry, grid, block }) => [entry, grid, block])).toEqual([
    ['my_kernel', [8, 16, 2], [128, 1, 1]],
    ['my_kernel_merge', [8, 16, 1], [128, 1, 1]],
  ]);
});

test('every kernel of the repository plans the canonical shape or refuses it with a reason', async () => {
  const folders = [KERNELS, join(KERNELS, 'faulty')]
    .flatMap((parent) => readdirSync(parent).map((name) => join(parent, name)))
    .filter((folder) => existsSync(join(folder, 'kernel.yaml')));
  expect(folders.length).toBeGreaterThan(10);
  for (const folder of folders) {
    const manifest = await loadManifest(folder);
    expect(folder.endsWith(`/${manifest.id}`)).toBe(true);
    expect(manifest.faulty !== undefined).toBe(folder.includes('/faulty/'));
    for (const config of ['', ...Object.keys(manifest.configs)]) {
      const resolved = resolveVariant(manifest, { config });
      const shape = parseShape('2x8x512x64');
      if (checkShape(manifest, resolved, shape) === undefined)
        expect(planLaunches(manifest, resolved, shape).launches.length).toBeGreaterThan(0);
    }
  }
});

function thrown(action: () => unknown): FlashcoreError {
  try {
    action();
  } catch (error) {
    if (error instanceof FlashcoreError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

test("a parameter of_device takes the value nearest to the device's count, unless a value is requested", async () => {
  const manifest = await loadManifest(join(KERNELS, 'flashcore_v10'));
  const emulated = { multiprocessors: 58, arch: 'sm_89', simulated: true };
  const built = (arch: string, device: DeviceFacts) => resolveVariant(manifest, { arch }, device).parameters['SMS'];
  expect([built('sm_90', emulated), built('sm_90a', emulated), built('sm_89', emulated)]).toEqual([132, 132, 58]);
  expect(built('sm_90', { ...emulated, simulated: false })).toBe(58);
  const sms = (multiprocessors?: number, asked?: number) =>
    resolveVariant(
      manifest,
      asked ? { parameters: { SMS: asked } } : {},
      multiprocessors ? { multiprocessors } : undefined,
    ).parameters['SMS'];
  expect([sms(), sms(58), sms(60), sms(132), sms(58, 142)]).toEqual([132, 58, 58, 132, 142]);
  // A client reads this to show the default of a device.
  const listed = Object.fromEntries(kernelMessage(manifest).parameters.map(({ name, ofDevice }) => [name, ofDevice]));
  expect(listed).toEqual({
    ...Object.fromEntries(Object.keys(listed).map((name) => [name, ''])),
    SMS: 'multiprocessors',
  });
});

test('a kernel lists which of its parameters decide the dtype or the layout of a tensor', async () => {
  const { parameters } = kernelMessage(await loadManifest(join(KERNELS, 'flashcore_v12')));
  expect(parameters.filter(({ decidesTensors }) => decidesTensors).map(({ name }) => name)).toContain('BSHD');
  expect(parameters.map(({ decidesTensors }) => decidesTensors)).toContain(false);
});

const INITIALISED = `
id: initialised
title: As many kernels from outside are
lesson: what a host function allocated
source: initialised.cu
min_arch: sm_80
math: { inputs: bf16, accumulate: fp32 }
workspace:
  bytes: "B * H * 8"
  l: { dtype: fp32, shape: [B, H, S], initial: 0 }
  m: { dtype: fp32, shape: ["B * H", S + 1], initial: -inf }
  ready: { dtype: int32, shape: [B], initial: -1 }
  untouched: { dtype: fp16, shape: [D] }
output: { initial: 0.1 }
launches:
  - { entry: initialised, grid: [B, H, 1], block: [32, 1, 1], arguments: [Q, K, V, l, m, ready, untouched, bytes, O] }
`;

test('workspaces have a dtype, a shape and an initial value, and O may have an initial value', () => {
  const manifest = parseManifest(INITIALISED, 'initialised/kernel.yaml');
  const { dtype, workspace, initialOutputs } = planLaunches(manifest, resolveVariant(manifest), parseShape('2x3x5x64'));
  expect({ dtype, workspace, initialOutputs }).toEqual({
    dtype: 'bf16',
    workspace: [
      { name: 'bytes', bytes: 48 },
      { name: 'l', bytes: 120, initial: { bytes: 4, bits: 0 } },
      { name: 'm', bytes: 144, initial: { bytes: 4, bits: 0xff80_0000 } },
      { name: 'ready', bytes: 8, initial: { bytes: 4, bits: 0xffff_ffff } },
      { name: 'untouched', bytes: 128 },
    ],
    // 0.1 as bf16 is between 0x3dcc and 0x3dcd, and the latter is nearer.
    initialOutputs: { O: { bytes: 2, bits: 0x3dcd } },
  });
});

test('parameters decide the dtype of Q, K, V and O, in the plan and for initial outputs', () => {
  const written = INITIALISED.replace(
    'math:',
    'parameters:\n  DTYPE: { values: [0, 1, 2], default: 0, about: d }\nmath:',
  );
  const chosen = '{ bf16_when: DTYPE == 1, fp32_when: DTYPE == 2 }';
  const manifest = parseManifest(written.replace('inputs: bf16', `inputs: ${chosen}`), 'initialised/kernel.yaml');
  const plans = [0, 1, 2].map((DTYPE) => {
    const resolved = resolveVariant(manifest, { parameters: { DTYPE } });
    const { dtype, initialOutputs } = planLaunches(manifest, resolved, parseShape('1x1x1x64'));
    return [resolved.label, resolved.dtype, dtype, initialOutputs?.['O']];
  });
  expect(plans).toEqual([
    ['default', 'fp16', 'fp16', { bytes: 2, bits: 0x2e66 }],
    ['DTYPE=1', 'bf16', 'bf16', { bytes: 2, bits: 0x3dcd }],
    ['DTYPE=2', 'fp32', 'fp32', { bytes: 4, bits: 0x3dcc_cccd }],
  ]);
});

test('a parameter for a further dtype does not change the labels of variants in other dtypes', () => {
  const written = INITIALISED.replace(
    'math:',
    'parameters:\n  BF16: { values: [0, 1], default: 0, about: b }\n  FP32: { values: [0, 1], default: 0, about: f }\nmath:',
  ).replace('inputs: bf16', 'inputs: { bf16_when: BF16, fp32_when: FP32 }');
  const manifest = parseManifest(written, 'initialised/kernel.yaml');
  const variants: Record<string, number>[] = [{}, { BF16: 1 }, { FP32: 1 }];
  const labels = variants.map((parameters) => resolveVariant(manifest, { parameters }).label);
  expect(labels).toEqual(['default', 'BF16=1', 'FP32=1']);
});

test.each([
  ['inputs: bf16', 'inputs: { bf16_when: S > 1 }', 'math.inputs.bf16_when', 'unknown name "S"'],
  ['inputs: bf16', 'inputs: { bf16_when: 1 + }', 'math.inputs.bf16_when', '1 +'],
  ['inputs: bf16', 'inputs: { fp8_when: 1 }', 'math.inputs', 'or { bf16_when: expression over the parameters'],
  ['inputs: bf16', 'inputs: {}', 'math.inputs', 'or { bf16_when: expression over the parameters'],
  ['initial: 0 }', 'initial: zero }', 'workspace.l.initial', 'a number, inf or -inf'],
  ['initial: -1 }', 'initial: -inf }', 'workspace.ready.initial', 'must be an integer of -2147483648 to 2147483647'],
  ['initial: -1 }', 'initial: 0.5 }', 'workspace.ready.initial', 'as int32 is, got 0.5'],
  ['dtype: fp16', 'dtype: fp64', 'workspace.untouched.dtype', 'fp16, bf16, fp32, e4m3, e5m2, int8, int32, uint8'],
  ['shape: [D]', 'shape: []', 'workspace.untouched.shape', 'at least one extent'],
  ['shape: [D]', 'shape: [D, X]', 'workspace.untouched.shape[1]', 'unknown name "X"'],
  ['"B * H * 8"', '[1]', 'workspace.bytes', 'must be bytes, or { dtype: fp32'],
  ['inputs: bf16', 'inputs: fp8', 'math.inputs', 'fp16, bf16, fp32'],
])('a manifest with %s replaced by %s is refused at %s', (from, to, key, text) => {
  const error = thrown(() => parseManifest(INITIALISED.replace(from, to), 'initialised/kernel.yaml'));
  expect({ reason: error.reason, key: error.metadata['key'], message: error.message }).toEqual({
    reason: 'INVALID_MANIFEST',
    key,
    message: expect.stringContaining(text) as string,
  });
});
