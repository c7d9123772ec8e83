import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { missing, temporaryFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { keepsStateFinding, stateInCubin, stateInPtx } from './kept-state.ts';
import { toolPath } from './toolchain.ts';

/** The path at which the toolchain finds nvcc, because PATH may lack the toolkit. */
const NVCC = toolPath('nvcc') ?? 'nvcc';

/** A kernel source with one entry, which uses the declarations before it. */
const kernel = (declarations: string, body: string): string =>
  `#include <cstdio>\n${declarations}\nextern "C" __global__ void entry(int* out, int i) {\n${body}\n}\n`;

const SOURCES: [what: string, source: string, named: string[]][] = [
  ['a variable', kernel('__device__ int counter;', 'out[0] = ++counter;'), ['counter']],
  ['a managed variable', kernel('__managed__ int counter;', 'out[0] = ++counter;'), ['counter']],
  ['a static variable of a function', kernel('', 'static __device__ int inner; out[0] = ++inner;'), ['inner']],
  ['a variable with a value', kernel('__device__ int table[2] = {1, 2};', 'out[0] = table[i]++;'), ['table']],
  // Only const in C++ prevents the kernel from writing to the table.
  ['a constant in device memory', kernel('__device__ const int table[2] = {1, 2};', 'out[0] = table[i];'), ['table']],
  [
    'a variable of inline PTX after a comment',
    kernel(
      '',
      'int x; asm volatile("/* ; */ .global .align 4 .u32 hidden; st.global.u32 [hidden], %1; ld.global.u32 %0, [hidden];" : "=r"(x) : "r"(i)); out[0] = x;',
    ),
    ['hidden'],
  ],
  [
    'memory from malloc()',
    kernel('', 'int* p = (int*)malloc(8); if (p) { *p = i; out[0] = (int)(size_t)p; }'),
    ['malloc()'],
  ],
  ['the buffer of printf()', kernel('', 'printf("%d", i);'), ['$str', 'vprintf()']],
  [
    'a variable declared over several lines of inline PTX',
    kernel(
      '',
      'int x; asm volatile(".global\\n .align 4\\n .u32\\n hidden; st.global.u32 [hidden], %1; ld.global.u32 %0, [hidden];" : "=r"(x) : "r"(i)); out[0] = x;',
    ),
    ['hidden'],
  ],
  [
    'a variable of inline PTX declared without spaces',
    kernel(
      '',
      'int x; asm volatile(".global.u32 hidden; atom.global.add.u32 %0, [hidden], 1;" : "=r"(x)); out[0] = x;',
    ),
    ['hidden'],
  ],
  [
    'a variable of inline PTX between two functions, declared without spaces',
    kernel(
      '',
      'out[0] = i; asm volatile("ret; }.visible.global.u32 hidden; .visible.func f(){.reg .u32 q; ld.global.u32 q, [hidden]; st.global.u32 [hidden], q;");',
    ),
    ['hidden'],
  ],
  [
    'a variable and the pointer to it',
    kernel('__device__ int cell; __device__ int* at = &cell;', 'out[0] = ++*at;'),
    ['at', 'cell'],
  ],
  [
    'nothing for objects of a header that no code uses',
    kernel('#include <cuda/std/utility>\n#include <cooperative_groups/reduce.h>', 'out[0] = i;'),
    [],
  ],
  [
    'only the one of two small variables that code uses',
    kernel('__device__ char one, other;', 'asm volatile("{.reg .u64 at; mov.u64 at, other;}"); out[0] = i;'),
    ['other'],
  ],
  [
    'a small variable that only a comment of inline PTX names',
    kernel('__device__ char one;', 'asm volatile("// one"); out[0] = i;'),
    ['one'],
  ],
  ['a variable of 65 bytes that no code uses', kernel('__device__ char table[65];', 'out[0] = i;'), ['table']],
  [
    'nothing for __constant__ and shared memory',
    kernel(
      '__constant__ int table[2] = {1, 2};',
      '__shared__ int s[32]; s[i & 31] = i; __syncthreads(); out[0] = table[i] + s[0];',
    ),
    [],
  ],
];

test.skipIf(missing('nvcc')).each(SOURCES)(
  'finds memory that outlives a launch, in cubin and PTX: %s',
  { timeout: 60_000 },
  (_, source, named) => {
    using folder = temporaryFolder();
    writeFileSync(join(folder.path, 'kernel.cu'), source);
    const made = (kind: 'cubin' | 'ptx'): Buffer => {
      const path = join(folder.path, `kernel.${kind}`);
      execFileSync(NVCC, [`-${kind}`, '-arch=sm_90', '-o', path, join(folder.path, 'kernel.cu')], { stdio: 'ignore' });
      return readFileSync(path);
    };
    const namesOf = (state: string[]): string[] => state.map((each) => each.replace(/ \(.*/, '')).sort();
    const matching = named.map((name) => expect.stringContaining(name) as string).sort();
    const ptx = made('ptx').toString();
    expect([namesOf(stateInCubin(made('cubin'), ptx)), namesOf(stateInPtx(ptx))]).toEqual([matching, matching]);
  },
);

test.each<[string, string, string[]]>([
  ["nothing for a text of Triton's that no code names", '.global .align 1 .b8 _$_str[11] = {95, 95, 67};', []],
  ['a text that code names', '.global .b8 text[11] = {95};\nmov.u64 %rd1, text;', ['text']],
  ['two variables in one declaration', '.global .b8 a[1], b[1000];', ['a']],
  ['two variables in one declaration, the first with a value', '.global .b8 a[1] = {0}, b[1000];', ['a']],
  ['nothing for unused variables of 64 bytes in total', '.global .b8 a[60];\n.global .b8 b[4];', []],
  ['unused variables of more than 64 bytes in total', '.global .b8 a[60];\n.global .b8 b[5];', ['a', 'b']],
  ['a variable of 32 bits', '.global .b32 count;', ['count']],
  ['a variable after a file name that looks like a comment', '.file 1 "//" .global .b32 count;', ['count']],
  [
    'a variable between file names that look like comment marks',
    '.file 1 "/*"\n.global .b32 count;\n.file 2 "*/"',
    ['count'],
  ],
  ['a variable between file names with quotes', '.file 1 "a"b/*"\n.global .b32 count;\n.file 2 "*/"', ['count']],
  ['nothing for a declaration in a file name', '.file 1 ".global .b32 count;"', []],
  ['a variable between comments with quotes', '// "\n.global .b32 count; /* " */', ['count']],
])('finds memory that outlives a launch, in PTX: %s', (_, ptx, state) => {
  expect(stateInPtx(`.version 8.0\n.target sm_80\n.address_size 64\n${ptx}\n`)).toEqual(state);
});

test('a finding names the first variables and says what to do', () => {
  const state = Array.from({ length: 10 }, (_, index) => `v${index} (4 bytes)`);
  const finding = keepsStateFinding(state)!;
  expect([finding.message, finding.remedy]).toEqual([
    `the build has memory that outlives a launch: ${state.slice(0, 8).join(', ')} and 2 more`,
    expect.stringContaining('Declare counters, semaphores and scratch memory as a workspace') as string,
  ]);
  expect(keepsStateFinding([])).toBeUndefined();
});
