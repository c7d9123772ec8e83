import { create } from '@bufbuild/protobuf';
import { KernelSchema } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { formProblem } from './form-problem.ts';
import { formOf, requestOf, valueOf, withKernel, withKeys, withTyping, type RunForm } from './run-form.ts';

const KERNEL = create(KernelSchema, {
  kernelId: 'k',
  configs: ['big'],
  parameters: [
    { name: 'USE_WMMA', values: [1n, 0n], defaultValue: 0n, about: 'tensor cores' },
    { name: 'FIXED', values: [64n], defaultValue: 64n },
  ],
});
const OTHER = create(KernelSchema, {
  kernelId: 'other',
  parameters: [{ name: 'STAGES', values: [2n, 3n], defaultValue: 2n }],
});
const CONTEXT = { kernels: [KERNEL, OTHER], archs: ['sm_80', 'sm_89'], devices: ['gpu0'] };
const FORM = formOf(KERNEL, CONTEXT);

const press = (form: RunForm, id: string, change: number): RunForm =>
  withKeys({ ...form, selected: form.fields.findIndex((field) => field.id === id) }, { change });

test('fields are what the manifest and the compiler allow; what has one value is no choice', () => {
  expect(FORM.fields.map(({ id, choices, chosen }) => [id, choices[chosen]])).toEqual([
    ['kernel', 'k'],
    ['config', 'as usual'],
    ['param:USE_WMMA', '0'],
    ['shape', 'as usual'],
    ['seeds', 'as usual'],
    ['tolerance', 'as usual'],
    ['seconds', 'as usual'],
    ['arch', 'as usual'],
    ['champion', 'none'],
  ]);
});

test('a form as it opened asks for nothing but the kernel', () => {
  expect(requestOf(FORM, FORM)).toEqual({
    kernel: { source: { case: 'kernelId', value: 'k' } },
    variant: { parameters: {}, config: '', arch: '' },
    verify: { shapes: [], seedCount: 0 },
    benchmark: { shapes: [] },
  });
});

test('what was chosen is asked for, values go around at their ends', () => {
  const form = [
    ['config', 1],
    ['param:USE_WMMA', -1],
    ['shape', 1],
    ['seeds', 1],
    ['tolerance', 2],
    ['seconds', 1],
    ['arch', -1],
    ['champion', 2],
  ].reduce((before, [id, change]) => press(before, id as string, change as number), FORM);
  const shape = parseShape('1x4x128x64');
  expect(requestOf(form, FORM)).toEqual({
    kernel: { source: { case: 'kernelId', value: 'k' } },
    variant: { parameters: { USE_WMMA: 1n }, config: 'big', arch: 'sm_89' },
    verify: { shapes: [shape], seedCount: 1, tolerance: { profile: 'strict' } },
    benchmark: {
      shapes: [shape],
      protocol: { maxSeconds: 0.2 },
      champion: { kernel: { source: { case: 'kernelId', value: 'other' } } },
    },
    profile: { shape },
  });
  expect(withKeys(withKeys(FORM, { by: -3 }), { by: 99 }).selected).toBe(FORM.fields.length - 1);
});

const typed = (id: string, text: string, form = FORM): RunForm =>
  Array.from(text).reduce((before, character) => withTyping(before, { character }), {
    ...form,
    selected: form.fields.findIndex((field) => field.id === id),
  });

test('shapes and seeds can be typed; a choice takes the place of what was typed, Backspace takes a character away', () => {
  const form = typed('seeds', '17', typed('shape', '2x8x512x64c, 1x1x65x64'));
  expect(requestOf(form, FORM)).toMatchObject({
    verify: { shapes: [{ batch: 2, causal: true }, { sequenceLength: 65 }], seedCount: 17 },
    benchmark: { shapes: [{}, {}] },
  });
  expect(valueOf(withKeys(form, { change: 1 }).fields[form.selected]!)).toBe('1');
  expect(valueOf(withTyping(form, 'backspace').fields[form.selected]!)).toBe('1');
  expect(typed('arch', 'x')).toEqual({ ...FORM, selected: FORM.fields.findIndex(({ id }) => id === 'arch') });
});

test.each([
  ['shape', '2x8x512', /Wanted a shape such as 2x8x512x64/],
  ['shape', '0x8x512x64', /./],
  ['shape', Array.from({ length: 17 }, () => '1x1x64x64').join(','), /at most 16 shapes/],
  ['shape', '1x1x64x65', /k does not take 1x1x64x65: it requires D <= 64, because rows are of 64/],
  ['seeds', '0', /from 1 to 100, found "0"/],
  ['seeds', 'ten', /found "ten"/],
])('%s "%s" is refused with the reason', (id, text, reason) => {
  const limited = formOf(
    create(KernelSchema, {
      kernelId: 'k',
      limits: [
        { require: 'D <= 64', because: 'rows are of 64' },
        { require: 'S % TILE == 0', because: 'a constant that only the runner knows' },
      ],
    }),
    CONTEXT,
  );
  const problem = formProblem(typed(id, text, limited));
  expect(problem?.text).toMatch(reason);
  expect(limited.fields[problem!.index]?.id).toBe(id);
  expect(formProblem(limited)).toBeUndefined();
});

test('another kernel brings its own parameters and keeps the rest', () => {
  const form = withKernel(typed('shape', '1x1x64x64'), OTHER, CONTEXT);
  expect(form.fields.map((field) => [field.id, valueOf(field)])).toEqual([
    ['kernel', 'other'],
    ['param:STAGES', '2'],
    ['shape', '1x1x64x64'],
    ['seeds', 'as usual'],
    ['tolerance', 'as usual'],
    ['seconds', 'as usual'],
    ['arch', 'as usual'],
    ['champion', 'none'],
  ]);
});
