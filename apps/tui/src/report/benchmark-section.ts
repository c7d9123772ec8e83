import {
  StopReason,
  TimingMode,
  type SdpaResult,
  type BenchmarkResult,
  type DeviceConditions,
  type LatencyStatistics,
} from '@flashcore/shared/contract';
import { knowsPercentile } from '@flashcore/shared/statistics';
import type { ReportFormat } from './format.ts';
import { histogramLines } from './histogram.ts';
import { count, figure, inUnit, shapeText, time, timeUnit } from './numbers.ts';
import { table } from './table.ts';
import { heading, labelled, paragraph } from './text.ts';
import { notMeasured } from '../present/words.ts';

/** What must stand beside every time that the emulator gave. */
export const SIMULATED = 'simulated: emulator times are not GPU times';

const MODES: Partial<Record<TimingMode, string>> = {
  [TimingMode.COLD]: 'cold (L2 flushed, isolated launches)',
  [TimingMode.HOT]: 'hot (back to back)',
};
const powerText = ({ powerW, powerLimitW }: DeviceConditions): string =>
  powerW === undefined ? '' : `${figure(powerW)} W${powerLimitW === undefined ? '' : ` of ${figure(powerLimitW)}`}`;
const STOPS: Partial<Record<StopReason, string>> = {
  [StopReason.CONVERGED]: 'converged',
  [StopReason.NOISE_FLOOR]: 'the most that the protocol takes; the rest is noise',
  [StopReason.SAMPLE_LIMIT]: 'as many as asked for',
  [StopReason.TIMED_OUT]: 'time limit reached before the interval was narrow enough',
};

/** One shape in one timing mode: percentiles, histogram, throughput, sdpa, conditions. */
export function benchmarkSection(result: BenchmarkResult, format: ReportFormat): string[] {
  const mode = MODES[result.mode] ?? 'unknown timing mode';
  return [
    ...heading(`Latency ${shapeText(result.shape)}`, mode, format),
    ...(result.simulated ? paragraph(SIMULATED, format, 2, 'yellow') : []),
    ...(result.latency ? statistics(result.latency, format) : []),
    ...(result.histogram && (result.latency?.samples ?? 0) >= FEWEST_FOR_PERCENTILES
      ? histogramLines(result.histogram, format, timeUnit(result.latency?.p50Us ?? 0))
      : []),
    ...labelled('samples', samplesText(result), format),
    ...throughput(result, format),
    ...sdpa(result, format),
    ...(result.legacyLoop
      ? labelled(
          'legacy loop',
          `${time(result.legacyLoop.meanUs)}, ${result.legacyLoop.warning} (${result.legacyLoop.launches} launches)`,
          format,
        )
      : []),
    ...labelled('conditions', conditionsText(result.conditions), format),
    ...(result.clockSource ? labelled('clock', `${result.clockSource}${slowedText(result)}`, format) : []),
    ...(result.outputCheck ? labelled('checked', result.outputCheck, format) : []),
    ...(result.valid ? [] : labelled('not valid', result.invalidReason || 'no reason given', format)),
  ];
}

// Fewer samples have no 90th percentile, and an interval that is only their extremes.
const FEWEST_FOR_PERCENTILES = 5;

function statistics(latency: LatencyStatistics, format: ReportFormat): string[] {
  const unit = timeUnit(latency.p50Us);
  if (latency.samples < FEWEST_FOR_PERCENTILES) {
    const [low, middle, high] = [latency.minUs, latency.p50Us, latency.maxUs].map((value) => inUnit(value, unit));
    const text =
      latency.samples === 1
        ? `${middle} ${unit.name}, one sample`
        : `${low} to ${high} ${unit.name}, median ${middle} ${unit.name}`;
    return paragraph(`${text}; percentiles and intervals need ${FEWEST_FOR_PERCENTILES} samples or more`, format, 2);
  }
  const columns = ['p50', 'p90', 'p99', 'mean', 'stddev', 'min', 'max'].map((title) => ({
    title,
    align: 'right' as const,
  }));
  const percentile = (share: number, value: number): string =>
    knowsPercentile(latency.samples, share) ? inUnit(value, unit) : '-';
  const moments = [latency.meanUs, latency.stddevUs, latency.minUs, latency.maxUs].map((value) => inUnit(value, unit));
  const [head = '', row = ''] = table(
    columns,
    [[inUnit(latency.p50Us, unit), percentile(0.9, latency.p90Us), percentile(0.99, latency.p99Us), ...moments]],
    format,
  );
  const interval = `p50 within [${inUnit(latency.p50LowUs, unit)}, ${inUnit(latency.p50HighUs, unit)}] ${unit.name} at 95 %`;
  return [head, `${row}  ${unit.name}`, ...paragraph(interval, format, 2, 'dim')];
}

