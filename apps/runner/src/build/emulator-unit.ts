import type { CompileUnit } from './compile-cache.ts';
import { BUILD_FOLDER } from './compile-stages.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import type { Compiler } from './toolchain.ts';

export interface EmulatorModuleOptions {
  cxx: Compiler;
  files: readonly SnapshotFile[];
  /** The emulator's headers and linker script, under "emulator/". */
  emulatorFiles: readonly SnapshotFile[];
  /** Translation unit in the build folder. */
  unit: string;
  name: string;
  defines: readonly string[];
  /** Entry points that launches name. */
  entries: readonly string[];
  /** With the hooks that find data races; about ten times slower. */
  instrumented: boolean;
}

const LIMIT_MS = 180_000;
const DYNAMIC_SHARED = /\bextern\s+__shared__\s+([^;{}()]*?(?:\([^()]*\)[^;{}()]*?)?)\b(\w+)\s*\[\s*\]\s*;/g;

/**
 * The C++ compiler's run that makes a module for the emulator of a kernel (libs/emulator/README.md, section b).
 */
export function emulatorUnit(options: EmulatorModuleOptions): CompileUnit {
  const flags = [
    ...compileFlags(options.cxx),
    ...(options.instrumented ? ['-fsanitize=thread'] : []),
    '-DFLASHCORE_EMULATOR=1',
    ...options.defines,
  ];
  const includes = ['-I', 'emulator/include', '-I', 'kernels', '-I', 'kernel'];
  return {
    compiler: options.cxx,
    target: options.instrumented ? 'emulator, instrumented' : 'emulator',
    files: [{ path: 'unit.cpp', text: unitText(options) }, ...options.files.map(rewritten), ...options.emulatorFiles],
    // Linked apart: with -fsanitize=thread the linker would look for a library that is not wanted.
    stages: [
      [{ arguments: ['-x', 'c++', ...flags, ...includes, '-c', 'unit.cpp', '-o', 'unit.o'] }],
      [{ arguments: linkArguments(options.cxx) }],
    ],
    outputs: [
      {
        path: 'module.so',
        fileName: `${options.name}.${options.instrumented ? 'instrumented.so' : 'so'}`,
        kind: 'emulator-module',
      },
    ],
    limitMs: LIMIT_MS,
  };
}

function unitText({ entries, unit }: EmulatorModuleOptions): string {
  return [
    '#include "flashcore_emulator.h"',
    ...entries.map((entry) => `FLASHCORE_EXPECT_ENTRY(${entry})`),
    `#include "${unit}"`,
    ...entries.map((entry) => `FLASHCORE_ENTRY(${entry})`),
    '',
  ].join('\n');
}

/** `extern __shared__ T name[];` can't be a macro; lines keep their numbers and, by #line, their file's name. */
function rewritten({ path, text }: SnapshotFile): SnapshotFile {
  const body = text.replace(
    DYNAMIC_SHARED,
    (whole, type: string, name: string) =>
      `FLASHCORE_DYNAMIC_SHARED(${name}, ${type});${'\n'.repeat(whole.split('\n').length - 1)}`,
  );
  return { path, text: `#line 1 "${path.replace(/^kernels?\//, '')}"\n${body}` };
}

function compileFlags(cxx: Compiler): string[] {
  return [
    '-std=c++17',
    '-O3',
    nativeFlag(),
    // Version 4: addr2line of Debian 12 reads no line numbers of inlined code from clang's version 5.
    '-g1',
    '-gdwarf-4',
    '-fPIC',
    '-pthread',
    '-fno-math-errno',
    '-fno-trapping-math',
    '-ffp-contract=fast',
    '-fno-strict-aliasing',
    '-fno-exceptions',
    ...(cxx.name === 'g++' ? ['-fno-gnu-unique', '-fno-semantic-interposition'] : []),
    // Places in faults name files as the kernel folder does.
    `-fdebug-prefix-map=${BUILD_FOLDER}=.`,
    '-Wno-attributes',
    '-Wno-unknown-pragmas',
    '-fdiagnostics-color=never',
    cxx.name === 'g++' ? '-fmax-errors=50' : '-ferror-limit=50',
  ];
}

function linkArguments(cxx: Compiler): string[] {
  // Apple's linker takes no linker script; there cuModuleLoadData refuses too much static shared memory.
  const limit = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : ['emulator/static_shared_limit.ld'];
  return [
    '-shared',
    '-pthread',
    ...(cxx.name === 'g++' ? ['-fno-gnu-unique'] : []),
    'unit.o',
    ...limit,
    '-o',
    'module.so',
  ];
}

/** Code for this machine's processor. */
export function nativeFlag(): string {
  return process.arch === 'arm64' ? '-mcpu=native' : '-march=native';
}
