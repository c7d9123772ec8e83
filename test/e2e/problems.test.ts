/** Problems other than attention: their example kernels are correct, and mistakes in them are found. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ALL_TESTS, edited, inFull } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

const LIMIT_MS = 600_000;
const KERNELS = [
  'rmsnorm',
  'softmax_rows',
  'gemm_tiles',
  'decode_rows',
  'decode_split',
  'decode_mma',
  'decode_hopper',
  'decode_paged',
  'decode_mma_paged',
  'decode_hopper_paged',
  'varlen_rows',
  'mla_rows',
  'mla_hopper',
  'merge_rows',
  'selected_rows',
  'backward_rows',
  'backward_mma',
  'backward_hopper',
];
let home: Home;
beforeAll(() => {
  home = new Home();
});
afterAll(() => home[Symbol.asyncDispose]());

/** The long form uses five seeds. Every seed shows the mistakes below, so the short form uses one. */
const SEEDS = ALL_TESTS ? [] : ['--seeds', '1'];

function verify(folder: string, ...args: string[]) {
  const done = home.faTui(['verify', folder, '--json', ...SEEDS, ...args], { timeoutMs: LIMIT_MS });
  return { ...done, text: done.stdout + done.stderr };
}

const NORM = `template <int N, bool B>
struct Cut {};
template <int THREADS, class C>
__global__ void __launch_bounds__(THREADS) norm(`;

/** An example kernel with its source changed. */
function changed(kernel: string, was: string, is: string): string {
  const folder = join(home.path, `${kernel}-changed`);
  cpSync(join(ROOT, 'examples/kernels', kernel), folder, { recursive: true });
  const file = join(folder, `${kernel}.cu`);
  const source = readFileSync(file, 'utf8');
  writeFileSync(file, edited(source, was, is));
  return folder;
}

// The short form has `fa-tui run rmsnorm` below.
test.each(inFull(KERNELS, () => false))(
  '%s is correct on all cases of its problem',
  { timeout: LIMIT_MS },
  (kernel) => {
    // In fp16, `fa-tui run` verifies all seeds below; in bf16, two seeds are enough to test range and rounding.
    const seeds = ALL_TESTS ? ['--seeds', '2'] : [];
    const { exitCode, text } = verify(join(ROOT, 'examples/kernels', kernel), '--set', 'BF16=1', ...seeds);
    expect([exitCode, text]).toEqual([0, expect.stringMatching(/"outcome": ?"OUTCOME_PASSED"|PASSED/)]);
  },
);

if (ALL_TESTS)
  test('attention with LSE reports each output with its tolerance and its errors', { timeout: LIMIT_MS }, () => {
    const settings = ['--set', 'WRITE_LSE=1', '--shape', '1x4x40x64,Hkv=2', '--shape', '1x2x7x64,Skv=3,causal=2'];
    const right = home.runJson(['verify', join(ROOT, 'examples/kernels/gqa_rows'), ...settings], {
      timeoutMs: LIMIT_MS,
    });
    const [, lse] = right.response.result!.variants[0]!.verify!.cases[0]!.outputs;
    expect(right.exitCode).toBe(0);
    expect(lse).toMatchObject({ name: 'LSE', dtype: 'fp32', tolerance: { profile: 'strict', absolute: 1e-3 } });
    const folder = changed('gqa_rows', 'row_max + logf(row_sum)', 'row_max + log2f(row_sum)');
    const wrong = home.faTui(['verify', folder, ...settings], { timeoutMs: LIMIT_MS });
    expect(wrong.exitCode).toBe(1);
    expect(wrong.stdout).toMatch(/160 of 160 elements of LSE are outside the\s+tolerance/);
    expect(wrong.stdout).toContain('Error map of LSE of 1x4x40x64,Hkv=2');
  });

