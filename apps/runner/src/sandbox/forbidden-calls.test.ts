/** A compiled program makes each call that a kind of box forbids; compilers still work in their box. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Box } from './box.ts';
import { CALL_FILTERS, FORBIDDEN, type BoxedKind } from './call-filters.ts';
import { inFull, missing } from '@flashcore/shared/testing';
import { findBox } from './find-box.ts';
import { isFilteredArch, SYSCALL_NUMBERS } from './syscall-numbers.ts';

/** Makes the calls that it reads, "number argument argument", and prints how each failed. */
const CALLER = `
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char** calls) {
  for (int i = 1; i < count; ++i) {
    long number = 0, first = 0, second = 0;
    sscanf(calls[i], "%ld %li %li", &number, &first, &second);
    const pid_t self = getpid();
    errno = 0;
    const long result = syscall(number, first, second, 0L, 0L, 0L, 0L);
    const int code = errno;
    if (getpid() != self) _exit(0);
    printf("%d ", result == -1 ? code : 0);
    fflush(stdout);
  }
  return 0;
}
`;
/** AF_KEY, AF_PACKET, AF_ALG, AF_VSOCK. */
const HARMFUL_FAMILIES = [15, 17, 38, 40];
/** getpid() of 32-bit Linux. */
const OTHER_ARCH = 'int main() { int id = 20; __asm__ volatile("int $0x80" : "+a"(id)); return id > 0 ? 0 : 1; }';

const boxedTest = test.skipIf(missing('bubblewrap'));

const KINDS: readonly BoxedKind[] = ['compiler', 'executor', 'reference', 'gpu-worker'];
const limits = { fileBytes: 1e9, cpuSeconds: 60 };
let box: Box;
let folder: string;
let numbers: ReadonlyMap<string, number>;
beforeAll(async () => {
  box = await findBox('auto');
  folder = mkdtempSync(join(tmpdir(), 'fc-calls-'));
  numbers = isFilteredArch(process.arch) ? SYSCALL_NUMBERS[process.arch] : new Map();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function boxed(kind: BoxedKind, program: string, args: readonly string[]) {
  const wrapped = box.wrap(program, args, { kind, folder, limits, readable: ['/usr/local'] });
  const { status, stdout, stderr } = spawnSync(wrapped.program, wrapped.args, {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], TMPDIR: '/tmp' },
    timeout: 120_000,
  });
  return { status, out: stdout.trim(), err: stderr.trim() };
}

function compiled(name: string, source: string): string {
  const program = join(folder, name);
  if (existsSync(program)) return program;
  writeFileSync(`${program}.c`, source);
  const { status, stderr } = spawnSync('gcc', ['-o', program, `${program}.c`], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return program;
}

/** Names and arguments of calls, with the error expected for each. */
function forbiddenCalls(kind: BoxedKind): [call: string, errno: number][] {
  const { rules, otherwise } = CALL_FILTERS[kind];
  const whole = [...numbers.keys()].flatMap((name): [string, number][] => {
    const rule = rules.get(name) ?? otherwise;
    return rule.does === 'fail' ? [[name, rule.errno]] : [];
  });
  const families = Array.from({ length: 46 }, (_, family) => family);
  const sockets = kind === 'gpu-worker' ? HARMFUL_FAMILIES : families;
  const narrowed = [
    ...sockets.map((family) => `socket ${family} 2`),
    ...[0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000].map(
      (flag) => `clone ${flag + 17}`,
    ),
    ...['ioctl 0 0x5412', 'ioctl 0 0x541c'],
    // PR_SET_SECCOMP, PR_SET_MM, PR_SET_PTRACER; the process group that the box was started in.
    ...(kind === 'gpu-worker'
      ? []
      : [
          // PR_SET_SECCOMP is allowed to a reference, which forbids itself further calls.
          ...(kind === 'reference' ? [] : ['prctl 22 2']),
          ...['prctl 35 1', 'prctl 0x59616d61 1', 'ioctl 0 0x40049409'],
          ...['kill 0 0', 'setpriority 1 0', 'setpriority 2 0'],
        ]),
  ];
  return [...whole, ...narrowed.map((call): [string, number] => [call, 1])];
}

boxedTest.each(KINDS)('in the box of a %s each forbidden call fails', (kind) => {
  const calls = forbiddenCalls(kind);
  const made = calls.map(([call]) => call.replace(/^\w+/, (name) => String(numbers.get(name))));
  const { status, out } = boxed(kind, compiled('caller', CALLER), made);
  const codes = out.split(' ').map(Number);
  expect([status, calls.map(([call], index) => [call, codes[index]])]).toEqual([0, calls]);
  // Calls that caused trouble in the past must be tried even if a list no longer contains them.
  const named = new Set(calls.map(([call]) => call));
  const mustFail = [...FORBIDDEN, 'socket 17 2', 'socket 38 2', 'socket 40 2', 'clone3'];
  expect(mustFail.filter((name) => !named.has(name) && (name.includes(' ') || numbers.has(name)))).toEqual([]);
});

boxedTest.each(KINDS)('in the box of a %s, a call of another architecture kills its caller', (kind) => {
  if (process.arch !== 'x64') return;
  // SIGSYS; SIGSEGV if Linux has no 32-bit calls.
  expect([128 + 31, 128 + 11]).toContain(boxed(kind, compiled('other', OTHER_ARCH), []).status);
  expect(boxed(kind, compiled('caller', CALLER), [String(0x40000000 + 39)]).status).toBe(128 + 31);
});

const CPP = '#include <thread>\nint main() { int a = 1; std::thread([&] { a = 0; }).join(); return a; }\n';
const CUDA = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1.0f; }\n';
const PTX_ENTRY = 'extern "C" __attribute__((global)) void k(float* x) { *x += 1.0f; }\n';
const found = (name: string): string | undefined =>
  (process.env['PATH'] ?? '')
    .split(':')
    .map((each) => join(each, name))
    .find((path) => existsSync(path));

