import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FindingKind } from '@flashcore/shared/contract';
import type { ResolvedVariant } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BuildTools } from './build-tools.ts';
import type { KernelBuild } from './compiled-kernel.ts';
import { isMarker, symbolsOfSpelled } from './spelled-entries.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'flashcore-spelled-'))));
afterAll(() => rmSync(folder, { recursive: true }));

const ENTRIES = ['plain', 'ns::g<ns::Tr<64>, float>', 'fwd<64, true>'];
const KERNELS = ['plain', '_ZN2ns1gINS_2TrILi64EEEfEEvPT0_', '_Z3fwdILi64ELb1EEvPf', '_Z3fwdILi32ELb1EEvPf'];
const SOURCE = `extern "C" __global__ void plain(float* x) { x[0] = 1; }
template <int N, bool B> __global__ void fwd(float* x) { x[0] = N + B; }
namespace ns {
template <int N> struct Tr {};
template <class T, class U> __global__ void g(U* x) { x[0] = sizeof(T); }
}`;

test.each([
  ['nvcc', '_Z17flashcore_entry_1IXadL_ZN2ns1gINS0_2TrILi64EEEfEEvPT0_EEEvv', 'I'],
  ['clang', '_Z17flashcore_entry_1ITnPDaXadL_ZN2ns1gINS1_2TrILi64EEEfEEvPT0_EEEvv', 'ITnPDa'],
])(
  "the compiled name of a spelled entry is found in the mangled name of %s's marker, although the marker numbers substitutions differently",
  (_, first, head) => {
    const second = `_Z17flashcore_entry_2${head}XadL_Z3fwdILi64ELb1EEvPfEEEvv`;
    expect([first, second].every(isMarker)).toBe(true);
    expect([...symbolsOfSpelled(ENTRIES, [...KERNELS, first, second])]).toEqual([
      ['ns::g<ns::Tr<64>, float>', KERNELS[1]],
      ['fwd<64, true>', KERNELS[2]],
    ]);
  },
);

test('a plain name is found without extern "C", unless there are several kernels of that name', () => {
  const symbols = [
    'c',
    '_Z3onePf',
    '_Z4one2Pf',
    '_ZN2ns3twoEPf',
    '_Z5threeIfEvPT_',
    '_Z4fourPf',
    '_Z4fourPd',
    '_Z1cPf',
  ];
  expect([...symbolsOfSpelled(['c', 'one', 'two', 'three', 'four', 'five'], symbols)]).toEqual([
    ['one', '_Z3onePf'],
    ['three', '_Z5threeIfEvPT_'],
  ]);
});

async function build(name: string, entries: readonly string[], engine?: 'fibres' | 'ptx'): Promise<KernelBuild> {
  const own = join(folder, name);
  // A retried test would find what its first run left.
  rmSync(own, { recursive: true, force: true });
  mkdirSync(join(own, 'kernel'), { recursive: true });
  mkdirSync(join(own, 'kernels'));
  writeFileSync(join(own, 'kernel/kernel.cu'), SOURCE);
  const tools = new BuildTools({
    repositoryRoot: ROOT,
    dataDirectory: own,
    kernelsFolder: join(own, 'kernels'),
    engine,
  });
  if (engine) await tools.prepare();
  const resolved = { defines: [], fastMath: false, maxRegisters: 0, parameters: {}, constants: {} };
  return tools.kernels.build(
    {
      kernelId: 'kernel',
      folderDigest: '',
      folder: join(own, 'kernel'),
      source: 'kernel.cu',
      resolved: resolved as unknown as ResolvedVariant,
      arch: 'sm_89',
      emulated: engine !== undefined,
      entries,
      launches: entries.map((entry) => ({
        entry,
        shape: '1x1x1x64',
        grid: [1, 1, 1],
        block: [32, 1, 1],
        sharedBytes: 0,
        l2Persist: [],
        arguments: [{ kind: 'tensor', tensor: 'O' }],
      })),
    },
    { signal: AbortSignal.timeout(60_000) },
  );
}

test.skipIf(missing('nvcc')).each([undefined, 'ptx'] as const)(
  'nvcc reports the compiled names of spelled entries in a build for %s, and the result has no markers',
  async (engine) => {
    const { image, findings, result } = await build(`nvcc-${engine}`, ENTRIES, engine);
    expect(findings).toEqual([]);
    expect(image).toMatchObject({ [ENTRIES[1]!]: { symbol: KERNELS[1] }, [ENTRIES[2]!]: { symbol: KERNELS[2] } });
    expect(result.entries.map(({ entry }) => entry).sort()).toEqual([...ENTRIES].sort());
  },
  120_000,
);

test.skipIf(missing('nvcc'))("an invalid spelling is reported by name, with the compiler's message", async () => {
  const { findings } = await build('wrong', ['plain', 'fwd<64>']);
  expect(findings).toMatchObject([{ kind: FindingKind.MISSING_ENTRY }]);
  expect(findings[0]!.message).toMatch(/launches fwd<64>, and the compiler says: .+; the source has plain, fwd, g$/);
});
