import { create } from '@bufbuild/protobuf';
import { MissingRivalSchema, SdpaResultSchema, type MissingRival, type SdpaResult } from '@flashcore/shared/contract';
import { rivalName } from '@flashcore/shared/rivals';
import { describe, histogram, ratioInterval } from '@flashcore/shared/statistics';
import { errorText } from '@flashcore/shared/text';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { KeptFigures, KeptSamples } from './kept-figures.ts';
import { type SdpaProcess, SdpaError } from './sdpa-process.ts';

const ROUND_LIMIT_MS = 60_000;
/**
 * Length of a backend's turn, seconds. Half of the candidate's, because four backends with full turns would take most
 * of a job.
 */
const TURN_SECONDS: Record<TimingModeName, number> = { cold: 0.01, hot: 0.02 };
const MAX_TURN_SAMPLES = 500;

/** A rival, for example a backend of SDPA, that the process prepared for a shape. */
export interface Backend {
  /** As in a request; results call SDPA's backends "sdpa/flash". */
  name: string;
  available: boolean;
  /** Why it is not available; empty if it is. */
  reason: string;
  /** Empty if it was not found. */
  version: string;
  launchesPerSample: number;
  /** Its largest error on the inputs on which it was checked; undefined if it was not. */
  maxAbsError?: number;
}

/** Called with new samples of a backend, named as in the result ("sdpa/flash"). */
export type SdpaListener = (mode: TimingModeName, subject: string, samplesUs: readonly number[]) => void;

export interface SdpaTurns {
  readonly signal: AbortSignal;
  readonly onSamples: SdpaListener;
  /**
   * Name of the job, and whether it may reuse an earlier job's figures; undefined: figures are neither reused nor kept.
   */
  readonly keeping?: { readonly job: string; readonly reuse: boolean };
}

interface SdpaTurnsOptions extends SdpaTurns {
  backends: readonly Backend[];
  /** Whether the request names the rivals. A rival without a figure then has a row with the reason. */
  asked?: boolean;
  /** Figures of the graphs that the process holds. */
  figures?: KeptFigures | undefined;
}

/** Turns that check kept figures: the first, and one after the kernel has been timed for a while. */
const CHECK_TURNS: readonly number[] = [1, 5];

/** The rivals that take a shape, measured in turns with a candidate. */
export class SdpaShape {
  readonly #process: SdpaProcess;
  readonly #asked: boolean;
  readonly #backends: readonly Backend[];
  readonly #signal: AbortSignal;
  readonly #onSamples: SdpaListener;
  /** For each backend the samples of each turn, microseconds. */
  readonly #samples: Record<TimingModeName, Map<string, number[][]>> = { cold: new Map(), hot: new Map() };
  readonly #turns: Record<TimingModeName, number> = { cold: 0, hot: 0 };
  readonly #keeping: SdpaTurns['keeping'];
  readonly #figures: KeptFigures | undefined;
  /** An earlier job's samples by mode; removed if a check shows that they no longer hold. */
  readonly #kept: Partial<Record<TimingModeName, KeptSamples>> = {};
  #failure: string | undefined;

  constructor(process: SdpaProcess, options: SdpaTurnsOptions) {
    this.#process = process;
    this.#asked = options.asked ?? false;
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
    return this.#backends
      .filter(({ available }) => !available)
      .map(({ name, reason }) => `${rivalName(name)}: ${reason}`);
  }

