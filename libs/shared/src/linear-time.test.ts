import { expect, test } from 'vitest';
import { FlashcoreError } from './contract/errors.ts';
import { parseExpression } from './data/expression.ts';
import { parseManifest } from './kernels/manifest.ts';
import { parseShape } from './kernels/shape.ts';
import { inFull } from './testing/host-programs.ts';
import { REPEATED, slowPieces } from './testing/linear-time.ts';
import { cpuMs } from './text/deadline.ts';
import { didYouMean } from './text/nearest-names.ts';
import { plainLine, plainText } from './text/plain-text.ts';

const MANIFEST = `
id: k
title: t
lesson: l
source: k.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches: [{ entry: e, grid: [1, 1, 1], block: [1, 1, 1], arguments: [] }]
`;

const READERS: Record<string, (text: string) => unknown> = {
  plainLine,
  plainText,
  parseShape,
  'parseExpression()': parseExpression,
  'didYouMean()': (text) => didYouMean(text, ['flashcore_v6', text]),
};

const MANIFESTS: Record<string, (text: string) => string> = {
  'of repeated text only': (text) => text,
  'with repeated text as a value': (text) => `${MANIFEST}notes: ${text}`,
  'with repeated text as a quoted value': (text) => `${MANIFEST}notes: ${JSON.stringify(text)}`,
  'with repeated text as an expression': (text) => `${MANIFEST}constants: { c: ${JSON.stringify(text)} }`,
};

test.each(Object.entries(READERS))('%s reads foreign text in linear time', (_, read) => {
  expect(slowPieces(read)).toEqual([]);
});

/** The short form has a text that the YAML parser reads, and one that the parser of expressions reads. */
const IN_SHORT = ['with repeated text as a value', 'with repeated text as an expression'];

// The YAML parser is foreign code and not linear for all texts, so the longest allowed text must be read quickly.
test.each(inFull(Object.entries(MANIFESTS), ([kind]) => IN_SHORT.includes(kind)))(
  'the longest manifest %s is accepted or refused quickly',
  (_, manifestOf) => {
    const slow = REPEATED.filter((piece) => {
      const text = manifestOf(piece.repeat(23_000 / piece.length)).slice(0, 24_000);
      const started = cpuMs();
      expect(() => parseManifest(text, 'kernel.yaml')).toSatisfy(answers);
      return cpuMs() - started > 1_500;
    });
    expect(slow).toEqual([]);
  },
);

/** Whether a manifest is accepted or refused without crashing its reader. */
function answers(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch (error) {
    return error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST';
  }
}

const many = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join('');

test.each([
  [
    '400 unknown names among 400 known ones',
    `${MANIFEST}parameters:\n${many(400, (i) => `  P${'A'.repeat(40)}${i}: { values: [1], default: 1, about: x }\n`)}configs:\n  c:\n${many(400, (i) => `    P${'B'.repeat(40)}${i}: 1\n`)}`,
  ],
  ['9,000 unknown keys', `${MANIFEST}${many(9_000, (i) => `a${i}: 1\n`)}`],
  ['9,000 unknown keys in one line', `${MANIFEST}configs: {${many(9_000, (i) => `a${i},`)}}`],
  ['4,000 constants', `${MANIFEST}constants:\n${many(4_000, (i) => `  c${i}: 1\n`)}`],
  [
    '30 constants of 30 unknown names each',
    `${MANIFEST}constants:\n${many(30, (i) => `  c${i}: "${many(30, (j) => `unknown_name_${i}_${j} + `)}1"\n`)}`,
  ],
  ['deep nesting', `${MANIFEST}notes: ${'['.repeat(60_000)}`],
  ['a long name', `${MANIFEST}${'a'.repeat(60_000)}: 1`],
])('a manifest with %s is refused quickly', (_, text) => {
  const started = cpuMs();
  expect(() => parseManifest(text, 'kernel.yaml')).toThrow(
    expect.objectContaining({ reason: 'INVALID_MANIFEST' }) as Error,
  );
  expect(cpuMs() - started).toBeLessThan(1_000);
});

test('reports at most twenty faults of a manifest', () => {
  const text = `${MANIFEST}constants:\n${many(50, (i) => `  c${i}: "unknown_${i}"\n`)}`;
  let told = 0;
  try {
    parseManifest(text, 'kernel.yaml');
  } catch (error) {
    told = (error as { violations: unknown[] }).violations.length;
  }
  expect(told).toBe(20);
});
