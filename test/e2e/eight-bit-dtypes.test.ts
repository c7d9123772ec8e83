/**
 * Tensors of e4m3, e5m2 and int8 in a user's folder: correct kernels pass, and the mistakes typical of these formats
 * are found.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ALL_TESTS, edited, inFull, missing } from '@flashcore/shared/testing';
import { withoutToolkit } from '../ladder/builds.ts';
import { Home, ROOT, type CommandResult } from '../support/home.ts';

const LIMIT_MS = 600_000;
/** The fibre engine has no header for fp8. */
const withPtx = test.skipIf(missing('nvcc') && missing('clang'));
const home = new Home();
const repository = join(home.path, 'repository');
const problems = join(repository, 'problems');

beforeAll(() => {
  mkdirSync(problems, { recursive: true });
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  folder('problems/quantize', {
    'problem.yaml': QUANTIZE,
    'cases.yaml': casesOf({ parity: '{ rows: 1, N: 64 }, { rows: 5, N: 333 }', canonical: '{ rows: 8, N: 128 }' }),
    'reference.cpp': QUANTIZED,
  });
  folder('problems/attention_fp8', {
    'problem.yaml': ATTENTION,
    'cases.yaml': casesOf({
      parity: '{ B: 2, H: 2, S: 70, D: 64 }',
      canonical: '{ B: 2, H: 2, S: 32, D: 64 }',
      tolerance: '{ atol: 1.0e-2, rtol: 1.6e-2 }',
    }),
  });
});
afterAll(() => home[Symbol.asyncDispose]());

const faTui = (...args: string[]): CommandResult => home.faTui(args, { cwd: repository, timeoutMs: LIMIT_MS });

