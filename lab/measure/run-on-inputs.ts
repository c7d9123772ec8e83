/**
 * Launches a kernel as the runner does, on inputs from files. An exported kernel is compared with its output.
 *   node run-on-inputs.js --library libcuda.so.1 --kernel ID --shapes 2x8x512x64,… --folder DIR
 * DIR/<shape>.in has Q, K and V, one after another, as little-endian fp16 in [B, H, S, D]; O goes to
 * DIR/<kernel>.<shape>.out in the same form. For a shape that the kernel does not support no output is written.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { LoadedCandidate, RunBuffers } from '@flashcore/runner/testing';
import { FlashcoreError } from '@flashcore/shared/contract';
import { attention, parseShape, tensorElements } from '@flashcore/shared/kernels';
import { compile, onDevice, type MeasuredDevice } from './device.ts';

const { values: options } = parseArgs({
  options: {
    library: { type: 'string', default: 'libcuda.so.1' },
    kernel: { type: 'string' },
    shapes: { type: 'string', default: '2x8x512x64' },
    folder: { type: 'string' },
  },
});
const { library, kernel, folder } = options;
if (!kernel || !folder) throw new Error('Give --kernel and --folder');

await onDevice(library, async (device) => {
  for (const shape of options.shapes.split(',')) {
    const file = join(folder, `${kernel}.${shape}.out`);
    try {
      writeFileSync(file, await outputOf(device, kernel, shape, join(folder, `${shape}.in`)));
    } catch (error) {
      if (!(error instanceof FlashcoreError && error.reason === 'SHAPE_UNSUPPORTED')) throw error;
      console.error(error.message);
    }
  }
});

async function outputOf(
  { root, tools, driver }: MeasuredDevice,
  id: string,
  shapeText: string,
  inputs: string,
): Promise<Buffer> {
  const shape = parseShape(shapeText);
  const { candidate } = await compile(tools, driver, join(root, 'kernels', id), shape);
  const bytes = readFileSync(inputs);
  const elements = tensorElements(attention(), shape);
  if (bytes.length !== 3 * elements * 2)
    throw new Error(`${inputs} has ${bytes.length} bytes: must be Q, K and V of ${shapeText}, ${3 * elements * 2}`);
  const tensor = (index: number) => new Uint16Array(Uint8Array.from(bytes).buffer, index * elements * 2, elements);
  const buffers = new RunBuffers(driver, candidate.plan);
  buffers.upload({ Q: tensor(0), K: tensor(1), V: tensor(2) });
  const loaded = new LoadedCandidate(driver, candidate);
  loaded.enqueue(loaded.prepare(buffers.addresses));
  driver.synchronize();
  const result = buffers.outputs()['O']!;
  loaded.unload();
  buffers.free();
  return Buffer.from(result.buffer, result.byteOffset, result.byteLength);
}
