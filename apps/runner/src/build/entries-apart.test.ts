/** A kernel whose entries are compiled separately: which entries a build waits for, and what happens to the others. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArtifactKind, FindingKind, parseSha256 } from '@flashcore/shared/contract';
import { fileURLToPath } from 'node:url';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { withoutPriorities } from '../testing/test-host.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { BuildTools } from './build-tools.ts';
import type { KernelBuild } from './compiled-kernel.ts';
import { sectionsOf } from './cubin-code.ts';
import type { ShapeLaunch } from './entry-resources.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'flashcore-entries-apart-'))));
afterAll(() => rmSync(folder, { recursive: true }));
beforeEach(() => withoutPriorities(folder));
afterEach(() => vi.unstubAllEnvs());

const SOURCE = `#include "mechanisms/first_entries.cuh"
template <int FACTOR>
__device__ void scale(float* values) { values[threadIdx.x] *= FACTOR; }
#define ENTRY(NAME, FACTOR) \\
  extern "C" __global__ void NAME(float* values) { if constexpr (FLASHCORE_WANTED(NAME)) scale<FACTOR>(values); }
ENTRY(twice, 2)
ENTRY(thrice, 3)
extern "C" __global__ void always(float* values) { scale<5>(values); }
`;
const ENTRIES = ['twice', 'thrice', 'always'];
/** The same kernel, compiled as a whole. */
const IN_ONE = SOURCE.replace('FLASHCORE_WANTED(NAME)', 'true').replace(
  '#include "mechanisms/first_entries.cuh"\n',
  '',
);

interface BuildOptions {
  source?: string;
  first?: readonly string[];
  entries?: readonly string[];
  resolved?: Partial<ResolvedVariant>;
  lines?: string[];
}

/** Builds the kernel with an empty compile cache. */
function build(name: string, { source = SOURCE, first, entries = ENTRIES, resolved, lines }: BuildOptions = {}) {
  const own = join(folder, name);
  // A retried test would find what its first run left.
  rmSync(own, { recursive: true, force: true });
  mkdirSync(join(own, 'kernel'), { recursive: true });
  mkdirSync(join(own, 'kernels'));
  cpSync(join(ROOT, 'kernels/mechanisms'), join(own, 'kernels/mechanisms'), { recursive: true });
  writeFileSync(join(own, 'kernel/kernel.cu'), source);
  const tools = new BuildTools({
    repositoryRoot: ROOT,
    dataDirectory: own,
    kernelsFolder: join(own, 'kernels'),
  });
  const plain = { defines: [], fastMath: false, maxRegisters: 0, parameters: {}, constants: {} };
  return tools.kernels.build(
    {
      kernelId: 'kernel',
      folderDigest: '',
      folder: join(own, 'kernel'),
      source: 'kernel.cu',
      resolved: { ...plain, ...resolved } as unknown as ResolvedVariant,
      arch: 'sm_89',
      emulated: false,
      entries,
      launches: entries.map(
        (entry) =>
          ({
            entry,
            grid: [1, 1, 1],
            block: [32, 1, 1],
            sharedBytes: 0,
            arguments: [{ kind: 'tensor', tensor: 'O' }],
          }) as unknown as ShapeLaunch,
      ),
      first,
    },
    {
      signal: AbortSignal.timeout(60_000),
      ...(lines && { onLine: (_source: string, line: string) => void lines.push(line) }),
    },
  );
}

const pathsOf = ({ image }: KernelBuild): Record<string, string> => image as Record<string, string>;
const codeOf = (path: string, entry: string): Buffer | undefined =>
  sectionsOf(readFileSync(path)).get(`.text.${entry}`);
const entriesOf = ({ result }: KernelBuild): string[] => result.entries.map(({ entry }) => entry).sort();

