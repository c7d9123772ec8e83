import { randomBytes } from 'node:crypto';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { PreparedLaunches } from '../driver/arguments.ts';
import { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { AttentionInputs, Reference } from '../driver/reference.ts';
import type { BenchmarkRequest, Candidate, CaseShape } from '../messages.ts';
import { RunBuffers } from '../verify/buffers.ts';
import { compareOutput } from '../verify/compare.ts';
import { drawInputs, NORMAL } from '../verify/inputs.ts';
import { POISONS } from '../verify/verify-case.ts';
import { FreshInputs } from './fresh-inputs.ts';

export interface InputSet {
  buffers: RunBuffers;
  /** As they are on the device now. */
  inputs: AttentionInputs;
  fresh: FreshInputs;
  prepared: PreparedLaunches;
}

/** One set of inputs a seed, N(0, 1). */
export const drawSets = (shape: CaseShape, seeds: readonly string[]): AttentionInputs[] => seeds.map((seed) => drawInputs(shape, { seed, rule: NORMAL }));

/** From seeds that nobody knew before. */
export const drawFreshSets = (shape: CaseShape, count: number): AttentionInputs[] => drawSets(shape, Array.from({ length: count }, () => randomBytes(8).toString('hex')));

/** Input sets that timed launches walk through in turn, so that no launch finds its answer, nor its inputs, where the last one left them. */
export class InputRotation {
  readonly sets: readonly InputSet[];
  readonly loaded: LoadedCandidate;
  readonly #driver: CudaDriver;
  readonly #reference: Reference;
  readonly #candidate: Candidate;
  readonly #tolerance: BenchmarkRequest['tolerance'];
  #next = 0;

  constructor(driver: CudaDriver, reference: Reference, request: Pick<BenchmarkRequest, 'candidate' | 'tolerance'> & { inputs: readonly AttentionInputs[] }) {
    this.#driver = driver;
    this.#reference = reference;
    this.#candidate = request.candidate;
    this.#tolerance = request.tolerance;
    this.loaded = new LoadedCandidate(driver, request.candidate);
    this.sets = request.inputs.map((inputs) => this.#createSet(copyOf(inputs)));
  }

  #createSet(inputs: AttentionInputs): InputSet {
    const { shape, plan } = this.#candidate;
    const buffers = new RunBuffers(this.#driver, shape, plan);
    buffers.upload(inputs);
    return { buffers, inputs, fresh: this.#freshInputs(buffers, inputs), prepared: this.loaded.prepare(buffers.addresses) };
  }

  #freshInputs(buffers: RunBuffers, inputs: AttentionInputs): FreshInputs {
    return new FreshInputs(this.#driver, { shape: this.#candidate.shape, inputs, addresses: buffers.addresses.tensors });
  }

  /** The set of the next launch. */
  advance(): InputSet {
    return this.sets[this.#next++ % this.sets.length]!;
  }

  /** Enqueues the next launch, and says on which set. */
  enqueueNext(): InputSet {
    const set = this.advance();
    this.loaded.enqueue(set.prepared);
    return set;
  }

  /** Fills every output with a NaN pattern, in stream order. */
  poison(): void {
    for (const set of this.sets) set.buffers.poison(POISONS[0]);
  }

  /** Other inputs for every set; default: from seeds that nobody knew before. */
  refresh(inputs: readonly AttentionInputs[] = drawFreshSets(this.#candidate.shape, this.sets.length)): void {
    for (const [index, set] of this.sets.entries()) {
      set.inputs = copyOf(inputs[index]!);
      set.fresh = this.#freshInputs(set.buffers, set.inputs);
      set.buffers.upload(set.inputs);
    }
  }

  /** Judges the output of a set by the reference; undefined: it is right. */
  check(set: InputSet): string | undefined {
    const modified = set.buffers.modified(set.inputs);
    if (modified.length > 0) return `the kernel changed ${modified.join(', ')}`;
    const want = this.#reference.fp64(set.inputs, this.#candidate.shape);
    const { mismatches, elements } = compareOutput(set.buffers.output(), want, { shape: this.#candidate.shape, poison: POISONS[0], tolerance: this.#tolerance });
    return mismatches === 0 ? undefined : `${mismatches} of ${elements} elements are outside the tolerance`;
  }

  close(): void {
    for (const set of this.sets) set.buffers.free();
    this.loaded.unload();
  }
}

/** A set's inputs change with every sample: each rotation has its own. */
const copyOf = ({ Q, K, V }: AttentionInputs): AttentionInputs => ({ Q: Q.slice(), K: K.slice(), V: V.slice() });
