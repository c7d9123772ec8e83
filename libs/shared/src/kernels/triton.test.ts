import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { edited } from '../testing/edited.ts';
import { parseManifest } from './manifest.ts';
import { manifestOfCompiled, tritonMemory, tritonUnits } from './triton.ts';
import { parseShape } from './shape.ts';
import { planLaunches } from './launch-plan.ts';
import { resolveVariant } from './variant.ts';

const PATH = join(import.meta.dirname, '../../../../test/fixtures/triton/matmul/kernel.yaml');
const TEXT = readFileSync(PATH, 'utf8');

function typesWith(limit: string): string[] {
  const manifest = parseManifest(
    edited(TEXT, 'parameters:', `limits: [{ require: "${limit}", because: tiles }]\nparameters:`),
    PATH,
  );
  return [...tritonUnits(manifest, resolveVariant(manifest))[0]!.types];
}

test('only integers that the limits make multiples of 16 are declared as such', () => {
  const tensors = ['*fp16', '*fp16', '*fp16'];
  expect(typesWith('K % 32 == 0 && N % 16 == 0')).toEqual([...tensors, 'i32', 'i32:16', 'i32:16']);
  expect(typesWith('K % 24 == 0')).toEqual([...tensors, 'i32', 'i32', 'i32']);
  expect(typesWith('K % 16 == 0 || N % 16 == 0')).toEqual([...tensors, 'i32', 'i32', 'i32']);
  expect(typesWith('K % 16 == 8')).toEqual([...tensors, 'i32', 'i32', 'i32']);
});

test('the dynamic shared memory is read from the first line of the PTX', () => {
  const ptx = '// flashcore: 4096 bytes of dynamic shared memory\n.version 8.7\n';
  expect(tritonMemory(ptx, 'matmul')).toEqual({ sharedBytes: 4096, scratchBytes: 0 });
  expect(tritonMemory('.version 8.7\n', 'matmul')).toEqual({ sharedBytes: 0, scratchBytes: 0 });
});

const PTX = '// flashcore: 4096 bytes of dynamic shared memory\n.version 8.7\n.target sm_90a\n.address_size 64\n';

test("the manifest of Triton's PTX has the parameters as constants and a launch from Triton's metadata", () => {
  const written = edited(TEXT, 'constants: {', '# of the tiles\nconstants: {');
  const resolved = resolveVariant(parseManifest(written, PATH), { parameters: { BLOCK: 64n } });
  const made = manifestOfCompiled(written, { id: 'compiled', source: 'kernel.ptx', ptx: PTX, resolved });
  expect(made).toContain('# of the tiles');
  const { id, source, minArch, exactArch, parameters, constants, launches } = parseManifest(made, 'made/kernel.yaml');
  expect({ id, source, minArch, exactArch, parameters }).toEqual({
    id: 'compiled',
    source: 'kernel.ptx',
    minArch: 'sm_90a',
    exactArch: true,
    parameters: {},
  });
  expect(constants.map(({ name }) => name)).toEqual(['BLOCK_K', 'BLOCK', 'NUM_WARPS', 'NUM_STAGES']);
  expect(made).toContain('BLOCK: 64');
  const [launch] = launches;
  expect([launch!.sharedBytes.text, launch!.arguments.map(({ kind }) => kind)]).toEqual([
    '4096',
    ['tensor', 'tensor', 'tensor', 'int32', 'int32', 'int32', 'null', 'null'],
  ]);
});

test("scratch memory that Triton's metadata requests becomes a workspace", () => {
  const ptx = edited(PTX, '.version', '// flashcore: 640 bytes of scratch memory for each CTA\n.version');
  expect([ptx, PTX].map((text) => tritonMemory(text, 'matmul').scratchBytes)).toEqual([640, 0]);
  const resolved = resolveVariant(parseManifest(TEXT, PATH));
  const made = manifestOfCompiled(TEXT, { id: 'compiled', source: 'kernel.ptx', ptx, resolved });
  const manifest = parseManifest(made, 'made/kernel.yaml');
  const shape = parseShape('M=64,N=96,K=64');
  const { workspace, launches } = planLaunches(manifest, resolveVariant(manifest), shape);
  const ctas = launches[0]!.grid.reduce((product, extent) => product * extent, 1);
  expect(workspace).toEqual([{ name: 'triton_scratch_0', bytes: 640 * ctas }]);
  expect(launches[0]!.arguments.slice(-2)).toEqual([{ kind: 'workspace', name: 'triton_scratch_0' }, { kind: 'null' }]);
});

