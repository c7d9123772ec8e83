import { expect, test } from 'vitest';
import { parseShape, problemCase, attention, valuesOf } from '@flashcore/shared/kernels';
import { repeatedAnswers, repeatedTensors } from './repeated.ts';

const caseOf = (shape: string) => problemCase(attention(), valuesOf(parseShape(shape)), 'fp16');

test('tensors repeat along every axis that is shorter in the smaller case', () => {
  const [from, to] = [caseOf('1x1x2x2'), caseOf('2x3x2x2')];
  const Q = Uint16Array.of(1, 2, 3, 4);
  const six = Array.from({ length: 6 }, () => [...Q]).flat();
  expect(repeatedTensors({ Q }, { from, to })).toEqual({ Q: Uint16Array.from(six) });
  expect(repeatedTensors({ Q }, { from, to: from })).toEqual({ Q });
  const answers = new Map([['O', { want: Float64Array.from(Q), rounding: Float32Array.from(Q) }]]);
  expect(repeatedAnswers(answers, { from, to })).toEqual(
    new Map([['O', { want: Float64Array.from(six), rounding: Float32Array.from(six) }]]),
  );
});

test('the last repetition is cut short if the smaller extent does not divide the larger one', () => {
  // Rows 0, 1 and 0 again; columns 0 to 2 and 0 to 1.
  const [from, to] = [caseOf('1x1x2x3'), caseOf('1x1x3x5')];
  const Q = Uint16Array.of(0, 1, 2, 10, 11, 12);
  const rows = [
    [0, 1, 2, 0, 1],
    [10, 11, 12, 10, 11],
    [0, 1, 2, 0, 1],
  ];
  expect(repeatedTensors({ Q }, { from, to })).toEqual({ Q: Uint16Array.from(rows.flat()) });
});
