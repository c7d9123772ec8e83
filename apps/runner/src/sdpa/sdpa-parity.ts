import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { SdpaComparisonSchema, type SdpaComparison } from '@flashcore/shared/contract';
import type { ProblemCase } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import type { VerifiedOutput } from '../../worker/messages/verifying.ts';
import { makeTemporary } from '../store/temporary.ts';
import type { ComparedBackend, SdpaBenchmark } from './sdpa-benchmark.ts';

/**
 * Transferring an input to PyTorch takes 16 bytes per element, 24 for fp32: above this limit it would take seconds and
 * gigabytes.
 */
export const MAX_COMPARED_ELEMENTS = 2 ** 24;

interface Compared {
  ours: Pick<VerifiedOutput, 'maxAbsError' | 'meanAbsError'>;
  version: string;
  backends: ComparedBackend[];
}

interface ParityOptions {
  kind: ProblemCase;
  signal: AbortSignal;
  dataDirectory: string;
}

/**
 * Compares a case's outputs with PyTorch's SDPA on the same inputs and device. PyTorch compares an input while the
 * worker computes the next; errors of PyTorch never fail the job.
 */
export class SdpaParity {
  readonly #sdpa: SdpaBenchmark;
  readonly #kind: ProblemCase;
  readonly #signal: AbortSignal;
  readonly #dataDirectory: string;
  readonly #compared: Compared[] = [];
  /** Why an input was not compared; the case then has no comparison. */
  #missing: string | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(sdpa: SdpaBenchmark, { kind, signal, dataDirectory }: ParityOptions) {
    this.#sdpa = sdpa;
    this.#kind = kind;
    this.#signal = signal;
    this.#dataDirectory = dataDirectory;
  }

  /** Compares one more output; results() waits for it. */
  add(output: VerifiedOutput): void {
    const { maxAbsError, meanAbsError } = output;
    this.#last = this.#last
      .then(() => this.#compare(output))
      .then(
        (answer) => {
          if ('missing' in answer) this.#missing ??= answer.missing;
          else this.#compared.push({ ours: { maxAbsError, meanAbsError }, ...answer });
        },
        (error: unknown) => {
          this.#missing ??= errorText(error);
        },
      );
  }

  /** Errors: the signal's reason. */
  async results(): Promise<{ sdpa: SdpaComparison[]; sdpaMissing?: string }> {
    await this.#last;
    this.#signal.throwIfAborted();
    const [first] = this.#compared;
    if (!first || this.#missing !== undefined)
      return { sdpa: [], sdpaMissing: this.#missing ?? 'the kernel gave no right output to compare' };
    return { sdpa: first.backends.map(({ name }) => comparison(name, this.#compared)) };
  }

  /** The tensors go through a file in a private folder, because seeds are secret while a job runs. */
  async #compare(output: VerifiedOutput): ReturnType<SdpaBenchmark['compare']> {
    using folder = makeTemporary(this.#dataDirectory, 'sdpa');
    const path = join(folder.path, 'tensors');
    await writeTensors(path, output);
    return await this.#sdpa.compare({ kind: this.#kind, path }, this.#signal);
  }
}

/**
 * Q, K, V, O in their dtype and the reference as fp64, concatenated: the input of the `parity` operation of
 * tools/sdpa.py.
 */
async function writeTensors(path: string, { inputs, output, reference }: VerifiedOutput): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  for (const { buffer, byteOffset, byteLength } of [inputs['Q']!, inputs['K']!, inputs['V']!, output, reference])
    await file.writeFile(new Uint8Array(buffer, byteOffset, byteLength));
}

function comparison(name: string, compared: readonly Compared[]): SdpaComparison {
  const [first] = compared;
  const named = { backend: `sdpa/${name}`, version: first!.version };
  const backends = compared.flatMap((each) => each.backends.filter((backend) => backend.name === name));
  const refused = backends.find(({ available }) => !available);
  if (refused) return create(SdpaComparisonSchema, { ...named, missing: refused.reason });
  return create(SdpaComparisonSchema, {
    ...named,
    inputs: compared.length,
    maxAbsDifference: most(backends.map((each) => each.maxAbsDifference)),
    meanAbsDifference: mean(backends.map((each) => each.meanAbsDifference)),
    sdpaMaxAbsError: most(backends.map((each) => each.maxAbsError)),
    sdpaMeanAbsError: mean(backends.map((each) => each.meanAbsError)),
    maxAbsError: most(compared.map(({ ours }) => ours.maxAbsError)),
    meanAbsError: mean(compared.map(({ ours }) => ours.meanAbsError)),
  });
}

const most = (values: readonly number[]): number => Math.max(...values);
/** A plain mean is correct because all inputs of a case have the same number of elements. */
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