if (ALL_TESTS)
  test('timed launches of attention with LSE have both outputs checked', { timeout: LIMIT_MS }, () => {
    const folder = join(ROOT, 'examples/kernels/gqa_rows');
    const settings = [
      '--set',
      'WRITE_LSE=1',
      '--shape',
      '1x4x40x64,Hkv=2,sinks=1,bias=1',
      '--shape',
      '1x2x40x64,alibi=1',
    ];
    const { exitCode, response } = home.runJson(['bench', folder, ...settings], { timeoutMs: LIMIT_MS });
    const { benchmarks } = response.result!.variants[0]!;
    expect(exitCode).toBe(0);
    for (const { outputCheck } of benchmarks)
      expect(outputCheck).toMatch(/^right: every output of \d+ launches, each on inputs of its own$/);
  });

const MISTAKES: [kernel: string, was: string, is: string][] = [
  ['rmsnorm', ' + eps', ''],
  ['softmax_rows', 'expf(x - new_max);', 'expf(x - row_max);'],
  ['gemm_tiles', 'k_start < K;', 'k_start < K - TILE;'],
  ['gqa_rows', 'blockIdx.y / group', 'blockIdx.y % (gridDim.y / group)'],
  ['gqa_rows', 'sinks ? 1.0f : 0.0f', '0.0f'],
  ['gqa_rows', 'sinks[head]', 'sinks[0]'],
  ['gqa_rows', 'slopes[head]', 'slopes[0]'],
  ['gqa_rows', 'abs(position - key)', 'abs(row - key)'],
  ['gqa_rows', '* queries + row) * keys + key]', '* keys + key) * queries + row]'],
  ['gqa_rows', 'if (logit == -INFINITY) continue;', ''],
  ['decode_rows', 'kv_head = head / group', 'kv_head = head % kv_heads'],
  ['decode_rows', 'key <= position', 'key < position'],
  ['decode_rows', 'row_sum > 0.0f ? 1.0f / row_sum : 0.0f', '1.0f / fmaxf(row_sum, 2.0f)'],
  ['decode_rows', 'logf(row_sum)', 'log2f(row_sum)'],
  ['decode_rows', 'sinks ? 1.0f : 0.0f', '0.0f'],
  ['decode_rows', 'slopes[head]', 'slopes[kv_head]'],
  ['decode_rows', 'position - window', 'position - window - 1'],
  ['decode_paged', 'key <= position', 'key <= position && (key < page_size || key / page_size < position / page_size)'],
  ['decode_paged', 'most_pages + key / page_size', 'most_pages + (key + 1) / page_size'],
  ['decode_paged', 'table[sequence * most_pages + key / page_size]', 'sequence * most_pages + key / page_size'],
  ['decode_paged', 'sinks ? 1.0f : 0.0f', '0.0f'],
  ['varlen_rows', 'first = offsets[sequence]', 'first = 0'],
  ['varlen_rows', 'causal ? token + 1', 'causal ? token - first + 1'],
  ['varlen_rows', 'offsets[middle] <= token', 'offsets[middle] < token'],
  ['varlen_rows', 'sinks ? 1.0f : 0.0f', '0.0f'],
  ['mla_rows', 'i < LANE_DIM; ++i) {', 'i < LANE_VALUE_DIM; ++i) {'],
  ['mla_rows', 'query + lengths[sequence] - queries', 'lengths[sequence] - 1'],
  ['merge_rows', 'if (lse == -INFINITY) continue;', ''],
  ['merge_rows', 'expf(lse - max)', 'expf(lse)'],
  ['merge_rows', 'split * rows + lse_row];\n    if', 'split * rows + row];\n    if'],
  ['merge_rows', 'max + logf(sum)', 'max'],
  ['merge_rows', 'sum > 0.0f ? 1.0f / sum : 0.0f', '1.0f / sum'],
  ['selected_rows', 'place < places;', 'place < places - 1;'],
  ['selected_rows', 'if (key < 0) break;', 'if (key < 0) continue;\n    if (key == 0) break;'],
  ['selected_rows', 'const int key = list[place];', 'const int key = place < keys ? place : -1;'],
  ['selected_rows', 'if (key < 0) break;', ''],
  ['selected_rows', ' * kv_heads + kv_head) * places', ' * kv_heads) * places'],
  ['selected_rows', 'row_max + logf(row_sum)', 'row_max + log2f(row_sum)'],
  ['backward_rows', 'add(dV_rmem, p, dO_rmem)', 'add(dV_rmem, dS, dO_rmem)'],
  ['backward_rows', '(kv_head * group + of_group)', '(kv_head * group)'],
  ['backward_rows', ' - delta[row]);\n    add(dQ', ');\n    add(dQ'],
  ['backward_rows', 'add(dK_rmem, dS * scale', 'add(dK_rmem, dS'],
  ['backward_mma', 'key <= query + diagonal', 'key < query + diagonal'],
  ['backward_mma', '* form.group : blockIdx.x', ': blockIdx.x'],
  ['backward_mma', 'p * (dS_rmem[n][i] - figures.y)', 'p * dS_rmem[n][i]'],
  ['backward_hopper', '8 * n + i < hidden', '8 * n + i <= hidden'],
  ['backward_hopper', 'work.share * problem.group', 'work.share'],
  ['backward_hopper', 'share / problem.sharers, first_key', 'share, first_key'],
  ['backward_hopper', '(score - (i & 1 ? delta.y : delta.x))', 'score'],
];

