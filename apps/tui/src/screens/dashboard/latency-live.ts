/**
 * Latency on the dashboard: the running measurement, or the last that ended. The statistics come first, then the
 * distribution.
 */
import type { DeviceConditions, DeviceReading, LatencyStatistics } from '@flashcore/shared/contract';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { sampleStrip } from '../../present/cells/bars.ts';
import { histogram, histogramData } from '../../present/cells/histogram.ts';
import { fitRow, flowRows, labelled, run, textRow, type Row } from '../../present/cells/row.ts';
import { formatCount, formatMicroseconds } from '../../present/numbers.ts';
import { hostLoadText, isHostBusy } from '../../present/sections/conditions.ts';
import { MODE_WORDS, caseText } from '../../present/words.ts';
import type { AppState } from '../../state/app-state.ts';
import type { BenchmarkView, VariantView } from '../../state/job-view.ts';
import { attachedJob, shownVariant, variantsOf } from '../../state/selectors.ts';
import { racePane } from '../latency/tune-race.ts';
import { nothingYet } from '../pane/nothing.ts';
import { beside, type Size, type View } from '../pane/view.ts';

const SIDE_CELLS = 32;
const WIDE = 70;

export const latencyLive: View = ({ state }, size) => {
  const race = racePane(attachedJob(state), 'Latency', {
    ...size,
    selected: state.ui.selected.latency,
    focused: false,
  });
  if (race) return { ...race, remark: '3 details' };
  const shown = liveBenchmark(shownVariant(state));
  if (shown === undefined) return { title: 'Latency', body: nothingYet(state, 'latency', size) };
  const isLive = shown.result === undefined;
  return {
    title: `Latency  ${caseText(shown.shape)} ${MODE_WORDS[shown.mode]}${isLive ? '  LIVE' : ''}`,
    remark: '3 details, p ECDF',
    body: bodyRows(state, shown, size),
  };
};

/** The candidate's running measurement or, if there is none, the last one that ended. */
export function liveBenchmark(variant: VariantView | undefined): BenchmarkView | undefined {
  const own = (variant?.benchmarks ?? []).filter(({ subject }) => subject === 'candidate');
  return own.findLast(({ result }) => result === undefined) ?? own.at(-1);
}

/** Text such as "n 39/~56" while sampling. */
export function samplesText({ latency, expectedSamples = 0, result }: BenchmarkView): string {
  const samples = latency?.samples ?? 0;
  return result === undefined && expectedSamples > samples
    ? `${formatCount(samples)}/~${formatCount(expectedSamples)}`
    : formatCount(samples);
}

/** Half of the median's 95 % interval, such as "±1.9 %"; undefined if there are too few samples. */
export function halfWidthText({ samples, p50Us, p50LowUs, p50HighUs }: LatencyStatistics): string | undefined {
  if (samples < FEWEST_SAMPLES.interval || p50Us === 0) return undefined;
  return `±${(((p50HighUs - p50LowUs) / 2 / p50Us) * 100).toFixed(1)} %`;
}

function bodyRows(state: AppState, shown: BenchmarkView, { width, height }: Size): Row[] {
  const { latency, histogram: bins, warmUp } = shown;
  if (latency === undefined || latency.samples === 0)
    return [textRow(warmUp ? 'warming up: these samples do not count' : 'no samples yet', 'dim')];
  const statistics = statisticsRow(shown, latency, width);
  const data = histogramData(bins);
  const side = sideRows(state, shown);
  const room = height - 1;
  if (data === undefined || latency.samples < FEWEST_SAMPLES.interval)
    return [statistics, textRow(`a distribution needs ${FEWEST_SAMPLES.interval} samples`, 'dim'), ...side].slice(
      0,
      height,
    );
  if (width < WIDE) return [statistics, ...histogram(data, { width, height: room, counts: true })].slice(0, height);
  const plot = histogram(data, { width: width - SIDE_CELLS - 2, height: room, counts: true });
  return [statistics, ...beside(plot, [[], ...side].slice(0, room), { leftWidth: width - SIDE_CELLS - 2 })].slice(
    0,
    height,
  );
}

function statisticsRow(shown: BenchmarkView, latency: LatencyStatistics, width: number): Row {
  const { samples, p50Us, p90Us, p99Us, minUs, maxUs, dropped } = latency;
  // All figures share one unit, written once.
  const [, unit = ''] = formatMicroseconds(p50Us).split(' ');
  const time = (us: number): string => formatMicroseconds(us, p50Us).split(' ')[0] ?? '';
  const half = halfWidthText(latency);
  const groups = [
    labelled('p50', time(p50Us), 'title'),
    labelled('p90', samples < FEWEST_SAMPLES.p90 ? '-' : time(p90Us)),
    labelled('p99', samples < FEWEST_SAMPLES.p99 ? '-' : time(p99Us)),
    labelled('min', time(minUs)),
    labelled('max', `${time(maxUs)} ${unit}`),
    labelled('n', samplesText(shown)),
    ...(half === undefined ? [] : [labelled('95 %', half)]),
    ...(dropped > 0 ? [labelled('dropped', formatCount(dropped), 'bad')] : []),
  ];
  return fitRow(flowRows(groups, width)[0] ?? [], width);
}

/** Facts beside the plot: the pinned job, the host's load, and the samples in their order. */
function sideRows(state: AppState, shown: BenchmarkView): Row[] {
  const load = hostLoad(state, shown);
  const { views, ui } = state;
  const pinned = ui.pinned === undefined || ui.pinned === state.attached ? undefined : entryOf(views, ui.pinned);
  const other = variantsOf(pinned)[0]?.benchmarks.find(({ key }) => key === shown.key)?.latency;
  const own = shown.latency;
  const ratio = other === undefined || own === undefined || other.p50Us === 0 ? undefined : own.p50Us / other.p50Us - 1;
  return [
    ...(other === undefined || ratio === undefined
      ? []
      : [
          [
            run('pinned ', 'dim'),
            run(formatMicroseconds(other.p50Us, own?.p50Us)),
            // Emulator times are shown next to each other, but never compared.
            run(shown.simulated ? '  simulated' : `  this ${ratio > 0 ? '+' : ''}${(ratio * 100).toFixed(0)} %`),
          ] satisfies Row,
        ]),
    ...(load === undefined
      ? []
      : [[run('host load ', 'dim'), run(hostLoadText(load) ?? '', isHostBusy(load) ? 'warn' : 'text')] satisfies Row]),
    ...(shown.recent.length < 2
      ? []
      : [[run('in order ', 'dim'), ...sampleStrip(shown.recent, SIDE_CELLS - 9)] satisfies Row]),
  ];
}

/** Load of the emulator's host: the current load while it is sampling, afterwards the load during sampling. */
function hostLoad(state: AppState, { result }: BenchmarkView): DeviceReading | DeviceConditions | undefined {
  const device = attachedJob(state)?.device;
  const told = result === undefined ? entryOf(state.readings, device?.deviceId ?? '')?.at(-1) : result.conditions;
  return told?.hostLoad === undefined ? undefined : told;
}