const COMPILATIONS: [compiler: string, file: string, text: string, args: string[]][] = [
  ['g++', 'a.cpp', CPP, ['-O2', '-pthread', '-pipe', 'a.cpp', '-o', 'out']],
  ['g++', 'b.cpp', CPP, ['-O2', '-g', '-shared', '-fPIC', '-save-temps', 'b.cpp', '-o', 'out']],
  ['clang-19', 'c.cpp', CPP, ['-O2', '-pthread', 'c.cpp', '-lstdc++', '-o', 'out']],
  [
    'clang-19',
    'd.cu',
    PTX_ENTRY,
    [
      '-x',
      'cuda',
      '--cuda-device-only',
      '-nocudainc',
      '-nocudalib',
      '--cuda-gpu-arch=sm_89',
      '-S',
      'd.cu',
      '-o',
      'out',
    ],
  ],
  ['nvcc', 'e.cu', CUDA, ['-cubin', '-arch=sm_89', 'e.cu', '-o', 'out']],
  ['nvcc', 'f.cu', CUDA, ['-ptx', '-arch=sm_90', 'f.cu', '-o', 'out']],
  ['nvcc', 'g.cu', `${CUDA}int main() { return 0; }\n`, ['-O2', '--threads', '2', '-arch=sm_89', 'g.cu', '-o', 'out']],
  [
    'ptxas',
    'h.ptx',
    '.version 8.0\n.target sm_89\n.address_size 64\n.visible .entry k() { ret; }\n',
    ['-arch=sm_89', 'h.ptx', '-o', 'out'],
  ],
];

/** The short form has one of each compiler. */
const IN_SHORT = ['a.cpp', 'd.cu', 'e.cu'];

boxedTest.each(inFull(COMPILATIONS, ([, file]) => IN_SHORT.includes(file)))(
  '%s gives the same output for %s in a box as without one',
  { timeout: 120_000 },
  (name, file, text, args) => {
    const program = found(name);
    if (program === undefined) return;
    rmSync(join(folder, 'out'), { force: true });
    writeFileSync(join(folder, file), text);
    const { status, err } = boxed('compiler', program, args);
    const inBox = existsSync(join(folder, 'out')) ? readFileSync(join(folder, 'out')) : undefined;
    const outside = spawnSync(program, args, { cwd: folder, encoding: 'utf8' });
    expect([status, outside.status, err]).toEqual([0, 0, outside.stderr.trim()]);
    // nvcc writes the paths of temporary files into its output, so only the sizes are equal.
    expect(inBox?.length).toBe(readFileSync(join(folder, 'out')).length);
  },
);
