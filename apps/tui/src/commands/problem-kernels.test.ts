import { expect, test } from 'vitest';
import { kernelsOfProblem } from './problem-kernels.ts';

test('kernelsOfProblem() begins with the kernel that has the least to read, with all that it includes', async () => {
  const problems = ['attention_decode', 'attention_decode_paged', 'attention_backward', 'mla_decode'];
  const simplest = await Promise.all(problems.map(async (id) => (await kernelsOfProblem(id))[0]?.id));
  expect(simplest).toEqual(['decode_rows', 'decode_paged', 'backward_rows', 'mla_rows']);
});
