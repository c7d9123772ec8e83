import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, afterEach, expect, test } from 'vitest';
import type { VerifiedOutput } from '../../worker/messages/verifying.ts';
import { SdpaBenchmark } from './sdpa-benchmark.ts';
import { SdpaParity } from './sdpa-parity.ts';

const pythonTest = test.skipIf(missing('python3'));

const KIND = attentionCase(parseShape('1x1x2x4'), 'fp16');
const FAKE = fileURLToPath(new URL('fake-sdpa.py', import.meta.url));
const open: SdpaBenchmark[] = [];
const dataDirectory = mkdtempSync(join(tmpdir(), 'fc-parity-'));
afterEach(() => Promise.all(open.splice(0).map((each) => each.close())));
afterAll(() => rmSync(dataDirectory, { recursive: true }));

function parity(signal = new AbortController().signal, script = FAKE): SdpaParity {
  const sdpa = new SdpaBenchmark({ script, ordinal: 0, folder: '/none' });
  open.push(sdpa);
  return new SdpaParity(sdpa, { kind: KIND, signal, dataDirectory });
}

/** An output whose first element is off by `error`; all values are exact in fp16. */
function output(error: number): VerifiedOutput {
  const bits = (values: number[]): Uint16Array => new Uint16Array(new Float16Array(values).buffer);
  const values = [1, 0.5, 0.25, -1, 2, 0, 3, 4];
  return {
    dtype: 'fp16',
    inputs: { Q: bits(values), K: bits(values), V: bits(values) },
    output: bits(values.with(0, values[0]! + error)),
    reference: Float64Array.from(values),
    maxAbsError: error,
    meanAbsError: error / 8,
  };
}

pythonTest(
  'a case has the differences and errors of each backend over its inputs, or the reason why a backend has none',
  async () => {
    const compared = parity();
    compared.add(output(0.5));
    compared.add(output(0.25));
    const version = 'PyTorch 9.9.9, cuDNN 8.7.6';
    expect(await compared.results()).toMatchObject({
      sdpa: [
        {
          backend: 'sdpa/flash',
          version,
          inputs: 2,
          maxAbsDifference: 0.5,
          meanAbsDifference: 0.375 / 8,
          sdpaMaxAbsError: 0,
          sdpaMeanAbsError: 0,
          maxAbsError: 0.5,
          meanAbsError: 0.375 / 8,
        },
        { backend: 'sdpa/efficient', version, missing: 'no head dimension of 7', inputs: 0 },
      ],
    });
  },
);

pythonTest('if one input fails on a backend, or in PyTorch itself, the other inputs give no figure', async () => {
  const refused = parity();
  for (const error of [0.5, 8]) refused.add(output(error));
  expect(await refused.results()).toMatchObject({
    sdpa: [{ backend: 'sdpa/flash', missing: 'out of memory', maxAbsDifference: 0 }, { backend: 'sdpa/efficient' }],
  });
  const failed = parity();
  for (const error of [16, 0.5]) failed.add(output(error));
  expect(await failed.results()).toEqual({
    sdpa: [],
    sdpaMissing: expect.stringContaining('the device is lost') as string,
  });
});

test('without a correct output or without PyTorch there are no figures, and the reason is given', async () => {
  expect(await parity().results()).toEqual({
    sdpa: [],
    sdpaMissing: 'the kernel gave no right output to compare',
  });
  const without = parity(undefined, '/no/such/script.py');
  without.add(output(0));
  expect(await without.results()).toEqual({ sdpa: [], sdpaMissing: '/no/such/script.py is not there' });
});

test('a cancelled job does not wait for PyTorch', async () => {
  const controller = new AbortController();
  const compared = parity(controller.signal);
  compared.add(output(0));
  controller.abort(new Error('cancelled'));
  await expect(compared.results()).rejects.toThrow('cancelled');
});

test('tensors are in the data folder during the comparison, and removed afterwards', async () => {
  const compared = parity();
  compared.add(output(0.5));
  await new Promise(setImmediate);
  expect(readdirSync(join(dataDirectory, 'tmp'))).toEqual([expect.stringMatching(/^sdpa-/)]);
  await compared.results();
  expect(readdirSync(join(dataDirectory, 'tmp'))).toEqual([]);
});
