import { existsSync } from 'node:fs';
import type { Shape } from '@flashcore/shared/contract';
import { DTYPES, formatShape, shapeFields, type TensorDtype } from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import { untilAborted } from '../async.ts';
import { KeptFigures } from './kept-figures.ts';
import { SdpaError, SdpaProcess } from './sdpa-process.ts';
import { SdpaShape, type Backend, type SdpaTurns, missingText } from './sdpa-shape.ts';

/** PyTorch and its CUDA libraries load from disk: seconds if cached, far longer the first time. */
const OPEN_LIMIT_MS = 180_000;
const PREPARE_LIMIT_MS = 120_000;
/** cuDNN makes a plan for each new shape. */
const PARITY_LIMIT_MS = 60_000;

/**
 * Missing software is not looked for again at every input, because even a Python without PyTorch takes a moment to
 * report it.
 */
const LACKING: readonly string[] = ['NO_PYTHON', 'NO_TORCH', 'NO_CUDA', 'NO_SCRIPT'];
const LOOK_AGAIN_AFTER_MS = 30_000;

/** A backend's output compared with the kernel's (difference) and with the fp64 reference (error). */
export interface ComparedBackend {
  name: string;
  available: boolean;
  /** Why the backend is not available; empty if it is. */
  reason: string;
  maxAbsDifference: number;
  meanAbsDifference: number;
  maxAbsError: number;
  meanAbsError: number;
}

/** A file of tensors, as SdpaParity writes them. */
export interface TensorFile {
  shape: Shape;
  dtype: TensorDtype;
  path: string;
}

type PreparedInputs = Pick<OpenOptions, 'modes' | 'dtype'>;

interface OpenOptions extends SdpaTurns {
  /** The dtype of the tensors. */
  dtype: TensorDtype;
  modes: readonly TimingModeName[];
  /** Backends to measure, for example "flash"; empty or undefined: all that take the shape. */
  backends?: readonly string[];
}

export interface SdpaOptions {
  /** Path of tools/sdpa.py. */
  script: string;
  /** The device's ordinal in the driver. */
  ordinal: number;
  python?: string;
}

/**
 * PyTorch's SDPA on a device, backend by backend, in a process that stays warm between jobs. Its errors never fail the
 * job: the figures become "not measured", with the reason.
 */
export class SdpaBenchmark {
  readonly #script: string;
  readonly #ordinal: number;
  readonly #python: string;
  #process: SdpaProcess | undefined;
  #opened: Promise<string> | undefined;
  #lacking: { error: Error; atMs: number } | undefined;
  /** The shape that the process has prepared. The next job with this shape reuses its graphs and plans. */
  #prepared: { process: SdpaProcess; key: string; backends: Promise<Backend[]>; figures: KeptFigures } | undefined;

  constructor({ script, ordinal, python = 'python3' }: SdpaOptions) {
    this.#script = script;
    this.#python = python;
    this.#ordinal = ordinal;
  }

  /** Starts the process without waiting for it, while a kernel compiles. */
  start(): void {
    this.#open().catch(() => undefined); // compare() and openShape() retry and report the error.
  }

  /** Starts the process and prepares a shape without waiting for it, while a kernel is compiled and verified. */
  warmUp(shape: Shape, options: PreparedInputs): void {
    this.#open()
      .then(() => this.#prepare(shape, options))
      .catch(() => undefined); // openShape() retries and reports the error.
  }

  /** The process's id, so that the process is not mistaken for a foreign one on the device. */
  get processId(): number | undefined {
    return this.#process?.usable ? this.#process.processId : undefined;
  }

  /** Prepares a shape for measuring in turns. Errors: the signal's reason. */
  async openShape(shape: Shape, options: OpenOptions): Promise<SdpaShape | { missing: string }> {
    const { signal } = options;
    try {
      const version = await untilAborted(this.#open(), signal);
      const prepared = await untilAborted(this.#prepare(shape, options), signal);
      const { backends: asked = [] } = options;
      const backends = prepared.filter(({ name }) => asked.length === 0 || asked.includes(name));
      return new SdpaShape(this.#process!, { ...options, version, backends, figures: this.#prepared?.figures });
    } catch (error) {
      signal.throwIfAborted();
      return { missing: missingText(error) };
    }
  }

  /** Compares the tensors of a file (see SdpaParity) with every backend. Errors: the signal's reason. */
  async compare(
    { shape, dtype, path }: TensorFile,
    signal: AbortSignal,
  ): Promise<{ version: string; backends: ComparedBackend[] } | { missing: string }> {
    try {
      const version = await untilAborted(this.#open(), signal);
      const answer = await this.#process!.request(
        'parity',
        { shape: shapeFields(shape), dtype: DTYPES[dtype].torch, path },
        { limitMs: PARITY_LIMIT_MS, signal },
      );
      return { version, backends: answer['backends'] as ComparedBackend[] };
    } catch (error) {
      signal.throwIfAborted();
      return { missing: missingText(error) };
    }
  }

  /** Runs one preparation at a time, waiting for one that is in progress for another shape. */
  async #prepare(shape: Shape, { modes, dtype }: PreparedInputs): Promise<Backend[]> {
    const process = this.#process!;
    const key = `${formatShape(shape)} ${modes.join(' ')} ${dtype}`;
    const former = this.#prepared?.process === process ? this.#prepared : undefined;
    if (former?.key === key) return former.backends;
    const parameters = {
      shape: shapeFields(shape),
      dtype: DTYPES[dtype].torch,
      modes,
      launchesPerSample: 0,
    };
    const backends = Promise.resolve(former?.backends)
      .catch(() => undefined)
      .then(() => process.request('prepare', parameters, { limitMs: PREPARE_LIMIT_MS }))
      .then((answer) => answer['backends'] as Backend[]);
    const prepared = { process, key, backends, figures: new KeptFigures() };
    this.#prepared = prepared;
    // If a shape could not be prepared, the next job tries again.
    backends.catch(() => {
      if (this.#prepared === prepared) this.#prepared = undefined;
    });
    return backends;
  }

  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    this.#opened = undefined;
    await process?.stop();
  }

  #open(): Promise<string> {
    if (this.#opened && this.#process?.usable) return this.#opened;
    if (this.#lacking && performance.now() - this.#lacking.atMs < LOOK_AGAIN_AFTER_MS)
      return Promise.reject(this.#lacking.error);
    if (!existsSync(this.#script)) return Promise.reject(new SdpaError('NO_SCRIPT', `${this.#script} is not there`));
    const process = new SdpaProcess({
      python: this.#python,
      script: this.#script,
    });
    this.#process = process;
    this.#opened = process.request('open', { ordinal: this.#ordinal }, { limitMs: OPEN_LIMIT_MS }).then(
      (answer) => `PyTorch ${String(answer['torch'])}, cuDNN ${String(answer['cudnn'])}`,
      async (error: unknown) => {
        this.#lacking =
          error instanceof SdpaError && LACKING.includes(error.reason) ? { error, atMs: performance.now() } : undefined;
        await process.stop();
        throw error;
      },
    );
    return this.#opened;
  }
}
