/** Problems in their user's folder that the built-in oracle computes: a merge of splits, and sparse decoding. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { edited } from '@flashcore/shared/testing';
import { Home, ROOT, type CommandResult } from '../support/home.ts';

const LIMIT_MS = 300_000;
type Change = readonly [was: string, is: string];

interface Own {
  problem: string;
  kernel: string;
  /** The installed problem and the example kernel that the user copied. */
  from: readonly [problem: string, kernel: string];
  definition: readonly Change[];
  cases: readonly Change[];
  manifest: readonly Change[];
  source: readonly Change[];
  mistakes: readonly Change[];
}

/** As FlashInfer's merge_states has it: [tokens, splits, heads, columns], in the kernel's dtype, with LSE in base 2. */
const MERGE: Own = {
  problem: 'merge_states',
  kernel: 'our_merge',
  from: ['merge', 'merge_rows'],
  definition: [
    ['in: [splits, B, S, H, D], dtype: fp32', 'in: [B, S, splits, H, D], dtype: same_as(O)'],
    ['in: [splits, B, H, S]', 'in: [B, S, splits, H]'],
    ['O_splits[p b s h d]', 'O_splits[b s p h d]'],
    ['LSE_splits[p b h s]', 'LSE_splits[b s p h]'],
    ['op: merge', 'op: merge\n  lse_base: 2'],
    [
      '  lse_in_base_2: { tensor: LSE, times: 1.4426950408889634',
      '  lse_in_base_e: { tensor: LSE, times: 0.6931471805599453',
    ],
    [
      '"1 / 1.4426950408889634", about: "weights and LSE are powers of 2 and not of e"',
      '1.4426950408889634, about: "weights are powers of e"',
    ],
    // The splits are fp16 now.
    ['  splits_in_fp16: { tensor: O_splits, round: fp16, about: "O of splits has 11 bits, and ends at 65504" }\n', ''],
  ],
  cases: [],
  manifest: [],
  source: [
    ['const float* __restrict__ O_splits', 'const Element* __restrict__ O_splits'],
    [
      'max = fmaxf(max, LSE_splits[(size_t)split * rows + lse_row])',
      'max = fmaxf(max, LSE_splits[((size_t)(sequence * queries + query) * splits + split) * heads + head])',
    ],
    [
      'lse = LSE_splits[(size_t)split * rows + lse_row]',
      'lse = LSE_splits[((size_t)(sequence * queries + query) * splits + split) * heads + head]',
    ],
    [
      'const float* O_row = O_splits + ((size_t)split * rows + row) * dim',
      'const Element* O_row = O_splits + (((size_t)(sequence * queries + query) * splits + split) * heads + head) * dim',
    ],
    ['O_row[lane + 32 * i], O_rmem', '(float)O_row[lane + 32 * i], O_rmem'],
    ['expf(lse - max)', 'exp2f(lse - max)'],
    ['logf(sum)', 'log2f(sum)'],
  ],
  mistakes: [
    ['exp2f(lse - max)', 'expf(lse - max)'],
    ['if (lse == -INFINITY) continue;', ''],
  ],
};

/** Sparse MLA over a paged cache: the query reads the rows of a list, which is the same for all heads. */
const SPARSE: Own = {
  problem: 'sparse_mla_decode',
  kernel: 'our_sparse_mla',
  from: ['mla_decode', 'mla_rows'],
  definition: [
    ['  Dv: { default: 512,', '  topk: { draw: length, about: "places of a list" }\n  Dv: { default: 512,'],
    ['  causal: { value: "2", about: "the last query sees the last row" }\n', ''],
    [
      '  O: { out',
      '  selected: { in: [B, S, topk], dtype: int32, draw: { selected: { keys: Skv, lengths: lengths } } }\n  O: { out',
    ],
    ['  page_table: table', '  page_table: table\n  selected: "selected[b s k]"'],
    [
      / {2}draft_mask_ignored[\s\S]*?(?= {2}scale_forgotten)/.source,
      '  selection_ignored: { tensor: selected, ignored: true, about: "all rows are seen" }\n  none_is_row_0: { tensor: selected, entries: "max(0, entry)", about: "-1 is row 0" }\n',
    ],
    [/ {2}last_key_left_out[\s\S]*?(?= {2}pages_shifted)/.source, ''],
    [/ {2}last_split_left_out[\s\S]*?(?= {2}cache_in)/.source, ''],
    ['2 * B * H * S * Skv * (D + Dv)', '2 * B * H * S * min(topk, Skv) * (D + Dv)'],
  ],
  cases: [[/Skv: (\d+)/.source, 'Skv: $1, topk: 33']],
  manifest: [['      - table\n', '      - table\n      - selected\n      - topk\n']],
  source: [
    ['const int* __restrict__ table,', 'const int* __restrict__ table, const int* __restrict__ selected, int places,'],
    ['  const int position = query + lengths[sequence] - queries;\n', ''],
    [
      'for (int key = 0; key <= position; ++key) {',
      'for (int place = 0; place < places; ++place) {\n    const int key = selected[(sequence * queries + query) * places + place];\n    if (key < 0) break;',
    ],
  ],
  mistakes: [
    ['if (key < 0) break;', 'if (key < 0) continue;\n    if (place == places - 1) break;'],
    ['if (key < 0) break;', 'if (key < 0 && place > 0) break;'],
    ['selected[(sequence * queries + query)', 'selected[(sequence * queries)'],
  ],
};

