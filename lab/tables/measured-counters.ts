/** ncu's counters of the ladder's shared memory on a GPU, and how far the emulator's counters are from them. */
import type { ProfileResult, VariantResult } from '@flashcore/shared/contract';
import { markdownTable } from './markdown.ts';
import { experimentsOf, foldersWith, jsonOf } from './results.ts';

interface SharedCounters {
  conflictPercent: number;
  wavefrontsPerRequest: number;
}

export interface CounterComparison {
  kernel: string;
  label: string;
  shape: string;
  ncu: SharedCounters;
  modelled: SharedCounters;
  /** The file with ncu's figures. */
  source: string;
  /** Why ncu and the emulator differ, as far as that is known. */
  open?: string | undefined;
}

interface MeasuredBuild {
  kernel: string;
  folder: string;
  variant: VariantResult;
  source: string;
  open?: string | undefined;
}

const MEASURED = 'h200-2026-11-21';
const MAX_POINTS = 0.1;
const MAX_SHARE = 0.01;

/** Builds whose difference exceeds the limits, each with the reason. */
const OPEN: Readonly<Record<string, string>> = {
  flashcore_v9: 'conflicts of loads are the same; those of stores come and go with the arrivals of cp.async (below)',
};
/** Kernels that use wgmma, TMA and clusters, whose counters the emulator does not model. */
const HOPPER = ['flashcore_v11', 'flashcore_v12'];

/** The profiled builds of the ladder, and the faulty kernel with conflicts; each build once. */
export function measuredCounters(): MeasuredBuild[] {
  return experimentsOf(MEASURED, /^(run|faulty\.bank_conflict_32way)\.?.*\.json$/).flatMap(({ job, result }) =>
    (result?.variants ?? [])
      .filter(({ profile }) => (profile?.metrics.length ?? 0) > 0 && !HOPPER.includes(job!.kernelId))
      .map((variant) => ({
        kernel: job!.kernelId,
        folder: job!.kernelId === 'bank_conflict_32way' ? 'kernels/faulty/bank_conflict_32way' : job!.kernelId,
        variant,
        source: `lab/results/${MEASURED}`,
        open: OPEN[job!.kernelId],
      })),
  );
}

export function countersOf({ metrics }: ProfileResult): SharedCounters {
  const value = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? NaN;
  return {
    conflictPercent: value('smem_bank_conflict_percent'),
    wavefrontsPerRequest: value('smem_wavefronts_per_request'),
  };
}

export const isWithin = ({ ncu, modelled }: CounterComparison): boolean =>
  Math.abs(modelled.conflictPercent - ncu.conflictPercent) <= MAX_POINTS &&
  Math.abs(modelled.wavefrontsPerRequest / ncu.wavefrontsPerRequest - 1) <= MAX_SHARE;

/** A table for docs/emulator.md, from the newest run of `npm run counters`. */
export function countersMarkdown(): string {
  const folder = foldersWith(/^counters\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not compared yet.\n';
  const { builds } = jsonOf<{ builds: CounterComparison[] }>(folder, 'counters.json')!;
  const rows = builds.map((build) => [
    build.kernel,
    build.label,
    ...[build.ncu.conflictPercent, build.modelled.conflictPercent].map((value) => value.toFixed(3)),
    ...[build.ncu.wavefrontsPerRequest, build.modelled.wavefrontsPerRequest].map((value) => value.toFixed(4)),
    isWithin(build) ? '' : (OPEN[build.kernel] ?? 'open'),
  ]);
  return [
    `${builds.filter(isWithin).length} of ${builds.length} builds have conflicts within ${MAX_POINTS} points and wavefronts a request within ${100 * MAX_SHARE} %; the left of each pair is ncu on an H200 (lab/results/${MEASURED}), the right the model (lab/results/${folder}).\n`,
    markdownTable(['kernel', 'build', 'conflicts, ncu', 'modelled', 'a request, ncu', 'modelled', ''], rows),
  ].join('\n');
}