/** For problems whose parity cases have too few forms of attention or take too long. */
const SHAPES: Record<string, string[]> = {
  gqa_rows: ['1x4x40x64,Hkv=2,sinks=1', '1x4x40x64,Hkv=2,Skv=57,causal=2,alibi=1,bias=1'],
  varlen_rows: ['B=6,T=150,H=4,Hkv=2,D=64', 'B=6,T=150,H=4,Hkv=2,D=64,causal=1,sinks=1'],
};

// Only in the long form. In the short form, apps/runner/src/experiment/faulty-kernels.test.ts runs other mistakes.
test.each(inFull(MISTAKES, () => false))(
  '%s with "%s" replaced by "%s" is found wrong',
  { timeout: LIMIT_MS },
  (kernel, was, is) => {
    const shape = SHAPES[kernel]?.flatMap((text) => ['--shape', text]) ?? [];
    // The last --seeds applies. Each seed has lengths of 0, of 1 and at the end of a tile.
    const { exitCode, text } = verify(changed(kernel, was, is), '--seeds', '1', ...shape);
    // Rows that belong to no sequence are NaN, and an index beyond a table faults.
    expect([exitCode, text]).toEqual([1, expect.stringMatching(/WRONG_RESULT|NAN_OUTPUT|OUT_OF_BOUNDS/)]);
  },
);

test.each(
  inFull(
    [
      'causal=3',
      'causal=0.5',
      'causal=-1',
      'window=2.5,causal=1',
      'window=-2',
      'window=4',
      'softcap=-1',
      'softcap=99999999',
    ],
    () => false,
  ),
)('attention with %s is refused before a job exists', (values) => {
  const folder = join(ROOT, 'examples/kernels/gqa_rows');
  const { exitCode, stderr } = home.faTui(['verify', folder, '--shape', `B=1,H=2,S=8,D=64,${values}`]);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('attention requires ')]);
});

if (ALL_TESTS)
  test(
    'an entry spelled in C++ runs, and one that the compiler rejects is reported by name',
    { timeout: LIMIT_MS },
    () => {
      const folder = changed('rmsnorm', 'extern "C" __global__ void __launch_bounds__(NUM_THREADS) rmsnorm(', NORM);
      const file = join(folder, 'kernel.yaml');
      const spelled = (entry: string) => {
        writeFileSync(file, edited(readFileSync(file, 'utf8'), /entry: .*/, `entry: "${entry}"`));
        return verify(folder, '--cases', 'quick');
      };
      expect(spelled('norm<NUM_THREADS, Cut<2, true>>')).toMatchObject({ exitCode: 0 });
      const wrong = spelled('norm<Cut<2, true>>');
      expect([wrong.exitCode, wrong.text]).toEqual([1, expect.stringContaining('norm<Cut<2, true>>')]);
    },
  );

