import { expect, test } from 'vitest';
import { readTrace } from './trace.ts';

const STATEMENT = {
  op: 'ld.shared.f32',
  operands: [
    { kind: 'register', value: '0', name: '', registers: [1] },
    { kind: 'address', value: '-16', name: '', registers: [2] },
  ],
  guard: -1,
  target: -1,
  isLabel: false,
  isJoined: false,
  bytes: 16,
};

function traceOf(statements: unknown, words: readonly number[]): Buffer {
  const json = Buffer.from(JSON.stringify(statements));
  const padded = Buffer.concat([json, Buffer.alloc((4 - (json.length % 4)) % 4, ' ')]);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(padded.length);
  return Buffer.concat([head, padded, Buffer.from(Uint32Array.from(words).buffer)]);
}

const step = (statement: number, passes: number): number => ((passes << 20) | statement) >>> 0;

test('readTrace() returns the statements and, for each block, its warps with their steps', () => {
  const trace = readTrace(traceOf([STATEMENT, STATEMENT], [1, 2, 1, step(0, 4), 2, step(1, 4095), step(0, 0)]));
  expect(trace.statements[0]!.operands[1]).toEqual({ kind: 'address', value: -16, name: '', registers: [2] });
  expect(trace.blocks.map((warps) => warps.map((warp) => [[...warp.statements], [...warp.passes]]))).toEqual([
    [
      [[0], [4]],
      [
        [1, 0],
        [4095, 0],
      ],
    ],
  ]);
});

test.for<[string, Buffer]>([
  ['ends in a warp', traceOf([STATEMENT], [1, 1, 5, 0])],
  ['ends before its blocks', traceOf([STATEMENT], [])],
  ['has a step of no statement', traceOf([STATEMENT], [1, 1, 1, 7])],
  ['has a register that is no number', traceOf([{ ...STATEMENT, guard: 'x' }], [0])],
  ['has more statements than bytes', Buffer.from([255, 255, 255, 127])],
])('a trace that %s is refused', ([, bytes]) => {
  expect(() => readTrace(bytes)).toThrow(/trace|whole number|range/);
});
