import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hasTensorInstruction, mayUseTensorCores, readPtxEntries, smemExcessOf } from './ptx-entries.ts';

// PTX as clang 19 formats it.
const PTX = `
.target sm_89
	// .globl	small
.extern .shared .align 128 .b8 smem[];
.shared .align 4 .b8 table[49152];
.visible .entry small(
	.param .u64 small_param_0
)
.maxntid 128, 1, 1
{
	.shared .align 2 .b8 _ZZ5smallE1a[6];
	.shared .align 4 .b8 _ZZ5smallE1b[512];
	st.shared.f32 	[smem+4], %f1;
	ret;
}
	// .globl	large
.visible .entry large(
)
{
	.shared .align 16 .b8 _ZZ5largeE1a[16];
	mov.u64 	%rd10, table;
	ret;
}
`;

test("an entry's shared memory is its own arrays plus the module's arrays that it names", () => {
  expect(readPtxEntries(PTX)).toEqual([
    { entry: 'small', staticSmemBytes: 520 },
    { entry: 'large', staticSmemBytes: 49_168 },
  ]);
});

test('finds an entry with more than 48 KiB of shared memory, which ptxas would refuse', () => {
  expect(smemExcessOf(readPtxEntries(PTX))).toEqual([{ entry: 'large', bytes: 49_168, limitBytes: 49_152 }]);
});

const sourceOf = (kernel: string): string =>
  readFileSync(new URL(`../../../../kernels/${kernel}/${kernel}.cu`, import.meta.url), 'utf8');

test('sources of scalar kernels name nothing that leads to tensor cores; those of WMMA and mma.sync do', () => {
  const kernels = ['fa_v1_baseline', 'flashcore_v5', 'fa_v2_wmma', 'flashcore_v10', 'flashcore_v11'];
  expect(kernels.map((kernel) => mayUseTensorCores(sourceOf(kernel)))).toEqual([false, false, true, true, true]);
});

test('a word that merely contains mma or cute is not taken for tensor cores', () => {
  const texts = [
    '// a comma, a summary, a grammar',
    'execute(); persecuted',
    'wmma::load',
    'ptx::mma_m16n8k16(',
    'cute::gemm',
  ];
  expect(texts.map(mayUseTensorCores)).toEqual([false, false, true, true, true]);
});

test('only instructions of tensor cores count in PTX', () => {
  expect(['fma.rn.f32 %f1', 'mma.sync.aligned.m16n8k16', 'wgmma.mma_async.sync'].map(hasTensorInstruction)).toEqual([
    false,
    true,
    true,
  ]);
});
