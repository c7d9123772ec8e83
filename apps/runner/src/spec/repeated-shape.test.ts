/** Large shapes repeat the probes' inputs of smaller shapes, so that a GPU run can afford probes on timed shapes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { create } from '@bufbuild/protobuf';
import { DeviceSchema } from '@flashcore/shared/contract';
import { formatShape, parseProblem, parseShape } from '@flashcore/shared/kernels';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { affordedInputs, affordedTrialSets, repeatedShape } from './drawn-shapes.ts';

const gpu = create(DeviceSchema, { simulated: false, multiprocessors: 132 });
const problemOf = (id: string) =>
  parseProblem(readFileSync(join(REPOSITORY_ROOT, 'problems', id, 'problem.yaml'), 'utf8'), id);

test.each([
  ['attention', '2x8x512x64', '1x1x512x64'],
  ['attention', '2x8x512x64c', '1x1x512x64c'],
  // Each of the two heads of K and V serves four heads of Q.
  ['attention', 'B=4,H=8,Hkv=2,S=512,D=64', 'B=1,H=8,Hkv=2,S=512,D=64'],
  ['attention', '1x4x128x64', undefined],
  ['gemm', 'M=2048,N=2048,K=2048', 'M=61,N=61,K=2048'],
  ['gemm', 'M=16,N=65536,K=128', 'M=16,N=61,K=128'],
  ['rmsnorm', 'rows=4096,N=4096', 'rows=1,N=4096'],
  ['attention_backward', 'B=4,H=32,Hkv=8,S=256,D=128', 'B=1,H=32,Hkv=8,S=256,D=128'],
  // dK of one head adds up over the heads of Q.
  ['attention_backward', 'B=1,H=32,Hkv=8,S=256,D=128', undefined],
  ['attention_backward', 'B=2,H=4,Hkv=1,S=256,D=128', 'B=1,H=4,Hkv=1,S=256,D=128'],
  // Tables decide which rows belong together, so no batch entry is independent.
  ['attention_decode', 'B=64,H=32,Skv=4096,D=128', undefined],
  ['attention_varlen', 'B=8,T=4096,H=8,D=128', undefined],
])('on %s %s, inputs repeat those of the smaller shape %s', (id, shape, smaller) => {
  const problem = problemOf(id);
  const repeated = repeatedShape(problem, parseShape(shape));
  expect(repeated && formatShape(repeated)).toBe(smaller && formatShape(parseShape(smaller)));
});

test.each([
  ['attention', '2x8x512x64', 14],
  ['attention', '2x16x1024x64', 7],
  ['attention', '4x16x2048x64c', 2],
  ['gemm', 'M=2048,N=2048,K=2048', 4],
  ['softmax', 'rows=4096,N=4096', 1],
])('a GPU has time to run the probes of %s %s on at least %i inputs', (id, shape, least) => {
  expect(affordedInputs(problemOf(id), gpu, parseShape(shape))).toBeGreaterThanOrEqual(least);
});

const devices = { GPU: gpu, emulator: create(DeviceSchema, { simulated: true, multiprocessors: 58 }) };

test.each([
  ['GPU', 'gemm', 'M=2048,N=2048,K=2048', 4],
  ['GPU', 'softmax', 'rows=4096,N=4096', 1],
  ['GPU', 'attention_decode', 'B=8,H=8,Hkv=2,Skv=300,D=128', 6],
  ['emulator', 'attention_decode', 'B=8,H=8,Hkv=2,Skv=300,D=128', 13],
  // Its caches have 2^28 elements, and no smaller case that they could repeat.
  ['GPU', 'attention_decode', 'B=32,H=32,Hkv=8,Skv=8192,D=128', 0],
] as const)('on the %s, timed launches of %s %s have trials of %i distributions', (device, id, shape, sets) => {
  expect(affordedTrialSets(problemOf(id), devices[device], parseShape(shape))).toBe(sets);
});
