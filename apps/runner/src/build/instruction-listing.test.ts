import { expect, test } from 'vitest';
import { ptxListing, sassListing } from './instruction-listing.ts';

const SOURCES = [
  { path: 'k.cu', text: '#include "k.cuh"\n\n\n\n\n\n\n  s[i] = twice(in[i]);\n  __syncthreads();\n' },
  { path: 'k.cuh', text: 'twice\n' },
];

const blocksOf = ({ blocks }: ReturnType<typeof ptxListing>) =>
  blocks.map((block) => [block.function, `${block.file}:${block.line}`, block.instructions]);

// nvcc 13.0 and clang 19 write these forms, with the files named after the code.
const PTX = `
.version 9.0
.visible .entry other(
)
{
	.loc	1 2 3
	exit;
}
	// .globl	_Z5firstPf
.visible .entry _Z5firstPf(
	.param .u64 first_param_0
)
.maxntid 128
{
	.reg .b32 %r<3>;
	.loc	1 8 3
	mov.u32 	%r1, %tid.x;
	.loc	2 1 34, function_name $L__info_string0, inlined_at 1 8 10
	// begin inline asm
	{mul.f32 %f2, %f1, 0f40000000;
	}
	// end inline asm
	.loc	1 0 3
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2};
$L__BB0_1:
	.loc	1 9 3
	bar.sync 	0;
	{ // callseq 0, 0
	.param .b32 param0;
	call.uni (retval0), _Z5outerf, (param0);
	}
	ret;
}
.func  (.param .b32 func_retval0) _Z5outerf(
	.param .b32 _Z5outerf_param_0
)
{
	.loc	3 290 36 // standard.py:290:36 @[ k.cu:8:25 ]
	sqrt.rn.f32 	%f2, %f1;
}
	.file	1 "/tmp/builds/ab12/kernel/k.cu", 1, 2
	.file	2 "kernel/k.cuh"
	.file	3 "/usr/lib/triton/standard.py"
	.section	.debug_str
	{
	.b8 1;
	}
`;

test('PTX is listed by the lines in its .loc directives, and inlined code by the line of the call in the kernel', () => {
  const listing = ptxListing([{ text: PTX, names: new Map([['_Z5firstPf', 'first']]) }], SOURCES);
  expect(blocksOf(listing)).toEqual([
    [
      'first',
      'k.cu:8',
      [
        'mov.u32 %r1, %tid.x',
        'mul.f32 %f2, %f1, 0f40000000',
        'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f1, %f2}',
        '$L__BB0_1:',
      ],
    ],
    ['first', 'k.cu:9', ['bar.sync 0', 'call.uni (retval0), _Z5outerf, (param0)', 'ret']],
    ['_Z5outerf', 'k.cu:8', ['sqrt.rn.f32 %f2, %f1']],
  ]);
  expect(listing.lines.map(({ file, line, text }) => [file, line, text])).toEqual([
    ['k.cu', 8, '  s[i] = twice(in[i]);'],
    ['k.cu', 9, '  __syncthreads();'],
  ]);
});

test("where one line calls all of the code, the code is listed by the lines of the kernel's header", () => {
  const inlined = (line: number, file: number) => `\t.loc\t${file} ${line} 3, function_name $L, inlined_at 1 43 1\n`;
  const text = (file: number) => `.visible .entry k(\n)\n{
\t.loc\t1 43 1\n\tmov.u32 %r1, %tid.x;\n${inlined(53, file)}\tadd.s32 %r2, %r1, 1;\n${inlined(54, file)}\tadd.s32 %r3, %r2, 1;
\tret;\n}
\t.file\t1 "kernel/k.cu"
\t.file\t2 "kernels/mechanisms/rows.cuh"
\t.file\t3 "/usr/local/cuda/include/cuda_fp16.hpp"\n`;
  const linesOf = (file: number) =>
    ptxListing([{ text: text(file), names: new Map([['k', 'k']]) }], []).blocks.map(
      (block) => `${block.file}:${block.line}`,
    );
  expect(linesOf(2)).toEqual(['k.cu:43', 'mechanisms/rows.cuh:53', 'mechanisms/rows.cuh:54']);
  expect(linesOf(3)).toEqual(['k.cu:43']);
});