  /**
   * Runs one turn of every backend. If an earlier job's figures are used, only the checking turns run, until one shows
   * that the figures no longer hold. Errors: the signal's reason; missing() reports a failing SDPA.
   */
  async turn(mode: TimingModeName): Promise<void> {
    if (this.#failure !== undefined) return;
    const turn = (this.#turns[mode] += 1);
    if (this.#kept[mode] && !CHECK_TURNS.includes(turn)) return;
    await this.#measure(mode);
    if (this.#drifted(mode) === undefined) return;
    // Measures in all coming turns, and now makes up for the turns that were left out.
    delete this.#kept[mode];
    this.#figures?.forget(mode);
    for (let left = turn - (CHECK_TURNS.indexOf(turn) + 1); left > 0 && this.#failure === undefined; --left)
      await this.#measure(mode);
  }

  #own(mode: TimingModeName): ReadonlyMap<string, number[]> {
    return new Map([...this.#samples[mode]].map(([name, turns]) => [name, turns.flat()]));
  }

  /** The difference between the check's samples and the kept ones, if too large; undefined otherwise. */
  #drifted(mode: TimingModeName): string | undefined {
    return this.#kept[mode]?.drifted(this.#samples[mode]);
  }

  async #measure(mode: TimingModeName): Promise<void> {
    for (const { name, available } of this.#backends) {
      if (!available) continue;
      try {
        await this.#round(name, mode);
      } catch (error) {
        this.#signal.throwIfAborted();
        this.#failure = this.#asked ? `${rivalName(name)} in its turn: ${missingText(error)}` : missingText(error);
        return;
      }
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
    this.#onSamples(mode, rivalName(name), samplesUs);
  }

  /** Why further turns bring no samples; undefined if they do. */
  get failure(): string | undefined {
    return this.#failure ?? (this.#backends.some(({ available }) => available) ? undefined : this.#noBackend());
  }

  /** Samples of each backend so far, microseconds. */
  samples(mode: TimingModeName): readonly (readonly number[])[] {
    return [...this.#own(mode).values()];
  }

  /** Drops the samples of the warm-up. */
  restart(mode: TimingModeName): void {
    this.#samples[mode].clear();
  }

  /** Results without a candidate, fastest backend first; the speedup fields are 0. */
  alone(mode: TimingModeName): SdpaResult[] {
    return [...this.#own(mode)].map(([name, samplesUs]) => this.#result(name, samplesUs)).sort(byMedian);
  }

  #result(name: string, samplesUs: readonly number[]): SdpaResult {
    const { version, maxAbsError } = this.#backends.find((backend) => backend.name === name)!;
    return create(SdpaResultSchema, {
      name: rivalName(name),
      latency: describe(samplesUs),
      version,
      histogram: histogram(samplesUs),
      ...(maxAbsError !== undefined && { maxAbsError }),
    });
  }

  /** The rivals that the request names and that are not measured. */
  get missingRivals(): MissingRival[] {
    const isMeasured = (name: string): boolean => Object.values(this.#samples).some((samples) => samples.has(name));
    return this.#backends
      .filter(
        ({ name, available }) => this.#asked && (!available || (this.#failure !== undefined && !isMeasured(name))),
      )
      .map(({ name, version, available, reason }) =>
        create(MissingRivalSchema, {
          name: rivalName(name),
          version,
          reason: available ? (this.#failure ?? '') : reason,
        }),
      );
  }

  /** Results relative to the candidate's samples in the same mode, fastest backend first. */
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

  /** Why there is no result, or why some backends are missing from it; undefined if all were measured. */
  missing(mode: TimingModeName): string | undefined {
    if (this.#failure !== undefined) return this.#failure;
    const drifted = this.#drifted(mode);
    if (drifted !== undefined) return drifted;
    if (this.#samples[mode].size > 0)
      return this.refused.length > 0 && !this.#asked ? this.refused.join('; ') : undefined;
    return this.#backends.some(({ available }) => available) ? 'SDPA had no turn' : this.#noBackend();
  }

  readonly #noBackend = (): string =>
    this.#asked ? 'no rival was timed' : `no SDPA backend takes the shape: ${this.refused.join('; ')}`;
}

const byMedian = (a: SdpaResult, b: SdpaResult): number => a.latency!.p50Us - b.latency!.p50Us;

const HOW_TO_GET = 'install it with `python3 -m pip install torch`, or name a Python that has it in FLASHCORE_PYTHON';

/** The reason why SDPA was not measured, and the remedy. */
export function missingText(error: unknown): string {
  const message = errorText(error);
  const reason = error instanceof SdpaError ? error.reason : '';
  if (reason === 'NO_TORCH' || reason === 'NO_PYTHON') return `no PyTorch on this host (${message}); ${HOW_TO_GET}`;
  if (reason === 'NO_CUDA') return `${message}; install a PyTorch built for CUDA`;
  return message;
}
