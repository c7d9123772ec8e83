import { readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Command, CompileUnit } from './compile-unit.ts';
import { nativeFlag } from './emulator-unit.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Compiler } from './compilers.ts';
import { vectorFlags, type VectorPath } from './vector-path.ts';

/**
 * How libcuda_emu.so executes blocks: fibres that run the C++ compiler's code, or an engine for PTX from nvcc, NVRTC or
 * clang.
 */
export type EmulatorEngine = 'fibres' | 'ptx';

export const ENGINE_NAMES: Record<EmulatorEngine, string> = { fibres: 'fibre engine', ptx: 'PTX engine' };

/** The value of `serve --emulator-engine`; auto: PTX if a front end for it works, else fibres. */
export type EngineWanted = EmulatorEngine | 'auto';

export const ENGINES_WANTED: readonly EngineWanted[] = ['auto', 'ptx', 'fibres'];

export const DEFAULT_ENGINE: EngineWanted = 'auto';

const LIMIT_MS = 600_000;
const SOURCE = /\.(cpp|h|hpp|inc|ld)$|^[^.]+$/;

/** All files in and below a folder, with `prefix` before their paths. */
export function readSources(folder: string, prefix: string): SnapshotFile[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && SOURCE.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: `${prefix}/${relative(folder, path)}`, text: readFileSync(path, 'utf8') }));
}

export interface EmulatorLibrary {
  engine: EmulatorEngine;
  /** Vector path of the PTX engine. */
  vectors: VectorPath;
}

/**
 * The unit of libcuda_emu.so (libs/emulator/README.md, section a). It is one translation unit, which compiles in a
 * third of the time of separate ones. The PTX engine adds two more, which take longer, because its loops over 32 lanes
 * are compiled for the vector path. The library runs on every processor with that vector path, so hosts that share an
 * installation share the library.
 */
export function emulatorLibraryUnit(
  cxx: Compiler,
  emulatorFolder: string,
  { engine, vectors }: EmulatorLibrary,
): CompileUnit {
  const files = ['exec', 'driver', 'include', 'ptx'].flatMap((part) => readSources(join(emulatorFolder, part), part));
  const common = ['-std=c++17', '-fPIC', '-pthread', '-fvisibility=hidden'];
  const lanes = ['-O3', ...vectorFlags(vectors), '-fno-math-errno', '-fno-trapping-math'];
  const object = (source: string, name: string, flags: string[]): Command => ({
    arguments: [...common, ...flags, '-c', source, '-o', name],
  });
  // A function that only the other engine defines fails to link, not when the library is loaded.
  const link = ['-shared', '-Wl,-z,defs', '-o', 'libcuda_emu.so'];
  return {
    compiler: { ...cxx, identity: cxx.anyProcessor ?? cxx.identity },
    target: engine === 'ptx' ? `libcuda_emu, with the PTX engine (${vectors})` : 'libcuda_emu',
    files: [{ path: 'library.cpp', text: readFileSync(join(emulatorFolder, 'library.cpp'), 'utf8') }, ...files],
    stages:
      engine === 'ptx'
        ? [
            [
              object('library.cpp', 'library.o', ['-O2', '-DFLASHCORE_PTX_ENGINE=1']),
              object('ptx/engine.cpp', 'engine.o', lanes),
              object('ptx/arithmetic.cpp', 'arithmetic.o', lanes),
            ],
            [{ arguments: [...common, ...link, 'library.o', 'engine.o', 'arithmetic.o', '-ldl'] }],
          ]
        : [[{ arguments: [...common, '-O2', ...link, 'library.cpp', '-ldl'] }]],
    outputs: [{ path: 'libcuda_emu.so', fileName: 'libcuda_emu.so', kind: 'library' }],
    limitMs: LIMIT_MS,
  };
}

/** The process that loads and launches candidates (libs/emulator/executor). */
export function executorUnit(cxx: Compiler, emulatorFolder: string): CompileUnit {
  return {
    compiler: cxx,
    target: 'executor',
    files: [{ path: 'main.cpp', text: readFileSync(join(emulatorFolder, 'executor/main.cpp'), 'utf8') }],
    stages: [[{ arguments: ['-std=c++17', '-O2', '-pthread', '-o', 'executor', 'main.cpp', '-ldl'] }]],
    outputs: [{ path: 'executor', fileName: 'executor', kind: 'library' }],
    limitMs: LIMIT_MS,
  };
}

