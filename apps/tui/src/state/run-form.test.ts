import { create } from '@bufbuild/protobuf';
import { KernelSchema, parseShape } from '@flashcore/shared';
import { expect, test } from 'vitest';
import { formOf, requestOf, withKeys, type RunForm } from './run-form.ts';

const KERNEL = create(KernelSchema, { kernelId: 'k', configs: ['big'], parameters: [{ name: 'USE_WMMA', values: [1n, 0n], defaultValue: 0n, about: 'tensor cores' }, { name: 'FIXED', values: [64n], defaultValue: 64n }] });
const FORM = formOf(KERNEL, ['sm_80', 'sm_89']);

const press = (form: RunForm, id: string, change: number): RunForm => withKeys({ ...form, selected: form.fields.findIndex((field) => field.id === id) }, { change });

test('fields are what the manifest and the compiler allow; what has one value is no choice', () => {
  expect(FORM.fields.map(({ id, choices, chosen }) => [id, choices[chosen]])).toEqual([['config', 'as usual'], ['param:USE_WMMA', '0'], ['shape', 'as usual'], ['seeds', 'as usual'], ['tolerance', 'as usual'], ['arch', 'as usual']]);
});

test('a form as it opened asks for nothing but the kernel', () => {
  expect(requestOf(FORM, FORM)).toEqual({ kernel: { source: { case: 'kernelId', value: 'k' } }, variant: { parameters: {}, config: '', arch: '' }, verify: { shapes: [], seedCount: 0 }, benchmark: { shapes: [] } });
});

test('what was chosen is asked for, values go around at their ends', () => {
  const form = [['config', 1], ['param:USE_WMMA', -1], ['shape', 1], ['seeds', 1], ['tolerance', 2], ['arch', -1]].reduce((before, [id, change]) => press(before, id as string, change as number), FORM);
  const shape = parseShape('1x4x128x64');
  expect(requestOf(form, FORM)).toEqual({
    kernel: { source: { case: 'kernelId', value: 'k' } }, variant: { parameters: { USE_WMMA: 1n }, config: 'big', arch: 'sm_89' },
    verify: { shapes: [shape], seedCount: 1, tolerance: { profile: 'strict' } }, benchmark: { shapes: [shape] }, profile: { shape },
  });
  expect(withKeys(withKeys(FORM, { by: -3 }), { by: 99 }).selected).toBe(FORM.fields.length - 1);
});
