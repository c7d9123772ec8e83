import { existsSync } from 'node:fs';
import { ELEMENTS, isPlainAttention, type ProblemCase } from '@flashcore/shared/kernels';
import { SDPA_BACKENDS } from '@flashcore/shared/rivals';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import { untilAborted } from '../async.ts';
import { KeptFigures } from './kept-figures.ts';
import { SdpaError, SdpaProcess } from './sdpa-process.ts';
import { SdpaShape, type Backend, type SdpaTurns, missingText } from './sdpa-shape.ts';

/** PyTorch and its CUDA libraries load from disk: seconds if cached, far longer the first time. */
const OPEN_LIMIT_MS = 180_000;
/** One rival; its kernels may have to be compiled for the case. */
const PREPARE_LIMIT_MS = 300_000;
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
  kind: ProblemCase;
  path: string;
}

/** Inputs of a case with the right outputs, on which rivals are checked before they are timed. */
export interface DrawnFile {
  /** The file that the worker writes for a benchmark. */
  path: string;
  /** Limits on the error by output. */
  tolerances: Readonly<Record<string, { absolute: number; relative: number }>>;
}

type PreparedInputs = Pick<OpenOptions, 'modes' | 'rivals'>;

/** The rivals to time, and the file on which they are checked first. */
export interface CheckedRivals {
  names: readonly string[];
  drawn: DrawnFile;
}

interface OpenOptions extends SdpaTurns {
  modes: readonly TimingModeName[];
  /** Backends of SDPA to measure, for example "flash"; empty or undefined: all that take the shape. */
  backends?: readonly string[];
  /** Takes the place of `backends`. */
  rivals?: CheckedRivals;
}

export interface SdpaOptions {
  /** Path of tools/sdpa.py. */
  script: string;
  /** The device's ordinal in the driver. */
  ordinal: number;
  /** Folder of the shared objects of rivals. */
  folder: string;
  python?: string;
  prepareLimitMs?: number;
}

/** The process's state for one case. */
interface Prepared {
  key: string;
  ready: Promise<{ process: SdpaProcess; backends: Backend[] }>;
  figures: KeptFigures;
}

/**
 * PyTorch's SDPA on a device, backend by backend, and other rivals, in a process that stays warm between jobs. Its
 * errors never fail the job: the figures become "not measured", with the reason.
 */
export class SdpaBenchmark {
  readonly #script: string;
  readonly #ordinal: number;
  readonly #folder: string;
  readonly #python: string;
  readonly #prepareLimitMs: number;
  #process: SdpaProcess | undefined;
  #opened: Promise<SdpaProcess> | undefined;
  #lacking: { error: Error; atMs: number } | undefined;
  /** The case that the process has prepared. The next job with this case reuses its graphs and plans. */
  #prepared: Prepared | undefined;

  constructor({ script, ordinal, folder, python = 'python3', prepareLimitMs = PREPARE_LIMIT_MS }: SdpaOptions) {
    this.#script = script;
    this.#python = python;
    this.#ordinal = ordinal;
    this.#folder = folder;
    this.#prepareLimitMs = prepareLimitMs;
  }

  /** Starts the process without waiting for it, while a kernel compiles. */
  start(): void {
    this.#open().catch(() => undefined); // compare() and openShape() retry and report the error.
  }

