/** Tables that compare two measurements: builds, SDPA, plain PyTorch, one build with itself, clock stamps. */
import { ComparisonVerdict, type SdpaComparison } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { figure, type Table } from './markdown.ts';
import { experimentOf, experimentsOf, filesOf, jsonOf } from './results.ts';

interface Ratio {
  ratio: number;
  low: number;
  high: number;
}

const ratioText = (measured: Ratio | undefined): string =>
  measured ? `${figure(measured.ratio, 4)} [${figure(measured.low, 4)}, ${figure(measured.high, 4)}]` : 'not measured';

/** Candidate against champion, and the champion against its second copy, by shape, all in one job. */
export function comparisonRows(folder: string): Table {
  const comparisons = experimentsOf(folder, /^ab\..*\.json$/).flatMap(({ result }) =>
    result!.variants.flatMap(({ comparison }) => comparison ?? []),
  );
  if (comparisons.length === 0) return undefined;
  return [
    [
      'candidate',
      'against',
      'shape',
      'time',
      'cycles',
      'champion against itself, time',
      'in cycles',
      'blocks',
      'answer',
    ],
    ...comparisons.flatMap(({ candidate, champion, shapes }) =>
      shapes.map((each) => [
        candidate!.kernelId,
        champion!.kernelId,
        formatShape(each.shape!),
        ratioText(each.time),
        ratioText(each.cycles),
        ratioText(each.selfTime),
        ratioText(each.selfCycles),
        String(each.blocks),
        ComparisonVerdict[each.verdict].toLowerCase().replaceAll('_', ' '),
      ]),
    ),
  ];
}

/**
 * Compares every kernel's output with every SDPA backend's over all cases of a verification, as ratios of errors
 * against the same fp64 reference.
 */
export function parityRows(folder: string): Table {
  const files = filesOf(folder, /^parity\..*\.json$/);
  if (files.length === 0) return undefined;
  return [
    ['kernel', 'backend', 'cases', 'largest difference', 'largest error, ours over its', 'mean error, ours over its'],
    ...files.flatMap((name) => {
      const { job, result } = experimentOf(folder, name)!;
      const compared = result!.variants[0]!.verify!.cases.flatMap(({ sdpa }) => sdpa).filter(({ missing }) => !missing);
      return [...Map.groupBy(compared, ({ backend }) => backend)].map(([backend, rows]) => [
        `${job!.kernelId}${name.includes('.large.') ? ', large shapes' : ''}`,
        backend,
        String(rows.length),
        Math.max(...rows.map((row) => row.maxAbsDifference)).toExponential(1),
        rangeText(rows, (row) => row.maxAbsError / row.sdpaMaxAbsError),
        rangeText(rows, (row) => row.meanAbsError / row.sdpaMeanAbsError),
      ]);
    }),
  ];
}

const rangeText = (rows: readonly SdpaComparison[], of: (row: SdpaComparison) => number): string =>
  `${Math.min(...rows.map(of)).toFixed(2)} to ${Math.max(...rows.map(of)).toFixed(2)}`;

interface PlainTime {
  plain_us: number;
  flashcore_us: number;
  ratio: number;
}

/** SDPA measured by us and by plain PyTorch. The report is by shape, then by backend. */
export function plainSdpaRows(folder: string): Table {
  const report = jsonOf<Record<string, Record<string, PlainTime>>>(folder, 'sdpa-against-plain.json');
  return (
    report && [
      ['shape', 'backend', 'plain, us', 'ours, us', 'ours over plain'],
      ...Object.entries(report).flatMap(([shape, backends]) =>
        Object.entries(backends).map(([name, { plain_us: plain, flashcore_us: ours, ratio }]) => [
          shape,
          name,
          figure(plain),
          figure(ours),
          figure(ratio, 4),
        ]),
      ),
    ]
  );
}

interface SameBuildReport {
  modes: Record<string, Ratio & { medians_us: number[] }>;
}

/** Compares one build's figures from four jobs as if they were those of two builds. */
export function sameBuildRows(folder: string): Table {
  const report = jsonOf<SameBuildReport>(folder, 'aa.json');
  return (
    report && [
      ['mode', 'medians, us', 'ratio', 'interval'],
      ...Object.entries(report.modes).map(([mode, { medians_us: medians, ratio, low, high }]) => [
        mode.toLowerCase(),
        medians.map((us) => us.toFixed(2)).join(', '),
        figure(ratio, 5),
        `${figure(low, 5)} to ${figure(high, 5)}`,
      ]),
    ]
  );
}

interface ClockReport {
  kernel: string;
  shape: string;
  nvml: { smClockMhz: number };
  modes: Record<string, StampedTimes>;
}

interface StampedTimes {
  withoutUs: number;
  withUs: number;
  withOverWithout?: Ratio;
  clocks: { medianMhz: number; p1Mhz: number; p99Mhz: number };
}

/** Samples with and without clock stamps around them, and the clocks. */
export function clockRows(folder: string): Table {
  const reports = filesOf(folder, /^clock\..*\.json$/).map((name) => jsonOf<ClockReport>(folder, name)!);
  if (reports.length === 0) return undefined;
  return [
    [
      'kernel',
      'shape',
      'mode',
      'without stamps, us',
      'with stamps, us',
      'with over without',
      'clock, MHz (p1 to p99)',
      'NVML, MHz',
    ],
    ...reports.flatMap(({ kernel, shape, nvml, modes }) =>
      Object.entries(modes).map(([mode, { withoutUs, withUs, withOverWithout, clocks }]) => [
        kernel,
        shape,
        mode,
        figure(withoutUs),
        figure(withUs),
        ratioText(withOverWithout),
        `${figure(clocks.medianMhz, 0)} (${figure(clocks.p1Mhz, 0)} to ${figure(clocks.p99Mhz, 0)})`,
        String(nvml.smClockMhz),
      ]),
    ),
  ];
}
