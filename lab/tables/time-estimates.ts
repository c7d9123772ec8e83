/**
 * How far the emulator's time estimates are from the times on an H200: reads the measured times, and summarizes the
 * errors for the docs.
 */
import { TimingMode, type VariantResult } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { markdownTable } from './markdown.ts';
import { experimentsOf, foldersWith, jsonOf } from './results.ts';

/** A build's hot time on a shape on an H200: the median of its medians in lab/results. */
interface MeasuredTime {
  kernel: string;
  parameters: Record<string, bigint>;
  shape: string;
  us: number;
}

/** A way to estimate times, and its errors. */
export interface EstimateErrors {
  model: string;
  /** The factor from cycles to time, fitted to all kernels. */
  scale: number;
  /**
   * Means of the relative errors, over builds and over kernels. Each kernel is estimated with a scale fitted to the
   * other kernels.
   */
  builds: number;
  kernels: number;
  worst: number;
  /**
   * Errors of the ratio of two builds of one kernel on one shape: the mean over pairs, and over the kernels that have
   * pairs.
   */
  pairs: number;
  pairKernels: number;
  /** Pairs whose times differ by more than 5 %: their number, and how many of them the estimate orders wrongly. */
  apart: number;
  wrongWay: number;
  /** Error of the ratio of two builds of different kernels. */
  otherKernels: number;
}

export interface EstimateReport {
  command: string;
  device: string;
  clockMhz: number;
  launchUs: number;
  errors: EstimateErrors[];
  rows: { kernel: string; label: string; shape: string; us: number; cycles: number; estimateUs: number }[];
}

/** Kernels that use wgmma, TMA and clusters, for which the model has no times. */
const NOT_MODELLED = new Set(['flashcore_v11', 'flashcore_v12']);
/** Folders that have only the repository's kernels, measured on one H200. */
const H200 = /^h200-(?!decide|x2)/;
const EXPERIMENTS = /^(aa|ab|bench|exports|run|tune)\..*\.json$/;

/** Microseconds of an empty kernel in a graph of 200 launches: the cost of a launch without work. */
export function launchUs(): number {
  const { rows } = jsonOf<{ rows: { kernel: string; launches: number; usPerLaunch: number }[] }>(
    'h200-2026-11-21',
    'overlap.json',
  )!;
  return rows.find(({ kernel, launches }) => kernel === 'empty' && launches === 200)!.usPerLaunch;
}

/** Every build that was measured hot on an H200, in experiments with `kernels` and in searches over their variants. */
export function measuredTimes(kernels: ReadonlySet<string>): MeasuredTime[] {
  return foldersWith(/\.json$/)
    .filter((folder) => H200.test(folder))
    .flatMap((folder) => experimentsOf(folder, EXPERIMENTS))
    .flatMap(({ job, result }) => {
      if (!kernels.has(job?.kernelId ?? '') || NOT_MODELLED.has(job!.kernelId)) return [];
      const times = (parameters: Record<string, bigint>, shape: string, us: number): MeasuredTime[] =>
        us > 0 ? [{ kernel: job!.kernelId, parameters, shape, us }] : [];
      const tuned = (result?.tune?.variants ?? []).flatMap(({ parameters, p50Us = 0 }) =>
        times(parameters, '2x8x512x64', p50Us),
      );
      return [...(result?.variants ?? []).flatMap((variant) => hotTimes(variant, times)), ...tuned];
    });
}

type NewTimes = (parameters: Record<string, bigint>, shape: string, us: number) => MeasuredTime[];

const hotTimes = ({ parameters, benchmarks }: VariantResult, times: NewTimes): MeasuredTime[] =>
  benchmarks
    .filter(({ mode, simulated }) => mode === TimingMode.HOT && !simulated)
    .flatMap(({ shape, latency }) => times(parameters, formatShape(shape!), latency?.p50Us ?? 0));

/** A table for docs/emulator.md, from the newest run of `npm run estimates`. */
export function timeEstimatesMarkdown(): string {
  const folder = foldersWith(/^estimates\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not measured yet.\n';
  const { rows, errors } = jsonOf<EstimateReport>(folder, 'estimates.json')!;
  const kernels = new Set(rows.map(({ kernel }) => kernel)).size;
  return [
    `${rows.length} medians of ${kernels} kernels (lab/results/${folder}/estimates.json), mean relative errors:\n`,
    markdownTable(
      [
        'model',
        'of kernels',
        'of builds',
        'the worst',
        'ratio of two builds of a kernel',
        'wrong way round',
        'ratio of two kernels',
      ],
      errors.map((each) => [
        each.model,
        percent(each.kernels),
        percent(each.builds),
        percent(each.worst),
        `${percent(each.pairKernels)} of kernels, ${percent(each.pairs)} of pairs`,
        `${each.wrongWay} of ${each.apart}`,
        percent(each.otherKernels),
      ]),
    ),
  ].join('\n');
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** CPU seconds of the emulator's two engines for the same launches. */
export interface EngineTimes {
  kernel: string;
  /** In CPU seconds. */
  fibres: number;
  ptx: number;
  /** Largest difference between outputs of the two engines. */
  furthestApart: number;
}

interface Report<Times> {
  processor: string;
  rounds: number;
  times: Times[];
}

/** A table for docs/emulator.md, from the newest run of `npm run engines`. */
export function engineTimesMarkdown(): string {
  const folder = foldersWith(/^engines\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not measured yet.\n';
  const { processor, rounds, times } = jsonOf<Report<EngineTimes>>(folder, 'engines.json')!;
  const rows = times.map(({ kernel, fibres, ptx }) => [
    kernel,
    fibres.toFixed(2),
    ptx.toFixed(2),
    `${(fibres / ptx).toFixed(1)}x`,
  ]);
  return [
    `One thread on a shared ${processor}, the least of ${rounds} rounds (lab/results/${folder}/engines.json):\n`,
    markdownTable(['kernel', 'fibres', 'ptx', 'ptx is'], rows),
  ].join('\n');
}

/** CPU seconds of one launch plan on the PTX engine, without and with the race and memory checks. */
export interface WatchingTimes {
  kernel: string;
  shape: string;
  plain: number;
  watched: number;
}

/** A table for docs/emulator.md, from the newest run of `npm run watching`. */
export function watchingTimesMarkdown(): string {
  const folder = foldersWith(/^watching\.json$/).findLast((name) => name.startsWith('emulator-'));
  if (folder === undefined) return 'Not measured yet.\n';
  const { processor, rounds, times } = jsonOf<Report<WatchingTimes>>(folder, 'watching.json')!;
  const milliseconds = (seconds: number): string => (1000 * seconds).toFixed(0);
  const rows = times.map(({ kernel, shape, plain, watched }) => [
    kernel,
    shape,
    milliseconds(plain),
    milliseconds(watched),
    `${(watched / plain).toFixed(1)}x`,
  ]);
  return [
    `Milliseconds of one thread on a shared ${processor}, the least of ${rounds} rounds (lab/results/${folder}/watching.json):\n`,
    markdownTable(['kernel', 'case', 'plain', 'watched', 'watched takes'], rows),
  ].join('\n');
}
