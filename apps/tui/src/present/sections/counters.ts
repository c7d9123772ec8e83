/** Hardware counters, the kernel's limiting factor and advice; or the reason why there are no counters. */
import { Verdict, type Metric, type ProfileResult, type TimeEstimate } from '@flashcore/shared/contract';
import { fact, facts, heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { formatInUnit, formatNumber } from '../numbers.ts';
import { piece, type Piece } from '../roles.ts';
import { notMeasured, caseText } from '../words.ts';
import { artifactText } from './build.ts';

const METRIC_COLUMNS: readonly Column<Metric>[] = [
  { title: 'counter', cell: ({ name }) => name, shrinkTo: 26 },
  { title: 'value', align: 'right', cell: ({ value, unit }) => formatInUnit(value, unit) },
  {
    title: 'source',
    drop: 1,
    shrinkTo: 10,
    cell: (metric) => piece(isLongSource(metric) ? '' : sourceText(metric), 'dim'),
  },
];

const LONG_SOURCE = 48;

/** The source of a counter. A trailing copy of the counter's name is left out. */
const sourceText = ({ name, source }: Metric): string =>
  source.endsWith(` ${name}`) ? source.slice(0, -name.length - 1) : source;

/** True if the source is shown below the figure, because in the table it would widen every line. */
const isLongSource = (metric: Metric): boolean => sourceText(metric).length > LONG_SOURCE;

const MOST_STALLS = 10;

/** Stalls by size; negligible ones are left out. */
function stallsPlot({ stalls }: ProfileResult): Block[] {
  if (stalls.length === 0) return [];
  const shown = stalls.filter(({ value }) => value > 0).slice(0, MOST_STALLS);
  const all = stalls.reduce((sum, { value }) => sum + value, 0);
  const bars = shown.map(({ name, value }) => ({
    label: name,
    value,
    text: `${value.toFixed(2)}  ${Math.round((100 * value) / all)} %`,
  }));
  return [
    heading('Stalls', 'warp cycles per issued instruction'),
    { kind: 'plot', drawing: { type: 'bars', bars, full: Math.max(...shown.map(({ value }) => value), 1e-9) } },
  ];
}

/** Says how the launch was profiled. */
export const launchText = ({ modelled }: ProfileResult): string =>
  modelled ? 'one launch counted on the emulator' : 'one launch under the profiler';

/** Says what bounds the kernel; empty if the profile does not tell. */
export const boundText = ({ bottleneck = '', modelled }: ProfileResult): string =>
  bottleneck === '' ? '' : `${modelled ? 'Modelled as bound' : 'Bound'} by ${bottleneck}`;

/** The estimate, always with its error; empty if there is none and no reason is given. */
export function estimateText(estimate: TimeEstimate | undefined): string {
  if (estimate === undefined) return '';
  const { device, latencyUs, meanErrorPercent, ratioErrorPercent, missing } = estimate;
  if (missing !== undefined) return `none: ${missing}`;
  const error = `mean error ${meanErrorPercent.toFixed(0)} %, between two builds of a kernel ${ratioErrorPercent.toFixed(0)} %`;
  return `${formatInUnit(latencyUs, 'us')} hot on ${device}, by a model (${error}); not measured, and no gate uses it`;
}

const longSource = (metric: Metric): Piece | undefined =>
  isLongSource(metric) ? piece(sourceText(metric), 'dim') : undefined;

export function profileBlocks(profile: ProfileResult): Block[] {
  if (profile.verdict === Verdict.NOT_MEASURED)
    return [heading('Profile'), notice(notMeasured(profile.reason), 'dim', '○')];
  return [
    heading('Profile', `${caseText(profile.shape)}, ${launchText(profile)}`),
    ...(profile.metrics.length === 0 ? [] : [tableOf(METRIC_COLUMNS, profile.metrics, longSource)]),
    facts(
      fact('missing', profile.reason ?? ''),
      fact('intensity', `${formatNumber(profile.arithmeticIntensity)} FLOP/B`),
      fact(profile.modelled ? 'modelled, bound by' : 'bound by', profile.bottleneck ?? ''),
      fact('estimate', estimateText(profile.estimate)),
      ...profile.advice.map(({ text, evidence }) => fact('try', `${text} (${evidence})`)),
      ...profile.artifacts.map((artifact) => fact('report', artifactText(artifact))),
    ),
    ...stallsPlot(profile),
  ];
}