function folder(name: string, files: Readonly<Record<string, string>>): string {
  const path = join(repository, name);
  mkdirSync(path, { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

interface OwnCases {
  parity: string;
  canonical: string;
  tolerance?: string;
}

const casesOf = ({ parity, canonical, tolerance = '{ atol: 1.0e-5, rtol: 1.0e-5 }' }: OwnCases): string => `
tolerances: { parity: ${tolerance} }
defaults: { set: parity, tolerance: parity, seeds: 3, distribution: normal }
distributions:
  normal: { q: normal, k: normal, v: normal, about: "N(0, 1)" }
  ends: { q: normal, k: normal, v: normal, value_scale: 64, about: "beyond the ends of e4m3 and int8" }
  far_ends: { q: normal, k: normal, v: normal, value_scale: 16384, about: "beyond those of e5m2" }
sets:
  parity: [${parity}]
  canonical: [${canonical}]
  emulated: [${canonical}]
`;

const QUANTIZE = `
id: quantize
title: "Y = X / scale of its row, in 8 bits"
axes:
  rows: { draw: count, about: "rows" }
  N: { draw: length, about: "columns" }
tensors:
  X: { in: [rows, N], dtype: fp32 }
  scale: { in: [rows], dtype: fp32, role: slope }
  Y: { out: [rows, N], dtype: [e4m3, e5m2, int8], rounds: 1 }
symmetries:
  - { permute: N }
  - { permute: rows }
  - { flip: rows, of: [X, Y] }
  - { double: rows, of: [X, Y] }
mutants:
  zeros: { tensor: Y, constant: 0, about: "nothing is computed" }
  scale_ignored: { tensor: scale, constant: 1, about: "the scale is not read" }
  ends_early: { tensor: Y, clamp: 100, about: "it saturates too early" }
  in_e5m2: { tensor: Y, round: e5m2, about: "two bits of mantissa" }
  last_element_unwritten: { tensor: Y, unwritten: element, about: "a ragged end is not written" }
reference: { op: own }
work: { flops: "rows * N" }
`;

/** Computes the exact quotient. The judge saturates it and knows how much error rounding to 8 bits adds. */
const QUANTIZED = `#include "flashcore_reference.h"

void reference(const flashcore::Case& c) {
  const auto X = c.input("X"), scale = c.input("scale");
  auto Y = c.output("Y");
  for (long row = 0; row < X.extent(0); ++row)
    for (long n = 0; n < X.extent(1); ++n) Y(row, n) = X(row, n) / scale(row);
}
`;

/** C++ expressions that convert a float \`x\` to a byte of each format. */
const CONVERSIONS = {
  e4m3: '__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)',
  e5m2: '__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2)',
  int8: 'max(-128, min(127, __float2int_rn(x)))',
} as const;
type Small = keyof typeof CONVERSIONS;

function quantizer(dtype: Small, conversion: string = CONVERSIONS[dtype], quotient = 'X[at] / scale[blockIdx.y]') {
  const id = 'quantizer';
  return folder(`${id}-${dtype}`, {
    'kernel.yaml': `
id: ${id}
title: quantizes rows
lesson: "a division and a conversion"
problem: quantize
source: ${id}.cu
min_arch: sm_89
math: { inputs: ${dtype}, accumulate: fp32 }
launches:
  - { entry: ${id}, grid: ["ceil(N / 128)", rows, 1], block: [128, 1, 1], arguments: [X, scale, Y, N] }
toggle: "there is no product"
`,
    [`${id}.cu`]: `#include <cuda_fp8.h>

extern "C" __global__ void ${id}(const float* X, const float* scale, unsigned char* Y, int N) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  const size_t at = (size_t)blockIdx.y * N + column;
  if (column >= N) return;
  const float x = ${quotient};
  Y[at] = (unsigned char)(${conversion});
}
`,
    'NOTES.md': 'One thread an element.\n',
  });
}

withPtx.each(['e4m3', 'e5m2', 'int8'] as const)(
  'a kernel that quantizes to %s passes the cases, drawn shapes and timed launches of a run',
  { timeout: LIMIT_MS },
  (dtype) => {
    const { exitCode, stdout, stderr } = faTui('run', quantizer(dtype), '--seeds', '5');
    expect([exitCode, stderr, stdout]).toEqual([0, expect.any(String), expect.stringContaining('PASSED')]);
    expect(stdout).toMatch(new RegExp(`tensors +${dtype}`));
    expect(stdout).not.toMatch(/not ranked/);
  },
);

const NAN = /NaN output: (?!.*never written)/;
withPtx.each(
  inFull(
    [
      ['saturation forgotten', 'e4m3', '__nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3)', undefined, NAN],
      ['the bytes of another format', 'e4m3', CONVERSIONS.e5m2, undefined, /wrong result: /],
      ['the scale ignored', 'e4m3', CONVERSIONS.e4m3, 'X[at]', /wrong result: /],
      ['saturation forgotten', 'e5m2', '__nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2)', undefined, /infinit|Inf/],
      ['saturation forgotten', 'int8', '__float2int_rn(x)', undefined, /wrong result: /],
      ['truncated instead of rounded', 'int8', 'max(-128.0f, min(127.0f, x))', undefined, /wrong result: /],
    ] as const,
    ([, dtype, , quotient]) => dtype !== 'e5m2' && quotient === undefined,
  ),
)('a wrong quantizer is found: %s, %s', { timeout: LIMIT_MS }, (_, dtype, conversion, quotient, finding) => {
  const { exitCode, stdout } = faTui('verify', quantizer(dtype, conversion, quotient));
  expect([exitCode, stdout]).toEqual([1, expect.stringMatching(finding)]);
});

// The timed rows on the emulator have length 128.
withPtx.each([
  ['e4m3', '__nv_cvt_float_to_fp8(N == 128 ? 1.2f * x : x, __NV_SATFINITE, __NV_E4M3)'],
  // Quotients of 10,000 and more are saturated. Their relative tolerance must be that of the saturated value.
  ['e4m3', '__nv_cvt_float_to_fp8(N == 128 ? fmaxf(-256.0f, fminf(256.0f, x)) : x, __NV_SATFINITE, __NV_E4M3)'],
  ['int8', 'max(-128, min(127, __float2int_rn(x) + (N == 128)))'],
] as const)(
  'a kernel of %s that is wrong only on the timed shape is found',
  { timeout: LIMIT_MS },
  (dtype, conversion) => {
    const { exitCode, stdout } = faTui('bench', quantizer(dtype, conversion), '--samples', '5', '--max-seconds', '1');
    expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/right when verified, wrong when\s+timed/)]);
  },
);

withPtx('an int8 output that was never written is named so', { timeout: LIMIT_MS }, () => {
  const kernel = quantizer('int8');
  const file = join(kernel, 'quantizer.cu');
  writeFileSync(file, edited(readFileSync(file, 'utf8'), 'if (column >= N) return;', 'if (column >= N - 1) return;'));
  const { exitCode, stdout } = faTui('verify', kernel);
  expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/never written/)]);
});

test.each(inFull(['e4m3', 'e5m2', 'int8'], (dtype) => dtype === 'e4m3'))(
  'the cases find all mutants of %s',
  { timeout: LIMIT_MS },
  (dtype) => {
    const { exitCode, stdout, stderr } = faTui('problem', 'check', 'quantize', '--dtype', dtype);
    expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
    expect(stdout).toMatch(/quantize.*: the cases find all \d mutants/);
  },
);