test.skipIf(missing('nvcc'))(
  'each entry has its own file, with the same code as in a build of the whole kernel',
  async () => {
    const lines: string[] = [];
    const apart = await build('apart', { lines });
    const inOne = await build('in-one', { source: IN_ONE });
    expect(Object.keys(pathsOf(apart)).sort()).toEqual([...ENTRIES].sort());
    expect(new Set(Object.values(pathsOf(apart))).size).toBe(3);
    for (const entry of ENTRIES) {
      const code = codeOf(pathsOf(apart)[entry]!, entry);
      expect(code).toBeDefined();
      expect(code).toEqual(codeOf(inOne.image as string, entry));
    }
    expect([apart.findings, apart.complete, entriesOf(apart)]).toEqual([[], undefined, [...ENTRIES].sort()]);
    expect(lines.filter((line) => line.includes('Compiling entry function'))).toHaveLength(3);
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'separately compiled entries are one build: one compiler run that names its number of parts, a cubin per entry, and one id',
  async () => {
    const part = await build('first', { first: ['always', 'twice'] });
    const all = await part.complete!;
    expect(Object.keys(pathsOf(part))).toEqual(['always', 'twice']);
    expect([entriesOf(part), entriesOf(all)]).toEqual([['always', 'twice'], [...ENTRIES].sort()]);
    expect(pathsOf(all)).toMatchObject(pathsOf(part));
    expect([part.result.buildId, part.result.flagsDigest]).toEqual([all.result.buildId, all.result.flagsDigest]);
    expect([part, all].map(({ result }) => result.runs.map(({ parts }) => parts))).toEqual([[2], [3]]);
    expect(all.result.runs[0]!.arguments.filter((each) => each.includes('FIRST'))).toEqual([]);
    const cubins = all.result.artifacts.filter(({ kind }) => kind === ArtifactKind.CUBIN);
    expect(cubins.map(({ fileName, entries }) => [fileName, entries]).sort()).toEqual(
      [...ENTRIES].sort().map((entry) => [`${entry}.sm_89.cubin`, [entry]]),
    );
    expect(all.complete).toBeUndefined();
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'the listing and the PTX contain every entry',
  async () => {
    const tools = join(folder, 'tools');
    mkdirSync(tools);
    const script = '#!/bin/sh\n[ "$1" = -sass ] || exit 0\ngrep -ao "\\.text\\.[a-z]*" kernel.cubin\n';
    writeFileSync(join(tools, 'cuobjdump'), script, { mode: 0o755 });
    vi.stubEnv('PATH', `${tools}:${process.env['PATH']}`);
    const { result, sassMissing } = await build('listed', { resolved: { keepSass: true, keepPtx: true } });
    expect(sassMissing).toBeUndefined();
    const listing = result.artifacts.find(({ kind }) => kind === ArtifactKind.SASS)!;
    const text = new ArtifactStore(join(folder, 'listed/artifacts')).get(parseSha256(listing.sha256)).toString();
    for (const entry of ENTRIES) expect(text).toContain(`.text.${entry}\n`);
    expect(result.artifacts.filter(({ kind }) => kind === ArtifactKind.PTX)).toHaveLength(3);
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'entries that share a variable are compiled together',
  async () => {
    const shares = SOURCE.replace(
      'ENTRY(twice, 2)',
      '__device__ static int launches;\n' +
        'extern "C" __global__ void twice(int* values) { *values = launches; }\n' +
        'extern "C" __global__ void counts() { if constexpr (FLASHCORE_WANTED(counts)) launches += 1; }',
    ).replace('void twice(int* values) {', 'void twice(int* values) { if constexpr (FLASHCORE_WANTED(twice))');
    const entries = ['twice', 'counts', 'thrice'];
    const { image, complete } = await build('shares', { source: shares, entries, first: ['twice'] });
    // nvcc keeps a variable in each part, even if the part does not use it.
    expect(Object.keys(image as Record<string, string>).sort()).toEqual([...entries].sort());
    expect([new Set(Object.values(image as Record<string, string>)).size, complete]).toEqual([1, undefined]);
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'a compile error that occurs in every separately compiled part is reported once',
  async () => {
    const lines: string[] = [];
    const { result, image, findings } = await build('wrong', { source: `${SOURCE}int a = nothing;\n`, lines });
    expect([result.succeeded, image, findings.length]).toEqual([false, undefined, 1]);
    expect(result.diagnostics.filter(({ severity }) => severity === 'error')).toHaveLength(1);
    expect(lines.filter((line) => line.includes('"nothing" is undefined'))).toHaveLength(1);
    expect(result.runs[0]!.parts).toBe(0);
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'a compile error in an entry compiled in the background is reported, and the first entries are still built',
  async () => {
    const part = await build('later', {
      source: SOURCE.replace('ENTRY(thrice, 3)', 'ENTRY(thrice, none)'),
      first: ['always'],
    });
    const all = await (part.complete ?? Promise.resolve(part));
    expect(all.image).toBeUndefined();
    expect(all.findings.map(({ kind }) => kind)).toEqual([FindingKind.COMPILE_FAILED]);
  },
  240_000,
);

test.skipIf(missing('nvcc'))(
  'a missing entry is reported by name, and an entry that compiles only together with others is an error',
  async () => {
    const { findings } = await build('lacks', { entries: [...ENTRIES, 'nowhere'] });
    expect(findings.map(({ kind }) => kind)).toEqual([FindingKind.MISSING_ENTRY]);
    const alone = SOURCE.replace('ENTRY(twice, 2)', 'ENTRY(twice, 2)\n#if FLASHCORE_FIRST_twice\n#error alone\n#endif');
    const { result, image } = await build('alone', { source: alone });
    expect([result.succeeded, image]).toEqual([false, undefined]);
    expect(result.diagnostics.map(({ message }) => message)).toEqual(['#error alone']);
  },
  240_000,
);
