import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { linesOfUse } from './lines-of-use.ts';

const KERNELS = path.join(import.meta.dirname, '../../../../kernels');
const sourceOf = (name: string) => ({ path: name, text: readFileSync(path.join(KERNELS, name), 'utf8') });

/** The source text of each line of use. */
function used(text: string, names: readonly string[], file = 'k.cu'): string[] {
  const lines = text.split('\n');
  return linesOfUse([{ path: file, text }], file, names).map((line) => lines[line - 1]!.trim());
}

test('a mask that a struct computes is found where its method is called, not where the struct is made', () => {
  const file = 'fa_v1_baseline/fa_v1_baseline.cu';
  const source = sourceOf(file);
  const lines = linesOfUse([source, sourceOf('mechanisms/attention_form.cuh')], file, ['causal', 'diagonal']);
  expect(lines.map((line) => source.text.split('\n')[line - 1])).toEqual([
    expect.stringContaining('kv_end = form.keys_before('),
    expect.stringContaining('visible = kv_index < form.keys_before('),
  ]);
});

test('a line uses a variable if it branches on it or computes with it, not if it only copies or declares it', () => {
  const text = `__global__ void k(half* Q, int S, int causal) {
  const int other = 1, causal = problem.causal;  // causal
  attend(Q, S, causal);
  if (causal) end = min(end, row + 1);
  const int keys = S - causal;
}`;
  expect(used(text, ['causal'])).toEqual(['if (causal) end = min(end, row + 1);', 'const int keys = S - causal;']);
  expect(used('  const int end = min(causal, S);', ['causal'])).toHaveLength(1);
  expect(used('def k(Q, causal):\n    n = S // causal  # causal\n', ['causal'], 'k.py')).toEqual([
    'n = S // causal  # causal',
  ]);
});

test('a name in a string or a comment does not count as a use', () => {
  const text = `static_assert(sizeof(Tile) == 128,
              "Q and K in fp16; V, S and O in fp32");  // S
  const char letter = 'S'; /* S + 1 */
  printf("\\"%d\\" of S + 1", 1);
  const int end = S + 1; // S - 1`;
  expect(used(text, ['S'])).toEqual(['const int end = S + 1; // S - 1']);
  expect(used("key = 'S + 1'\nend = S + 1  # it's S + 2", ['S'], 'k.py')).toEqual(["end = S + 1  # it's S + 2"]);
});

test('hostile lines take linear time', () => {
  for (const hostile of ['/*', '"\\', "'"]) {
    const startedMs = performance.now();
    used(hostile.repeat(200_000), ['S']);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  }
});

test('where a variable is only passed on, that line is given, and none where many use it', () => {
  expect(used('void k(int causal) {\n  attend({S, causal}, 1);\n}', ['causal'])).toEqual(['attend({S, causal}, 1);']);
  expect(used('  a = causal + 1;\n'.repeat(4), ['causal'])).toEqual([]);
});

test('a method that calls one which uses the variable is a use, too', () => {
  const text = `struct Mask {
  int causal, window;
  __device__ int end(int row) const {
    if (row > 0) { return causal ? row + 1 : 8; }
    return 1;
  }
  __device__ bool hides(int key, int row) const { return key >= end(row); }
  __device__ int unrelated() const { return window; }
};
void k() {
  x = mask.hides(1, 2);
  y = mask.unrelated();
}`;
  expect(used(text, ['causal'])).toEqual(['if (row > 0) { return causal ? row + 1 : 8; }', 'x = mask.hides(1, 2);']);
});
