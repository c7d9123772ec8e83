/** The device's roofline with the kernel's measurements on it, and their distances to the roof in words. */
import { TimingMode, type Device } from '@flashcore/shared/contract';
import { arithmeticPeak } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES } from '@flashcore/shared/text';
import { formatMicroseconds, formatNumber } from '../../present/numbers.ts';
import { ridgeOf, roofAt, roofline, type RooflinePoint } from '../../present/cells/roofline.ts';
import { textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import type { AppState } from '../../state/app-state.ts';
import type { BenchmarkView, VariantView } from '../../state/job-view.ts';
import { attachedJob } from '../../state/selectors.ts';
import { dtypeOf, usesTensorCores } from '../../present/plots/job-plots.ts';
import { MODE_WORDS, shapeShort, notMeasured } from '../../present/words.ts';
import { type Size } from '../pane/view.ts';

interface Measured extends RooflinePoint {
  readonly what: string;
}

const MARKS = '◆◇ABCDEFGH';
const LEAST_WIDTH = 40;

/** Title, plot, and a line for each point. Without GPU times there are no points, and a text says so. */
export function rooflineRows(
  state: AppState,
  { benchmarks, build, profile }: VariantView,
  { width, height }: Size,
): Row[] {
  const { device, provenance } = attachedJob(state) ?? {};
  const roof = device?.roofline;
  const title = textRow(`Roofline${device === undefined ? '' : `, ${device.name}`}`, 'title');
  if (device === undefined || roof === undefined || roof.fp16TensorTflops <= 0)
    return [title, ...wrapRows('no ceilings are known for this device', width, { role: 'dim' })];
  if (build !== undefined && device.simulated && isOtherArch(build.arch, device.arch))
    return [
      title,
      ...wrapRows(`the build is for ${build.arch}, and ${device.name} is ${device.arch}`, width, { role: 'dim' }),
    ];
  const { tflops: peakTflops, units } = arithmeticPeak(roof, {
    dtype: dtypeOf(provenance),
    tensorCores: usesTensorCores({ build, profile }),
  });
  const ceilings = { peakTflops, memoryGbPerSecond: roof.memoryGbPerSecond };
  const unused =
    units === 'fp32 units'
      ? `; tensor cores, which this kernel does not use, have ${formatNumber(roof.fp16TensorTflops)} TFLOP/s`
      : '';
  const ridge = `${formatNumber(ceilings.peakTflops)} TFLOP/s of ${units}, ${formatNumber(roof.memoryGbPerSecond)} GB/s, ridge at ${Math.round(ridgeOf(ceilings))} FLOP/B${unused}`;
  const points = measuredPoints(benchmarks, device);
  if (points.length === 0)
    return [
      title,
      ...wrapRows(`${ridge} (${roof.source})`, width, { role: 'dim' }),
      ...wrapRows(device.simulated ? notMeasured(EMULATOR_TIMES) : 'no shape was timed in this job', width, {
        role: 'dim',
      }),
    ];
  return [
    title,
    ...(width < LEAST_WIDTH ? [] : roofline({ ...ceilings, points }, { width, height })),
    ...points.flatMap(({ mark, what, role, intensity, tflops }) =>
      wrapRows(
        `${mark} ${what}: ${formatNumber(tflops)} TFLOP/s at ${formatNumber(Math.round(intensity))} FLOP/B, ${shareText((100 * tflops) / roofAt(ceilings, intensity), intensity < ridgeOf(ceilings) ? 'memory' : units)}`,
        width,
        { role, hang: 2 },
      ),
    ),
    ...wrapRows(ridge, width, { role: 'dim', hang: 2 }),
  ];
}

/**
 * True if the build is for another architecture. "sm_90a" counts as sm_90; an empty text is an unknown architecture.
 */
const isOtherArch = (build: string, device: string): boolean =>
  build !== '' && device !== '' && build.replace(/[af]$/, '') !== device.replace(/[af]$/, '');

/**
 * The distance to the roof in words. A point above the memory roof is valid: the roof assumes one read of every tensor
 * from device memory, and data in L2 arrives faster.
 */
function shareText(percent: number, ceiling: string): string {
  const text = `${percent.toFixed(1)} % of the roof`;
  return percent > 100 && ceiling === 'memory'
    ? `${text} (tensors in L2 come faster than from memory)`
    : `${text} (${ceiling} above)`;
}

/** The candidate's own measurements. Hot and cold times of a shape are two points at the same intensity. */
function measuredPoints(benchmarks: readonly BenchmarkView[], device: Device): Measured[] {
  if (device.simulated) return [];
  return benchmarks
    .flatMap(({ subject, shape, mode, latency, result }) =>
      subject === 'candidate' && result?.tflops !== undefined && result.bytes > 0
        ? [
            {
              what: `${shapeShort(shape)} ${MODE_WORDS[mode]}, ${formatMicroseconds(latency?.p50Us ?? NaN)}`,
              intensity: result.flops / result.bytes,
              tflops: result.tflops,
              role: mode === TimingMode.HOT ? ('warn' as const) : ('accent' as const),
            },
          ]
        : [],
    )
    .slice(0, MARKS.length)
    .map((point, index) => ({ ...point, mark: MARKS[index] ?? '+' }));
}
