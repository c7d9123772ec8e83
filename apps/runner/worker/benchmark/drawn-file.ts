import { closeSync, openSync, writeSync } from 'node:fs';
import { elementsOfTensor, type ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { DrawnSets } from './drawn-sets.ts';

/** Tensors start at multiples of this. */
const ALIGNMENT = 16;

/**
 * Writes the first drawn set: the inputs, then the right outputs in fp32, both in the problem's order, without outputs
 * that only some kernels have. tools/sdpa.py reads the file.
 */
export function writeDrawn(
  path: string,
  { tensors }: ProblemCase,
  { sets, answers }: Pick<DrawnSets, 'sets' | 'answers'>,
): void {
  const inputs = tensors.filter(({ direction }) => direction === 'in').map(({ name }) => entryOf(sets[0]!, name)!);
  const outputs = tensors
    .filter(({ direction, optional }) => direction === 'out' && !optional)
    .map((output) => answers.get(output.name)!.subarray(0, elementsOfTensor(output)));
  const file = openSync(path, 'wx', 0o600);
  try {
    for (const { buffer, byteOffset, byteLength } of [...inputs, ...outputs]) {
      writeAll(file, new Uint8Array(buffer, byteOffset, byteLength));
      writeAll(file, new Uint8Array((ALIGNMENT - (byteLength % ALIGNMENT)) % ALIGNMENT));
    }
  } finally {
    closeSync(file);
  }
}

/** A single call writes at most 2 GiB. */
function writeAll(file: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length;)
    written += writeSync(file, bytes, written, Math.min(bytes.length - written, 2 ** 30));
}
