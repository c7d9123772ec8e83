/** Latency by shape, timing mode and subject: updated by progress events, completed by results. */
import type { BenchmarkProgress, BenchmarkResult, SdpaBenchmark } from '@flashcore/shared/contract';
import { benchmarkKey } from '../present/words.ts';
import type { BenchmarkView } from './job-view.ts';

const CANDIDATE = 'candidate';
// The number of samples that fit on a wide screen.
const RECENT_SAMPLES = 240;

export function withBenchmarkProgress(
  benchmarks: readonly BenchmarkView[],
  progress: BenchmarkProgress,
): BenchmarkView[] {
  const { shape, mode, simulated, warmUp, latency, histogram, samplesUs, expectedSamples } = progress;
  const subject = progress.subject === '' ? CANDIDATE : progress.subject;
  const key = benchmarkKey(shape, mode, subject);
  const before = benchmarks.find((benchmark) => benchmark.key === key);
  // A progress event without statistics (during warm-up) keeps the earlier statistics.
  return replaceByKey(benchmarks, {
    key,
    shape,
    mode,
    subject,
    simulated,
    warmUp,
    latency: latency ?? before?.latency,
    histogram: histogram ?? before?.histogram,
    expectedSamples: expectedSamples > 0 ? expectedSamples : before?.expectedSamples,
    recent: warmUp ? [] : [...(before?.recent ?? []), ...samplesUs].slice(-RECENT_SAMPLES),
    result: before?.result,
  });
}

/** Adds the result and the SDPA backends measured with it. */
export function withBenchmarkResult(benchmarks: readonly BenchmarkView[], result: BenchmarkResult): BenchmarkView[] {
  const { shape, mode, simulated, latency, histogram, sdpa } = result;
  const key = benchmarkKey(shape, mode, CANDIDATE);
  const recent = benchmarks.find((benchmark) => benchmark.key === key)?.recent ?? [];
  const own: BenchmarkView = {
    key,
    shape,
    mode,
    subject: CANDIDATE,
    simulated,
    warmUp: false,
    latency,
    histogram,
    recent,
    result,
  };
  return sdpa.reduce(
    (all, backend) =>
      withBackend(all, {
        shape,
        mode,
        simulated,
        subject: backend.name,
        latency: backend.latency,
        speedup: backend.speedup,
      }),
    replaceByKey(benchmarks, own),
  );
}

/** Adds the backends of an SDPA benchmark that ran without a candidate. */
export const withSdpaBenchmark = (
  benchmarks: readonly BenchmarkView[],
  { shape, mode, backends }: SdpaBenchmark,
): BenchmarkView[] =>
  backends.reduce<BenchmarkView[]>(
    (all, { name, latency }) => withBackend(all, { shape, mode, simulated: false, subject: name, latency }),
    [...benchmarks],
  );

type Backend = Pick<BenchmarkView, 'shape' | 'mode' | 'simulated' | 'subject' | 'latency' | 'speedup'>;

function withBackend(benchmarks: readonly BenchmarkView[], backend: Backend): BenchmarkView[] {
  const key = benchmarkKey(backend.shape, backend.mode, backend.subject);
  const before = benchmarks.find((benchmark) => benchmark.key === key);
  const { histogram, recent = [] } = before ?? {};
  return replaceByKey(benchmarks, { ...backend, key, warmUp: false, histogram, recent });
}

/**
 * The number of measured modes, including the finished fraction of a mode that is still sampling. The steps of the
 * benchmark phase are counted in this way.
 */
export function measuredModes(benchmarks: readonly BenchmarkView[]): number {
  return benchmarks
    .filter(({ subject }) => subject === CANDIDATE)
    .reduce((sum, { result, latency, expectedSamples }) => {
      if (result !== undefined) return sum + 1;
      const known = latency !== undefined && expectedSamples !== undefined;
      return sum + (known ? Math.min(1, latency.samples / expectedSamples) : 0);
    }, 0);
}

function replaceByKey(benchmarks: readonly BenchmarkView[], next: BenchmarkView): BenchmarkView[] {
  const index = benchmarks.findIndex(({ key }) => key === next.key);
  return index < 0 ? [...benchmarks, next] : benchmarks.with(index, next);
}
