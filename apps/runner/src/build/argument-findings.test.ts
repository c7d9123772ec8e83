import { FindingKind } from '@flashcore/shared/contract';
import type { PlannedArgument } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { argumentFinding } from './argument-findings.ts';
import { ptxParameters } from './entry-parameters.ts';

const [Q, K] = (['Q', 'K'] as const).map((tensor) => ({ kind: 'tensor' as const, tensor }));
const S: PlannedArgument = { kind: 'int32', value: 64 };
const MAP: PlannedArgument = { kind: 'tensorMap', tensor: 'K', box: [64, 64], swizzle: '128B' };

const STRUCT: PlannedArgument = { kind: 'struct', bytes: 48, fields: [{ name: 'q', at: 0, value: Q! }] };

const problem = (given: PlannedArgument[], taken: number[]): string | undefined =>
  argumentFinding([{ entry: 'fa', arguments: given }], new Map([['fa', taken]]))?.message;

test("wrong arguments are reported with the kernel's parameters and the manifest's arguments", () => {
  expect(problem([Q!, S], [8, 8, 4])).toBe(
    'fa takes 3 parameters (8, 8, 4 bytes), the manifest gives 2 arguments: Q, int32 64',
  );
  expect(problem([Q!, K!, S], [8])).toBe(
    'fa takes 1 parameter (8 bytes), the manifest gives 3 arguments: Q, K, int32 64',
  );
  expect(problem([Q!, K!], [8, 4])).toMatch(/^fa takes 4 bytes as parameter 2, where the manifest gives K; /);
  expect(problem([Q!, K!], [8, 128])).toMatch(/^fa takes 128 bytes as parameter 2, where the manifest gives K; /);
  expect(problem([Q!, MAP], [8, 8])).toMatch(/where the manifest gives tensor map of K; /);
  expect(problem([STRUCT], [40])).toMatch(
    /^fa takes 40 bytes as parameter 1, where the manifest gives a struct of 48 bytes; /,
  );
  expect(problem([{ kind: 'null' }], [4])).toMatch(/where the manifest gives a null pointer; /);
  expect(problem([{ kind: 'float32', value: 1 }], [8])).toMatch(/where the manifest gives float32 1; /);
  expect(problem([{ kind: 'int64', value: 1 }], [4])).toMatch(/where the manifest gives int64 1; /);
  expect(argumentFinding([{ entry: 'fa', arguments: [] }], new Map([['fa', [8]]]))).toMatchObject({
    kind: FindingKind.WRONG_ARGUMENTS,
  });
});

test('no finding is reported for fitting arguments, for a bool or long passed as a number, or if the parameters are unknown', () => {
  expect(problem([Q!, S, MAP], [8, 4, 128])).toBeUndefined();
  expect(problem([S, S], [1, 8])).toBeUndefined();
  expect(problem([STRUCT, { kind: 'null' }, { kind: 'bool', value: 1 }], [48, 8, 1])).toBeUndefined();
  expect(argumentFinding([{ entry: 'other', arguments: [] }], new Map([['fa', [8]]]))).toBeUndefined();
});

test('reads parameters from the PTX of nvcc, NVRTC and clang, including an empty list of parameters', () => {
  const text = `.visible .entry fa(
	.param .u64 fa_param_0,
	.param .u64 .ptr .global .align 16 fa_param_1,
	.param .align 64 .b8 fa_param_2[128],
	.param .f32 fa_param_3,
	.param .u8 fa_param_4
)
.maxntid 128, 1, 1
{ ret; }
.visible .entry none()
{ ret; }
`;
  expect([...ptxParameters(text)]).toEqual([
    ['fa', [8, 8, 128, 4, 1]],
    ['none', []],
  ]);
});
