/** SDPA's samples of an earlier job on the same graphs, reused after a check with a few new samples. */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { SdpaReuseSchema, type SdpaReuse } from '@flashcore/shared/contract';
import { rivalName } from '@flashcore/shared/rivals';
import { median, medianInterval } from '@flashcore/shared/statistics';
import type { TimingModeName } from '../../worker/messages/measuring.ts';

const MAX_AGE_MS = 60 * 60_000;
/** Equal to the limit at which a comparison's self-check fails. */
const DRIFT_LIMIT = 0.015;
/** A backend with fewer samples is not kept. */
const FEWEST_KEPT = 20;
/** The interval of fewer samples is nearly their whole range, so that their median decides. */
const FEWEST_FOR_INTERVAL = 12;

/**
 * Figures measured on PyTorch's prepared graphs of one shape. They are dropped with the graphs, so a figure never comes
 * from another device, shape, PyTorch version or process.
 */
export class KeptFigures {
  readonly #samples: Partial<Record<TimingModeName, KeptSamples>> = {};

  /** Keeps samples of each backend, microseconds. They must have been taken in turns with a kernel of `job`. */
  keep(mode: TimingModeName, samplesUs: ReadonlyMap<string, readonly number[]>, job: string): void {
    if (samplesUs.size === 0 || [...samplesUs.values()].some(({ length }) => length < FEWEST_KEPT)) return;
    this.#samples[mode] = new KeptSamples(new Map(samplesUs), { job, atMs: Date.now() });
  }

  forget(mode: TimingModeName): void {
    delete this.#samples[mode];
  }

  /** Samples of exactly these backends from the last hour; undefined if there are none. */
  of(mode: TimingModeName, backends: readonly string[]): KeptSamples | undefined {
    const kept = this.#samples[mode];
    if (!kept || Date.now() - kept.atMs > MAX_AGE_MS || kept.samplesUs.size !== backends.length) return undefined;
    return backends.every((name) => kept.samplesUs.has(name)) ? kept : undefined;
  }
}

export class KeptSamples {
  readonly samplesUs: ReadonlyMap<string, readonly number[]>;
  readonly atMs: number;
  readonly #job: string;

  constructor(samplesUs: ReadonlyMap<string, readonly number[]>, { job, atMs }: { job: string; atMs: number }) {
    this.samplesUs = samplesUs;
    this.#job = job;
    this.atMs = atMs;
  }

  /**
   * The largest deviation of a turn's new samples of a backend from the kept median: 0 if the 95 % interval of the new
   * median contains the kept one, else the deviation of the interval's nearer end. The new median itself would not do:
   * cold times of one backend have two modes, 6 % apart, and the median may be in either. NaN without a turn.
   */
  checkedBy(name: string, turns: readonly (readonly number[])[]): SdpaReuse {
    const was = median(this.samplesUs.get(name)!);
    const drifts = turns.map((samplesUs) => {
      const few = samplesUs.length < FEWEST_FOR_INTERVAL;
      const { low, high } = few ? { low: median(samplesUs), high: median(samplesUs) } : medianInterval(samplesUs);
      return Math.max(low, Math.min(high, was)) / was - 1;
    });
    return create(SdpaReuseSchema, {
      job: this.#job,
      measuredAt: timestampFromMs(this.atMs),
      drift: drifts.toSorted((a, b) => Math.abs(b) - Math.abs(a))[0] ?? NaN,
      driftLimit: DRIFT_LIMIT,
      checkSamples: turns.flat().length,
    });
  }

  /** The first backend that differs too much from its kept samples, or was not checked; undefined if all agree. */
  drifted(checks: ReadonlyMap<string, readonly (readonly number[])[]>): string | undefined {
    for (const name of this.samplesUs.keys()) {
      const { drift, job } = this.checkedBy(name, checks.get(name) ?? []);
      if (!(Math.abs(drift) <= DRIFT_LIMIT))
        return `${rivalName(name)} drifted ${(100 * drift).toFixed(1)} % from ${job} (limit ${100 * DRIFT_LIMIT} %); run again to re-measure`;
    }
    return undefined;
  }
}
