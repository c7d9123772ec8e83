import { isSpelledEntry } from '@flashcore/shared/kernels';
import { KERNEL_LIMIT_MS, type CompileUnit, type DeviceCode } from './compile-unit.ts';
import { BUILD_FOLDER } from './compile-stages.ts';
import type { SnapshotFile } from './source-snapshot.ts';
import { isWordCharacter } from './source-text.ts';
import { SPELLING_FILE } from './spelled-entries.ts';
import type { Compiler } from './compilers.ts';

export interface EmulatorModuleOptions extends Pick<DeviceCode, 'files' | 'unit' | 'name' | 'defines'> {
  cxx: Compiler;
  /** The emulator's headers and linker script, under "emulator/". */
  emulatorFiles: readonly SnapshotFile[];
  /** The entry points that launches name. */
  entries: readonly string[];
  /** Adds the hooks that find data races, which make a kernel about ten times slower. */
  instrumented: boolean;
}

const DYNAMIC_SHARED = /\bextern\s{1,200}__shared__\s{1,200}/g;
/** The longest declaration that is rewritten; a kernel with a longer one does not compile. */
const MAX_DECLARATION = 1_000;
/**
 * `#pragma unroll`, with or without a number, directly before a loop. Elsewhere it is not replaced, because g++ would
 * report an error.
 */
const UNROLL =
  /^([ \t]{0,200}#[ \t]{0,20}pragma[ \t]{1,20})unroll(?:[ \t]{0,20}\(?(\d{1,9})\)?)?(?=[ \t\r]{0,200}\n\s{0,1000}(?:for|while|do)\b)/gm;
/** With a higher limit, flashcore_v6 takes longer to compile and does not become faster. */
const MOST_UNROLLED = 16;

/** The unit that compiles a kernel into a module for the emulator (libs/emulator/README.md, section b). */
export function emulatorUnit(options: EmulatorModuleOptions): CompileUnit {
  const flags = [
    ...compileFlags(options.cxx),
    ...(options.instrumented ? ['-fsanitize=thread'] : []),
    '-DFLASHCORE_EMULATOR=1',
    ...options.defines,
  ];
  // clang++ understands the pragma itself. With a hook at each access, unrolling costs more than it saves.
  const unrolls = options.cxx.name === 'g++' && !options.instrumented;
  const includes = ['-I', 'emulator/include', '-I', 'kernels', '-I', 'kernel'];
  return {
    compiler: options.cxx,
    target: options.instrumented ? 'emulator, instrumented' : 'emulator',
    files: [
      { path: 'unit.cpp', text: unitText(options) },
      ...options.files.map(rewritten).map((file) => (unrolls ? unrolled(file) : file)),
      ...options.emulatorFiles,
    ],
    // A separate link stage, because with -fsanitize=thread the linker would look for an unwanted library.
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
    limitMs: KERNEL_LIMIT_MS,
  };
}

function unitText({ entries, unit }: EmulatorModuleOptions): string {
  return [
    '#include "flashcore_emulator.h"',
    ...entries.filter((entry) => !isSpelledEntry(entry)).map((entry) => `FLASHCORE_EXPECT_ENTRY(${entry})`),
    `#include "${unit}"`,
    ...entries.map((entry, index) => (isSpelledEntry(entry) ? registered(entry, index) : `FLASHCORE_ENTRY(${entry})`)),
    '',
  ].join('\n');
}

/**
 * Does the work of FLASHCORE_ENTRY for a C++ spelling, which can't be the macro's argument because it may contain
 * commas.
 */
const registered = (entry: string, index: number): string => `namespace {
::flashcore::emu::Entry flashcore_spelled_${index};
#line ${index + 1} "${SPELLING_FILE}"
const int flashcore_registered_spelled_${index} = ::flashcore::emu::register_entry(flashcore_spelled_${index}, "${entry}", &${entry}, 0);
}`;

/**
 * Makes g++ unroll the loops that a pragma marks, as nvcc does. Kernels rely on it: arrays then stay in registers, and
 * conditions on the loop counter disappear.
 */
function unrolled({ path, text }: SnapshotFile): SnapshotFile {
  const asGcc = (_: string, pragma: string, times = String(MOST_UNROLLED)): string =>
    `${pragma}GCC unroll ${Math.min(Number(times), MOST_UNROLLED)}`;
  return { path, text: text.replace(UNROLL, asGcc) };
}

/**
 * Replaces `extern __shared__ T name[];`, which a macro can't match. Line numbers stay the same, and a #line directive
 * gives the file's name.
 */
function rewritten({ path, text }: SnapshotFile): SnapshotFile {
  const parts: string[] = [];
  let written = 0;
  for (const { 0: head, index } of text.matchAll(DYNAMIC_SHARED)) {
    const from = index + head.length;
    const end = text.slice(from, from + MAX_DECLARATION).search(/[;{}]/);
    if (index < written || end < 0 || text[from + end] !== ';') continue;
    const declared = unsizedArray(text.slice(from, from + end));
    if (!declared) continue;
    const newlines = text.slice(index, from + end).split('\n').length - 1;
    parts.push(
      text.slice(written, index),
      `FLASHCORE_DYNAMIC_SHARED(${declared.name}, ${declared.type});${'\n'.repeat(newlines)}`,
    );
    written = from + end + 1;
  }
  parts.push(text.slice(written));
  return { path, text: `#line 1 "${path.replace(/^kernels?\//, '')}"\n${parts.join('')}` };
}

/** Type and name in `alignas(16) half name[]`; the type may contain one pair of parentheses. */
function unsizedArray(declaration: string): { type: string; name: string } | undefined {
  const open = declaration.lastIndexOf('[');
  if (open < 0 || !/^\[\s*\]\s*$/.test(declaration.slice(open))) return undefined;
  const head = declaration.slice(0, open).trimEnd();
  let begin = head.length;
  while (isWordCharacter(head[begin - 1])) begin -= 1;
  const type = head.slice(0, begin);
  if (begin === head.length || !/^[^()]*(?:\([^()]*\)[^()]*)?$/.test(type)) return undefined;
  return { type, name: head.slice(begin) };
}

function compileFlags(cxx: Compiler): string[] {
  return [
    '-std=c++17',
    '-O3',
    nativeFlag(),
    // DWARF 4, because addr2line of Debian 12 reads no line numbers of inlined code from clang's DWARF 5.
    '-g1',
    '-gdwarf-4',
    '-fPIC',
    '-pthread',
    '-fno-math-errno',
    '-fno-trapping-math',
    '-ffp-contract=fast',
    '-fno-strict-aliasing',
    '-fno-exceptions',
    // -fstack-clash-protection touches a large array page by page. An array that is larger than a thread's stack then
    // hits the guard page below the stack instead of another thread's variables.
    ...(cxx.name === 'g++' ? ['-fno-gnu-unique', '-fno-semantic-interposition', '-fstack-clash-protection'] : []),
    // Makes faults name files as the kernel folder does.
    `-fdebug-prefix-map=${BUILD_FOLDER}=.`,
    '-Wno-attributes',
    '-Wno-unknown-pragmas',
    '-fdiagnostics-color=never',
    cxx.name === 'g++' ? '-fmax-errors=50' : '-ferror-limit=50',
  ];
}

function linkArguments(cxx: Compiler): string[] {
  // Apple's linker accepts no linker script. On macOS, cuModuleLoadData refuses too much static shared memory instead.
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

/** The flag that compiles for this machine's processor. */
export function nativeFlag(): string {
  return process.arch === 'arm64' ? '-mcpu=native' : '-march=native';
}