test('a launch that already declares shared memory gets the larger of both sizes', () => {
  const written = edited(TEXT, 'grid:', 'shared_bytes: "2 * N"\n    grid:');
  const resolved = resolveVariant(parseManifest(written, PATH));
  const made = manifestOfCompiled(written, { id: 'compiled', source: 'kernel.ptx', ptx: PTX, resolved });
  expect(parseManifest(made, 'made/kernel.yaml').launches[0]!.sharedBytes.text).toBe('max(2 * N, 4096)');
});

const ONE_LAUNCH = /launches:\n {2}- entry: matmul\n/;
const two = (first: string, second: string): string => {
  const written = TEXT.replace(
    ONE_LAUNCH,
    `launches:\n  - each:\n      - { entry: "${first}", when: "N <= 64" }\n      - { entry: "${second}", when: "N > 64" }\n`,
  );
  expect(written).not.toBe(TEXT);
  return written;
};
const TWO = two('matmul[WIDE=0]', 'matmul[WIDE=1, DEPTH=-2]');

test('an entry may have constexprs of its own, and is compiled for each of its values', () => {
  const manifest = parseManifest(TWO, PATH);
  const units = tritonUnits(manifest, resolveVariant(manifest));
  expect(units.map(({ entry, symbol, own }) => [entry, symbol, own])).toEqual([
    ['matmul[WIDE=0]', 'matmul__WIDE_0', ['WIDE']],
    ['matmul[WIDE=1, DEPTH=-2]', 'matmul__WIDE_1__DEPTH_m2', ['WIDE', 'DEPTH']],
  ]);
  expect(units.map(({ values }) => [values['WIDE'], values['DEPTH'], values['BLOCK_K']])).toEqual([
    [0, undefined, 32],
    [1, -2, 32],
  ]);
});

test.each([
  ['matmul[WIDE]', 'matmul', /must be a function under @triton.jit, with or without constexprs/],
  ['matmul[WIDE=0, WIDE=1]', 'matmul', /must be a function under @triton.jit/],
  ['matmul[WIDE=9999999999]', 'matmul', /must be a function under @triton.jit/],
  ['matmul[BLOCK=64]', 'matmul', /must not give BLOCK, which is a parameter or a constant/],
  ['matmul[WIDE=1]', 'matmul__WIDE_1', /must differ from matmul\[WIDE=1\] in more than brackets/],
])('of the entries %s and %s one is refused', (first, second, message) => {
  expect(() => parseManifest(two(first, second), PATH)).toThrow(message);
});

test('each entry that was compiled from one Triton kernel has its own memory and its symbol in the new manifest', () => {
  const of = (symbol: string, bytes: number, kind: string) => `// flashcore: ${symbol}: ${bytes} bytes of ${kind}\n`;
  const ptx = `${of('matmul__WIDE_0', 4096, 'dynamic shared memory')}${of('matmul__WIDE_1__DEPTH_m2', 8192, 'dynamic shared memory')}${of('matmul__WIDE_1__DEPTH_m2', 640, 'scratch memory for each CTA')}.version 8.7\n.target sm_90a\n`;
  expect(tritonMemory(ptx, 'matmul__WIDE_0')).toEqual({ sharedBytes: 4096, scratchBytes: 0 });
  expect(tritonMemory(ptx, 'matmul__WIDE_1__DEPTH_m2')).toEqual({ sharedBytes: 8192, scratchBytes: 640 });
  const resolved = resolveVariant(parseManifest(TWO, PATH));
  const made = parseManifest(
    manifestOfCompiled(TWO, { id: 'compiled', source: 'kernel.ptx', ptx, resolved }),
    'made/kernel.yaml',
  );
  expect(made.launches.map(({ entry, sharedBytes }) => [entry, sharedBytes.text])).toEqual([
    ['matmul__WIDE_0', '8192'],
    ['matmul__WIDE_1__DEPTH_m2', '8192'],
  ]);
});