/** The program that runs a problem's reference.cpp. */
export function ownReferenceUnit(cxx: Compiler, kernelsFolder: string, source: string): CompileUnit {
  const folder = join(kernelsFolder, 'reference');
  const names = ['flashcore_reference.h', 'reference_main.cpp'];
  const files = names.map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') }));
  return {
    compiler: cxx,
    target: 'own-reference',
    files: [...files, { path: 'reference.cpp', text: source }],
    stages: [
      [{ arguments: ['-std=c++17', '-O2', '-pthread', '-o', 'reference', 'reference_main.cpp', 'reference.cpp'] }],
    ],
    outputs: [{ path: 'reference', fileName: 'reference', kind: 'library' }],
    limitMs: LIMIT_MS,
  };
}

/** The program that runs NVRTC (libs/emulator/nvrtc). */
export function nvrtcProgramUnit(cxx: Compiler, emulatorFolder: string): CompileUnit {
  return {
    compiler: cxx,
    target: 'nvrtc',
    files: [{ path: 'main.cpp', text: readFileSync(join(emulatorFolder, 'nvrtc/main.cpp'), 'utf8') }],
    stages: [[{ arguments: ['-std=c++17', '-O2', '-o', 'nvrtc', 'main.cpp', '-ldl'] }]],
    outputs: [{ path: 'nvrtc', fileName: 'nvrtc', kind: 'library' }],
    limitMs: LIMIT_MS,
  };
}

/**
 * The CPU reference and the comparison with it. -ffast-math is not possible, because masked scores are -infinity.
 * Products in the comparison are rounded before they are added, so that its figures are the same on every host.
 */
export function referenceUnit(cxx: Compiler, kernelsFolder: string): CompileUnit {
  const folder = join(kernelsFolder, 'reference');
  const names = [
    'attending.h',
    'attention_backward.cpp',
    'attention_merge.cpp',
    'attention_plan.h',
    'attention_reference.cpp',
    'attention_reference.h',
    'blocked.h',
    'elements.h',
    'output_comparison.cpp',
    'output_comparison.h',
    'vector_math.h',
  ];
  const common = ['-std=c++17', '-O3', nativeFlag(), '-fno-math-errno', '-fno-trapping-math', '-fPIC', '-pthread'];
  return {
    compiler: cxx,
    target: 'reference',
    files: names.map((path) => ({ path, text: readFileSync(join(folder, path), 'utf8') })),
    stages: [
      [
        { arguments: [...common, '-c', 'attention_reference.cpp', '-o', 'reference.o'] },
        { arguments: [...common, '-c', 'attention_backward.cpp', '-o', 'backward.o'] },
        { arguments: [...common, '-c', 'attention_merge.cpp', '-o', 'merge.o'] },
        { arguments: [...common, '-ffp-contract=off', '-c', 'output_comparison.cpp', '-o', 'comparison.o'] },
      ],
      [
        {
          arguments: [
            ...common,
            '-shared',
            '-o',
            'attention_reference.so',
            'reference.o',
            'backward.o',
            'merge.o',
            'comparison.o',
          ],
        },
      ],
    ],
    outputs: [{ path: 'attention_reference.so', fileName: 'attention_reference.so', kind: 'library' }],
    limitMs: LIMIT_MS,
  };
}

/**
 * Sources for compiling an emulated kernel: substitutes for CUDA's headers, and the linker's limit on static shared
 * memory.
 */
export function emulatorHeaders(folder: string): SnapshotFile[] {
  return [
    ...readSources(join(folder, 'include'), 'emulator/include'),
    { path: 'emulator/static_shared_limit.ld', text: readFileSync(join(folder, 'static_shared_limit.ld'), 'utf8') },
  ];
}

/**
 * Substitutes for CUDA's headers when clang makes PTX: the headers for device code, and redirections that the two
 * engines share.
 */
export const deviceHeaders = (folder: string): SnapshotFile[] =>
  ['device_headers', 'include'].flatMap((part) => readSources(join(folder, part), `emulator/${part}`));

/** Headers of the C++ library that NVRTC shares with clang: each includes its C header. */
const SHARED_STANDARD_HEADERS = ['cassert', 'cfloat', 'climits', 'cstddef', 'cstdint', 'cstring'];

/** Substitutes for the headers of the C and C++ libraries when NVRTC makes PTX. */
export const standardHeaders = (folder: string): SnapshotFile[] => [
  ...readSources(join(folder, 'nvrtc/headers'), 'emulator/nvrtc/headers'),
  ...SHARED_STANDARD_HEADERS.map((name) => ({
    path: `emulator/nvrtc/headers/${name}`,
    text: readFileSync(join(folder, 'device_headers', name), 'utf8'),
  })),
];
