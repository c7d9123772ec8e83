import type { CudaDriver } from '../driver/cuda-driver.ts';
import type { PreparedLaunches } from '../driver/arguments.ts';
import { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { AttentionInputs, Reference } from '../driver/reference.ts';
import { tensorKindOf, type TensorKind } from '../driver/tensor-bits.ts';
import type { Candidate } from '../messages/launchable.ts';
import type { BenchmarkRequest } from '../messages/measuring.ts';
import { RunBuffers } from '../verify/buffers.ts';
import { compareOutput } from '../verify/output-comparison.ts';
import { drawInputs, NORMAL, type NormalDrawer } from '../verify/inputs.ts';
import { POISONS } from '../verify/verify-case.ts';
import { FreshInputs } from './fresh-inputs.ts';

/** What the launches of a graph may take for their initial values. */
const MAX_INITIALISED_BYTES = 2 ** 28;

export interface InputSet {
  buffers: RunBuffers;
  /** As they are on the device now. */
  inputs: AttentionInputs;
  /** What they were drawn from, before a few elements were changed. */
  seed: string;
  fresh: FreshInputs;
  prepared: PreparedLaunches;
}

/** Inputs of a set, N(0, 1). */
const drawSet = (kind: TensorKind, seed: string, drawer: NormalDrawer): AttentionInputs =>
  drawInputs(kind, { seed, rule: NORMAL }, drawer);

/**
 * Input sets that timed launches walk through in turn, so that no launch finds its answer, nor its inputs, where the
 * last one left them.
 */
export class InputRotation {
  readonly sets: readonly InputSet[];
  readonly loaded: LoadedCandidate;
  readonly #driver: CudaDriver;
  readonly #reference: Reference;
  readonly #candidate: Candidate;
  readonly #tolerance: BenchmarkRequest['tolerance'];
  /** Not used yet. */
  readonly #freshSeeds: string[];
  /** For launches with initial values: each has the inputs of a set, and an O and workspaces of its own. */
  readonly #copies: InputSet[] = [];
  #next = 0;

  /**
   * `seeds`: a set each; or another rotation, whose tensors and inputs it shares. `freshSeeds`: for refresh(), as many
   * again each time.
   */
  constructor(
    driver: CudaDriver,
    reference: Reference,
    request: Pick<BenchmarkRequest, 'candidate' | 'tolerance'> & {
      seeds: readonly string[] | InputRotation;
      freshSeeds: readonly string[];
    },
  ) {
    this.#driver = driver;
    this.#reference = reference;
    this.#candidate = request.candidate;
    this.#tolerance = request.tolerance;
    this.loaded = new LoadedCandidate(driver, request.candidate);
    this.#freshSeeds = [...request.freshSeeds];
    const { seeds } = request;
    this.sets =
      seeds instanceof InputRotation
        ? seeds.sets.map((set) => this.#borrowSet(set))
        : seeds.map((seed) => this.#createSet(seed));
  }

  #createSet(seed: string): InputSet {
    const { shape, plan } = this.#candidate;
    const inputs = drawSet(tensorKindOf(this.#candidate), seed, this.#reference);
    const buffers = new RunBuffers(this.#driver, shape, plan);
    buffers.upload(inputs);
    return {
      buffers,
      inputs,
      seed,
      fresh: this.#freshInputs(buffers, inputs),
      prepared: this.loaded.prepare(buffers.addresses),
    };
  }

  /** What it has beside its own workspace and launches is the lender's: inputs that change there change here. */
  #borrowSet(lender: InputSet): InputSet {
    const buffers = new RunBuffers(this.#driver, this.#candidate.shape, this.#candidate.plan, {
      lender: lender.buffers,
    });
    return Object.assign(Object.create(lender) as InputSet, {
      buffers,
      prepared: this.loaded.prepare(buffers.addresses),
    });
  }

  #freshInputs(buffers: RunBuffers, inputs: AttentionInputs): FreshInputs {
    return new FreshInputs(this.#driver, {
      shape: this.#candidate.shape,
      inputs,
      addresses: buffers.addresses.tensors,
    });
  }

  /** The set of the next launch. */
  advance(): InputSet {
    return this.sets[this.#next++ % this.sets.length]!;
  }

  /** Enqueues the next launch, initial values before it, and says on which set. */
  enqueueNext(): InputSet {
    const set = this.advance();
    set.buffers.initialise();
    this.loaded.enqueue(set.prepared);
    return set;
  }

  /**
   * Sets for so many launches that are timed together, or for fewer where memory ends: a launch that needs initial
   * values has what they are in to itself, so that they are written before the time runs.
   */
  setsOfLaunches(launches: number): readonly InputSet[] {
    const bytes = this.sets[0]!.buffers.initialisedBytes;
    if (bytes === 0) return Array.from({ length: launches }, () => this.advance());
    const most = Math.max(this.sets.length, Math.min(launches, Math.floor(MAX_INITIALISED_BYTES / bytes)));
    while (this.sets.length + this.#copies.length < most)
      this.#copies.push(this.#borrowSet(this.sets[this.#copies.length % this.sets.length]!));
    return [...this.sets, ...this.#copies].slice(0, Math.min(launches, most));
  }

  /** Fills every output with a NaN pattern, in stream order. */
  poison(): void {
    for (const set of [...this.sets, ...this.#copies]) set.buffers.poison(POISONS[0]);
  }

  /** New inputs for every set, from seeds that no launch has seen. Errors: where there are none left. */
  refresh(): void {
    for (const set of this.sets) {
      const seed = this.#freshSeeds.shift();
      if (seed === undefined)
        throw new Error('no seeds are left for fresh inputs: a request has one a set for every refresh');
      set.seed = seed;
      set.inputs = drawSet(tensorKindOf(this.#candidate), seed, this.#reference);
      set.fresh = this.#freshInputs(set.buffers, set.inputs);
      set.buffers.upload(set.inputs);
    }
  }

  /** Judges the output of a set by the reference; undefined: it is right. */
  check(set: InputSet): string | undefined {
    const modified = set.buffers.modified(set.inputs);
    if (modified.length > 0) return `the kernel changed ${modified.join(', ')}`;
    const want = this.#reference.fp64(set.inputs, this.#candidate.shape);
    const { mismatches, elements } = compareOutput(this.#reference, set.buffers.output(), want, {
      ...tensorKindOf(this.#candidate),
      poison: POISONS[0],
      tolerance: this.#tolerance,
    });
    return mismatches === 0
      ? undefined
      : `${mismatches} of ${elements} elements are outside the tolerance (inputs of seed ${set.seed}, a few elements changed)`;
  }

  close(): void {
    for (const set of [...this.#copies, ...this.sets]) set.buffers.free();
    this.loaded.unload();
  }
}
