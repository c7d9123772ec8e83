/** SDPA's samples of an earlier job on the same graphs, which a few new ones check. */
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { SdpaReuseSchema, type SdpaReuse } from '@flashcore/shared/contract';
import { median } from '@flashcore/shared/statistics';
import type { TimingModeName } from '../../worker/messages/measuring.ts';

const MAX_AGE_MS = 60 * 60_000;
/** As far as a champion may be from itself before a comparison is not believed. */
const DRIFT_LIMIT = 0.015;
/** Fewer samples of a backend are kept for nobody. */
const FEWEST_KEPT = 20;

/**
 * What was measured on the graphs that PyTorch's process holds of one shape: it goes with them, so that a figure is
 * never another device's, shape's, PyTorch's or process's.
 */
export class KeptFigures {
  readonly #samples: Partial<Record<TimingModeName, KeptSamples>> = {};

  /** Samples of each backend, microseconds; only such as were taken in turns with a kernel of `job`. */
  keep(mode: TimingModeName, samplesUs: ReadonlyMap<string, readonly number[]>, job: string): void {
    if (samplesUs.size === 0 || [...samplesUs.values()].some(({ length }) => length < FEWEST_KEPT)) return;
    this.#samples[mode] = new KeptSamples(new Map(samplesUs), { job, atMs: Date.now() });
  }

  forget(mode: TimingModeName): void {
    delete this.#samples[mode];
  }

  /** Those of all these backends and no others, of the last hour; undefined: there are none. */
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

  /** How far a backend's new samples are from the kept ones, in the turn that is farthest; NaN without a turn. */
  checkedBy(name: string, turns: readonly (readonly number[])[]): SdpaReuse {
    const was = median(this.samplesUs.get(name)!);
    const drifts = turns.map((samplesUs) => median(samplesUs) / was - 1);
    return create(SdpaReuseSchema, {
      job: this.#job,
      measuredAt: timestampFromMs(this.atMs),
      drift: drifts.toSorted((a, b) => Math.abs(b) - Math.abs(a))[0] ?? NaN,
      driftLimit: DRIFT_LIMIT,
      checkSamples: turns.flat().length,
    });
  }

  /** Which backend is too far from what is kept of it, or was not checked; undefined: none. */
  drifted(checks: ReadonlyMap<string, readonly (readonly number[])[]>): string | undefined {
    for (const name of this.samplesUs.keys()) {
      const { drift, job } = this.checkedBy(name, checks.get(name) ?? []);
      if (!(Math.abs(drift) <= DRIFT_LIMIT))
        return `sdpa/${name} is ${(100 * drift).toFixed(1)} % from its figure of ${job}, which was to be used again (${100 * DRIFT_LIMIT} % are allowed): run it again, and it is measured anew`;
    }
    return undefined;
  }
}