const home = new Home();
const repository = join(home.path, 'kernels');
const faTui = (...args: string[]): CommandResult => home.faTui(args, { cwd: repository, timeoutMs: LIMIT_MS });

/** Replaces each text in a file; those with a backslash are patterns, and replace all that they match. */
function edit(file: string, changes: readonly Change[]): void {
  let text = readFileSync(file, 'utf8');
  for (const [was, is] of changes) text = edited(text, /\\|\[\\s/.test(was) ? new RegExp(was, 'g') : was, is);
  writeFileSync(file, text);
}

function copied({ problem, kernel, from, ...own }: Own): void {
  const [definition, folder] = [join(repository, 'problems', problem), join(repository, kernel)];
  cpSync(join(ROOT, 'problems', from[0]), definition, { recursive: true });
  edit(join(definition, 'problem.yaml'), [[`id: ${from[0]}`, `id: ${problem}`], ...own.definition]);
  edit(join(definition, 'cases.yaml'), own.cases);
  cpSync(join(ROOT, 'examples/kernels', from[1]), folder, { recursive: true });
  edit(join(folder, 'kernel.yaml'), [
    [`id: ${from[1]}`, `id: ${kernel}`],
    [`problem: ${from[0]}`, `problem: ${problem}`],
    ...own.manifest,
  ]);
  edit(join(folder, `${from[1]}.cu`), own.source);
}

beforeAll(() => {
  mkdirSync(join(repository, 'problems'), { recursive: true });
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  copied(MERGE);
  copied(SPARSE);
});
afterAll(() => home[Symbol.asyncDispose]());

test.each([MERGE, SPARSE])(
  '$kernel of $problem is correct, also when it is timed, and can be accepted',
  { timeout: LIMIT_MS },
  ({ kernel, problem }) => {
    const run = faTui('run', `./${kernel}`);
    expect([run.exitCode, run.stdout + run.stderr]).toEqual([0, expect.stringContaining('PASSED')]);
    expect(run.stdout).toMatch(/right: every output of \d+ launches, each on inputs of its own/);
    const job = /jobs\/[0-9a-f-]{36}/.exec(run.stdout)![0];
    const accepted = faTui('accept', job, '--note', 'the first');
    expect([accepted.exitCode, accepted.stdout]).toEqual([0, expect.stringContaining(`${kernel} is the champion`)]);
    const check = faTui('problem', 'check', problem);
    expect([check.exitCode, check.stdout + check.stderr]).toEqual([
      0,
      expect.stringMatching(/the cases find all \d+ mutants/),
    ]);
  },
);

test.each([MERGE, SPARSE].flatMap((own) => own.mistakes.map(([was, is]) => ({ own, was, is }))))(
  '$own.kernel with "$was" replaced by "$is" is found wrong',
  { timeout: LIMIT_MS },
  ({ own: { kernel, from }, was, is }) => {
    const wrong = join(repository, 'wrong');
    cpSync(join(repository, kernel), wrong, { recursive: true, force: true });
    edit(join(wrong, 'kernel.yaml'), [[`id: ${kernel}`, 'id: wrong']]);
    const file = join(wrong, `${from[1]}.cu`);
    writeFileSync(file, edited(readFileSync(file, 'utf8'), was, is));
    const { exitCode, stdout, stderr } = faTui('verify', './wrong', '--seeds', '1', '--json');
    expect([exitCode, stdout + stderr]).toEqual([1, expect.stringMatching(/WRONG_RESULT|NAN_OUTPUT|OUT_OF_BOUNDS/)]);
  },
);

test('SDPA is timed along with plain attention only if its problem says so', { timeout: LIMIT_MS }, () => {
  const folder = join(repository, 'problems/our_attention');
  cpSync(join(ROOT, 'problems/attention'), folder, { recursive: true });
  cpSync(join(ROOT, 'kernels/cases.yaml'), join(folder, 'cases.yaml'));
  edit(join(folder, 'problem.yaml'), [['id: attention', 'id: our_attention']]);
  const kernel = join(repository, 'our_rows');
  cpSync(join(ROOT, 'examples/kernels/gqa_rows'), kernel, { recursive: true });
  edit(join(kernel, 'kernel.yaml'), [['id: gqa_rows', 'id: our_rows\nproblem: our_attention']]);
  const bench = ['bench', './our_rows', '--shape', 'B=1,H=2,S=40,D=64', '--samples', '10', '--max-seconds', '0.2'];
  const why = (): string | undefined => {
    const { response } = home.runJson(bench, { cwd: repository, timeoutMs: LIMIT_MS });
    return response.result!.variants[0]!.benchmarks[0]!.sdpaMissing;
  };
  expect(why()).toContain('SDPA and other rivals run on a GPU host only');
  edit(join(folder, 'problem.yaml'), [['baselines: [sdpa]', 'baselines: []']]);
  expect(why()).toMatch(/^SDPA is not called for .* of our_attention, whose problem.yaml does not name it/);
  edit(join(folder, 'problem.yaml'), [['baselines: []', 'baselines: [spda]']]);
  const { exitCode, stderr } = faTui(...bench);
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringMatching(/problem.yaml:\d+: baselines\[0\]: must be one of sdpa, got "spda"/),
  ]);
});
