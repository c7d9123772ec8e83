/** Matrices between shared memory and registers. */
import type { PrimitiveCase } from './bench.ts';
import { range, bytes, pair } from './test-numbers.ts';

const rowOfLane = (lane: number): number => (5 * lane + 3) % 32;

/**
 * Lane l gets, from matrix m, the elements (row l / 4, columns 2 (l % 4) and + 1), or if transposed (rows 2 (l % 4) and
 * + 1, column l / 4). Lanes 8 m .. 8 m + 7 give the addresses of its rows.
 */
export function ldmatrix(matrices: 2 | 4, transposed: boolean): PrimitiveCase {
  const elements = Uint16Array.from(range(256, (i) => (i * 2654435761) >>> 16));
  const at = (m: number, row: number, column: number): number => elements[8 * rowOfLane(8 * m + row) + column]!;
  const out = range(32, (lane) =>
    range(matrices, (m) => {
      const [group, first] = [lane >> 2, 2 * (lane % 4)];
      return transposed
        ? pair(at(m, first, group), at(m, first + 1, group))
        : pair(at(m, group, first), at(m, group, first + 1));
    }),
  ).flat();
  const name = `ldmatrix_x${matrices}${transposed ? '_trans' : ''}`;
  return {
    name,
    instruction: `ldmatrix.sync.aligned.m8n8.x${matrices}${transposed ? '.trans' : ''}.shared.b16`,
    source: 'primitives',
    entry: `${name}_one`,
    threads: 32,
    inputs: [bytes(elements)],
    outputBytes: 128 * matrices,
    rule: { bits: bytes(Uint32Array.from(out)) },
  };
}

export function stmatrix(): PrimitiveCase {
  const registers = Uint32Array.from(range(128, (i) => (i * 2654435761) >>> 0));
  const out = new Uint16Array(256);
  for (let lane = 0; lane < 32; ++lane)
    for (let m = 0; m < 4; ++m)
      for (const half of [0, 1])
        out[8 * rowOfLane(8 * m + (lane >> 2)) + 2 * (lane % 4) + half] = registers[4 * lane + m]! >>> (16 * half);
  return {
    name: 'stmatrix_x4',
    instruction: 'stmatrix.sync.aligned.m8n8.x4.shared.b16',
    source: 'primitives_sm90',
    entry: 'stmatrix_x4_one',
    threads: 32,
    inputs: [bytes(registers)],
    outputBytes: 512,
    rule: { bits: bytes(out) },
  };
}
