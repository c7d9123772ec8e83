import fc from 'fast-check';
import { expect, test } from 'vitest';
import { evaluate, ExpressionError, parseExpression } from './expression.ts';

const value = (text: string, scope: Record<string, number> = {}) => evaluate(parseExpression(text), scope);

test('evaluate() returns the value of each expression', () => {
  const scope = { B: 2, H: 8, S: 500, D: 64, causal: 1 };
  expect(
    [
      'ceil(S / 64)',
      'B * H',
      '1 + 2 * 3',
      '(1 + 2) * 3',
      '7 / 2',
      'S % 16 == 4',
      '!causal',
      '-D + 1',
      'causal ? S : 0',
      'min(S, D, 3)',
      'max(S)',
      'D == 64 && S >= 1',
      'D < 8 || S != 500',
      '2 - 3 - 4',
      '1e3',
      'D > 0 ? 1 : S > 0 ? 2 : 3',
    ].map((text) => value(text, scope)),
  ).toEqual([8, 16, 7, 9, 3.5, 1, 0, -63, 500, 3, 500, 1, 0, -5, 1000, 1]);
});

test('&&, || and ?: evaluate only the operands that decide the result', () => {
  expect([
    value('D != 0 && 1 / D > 2', { D: 0 }),
    value('D == 0 || 1 / D > 2', { D: 0 }),
    value('D == 0 ? 7 : 1 / D', { D: 0 }),
  ]).toEqual([0, 1, 7]);
});

test.each([
  ['', /empty: must be/],
  ['S +', /Cannot read/],
  ['S 64', /operator is missing/],
  ['S, D', /comma/],
  ['S ** 2', /Unknown operator "\*\*"/],
  ['S & 1', /Unknown operator "&"/],
  ['~S', /Unknown operator "~"/],
  ['S.length', /only/],
  ['this', /only/],
  ['[1]', /only/],
  ['"64"', /"64": must be a number/],
  ['true', /true: must be a number/],
  ['pow(S, 2)', /Unknown function "pow"/],
  ['S(1)', /Unknown function "S"/],
  ['ceil(1, 2)', /ceil\(\) has 2 arguments: must have 1/],
  ['min()', /min\(\) has 0 arguments/],
  ['constructor(1)', /Unknown function/],
  ['S = 1', /Cannot read.*; equality is ==/],
  ['S <= ', /^(?!.*equality)/],
  ['(S', /Cannot read/],
  [`1${' + 1'.repeat(200)}`, /at most 500/],
])('parseExpression(%j) throws', (text, message) => {
  expect(() => parseExpression(text)).toThrow(ExpressionError);
  expect(() => parseExpression(text)).toThrow(message);
});

test('evaluate() refuses unknown names, names of Object.prototype, and results that are not finite', () => {
  for (const [text, message] of [
    ['T + 1', /Unknown name "T": known here are S/],
    ['constructor', /Unknown name/],
    ['1 / (S - 1)', /not a finite number .* for S = 1/],
    ['S % 0', /not a finite number/],
  ] as const) {
    expect(() => value(text, { S: 1 })).toThrow(message);
  }
});

test('every expression of the grammar has the same value as in JavaScript', () => {
  const { expression } = fc.letrec((tie) => ({
    expression: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.nat(1000).map(String),
      fc.constantFrom('S', 'D'),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom('+', '-', '*', '/', '%', '<', '<=', '>', '>=', '==', '!='),
          tie('expression'),
        )
        .map(([a, operator, b]) => `(${String(a)} ${operator} ${String(b)})`),
      fc.tuple(fc.constantFrom('ceil', 'floor'), tie('expression')).map(([name, a]) => `${name}(${String(a)})`),
      fc
        .tuple(fc.constantFrom('min', 'max'), tie('expression'), tie('expression'))
        .map(([name, a, b]) => `${name}(${String(a)}, ${String(b)})`),
      fc
        .tuple(tie('expression'), tie('expression'), tie('expression'))
        .map(([a, b, c]) => `(${String(a)} ? ${String(b)} : ${String(c)})`),
    ),
  }));
  fc.assert(
    fc.property(expression, fc.nat(2048), fc.constantFrom(64, 128), (text, S, D) => {
      fc.pre(text.length <= 500);
      // eslint-disable-next-line @typescript-eslint/no-implied-eval
      const inJavaScript = new Function('S', 'D', 'ceil', 'floor', 'min', 'max', `return ${text}`) as (
        ...values: unknown[]
      ) => unknown;
      const wanted = Number(inJavaScript(S, D, Math.ceil, Math.floor, Math.min, Math.max));
      const parsed = parseExpression(text);
      if (Number.isFinite(wanted)) expect(evaluate(parsed, { S, D })).toBe(wanted);
      else expect(() => evaluate(parsed, { S, D })).toThrow(ExpressionError);
    }),
  );
});