/** A copy of gemm_tiles with one change in its manifest or its source. */
function gemm(id: string, file: 'kernel.yaml' | 'gemm_tiles.cu', was: string, is: string): string {
  const path = join(repository, id);
  cpSync(join(ROOT, 'examples/kernels/gemm_tiles'), path, { recursive: true });
  writeFileSync(join(path, file), edited(readFileSync(join(path, file), 'utf8'), was, is));
  return path;
}

withPtx('gemm_tiles is right in e4m3, and wrong where it reads e5m2 as e4m3', { timeout: LIMIT_MS }, () => {
  const tiles = join(ROOT, 'examples/kernels/gemm_tiles');
  const seeds = ALL_TESTS ? [] : ['--seeds', '1'];
  const right = faTui('verify', tiles, '--set', 'E4M3=1', ...seeds);
  expect([right.exitCode, right.stdout]).toEqual([0, expect.stringMatching(/tensors +e4m3/)]);
  const bench = faTui('bench', tiles, '--set', 'E4M3=1', '--shape', 'M=33,N=65,K=70', '--samples', '5');
  expect([bench.exitCode, bench.stderr]).toEqual([0, expect.any(String)]);
  const mistaken = gemm('e5m2_as_e4m3', 'kernel.yaml', 'e4m3_when: E4M3', 'e5m2_when: E4M3');
  const wrong = faTui('verify', mistaken, '--set', 'E4M3=1', ...seeds);
  expect([wrong.exitCode, wrong.stdout]).toEqual([1, expect.stringMatching(/wrong result: /)]);
  const int8 = gemm(
    'int8_tiles',
    'gemm_tiles.cu',
    '#include <cuda_fp8.h>\nusing Element = __nv_fp8_e4m3;\nusing Result = half;',
    'using Element = signed char;\nusing Result = float;',
  );
  const manifest = join(int8, 'kernel.yaml');
  writeFileSync(manifest, edited(readFileSync(manifest, 'utf8'), 'e4m3_when', 'int8_when'));
  const source = join(int8, 'gemm_tiles.cu');
  writeFileSync(source, edited(readFileSync(source, 'utf8'), '__float2half_rn(x); }\n#elif', 'x; }\n#elif'));
  const integers = faTui('verify', int8, '--set', 'E4M3=1', ...seeds);
  expect([integers.exitCode, integers.stdout]).toEqual([0, expect.stringMatching(/tensors +int8/)]);
});

test.skipIf(missing('nvcc'))('a PyTorch operator has the names of 8-bit dtypes', { timeout: LIMIT_MS }, () => {
  const file = join(home.path, 'gemm.py');
  const tiles = join(ROOT, 'examples/kernels/gemm_tiles');
  const exported = faTui('export', tiles, '--torch', file, '--set', 'E4M3=1', '--arch', 'sm_89');
  expect([exported.exitCode, exported.stderr]).toEqual([0, expect.any(String)]);
  const text = readFileSync(file, 'utf8');
  expect(text).toContain('DTYPE = torch.float8_e4m3fn');
  expect(text).toContain('"C": (torch.float16, ("M", "N", ))');
});

const ATTENTION = `
id: attention_fp8
title: "attention over keys of 8 bits"
axes:
  B: { draw: count, about: "sequences" }
  H: { draw: count, about: "heads" }
  S: { about: "queries, and the most keys of a sequence" }
  D: { draw: width, about: "columns" }
attributes:
  scale: { value: "1 / sqrt(D)", about: "of logits" }
tensors:
  Q: { in: [B, H, S, D], dtype: [e4m3, e5m2], role: q }
  K: { in: [B, H, S, D], dtype: same_as(Q), role: k, rows: lengths }
  V: { in: [B, H, S, D], dtype: same_as(Q), rows: lengths }
  lengths: { in: [B], dtype: int32, draw: { lengths: { most: S } } }
  O: { out: [B, H, S, D], dtype: { same_as: Q, e4m3: bf16, e5m2: bf16 } }
mutants:
  zeros: { tensor: O, constant: 0, about: "nothing is computed" }
reference: { op: attention, q: "Q[b h s d]", k: "K[b h s d]", v: "V[b h s d]", o: "O[b h s d]", key_lengths: lengths }
work: { flops: "4 * B * H * S * S * D" }
`;