  /** Starts the process and prepares a case without waiting for it, while a kernel is compiled and verified. */
  warmUp(kind: ProblemCase, modes: readonly TimingModeName[]): void {
    this.#open()
      .then(() => this.#prepare(kind, { modes }))
      .catch(() => undefined); // openShape() retries and reports the error.
  }

  /** The process's id, so that the process is not mistaken for a foreign one on the device. */
  get processId(): number | undefined {
    return this.#process?.usable ? this.#process.processId : undefined;
  }

  /** Prepares a case for measuring in turns. Errors: the signal's reason. */
  async openShape(kind: ProblemCase, options: OpenOptions): Promise<SdpaShape | { missing: string }> {
    const { signal, backends: asked = [], rivals } = options;
    try {
      await untilAborted(this.#open(), signal);
      const { figures, ...prepared } = this.#prepare(kind, options, rivals && signal);
      const { process, backends: all } = await untilAborted(prepared.ready, signal);
      const backends = all.filter(({ name }) => rivals || asked.length === 0 || asked.includes(name));
      return new SdpaShape(process, { ...options, asked: rivals !== undefined, backends, figures });
    } catch (error) {
      signal.throwIfAborted();
      return { missing: missingText(error) };
    }
  }

  /** Compares the tensors of a file (see SdpaParity) with every backend. Errors: the signal's reason. */
  async compare(
    { kind, path }: TensorFile,
    signal: AbortSignal,
  ): Promise<{ version: string; backends: ComparedBackend[] } | { missing: string }> {
    try {
      const process = await untilAborted(this.#open(), signal);
      const answer = await process.request(
        'parity',
        { case: sdpaCase(kind, { drawn: false }), path },
        { limitMs: PARITY_LIMIT_MS, signal },
      );
      return { version: String(answer['version']), backends: answer['backends'] as ComparedBackend[] };
    } catch (error) {
      signal.throwIfAborted();
      return { missing: missingText(error) };
    }
  }

  /** Runs one preparation at a time, waiting for one that is in progress for another case. */
  #prepare(kind: ProblemCase, { modes, rivals }: PreparedInputs, signal?: AbortSignal): Prepared {
    const { names, drawn } = rivals ?? { names: SDPA_BACKENDS, drawn: undefined };
    const parameters = {
      case: sdpaCase(kind, { drawn: drawn !== undefined }),
      modes,
      launchesPerSample: 0,
      ...(drawn && { drawn }),
    };
    const key = JSON.stringify([parameters, names]);
    const former = this.#process?.usable ? this.#prepared : undefined;
    if (former?.key === key) return former;
    const ready = Promise.resolve(former?.ready)
      .catch(() => undefined)
      .then(() => this.#prepareEach(names, parameters, signal));
    const prepared = { key, ready, figures: new KeptFigures() };
    this.#prepared = prepared;
    // If a case could not be prepared, the next job tries again.
    ready.catch(() => {
      if (this.#prepared === prepared) this.#prepared = undefined;
    });
    return prepared;
  }

  /**
   * Prepares rivals one after another. A rival that ends the process, hangs it or loses the device is left out, and
   * the others are prepared again in a new process. Errors: the signal's reason; those of #open().
   */
  async #prepareEach(
    names: readonly string[],
    parameters: Record<string, unknown>,
    signal: AbortSignal | undefined,
  ): Promise<{ process: SdpaProcess; backends: Backend[] }> {
    const call = { limitMs: this.#prepareLimitMs, ...(signal && { signal }) };
    const lost = new Map<string, Backend>();
    for (;;) {
      const process = await this.#open();
      await process.request('release', {}, call);
      const backends: Backend[] = [];
      try {
        for (const name of names) {
          const answer = lost.get(name) ?? (await process.request('prepare', { rival: name, ...parameters }, call));
          backends.push(answer as unknown as Backend);
        }
        return { process, backends };
      } catch (error) {
        signal?.throwIfAborted();
        // Another job's request, or close(), has ended the process.
        if (this.#process !== process) throw error;
        const name = names[backends.length]!;
        lost.set(name, { name, available: false, reason: missingText(error), version: '', launchesPerSample: 0 });
        this.#opened = undefined;
        await process.stop();
      }
    }
  }

  async close(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    this.#opened = undefined;
    await process?.stop();
  }

  #open(): Promise<SdpaProcess> {
    if (this.#opened && this.#process?.usable) return this.#opened;
    if (this.#lacking && performance.now() - this.#lacking.atMs < LOOK_AGAIN_AFTER_MS)
      return Promise.reject(this.#lacking.error);
    if (!existsSync(this.#script)) return Promise.reject(new SdpaError('NO_SCRIPT', `${this.#script} is not there`));
    const process = new SdpaProcess({
      python: this.#python,
      script: this.#script,
    });
    this.#process = process;
    const request = { ordinal: this.#ordinal, folder: this.#folder };
    this.#opened = process.request('open', request, { limitMs: OPEN_LIMIT_MS }).then(
      () => process,
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

/**
 * A case as tools/sdpa.py takes it, without its optional outputs, which no rival is asked for. `drawn`: its inputs come
 * from a file. Otherwise it must be plain attention, whose heads tools/sdpa.py draws itself.
 */
export function sdpaCase(kind: ProblemCase, { drawn }: { drawn: boolean }): Record<string, unknown> {
  const { problem, dtype, values, tensors } = kind;
  const plain = isPlainAttention(kind);
  const [B, H, S, D] = tensors[0]!.dims;
  const always = tensors.filter(({ optional }) => !optional);
  return {
    // Another problem that is plain attention may name its axes differently.
    problem: plain ? 'attention' : problem,
    dtype: ELEMENTS[dtype].torch,
    values: plain ? { B, H, S, D, Hkv: H, Skv: S, Dv: D, causal: values['causal'] ?? 0 } : values,
    tensors: always.map(({ name, direction, dims, dtype: own, layout }) => ({
      name,
      direction,
      dims,
      dtype: ELEMENTS[own].torch,
      ...(layout && !(plain && !drawn) && { layout }),
    })),
    pooled: plain && !(drawn && always.some(({ layout }) => layout)),
  };
}