test('a case that the problem does not have is refused at once', () => {
  const folder = join(ROOT, 'examples/kernels/rmsnorm');
  const refused: [shape: string, error: string][] = [
    ['rows=4', "shapes[0].values.N: must be given: N is rmsnorm's columns"],
    ['rows=4,N=0', 'shapes[0].values.N: must be an integer of 1 to 2147483647, got 0'],
    ['2x8x512x64', 'rmsnorm has no B: a case of it says rows, N'],
  ];
  for (const [shape, error] of inFull(refused, ([each]) => each === 'rows=4')) {
    const { stderr } = home.faTui(['verify', folder, '--shape', shape]);
    expect(/error: (.*)/.exec(stderr)?.[1]).toContain(error);
  }
});

/** Kernels that are run again, against the champion from the first run: one with a table, and one without a table. */
const COMPARED = ['rmsnorm', 'decode_paged'];
/** The kernel that is champion of the problem when these kernels run. */
const CHALLENGED: Record<string, string> = {
  decode_split: 'decode_rows',
  decode_mma: 'decode_rows',
  decode_mma_paged: 'decode_paged',
  decode_hopper: 'decode_rows',
  decode_hopper_paged: 'decode_paged',
  mla_hopper: 'mla_rows',
  backward_mma: 'backward_rows',
  backward_hopper: 'backward_rows',
};

test.each(inFull(KERNELS, (kernel) => kernel === 'rmsnorm'))(
  'fa-tui run %s verifies, times and profiles the kernel, checks all timed outputs, and can be accepted',
  { timeout: LIMIT_MS },
  (kernel) => {
    const folder = join(ROOT, 'examples/kernels', kernel);
    const { exitCode, response } = home.runJson(['run', folder, ...SEEDS], { timeoutMs: LIMIT_MS });
    const [variant] = response.result!.variants;
    const { verify: verified, benchmarks, findings } = variant!;
    expect(exitCode, findings.map(({ message }) => message).join('\n')).toBe(0);
    const taken = verified!.cases.filter(({ reason }) => reason?.includes('the kernel does not take it') !== true);
    expect([verified!.passedCases, benchmarks.length]).toEqual([taken.length, 2]);
    for (const { latency, outputCheck } of variant!.benchmarks) {
      expect(latency!.p50Us).toBeGreaterThan(0);
      expect(outputCheck).toMatch(/^right: every output of \d+ launches, each on inputs of its own$/);
    }
    expect(variant!.profile).toBeDefined();
    expect(variant!.verify!.probes.length).toBeGreaterThan(0);
    expect(variant!.verify!.drawn.length).toBeGreaterThan(10);

    // A result of one seed cannot be accepted.
    if (!ALL_TESTS) return;
    const challenged = CHALLENGED[kernel];
    if (challenged !== undefined) {
      expect(response.result!.acceptability!.replaces).toContain(challenged);
      return;
    }
    const job = response.job!.name;
    const accepted = home.faTui(['accept', job, '--over', 'none', '--note', 'the first of its problem']);
    expect([accepted.exitCode, accepted.stdout]).toEqual([0, expect.stringContaining(`${kernel} is the champion`)]);
    if (!COMPARED.includes(kernel)) return;
    const again = home.runJson(['run', folder], { timeoutMs: LIMIT_MS });
    expect(again.response.result!.acceptability!.replaces).toContain(kernel);
    expect(again.response.result!.acceptability!.over).toBe(job);
  },
);

test.each(
  inFull([['to_element(to_float(X_row[n])', 'to_element((n < 8192) * to_float(X_row[n])']] as const, () => false),
)('drawn shapes find that rmsnorm with "%s" replaced by "%s" is wrong', { timeout: LIMIT_MS }, (was, is) => {
  const folder = changed('rmsnorm', was, is);
  const { exitCode, response } = home.runJson(['run', folder], { timeoutMs: LIMIT_MS });
  const { verify, findings } = response.result!.variants[0]!;
  expect([exitCode, verify!.passedCases]).toEqual([1, verify!.cases.length]);
  expect(verify!.drawn.at(-1)!.reason).toContain('WRONG_RESULT');
  expect(findings[0]!.message).toMatch(/^smallest failing shape N=8193,rows=1 .* at Y\[0, 8192\] \(got 0/);
});
