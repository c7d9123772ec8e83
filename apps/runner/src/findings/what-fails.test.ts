import { create } from '@bufbuild/protobuf';
import { CaseResultSchema, InputResultSchema, Verdict, type CaseResult } from '@flashcore/shared/contract';
import { installedProblem, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { inputsThatHide, whatFails } from './what-fails.ts';

const PROBLEM = installedProblem('attention');

/** Results of shapes; a leading "!" marks those that fail. */
const results = (text: string): CaseResult[] =>
  text.split(' ').map((shape) =>
    create(CaseResultSchema, {
      shape: parseShape(shape.replace('!', '')),
      verdict: shape.startsWith('!') ? Verdict.FAIL : Verdict.PASS,
    }),
  );

/** A probe that fails on the inputs with a leading "!". */
const probe = (shape: string, inputs: string): CaseResult =>
  create(CaseResultSchema, {
    shape: parseShape(shape),
    verdict: inputs.includes('!') ? Verdict.FAIL : Verdict.PASS,
    inputs: inputs.split(' ').map((input) =>
      create(InputResultSchema, {
        distribution: input.replace('!', ''),
        verdict: input.startsWith('!') ? Verdict.FAIL : Verdict.PASS,
      }),
    ),
  });

const text = (cases: string, probes: CaseResult[] = []): string | undefined =>
  whatFails(PROBLEM, { cases: results(cases), probes })?.text;

test('the text names what all failing shapes have in common and no passing shape has, for any axis or attribute', () => {
  expect([
    text('1x8x512x64 !1x8x512x64c !2x8x512x64c 1x4x128x64'),
    text('1x8x512x64 !1x8x512x64c 1x4x128x64'),
    text('1x8x512x64 !1x8x333x64 !1x4x77x64c 1x4x128x64c'),
    text('1x8x512x64,Hkv=8 !1x8x512x64,Hkv=2 !1x4x128x64,Hkv=1 1x4x128x64'),
    text('1x8x512x64 !1x8x512x64,softcap=20 !1x8x128x64,softcap=30 1x4x128x64'),
    text('1x8x128x64 1x8x128x128 !1x8x2048x64 !1x8x1024x64c 1x8x512x64c'),
    text('1x8x128x64 1x8x128x256 !1x8x512x128 !1x8x128x128c 1x8x512x64c'),
  ]).toEqual([
    'both shapes with causal=1 fail, the 2 others pass',
    'the only shape with causal=1 fails, the 2 others pass',
    'both shapes with S not a multiple of 128 fail, the 2 others pass',
    'both shapes with Hkv other than H fail, the 2 others pass',
    'both shapes with softcap=20 or 30 fail, the 2 others pass',
    'both shapes with S of 1024 or more fail, the 3 others pass',
    'both shapes with D=128 fail, the 3 others pass',
  ]);
});

test('two causes are both named, and a cause that a passing shape has, too, is not', () => {
  expect([
    text('1x8x512x64 !1x8x512x64c !2x8x512x64c 1x4x128x64', [probe('1x2x333x64', '!a b'), probe('1x4x128x64', 'a b')]),
    text('1x8x512x64 !1x8x512x64c 2x8x512x64c !1x4x128x64'),
    // A single failing shape has an extent of its own, which proves nothing.
    text('1x8x512x64 !1x8x256x64 2x8x512x64 1x4x128x64'),
    text('!1x8x512x64 !1x8x256x64c 2x8x512x64'),
  ]).toEqual([
    'every shape with causal=1 and every shape with S not a multiple of 128 fails, the 2 others pass',
    undefined,
    undefined,
    undefined,
  ]);
});

test('a probe that fails because of its inputs says nothing about its shape', () => {
  const probes = [probe('1x2x333x64', '!offset b'), probe('2x2x197x64c', '!offset b')];
  expect(text('1x8x512x64 1x8x512x64c 1x4x128x64', probes)).toBeUndefined();
  expect(text('1x8x512x64 !1x8x512x64c 1x4x128x64', probes)).toBe(
    'the only case with causal=1 fails, the 2 others pass',
  );
});

test('the few inputs that hide a mistake are named only if all others show it', () => {
  const shape = '1x8x512x64';
  const wrong = '!normal !offset !max_last !few';
  expect(inputsThatHide([probe(shape, `${wrong} equal_keys`), probe('1x2x333x64', `${wrong} equal_keys`)])).toEqual([
    'equal_keys',
  ]);
  expect(inputsThatHide([probe(shape, `${wrong} equal_keys`), probe('1x2x333x64', `${wrong} !equal_keys`)])).toEqual(
    [],
  );
  expect(inputsThatHide([probe(shape, '!normal !offset equal_keys')])).toEqual([]);
  expect(inputsThatHide([probe(shape, `${wrong} a b c d`)])).toEqual([]);
});
