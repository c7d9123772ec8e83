import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { shownLine, snapshotSources, type SourceSnapshot } from './source-snapshot.ts';

let root: string | undefined;

afterEach(() => {
  if (root) rmSync(root, { recursive: true, force: true });
});

/** The snapshot of kernels/k/k.cu among these files; names are relative to kernels/. */
function snapshot(files: Record<string, string>): SourceSnapshot {
  root = mkdtempSync(join(tmpdir(), 'flashcore-snapshot-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return snapshotSources({ folder: join(root, 'k'), source: 'k.cu', kernelsFolder: root });
}

test("snapshotSources() follows includes in the kernel's folder and in kernels/, and leaves system headers to the compiler", () => {
  const { files, problems } = snapshot({
    'k/k.cu': '#include <cuda_fp16.h>\n#include "tiles.h"\n#  include "primitives/mma.cuh"\n',
    'k/tiles.h': '#include "detail/sizes.h"\n',
    'k/detail/sizes.h': '#include "other.h"\n',
    'k/detail/other.h': '',
    'k/unused.h': '',
    'primitives/mma.cuh': '#include "convert.cuh"\n',
    'primitives/convert.cuh': '',
  });
  expect([files.map(({ path }) => path), problems]).toEqual([
    [
      'kernel/k.cu',
      'kernel/tiles.h',
      'kernel/detail/sizes.h',
      'kernel/detail/other.h',
      'kernels/primitives/mma.cuh',
      'kernels/primitives/convert.cuh',
    ],
    [],
  ]);
});

test.each([
  ['#include "/etc/passwd"', 'cannot include /etc/passwd'],
  ['#inc\\\nlude </etc/passwd>', 'cannot include /etc/passwd'],
  ['%:include "/etc/passwd"', 'cannot include /etc/passwd'],
  ['#/**/include "/etc/passwd"', 'cannot include /etc/passwd'],
  ['/* x */ # /* y */ include /* z */ "/etc/passwd"', 'cannot include /etc/passwd'],
  ['\f#\vinclude "/etc/passwd"', 'cannot include /etc/passwd'],
  ['#inc\\ \nlude "/etc/passwd"', 'cannot include /etc/passwd'],
  ['#include "../../outside.h"', 'cannot include ../../outside.h'],
  ['#include <../../etc/passwd>', 'cannot include ../../etc/passwd'],
  ['#include SECRET', 'an include must name its file'],
  ['#include CUDA_STD_HEADER(../../x)', 'an include must name its file'],
  ['#include CUDA_STD_HEADER("/etc/passwd")', 'an include must name its file'],
  ['#define CUDA_STD_HEADER(x) </etc/x>', 'CUDA_STD_HEADER may not be defined'],
  ['#def\\\nine CUDA_STD_HEADER(x) </etc/x>', 'CUDA_STD_HEADER may not be defined'],
  ['%: define /**/ CUDA_STD_HEADER </etc/x>', 'CUDA_STD_HEADER may not be defined'],
  ['#embed "data"', '#embed is not allowed'],
  ['#line 1 "/etc/passwd"', '#line may name'],
  ['# 1 "/etc/passwd"', '#line may name'],
  ['#line 1 "\\057etc/passwd"', '#line may name'],
  ['#line 1 "../../etc/passwd"', '#line may name'],
  ['#line PLACE', '#line may name'],
  ['asm(".incbin \\"x\\"");', '.incbin and .include are not allowed'],
  ['asm(".inc" "bin \\"x\\"");', '.incbin and .include are not allowed'],
  ['asm(".inc" /* */ R"(bin "x")");', '.incbin and .include are not allowed'],
  ['asm("\\x2eincbin \\"x\\"");', '.incbin and .include are not allowed'],
  ['asm("nop; .include \\"/etc/passwd\\"");', '.incbin and .include are not allowed'],
  ['#define TEXT(x) #x\nasm(TEXT(.incbin "x"));', '.incbin and .include are not allowed'],
])('snapshotSources() refuses %s', (text, message) => {
  const { problems } = snapshot({ 'k/k.cu': `\n${text}\n` });
  expect(problems.map((problem) => [problem.file, problem.line, problem.message.startsWith(message)])).toEqual([
    ['k.cu', text.startsWith('#define TEXT') ? 3 : 2, true],
  ]);
});

test('snapshotSources() accepts text that no compiler treats as a directive, and includes that stay in the folders', () => {
  const { files, problems } = snapshot({
    'k/k.cu':
      '// #include "/etc/a"\n/*\n#include "/etc/b"\n*/\nconst char* text = R"(\n#include "/etc/c"\n)";\n#line 7 "k.cu"\n#line 8\n#include "sub/a.h"\n// .incbin\nint x = table.include(1);\n',
    'k/sub/a.h': '#include "../b.h"\n',
    'k/b.h': '',
  });
  expect([files.map(({ path }) => path), problems]).toEqual([['kernel/k.cu', 'kernel/sub/a.h', 'kernel/b.h'], []]);
});

test("all of PyTorch's headers are replaced by one stub, and CUDA_STD_HEADER names a header of the toolkit", () => {
  const { files, problems } = snapshot({
    'k/k.cu':
      '#include <torch/extension.h>\n#include "ATen/cuda/CUDAContext.h"\n#include CUDA_STD_HEADER(cassert)\n#include "c10/own.h"\n#include <torch/extension.h>\n#include <torchvision/x.h>\n',
    'k/c10/own.h': '',
    'stubs/pytorch.h': '#include <cuda_fp16.h>\n',
  });
  expect(problems).toEqual([]);
  expect(files.map(({ path, text }) => [path, text.startsWith('#include <stubs/pytorch.h>')])).toEqual([
    ['kernel/k.cu', false],
    ['stubs/torch/extension.h', true],
    ['kernels/stubs/pytorch.h', false],
    ['stubs/ATen/cuda/CUDAContext.h', true],
    ['kernel/c10/own.h', false],
  ]);
});

test("there is one stub for all of cuBLAS's headers and another for cuRAND's", () => {
  const { files, problems } = snapshot({
    'k/k.cu': '#include <cublas_v2.h>\n#include <cublasLt.h>\n#include <cublasXt.h>\n#include <curand_kernel.h>\n',
    'stubs/cublas.h': '',
    'stubs/curand.h': '',
  });
  expect(problems).toEqual([]);
  expect(files.map(({ path }) => path)).toEqual([
    'kernel/k.cu',
    'stubs/cublas_v2.h',
    'kernels/stubs/cublas.h',
    'stubs/cublasLt.h',
    'stubs/curand_kernel.h',
    'kernels/stubs/curand.h',
  ]);
});

test('a missing source is reported as a problem of the manifest', () => {
  expect(snapshot({ 'k/other.cu': '' }).problems).toMatchObject([
    { tool: 'runner', file: 'kernel.yaml', message: "the source k.cu is not in the kernel's folder" },
  ]);
});

test('a source that is too large is reported as too large rather than as missing', () => {
  expect(snapshot({ 'k/k.cu': '/'.repeat(2 * 1024 * 1024 + 1) })).toMatchObject({
    files: [],
    problems: [{ tool: 'runner', file: 'k.cu', message: 'a source may have at most 2 MiB: this one has more' }],
  });
});

test('shownLine() names files as the kernel folder does', () => {
  expect([
    shownLine('kernel/k.cu(9): error: x'),
    shownLine('In file included from kernels/primitives/a.cuh:3,'),
    shownLine('a kernel/'),
  ]).toEqual(['k.cu(9): error: x', 'In file included from primitives/a.cuh:3,', 'a kernel/']);
});