const ROWS = `#include <cuda_bf16.h>
#include <cuda_fp8.h>

// One thread computes one query. It reads the keys twice: for the maximum, and for the sums.
extern "C" __global__ void rows(const __nv_fp8_e4m3* Q, const __nv_fp8_e4m3* K, const __nv_fp8_e4m3* V,
                                const int* lengths, __nv_bfloat16* O, int H, int S, float scale) {
  const int query = blockIdx.x * 32 + threadIdx.x, head = blockIdx.y;
  if (query >= S) return;
  const size_t first = (size_t)head * S * 64;
  const auto logit = [&](int key) {
    float sum = 0.0f;
    for (int d = 0; d < 64; ++d) sum += float(Q[first + query * 64 + d]) * float(K[first + key * 64 + d]);
    return sum * scale;
  };
  const int keys = lengths[head / H];
  float most = -INFINITY, total = 0.0f, O_rmem[64] = {};
  for (int key = 0; key < keys; ++key) most = fmaxf(most, logit(key));
  for (int key = 0; key < keys; ++key) {
    const float p = expf(logit(key) - most);
    total += p;
    for (int d = 0; d < 64; ++d) O_rmem[d] += p * float(V[first + key * 64 + d]);
  }
  for (int d = 0; d < 64; ++d) O[first + query * 64 + d] = __float2bfloat16_rn(keys > 0 ? O_rmem[d] / total : 0.0f);
}
`;

const ROWS_MANIFEST = `
id: rows
title: attention, a thread a query
lesson: "8-bit keys become floats"
problem: attention_fp8
source: rows.cu
min_arch: sm_89
math: { inputs: e4m3, accumulate: fp32 }
compile: { fast_math: false }
limits: [{ require: "D == 64", because: "rows are arrays of 64" }]
launches:
  - entry: rows
    grid: ["ceil(S / 32)", "B * H", 1]
    block: [32, 1, 1]
    arguments: [Q, K, V, lengths, O, H, S, scale]
toggle: "there are no tensor cores"
`;

withPtx('the built-in attention takes Q, K and V of e4m3 with O of bf16', { timeout: LIMIT_MS }, () => {
  const right = folder('rows', { 'kernel.yaml': ROWS_MANIFEST, 'rows.cu': ROWS });
  // `bench` also verifies the kernel. The drawn shapes of `run` would take this kernel minutes.
  const bench = faTui('bench', right, '--samples', '5', '--max-seconds', '1');
  expect([bench.exitCode, bench.stdout]).toEqual([0, expect.stringMatching(/tensors +e4m3/)]);
  const beyond = folder('beyond', {
    'kernel.yaml': ROWS_MANIFEST,
    'rows.cu': edited(ROWS, 'const int keys = lengths[head / H];', 'const int keys = min(S, lengths[head / H] + 1);'),
  });
  const wrong = faTui('verify', beyond);
  expect([wrong.exitCode, wrong.stdout]).toEqual([1, expect.stringMatching(/NaN output: /)]);
});

test.skipIf(missing('clang')).each(
  inFull(
    [
      ['e4m3', CONVERSIONS.e4m3, 0, /device headers/],
      ['e5m2', CONVERSIONS.e5m2, 0, /device headers/],
      ['e4m3', '__nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3)', 1, NAN],
    ] as const,
    () => false,
  ),
)('clang without a toolkit converts to %s by %s', { timeout: LIMIT_MS }, async (dtype, conversion, exit, said) => {
  await using alone = new Home(withoutToolkit());
  const { exitCode, stdout } = alone.faTui(['verify', quantizer(dtype, conversion)], {
    cwd: repository,
    timeoutMs: LIMIT_MS,
  });
  expect([exitCode, stdout]).toEqual([exit, expect.stringMatching(said)]);
});

test('an unknown dtype is refused, and the message lists the known dtypes', () => {
  const known = 'fp16, bf16, fp32, e4m3, e5m2, int8';
  const problem = edited(QUANTIZE, 'id: quantize', 'id: quantize_fp8').replace('[e4m3, e5m2, int8]', '[fp8]');
  folder('wrong-problems/quantize_fp8', { 'problem.yaml': problem, 'reference.cpp': QUANTIZED });
  const list = home.faTui(['problem', 'list'], {
    env: { FLASHCORE_PROBLEMS: join(repository, 'wrong-problems') },
    cwd: repository,
  });
  // A problem that cannot be read hides no other problem.
  expect([list.exitCode, list.stdout.replaceAll(/\s+/g, ' ')]).toEqual([
    0,
    expect.stringContaining(`a list of ${known}`),
  ]);
  const kernel = quantizer('e4m3');
  const manifest = join(kernel, 'kernel.yaml');
  writeFileSync(manifest, edited(readFileSync(manifest, 'utf8'), 'inputs: e4m3', 'inputs: fp8'));
  const verify = faTui('verify', kernel);
  expect([verify.exitCode, verify.stderr]).toEqual([2, expect.stringContaining(known)]);
  writeFileSync(manifest, edited(readFileSync(manifest, 'utf8'), 'inputs: fp8', 'inputs: bf16'));
  const other = faTui('verify', kernel);
  expect([other.exitCode, other.stderr]).toEqual([2, expect.stringContaining('Y of quantize is e4m3 or e5m2 or int8')]);
});