test('a call that nvcc names by its line alone belongs to the caller of the preceding instruction', () => {
  // nvcc 13.0 writes this for to_float2() in a header, called in lines 38 and 39.
  const toFloat2 = (caller: number) => `\t.loc\t2 20 74, function_name $L__info_string5, inlined_at 1 ${caller} 5\n`;
  const convert = '\t.loc\t3 980 1, function_name $L__info_string6, inlined_at 2 20 74\n\tcvt.f32.f16 %f1, %h1;\n';
  const load = (caller: number) => `\t.loc\t3 5122 1, function_name $L__info_string4, inlined_at 1 ${caller} 5
\tld.shared.u32 %r1, [%r2];\n`;
  const text = `.visible .entry k(\n)\n{
${load(38)}${toFloat2(38)}${convert}${load(39)}${toFloat2(39)}${convert}${load(38)}${convert}${load(39)}${convert}}
\t.file\t1 "kernel/k.cu"
\t.file\t2 "kernels/k.cuh"
\t.file\t3 "/usr/local/cuda/include/cuda_fp16.hpp"\n`;
  const { blocks } = ptxListing([{ text, names: new Map([['k', 'k']]) }], []);
  expect(blocks.map(({ line, instructions }) => [line, instructions.length])).toEqual([
    [38, 2],
    [39, 2],
    [38, 2],
    [39, 2],
  ]);
});

// Recorded with nvdisasm 13.0 -gi -c on sm_90; offsets and registers are shortened.
const SASS = `
	.headerflags	@"EF_CUDA_SM90"
//--------------------- .text._Z5firstPf               --------------------------
	.section	.text._Z5firstPf,"ax",@progbits
        .type           _Z5firstPf,@function
_Z5firstPf:
.text._Z5firstPf:
	//## File "/tmp/builds/ab12/kernel/k.cu", line 8
        /*00b0*/                   LEA R3, R2, UR4, 0x2 ;
	//## File "/tmp/builds/ab12/kernel/k.cuh", line 1 inlined at "/tmp/builds/ab12/kernel/k.cu", line 8
	//## File "/tmp/builds/ab12/kernel/k.cu", line 8
        /*00c0*/                   FADD R0, R4, R4 ;
	//## File "/tmp/builds/ab12/kernel/k.cu", line 9
        /*00f0*/               @P0 EXIT ;
.L_x_1:
        /*0100*/                   BRA \`(.L_x_1);
        /*0110*/                   NOP;
.L_x_8:
`;

test("nvdisasm's output is listed by the same lines as PTX, without the padding", () => {
  const listing = sassListing([{ text: SASS, names: new Map([['_Z5firstPf', 'first']]) }], SOURCES);
  expect(blocksOf(listing)).toEqual([
    ['first', 'k.cu:8', ['LEA R3, R2, UR4, 0x2', 'FADD R0, R4, R4']],
    ['first', 'k.cu:9', ['@P0 EXIT', '.L_x_1:', 'BRA `(.L_x_1)', '.L_x_8:']],
  ]);
});

test('a listing is bounded and has no control characters, and hostile text is read in linear time', () => {
  const body = Array.from({ length: 20_100 }, (_, index) => `\tadd\x1b[2J.s32 %r${index}, ${'x'.repeat(300)};`);
  const text = `.visible .entry e(\n)\n{\n${body.join('\n')}\n}\n`;
  const { blocks, leftOut } = ptxListing([{ text, names: new Map([['e', 'e']]) }], []);
  expect([blocks.length, blocks[0]!.instructions.length, leftOut]).toEqual([1, 20_000, 100]);
  expect(blocks[0]!.instructions[7]).toBe(`add.s32 %r7, ${'x'.repeat(300)}`.slice(0, 160));
  const hostile = [
    `.loc 1 1 1${' '.repeat(1e6)}inlined_at${' 1'.repeat(1e6)}`,
    `.loc 1 1 1 // ${'@[ a:'.repeat(1e6)}`,
    `/*00*/${' '.repeat(1e6)}x`,
    ...Array.from({ length: 1e5 }, () => '//## File "k.cu", line 1 inlined at "k.cu", line 1'),
    '.loc 1 1 1, inlined_at 1 1 1',
    ...Array.from({ length: 1e4 }, () => 'ret;'),
  ].join('\n');
  const started = performance.now();
  ptxListing([{ text: `.entry e(\n)\n{\n${hostile}\n`, names: new Map([['e', 'e']]) }], []);
  sassListing([{ text: `.section .text.e,"ax"\n${hostile}`, names: new Map([['e', 'e']]) }], []);
  expect(performance.now() - started).toBeLessThan(5_000);
});
