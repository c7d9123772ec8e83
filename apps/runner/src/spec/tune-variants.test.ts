import { create } from '@bufbuild/protobuf';
import { TuneRequestSchema } from '@flashcore/shared/contract';
import { parseManifest, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { FAKE_DEVICE } from '../testing/fake-planner.ts';
import { keptText, planVariants } from './tune-variants.ts';

const SHAPE = parseShape('1x1x64x64');

/** A manifest with this many parameters, each with two values. */
const manifestOf = (parameters: number, inputs = 'fp16') =>
  parseManifest(
    `id: choices
title: "Choices"
lesson: "many"
source: choices.cu
min_arch: sm_80
math: { inputs: ${inputs}, accumulate: fp32 }
parameters:
${Array.from({ length: parameters }, (_, index) => `  P_${index}: { values: [0, 1], default: 0, about: "a choice" }`).join('\n')}
launches:
  - { entry: choices, grid: [1, 1, 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }
`,
    'kernel.yaml',
  );

const planned = (parameters: number) =>
  planVariants(manifestOf(parameters), create(TuneRequestSchema, { maxTrials: 4 }), {
    device: FAKE_DEVICE,
    shapes: [SHAPE],
  });

test('planVariants() draws from as many combinations as a result can count, and refuses a larger number', () => {
  expect(planned(30)).toMatchObject({ combinations: 2 ** 30, drawn: true });
  for (const parameters of [31, 60])
    expect(() => planned(parameters)).toThrow('parameters: must have at most 2147483647 combinations');
});

test('planVariants() tries all values of a parameter that is named twice, each value once', () => {
  const parameters = [[0n], [1n, 0n], [1n]].map((values) => ({ name: 'P_0', values }));
  const { variants, combinations } = planVariants(manifestOf(2), create(TuneRequestSchema, { parameters }), {
    device: FAKE_DEVICE,
    shapes: [SHAPE],
  });
  expect([combinations, variants.map((variant) => variant.parameters['P_0'])]).toEqual([2, [0, 1]]);
});

test.each(['toString', 'constructor', '__proto__'])(
  'planVariants() refuses %s, a property of every object, as a parameter',
  (name) => {
    const asked = create(TuneRequestSchema, { maxTrials: 4, parameters: [{ name, values: [1n] }] });
    expect(() => planVariants(manifestOf(2), asked, { device: FAKE_DEVICE, shapes: [SHAPE] })).toThrow(
      `parameters: ${name}: the kernel has no such parameter`,
    );
  },
);

test('a parameter that decides the dtype keeps its value, and the search says so', () => {
  const manifest = manifestOf(2, '{ bf16_when: P_1 }');
  const plan = planVariants(manifest, create(TuneRequestSchema), { device: FAKE_DEVICE, shapes: [SHAPE] });
  expect([plan.combinations, plan.kept]).toEqual([2, ['P_1']]);
  expect(keptText(plan.kept)).toBe('; P_1 keeps its value, because times of other dtypes or layouts do not compare');
  const parameters = [{ name: 'P_0', values: [0n, 1n] }];
  const named = planVariants(manifest, create(TuneRequestSchema, { parameters }), {
    device: FAKE_DEVICE,
    shapes: [SHAPE],
  });
  expect([named.kept, keptText(named.kept)]).toEqual([[], '']);
});