function slowedText({ slowedSamples, throttledSamples, latency }: BenchmarkResult): string {
  const percent = (samples: number): string => ((100 * samples) / latency!.samples).toFixed(0);
  const parts = [
    slowedSamples > 0 && latency ? `it fell in ${percent(slowedSamples)} % of the samples` : '',
    throttledSamples > 0 && latency ? `the device was throttled in ${percent(throttledSamples)} %` : '',
  ].filter(Boolean);
  return parts.length === 0
    ? ''
    : `; ${parts.join(', ')}; they are kept: those of the sdpa have no clock to drop them by`;
}

function samplesText(result: BenchmarkResult): string {
  const latency = result.latency;
  if (!latency) return 'none';
  return [
    String(latency.samples),
    latency.dropped > 0 ? `${latency.dropped} dropped (throttled, or the clock fell)` : '',
    result.launchesPerSample > 1 ? `${result.launchesPerSample} launches each` : '',
    STOPS[result.stopReason] ?? '',
    result.eventOverheadUs > 0 ? `empty event pair ${time(result.eventOverheadUs)}` : '',
  ]
    .filter(Boolean)
    .join('; ');
}

function throughput(result: BenchmarkResult, format: ReportFormat): string[] {
  const parts = [
    result.tflops === undefined ? '' : `${figure(result.tflops)} TFLOP/s`,
    result.gbPerSecond === undefined ? '' : `${figure(result.gbPerSecond)} GB/s`,
    result.rooflinePercent === undefined ? '' : rooflineText(result.rooflinePercent, result),
  ].filter(Boolean);
  return parts.length === 0 ? [] : labelled('throughput', parts.join(', '), format);
}

/** The roofline has Q, K, V and O come from device memory once: what L2 holds is faster than that. */
function rooflineText(percent: number, { leastUs, leastBasis }: BenchmarkResult): string {
  const text = `${figure(percent, 3)} % of the roofline`;
  if (percent <= 100) return text;
  return `${text}, which counts every tensor from device memory once${leastUs === undefined ? '' : `; the least possible here is ${time(leastUs)}: ${leastBasis ?? 'basis not known'}`}`;
}

function sdpa(result: BenchmarkResult, format: ReportFormat): string[] {
  if (result.sdpa.length === 0)
    return labelled('sdpa', result.sdpaMissing ? notMeasured(result.sdpaMissing) : 'none asked for', format);
  return result.sdpa.flatMap((baseline) => labelled('baseline', baselineText(baseline), format));
}

function baselineText(baseline: SdpaResult): string {
  const p50 = baseline.latency ? `p50 ${time(baseline.latency.p50Us)}, ` : '';
  const speedup = `${figure(baseline.speedup)} x [${figure(baseline.speedupLow)}, ${figure(baseline.speedupHigh)}]`;
  return `${baseline.name}: ${p50}speedup ${speedup} (${baseline.version})`;
}

/** Clocks, temperature, power; or why they are not known. */
export function conditionsText(conditions: DeviceConditions | undefined): string {
  if (!conditions) return 'not recorded';
  const known = [
    conditions.smClockMhz === undefined
      ? ''
      : `SM ${figure(conditions.smClockMhz)} MHz${conditions.maxSmClockMhz === undefined ? '' : ` of ${figure(conditions.maxSmClockMhz)}`}`,
    conditions.memoryClockMhz === undefined ? '' : `memory ${figure(conditions.memoryClockMhz)} MHz`,
    conditions.temperatureC === undefined ? '' : `${figure(conditions.temperatureC)} °C`,
    powerText(conditions),
    conditions.persistenceMode === undefined ? '' : `persistence ${conditions.persistenceMode ? 'on' : 'off'}`,
    conditions.throttleReasons.length > 0 ? `throttled: ${conditions.throttleReasons.join(', ')}` : '',
    conditions.otherProcesses ? count(conditions.otherProcesses, 'other process') : '',
    conditions.notMeasured ? notMeasured(conditions.notMeasured) : '',
  ].filter(Boolean);
  return known.join(', ') || 'not recorded';
}
