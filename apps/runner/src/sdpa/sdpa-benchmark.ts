import { existsSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import { SdpaResultSchema, type SdpaResult, type Shape } from '@flashcore/shared/contract';
import { formatShape, type TensorDtype } from '@flashcore/shared/kernels';
import { describe, histogram, ratioInterval } from '@flashcore/shared/statistics';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import { SdpaError, SdpaProcess } from './sdpa-process.ts';
import { KeptFigures, type KeptSamples } from './kept-figures.ts';
import { untilAborted } from '../async.ts';

/** PyTorch and its CUDA libraries are loaded from disk: seconds when warm, far more the first time. */
const OPEN_LIMIT_MS = 180_000;
const PREPARE_LIMIT_MS = 120_000;
const ROUND_LIMIT_MS = 60_000;
/** cuDNN makes a plan for each new shape. */
const PARITY_LIMIT_MS = 60_000;
/**
 * How long a backend's turn takes, seconds. Half of the candidate's: four backends measured as long would take most of
 * a job.
 */
const TURN_SECONDS: Record<TimingModeName, number> = { cold: 0.01, hot: 0.02 };
const MAX_TURN_SAMPLES = 500;
const HOW_TO_GET = 'install it with `python3 -m pip install torch`, or name a Python that has it in FLASHCORE_PYTHON';

/** What a host lacks is not looked for again at every input: a Python that has no PyTorch takes a moment to say so. */
const LACKING: readonly string[] = ['NO_PYTHON', 'NO_TORCH', 'NO_CUDA', 'NO_SCRIPT'];
const LOOK_AGAIN_AFTER_MS = 30_000;

interface Backend {
  name: string;
  available: boolean;
  reason: string;
  launchesPerSample: number;
}

/** A backend's output beside the kernel's (difference) and beside the fp64 reference (error). */
export interface ComparedBackend {
  name: string;
  available: boolean;
  /** Why it is not, or empty. */
  reason: string;
  maxAbsDifference: number;
  meanAbsDifference: number;
  maxAbsError: number;
  meanAbsError: number;
}

/** New samples of a backend, named as in the result ("sdpa/flash"). */
export type SdpaListener = (mode: TimingModeName, subject: string, samplesUs: readonly number[]) => void;

/** PyTorch's names. */
const TORCH_DTYPES: Readonly<Record<TensorDtype, string>> = { fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' };

/** Tensors in a file, as SdpaParity writes them. */
export interface TensorFile {
  shape: Shape;
  dtype: TensorDtype;
  path: string;
}

type PreparedInputs = Pick<OpenOptions, 'modes' | 'inputSets' | 'dtype'>;

interface OpenOptions {
  /** Of the tensors. */
  dtype: TensorDtype;
  modes: readonly TimingModeName[];
  inputSets: number;
  /** Those to measure, for example "flash"; empty or undefined: all that take the shape. */
  backends?: readonly string[];
  signal: AbortSignal;
  onSamples: SdpaListener;
  /** Name of the job, and whether an earlier one's figures will do for it; undefined: none are used or kept. */
  keeping?: { job: string; reuse: boolean };
}

export interface SdpaOptions {
  /** Path of tools/sdpa.py. */
  script: string;
  /** The device's place among the driver's. */
  ordinal: number;
  python?: string;
}

/**
 * PyTorch's SDPA on a device, backend by backend, in a process that is kept warm between jobs. What goes wrong in it is
 * never the job's error: the sdpa is then
 * "not measured", with the reason.
 */
export class SdpaBenchmark {
  readonly #script: string;
  readonly #ordinal: number;
  readonly #python: string;
  #process: SdpaProcess | undefined;
  #opened: Promise<string> | undefined;
  #lacking: { error: Error; atMs: number } | undefined;
  /** What the process holds prepared: the next job on the same shape finds graphs and plans there. */
  #prepared: { process: SdpaProcess; key: string; backends: Promise<Backend[]>; figures: KeptFigures } | undefined;

  constructor({ script, ordinal, python = 'python3' }: SdpaOptions) {
    this.#script = script;
    this.#python = python;
    this.#ordinal = ordinal;
  }

  /** Starts the process without waiting for it: a kernel is compiled meanwhile. */
  start(): void {
    this.#open().catch(() => undefined); // compare() and openShape() ask again and tell.
  }

  /** Starts the process and prepares a shape without waiting for it: a kernel is compiled and verified meanwhile. */
  warmUp(shape: Shape, options: PreparedInputs): void {
    this.#open()
      .then(() => this.#prepare(shape, options))
      .catch(() => undefined); // openShape() asks again and tells.
  }

  /** The process's id, so that it is not taken for a stranger on the device. */
  get processId(): number | undefined {
    return this.#process?.usable ? this.#process.processId : undefined;
  }

  /** Prepares a shape for turns. Errors: the signal's reason. */
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
        { shape: plainShape(shape), dtype: TORCH_DTYPES[dtype], path },
        { limitMs: PARITY_LIMIT_MS, signal },
      );
      return { version, backends: answer['backends'] as ComparedBackend[] };
    } catch (error) {
      signal.throwIfAborted();
      return { missing: missingText(error) };
    }
  }

  /** One preparation at a time; one that is under way for another shape is waited for. */
  async #prepare(shape: Shape, { modes, inputSets, dtype }: PreparedInputs): Promise<Backend[]> {
    const process = this.#process!;
    const key = `${formatShape(shape)} ${modes.join(' ')} ${inputSets} ${dtype}`;
    const former = this.#prepared?.process === process ? this.#prepared : undefined;
    if (former?.key === key) return former.backends;
    const parameters = {
      shape: plainShape(shape),
      dtype: TORCH_DTYPES[dtype],
      inputSets,
      modes,
      launchesPerSample: 0,
    };
    const backends = Promise.resolve(former?.backends)
      .catch(() => undefined)
      .then(() => process.request('prepare', parameters, { limitMs: PREPARE_LIMIT_MS }))
      .then((answer) => answer['backends'] as Backend[]);
    const prepared = { process, key, backends, figures: new KeptFigures() };
    this.#prepared = prepared;
    // A shape that could not be prepared is tried anew by the next job.
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

interface SdpaTurnsOptions extends Pick<OpenOptions, 'signal' | 'onSamples' | 'keeping'> {
  version: string;
  backends: readonly Backend[];
  /** Of the graphs that the process holds. */
  figures?: KeptFigures | undefined;
}

/** Turns in which figures that are kept are checked: the first, and one when the kernel has been timed for a while. */
const CHECK_TURNS: readonly number[] = [1, 5];

/** The backends that take a shape, measured in turns with a candidate. */
export class SdpaShape {
  readonly #process: SdpaProcess;
  readonly #version: string;
  readonly #backends: readonly Backend[];
  readonly #signal: AbortSignal;
  readonly #onSamples: SdpaListener;
  /** Of each backend, turn by turn, microseconds. */
  readonly #samples: Record<TimingModeName, Map<string, number[][]>> = { cold: new Map(), hot: new Map() };
  readonly #turns: Record<TimingModeName, number> = { cold: 0, hot: 0 };
  readonly #keeping: OpenOptions['keeping'];
  readonly #figures: KeptFigures | undefined;
  /** An earlier job's samples of each mode; removed where a check shows that they are not right any more. */
  readonly #kept: Partial<Record<TimingModeName, KeptSamples>> = {};
  #failure: string | undefined;

  constructor(process: SdpaProcess, options: SdpaTurnsOptions) {
    this.#process = process;
    this.#version = options.version;
    this.#backends = options.backends;
    this.#signal = options.signal;
    this.#onSamples = options.onSamples;
    this.#keeping = options.keeping;
    this.#figures = options.figures;
    if (!this.#keeping?.reuse) return;
    const names = this.#backends.filter(({ available }) => available).map(({ name }) => name);
    for (const mode of ['cold', 'hot'] as const) {
      const kept = this.#figures?.of(mode, names);
      if (kept) this.#kept[mode] = kept;
    }
  }

  /** Backends that do not take the shape, with PyTorch's reason. */
  get refused(): string[] {
    return this.#backends.filter(({ available }) => !available).map(({ name, reason }) => `sdpa/${name}: ${reason}`);
  }

  /**
   * One turn of every backend; where an earlier job's figures are used, only in the turns that check them, until one
   * shows them to be wrong. Errors: the signal's reason; an SDPA that fails says so in missing().
   */
  async turn(mode: TimingModeName): Promise<void> {
    if (this.#failure !== undefined) return;
    const turn = (this.#turns[mode] += 1);
    if (this.#kept[mode] && !CHECK_TURNS.includes(turn)) return;
    await this.#measure(mode);
    if (this.#drifted(mode) === undefined) return;
    // It is measured anew: in all turns to come, and now for those that were left out.
    delete this.#kept[mode];
    this.#figures?.forget(mode);
    for (let left = turn - (CHECK_TURNS.indexOf(turn) + 1); left > 0 && this.#failure === undefined; --left)
      await this.#measure(mode);
  }

  #own(mode: TimingModeName): ReadonlyMap<string, number[]> {
    return new Map([...this.#samples[mode]].map(([name, turns]) => [name, turns.flat()]));
  }

  /** What the check's samples say against the kept ones; undefined: nothing. */
  #drifted(mode: TimingModeName): string | undefined {
    return this.#kept[mode]?.drifted(this.#samples[mode]);
  }

  async #measure(mode: TimingModeName): Promise<void> {
    try {
      for (const { name, available } of this.#backends) if (available) await this.#round(name, mode);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#failure = missingText(error);
    }
  }

  async #round(name: string, mode: TimingModeName): Promise<void> {
    const answer = await this.#process.request(
      'round',
      { backend: name, mode, seconds: TURN_SECONDS[mode], maxSamples: MAX_TURN_SAMPLES },
      { limitMs: ROUND_LIMIT_MS, signal: this.#signal },
    );
    const samplesUs = answer['samplesUs'] as number[];
    const before = this.#samples[mode].get(name) ?? [];
    this.#samples[mode].set(name, [...before, samplesUs]);
    this.#onSamples(mode, `sdpa/${name}`, samplesUs);
  }

  /** Why no turn will bring more samples; undefined: turns do. */
  get failure(): string | undefined {
    return this.#failure ?? (this.#backends.some(({ available }) => available) ? undefined : this.#noBackend());
  }

  /** Samples of each backend so far, microseconds. */
  samples(mode: TimingModeName): readonly (readonly number[])[] {
    return [...this.#own(mode).values()];
  }

  /** Forgets what was measured: it was the warm-up. */
  restart(mode: TimingModeName): void {
    this.#samples[mode].clear();
  }

  /** Without a candidate, fastest backend first; the speedup fields are 0. */
  alone(mode: TimingModeName): SdpaResult[] {
    return [...this.#own(mode)].map(([name, samplesUs]) => this.#result(name, samplesUs)).sort(byMedian);
  }

  #result(name: string, samplesUs: readonly number[]): SdpaResult {
    return create(SdpaResultSchema, {
      name: `sdpa/${name}`,
      latency: describe(samplesUs),
      version: this.#version,
      histogram: histogram(samplesUs),
    });
  }

  /** Against the candidate's samples in the same mode, fastest backend first. */
  results(mode: TimingModeName, candidateUs: ArrayLike<number>): SdpaResult[] {
    const kept = this.#kept[mode];
    if (this.#drifted(mode) !== undefined) this.#figures?.forget(mode);
    if (candidateUs.length === 0 || this.#drifted(mode) !== undefined) return [];
    const own = this.#own(mode);
    if (!kept && this.#keeping && this.#failure === undefined) this.#figures?.keep(mode, own, this.#keeping.job);
    const results = [...(kept?.samplesUs ?? own)].map(([name, samplesUs]) => {
      const { ratio, low, high } = ratioInterval(samplesUs, candidateUs);
      const reused = kept?.checkedBy(name, this.#samples[mode].get(name) ?? []);
      return Object.assign(this.#result(name, samplesUs), {
        speedup: ratio,
        speedupLow: low,
        speedupHigh: high,
        ...(reused && { reused }),
      });
    });
    return results.sort(byMedian);
  }

  /** Why there is no result, or why some backends are missing from it; undefined when all were measured. */
  missing(mode: TimingModeName): string | undefined {
    if (this.#failure !== undefined) return this.#failure;
    const drifted = this.#drifted(mode);
    if (drifted !== undefined) return drifted;
    if (this.#samples[mode].size > 0) return this.refused.length > 0 ? this.refused.join('; ') : undefined;
    return this.#backends.some(({ available }) => available) ? 'SDPA had no turn' : this.#noBackend();
  }

  readonly #noBackend = (): string => `no SDPA backend takes the shape: ${this.refused.join('; ')}`;
}

const byMedian = (a: SdpaResult, b: SdpaResult): number => a.latency!.p50Us - b.latency!.p50Us;

const plainShape = ({ batch, heads, sequenceLength, headDim, causal }: Shape): Record<string, number | boolean> => ({
  batch,
  heads,
  sequenceLength,
  headDim,
  causal,
});

function missingText(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const reason = error instanceof SdpaError ? error.reason : '';
  if (reason === 'NO_TORCH' || reason === 'NO_PYTHON') return `no PyTorch on this host (${message}); ${HOW_TO_GET}`;
  if (reason === 'NO_CUDA') return `${message}; install a PyTorch built for CUDA`;
  return message;
}
