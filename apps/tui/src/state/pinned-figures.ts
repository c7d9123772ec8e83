/** Every figure that both jobs have, side by side: latency, resources, errors and counters. */
import { Verdict, type Metric } from '@flashcore/shared/contract';
import type { EntryFigureName } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES, entryOf } from '@flashcore/shared/text';
import { formatBytes, formatError, formatMicroseconds, formatNumber } from '../present/numbers.ts';
import type { FigureGroup, Missing, PairedFigure, PairedTime } from '../present/sections/paired.ts';
import { mostOf, problemsDiffer, type ComparedJob, type LatencyPair, type PinnedComparison } from './pinned.ts';
import type { VariantView } from './job-view.ts';
import { MODE_WORDS, shapeShort } from '../present/words.ts';

export const LATENCY = 'Latency, p50';
export function figureGroups(comparison: PinnedComparison): FigureGroup[] {
  const differ = problemsDiffer(comparison);
  const group = (title: string, figures: readonly PairedFigure[], notCompared = differ): FigureGroup => ({
    title,
    figures,
    missing: missingOf(comparison, 'counters'),
    notCompared: differ ?? notCompared,
  });
  return [
    {
      ...group(LATENCY, latencyFigures(comparison)),
      missing: comparison.pairs.length > 0 ? { notCompared: differ ?? EMULATOR_TIMES } : missingOf(comparison, 'times'),
    },
    ...estimateGroup(comparison, group),
    group('Build', buildFigures(comparison)),
    group('Correctness', errorFigures(comparison), inputsDiffer(comparison)),
    group(`Hardware counters${placeText(comparison)}`, counterFigures(comparison), launchesDiffer(comparison)),
  ];
}

type NewGroup = (title: string, figures: readonly PairedFigure[], notCompared?: string) => FigureGroup;

/** A model's word on the time of both builds; empty if neither job asked the model. */
function estimateGroup(comparison: PinnedComparison, group: NewGroup): FigureGroup[] {
  const estimates = estimatesOf(comparison);
  if (estimates === undefined) return [];
  const title = `Estimated time${placeText(comparison)}, by a model, not measured`;
  if (typeof estimates === 'string') return [{ ...group(title, []), missing: { notCompared: estimates } }];
  const { device, beforeUs, afterUs } = estimates;
  const figure: PairedFigure = {
    name: `hot on ${device}`,
    before: beforeUs,
    after: afterUs,
    format: (value) => formatMicroseconds(value, beforeUs),
    better: 'less',
  };
  return [{ ...group(title, [figure], launchesDiffer(comparison)), remark: estimates.error }];
}

interface Estimates {
  readonly device: string;
  readonly beforeUs: number;
  readonly afterUs: number;
  /** Text such as "the ratio of two builds is 8 % off on average". */
  readonly error: string;
}

/** The estimates of both jobs, or why there are none to compare; undefined if neither job asked the model. */
function estimatesOf({ pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>): Estimates | string | undefined {
  const [before, after] = [pinned, shown].map(({ variant: { profile } }) => profile?.estimate);
  if (before === undefined && after === undefined) return undefined;
  if (before === undefined) return 'the pinned job has no profile';
  if (after === undefined) return 'the shown job has no profile';
  if (before.missing !== undefined && before.missing === after.missing) return before.missing;
  if (before.missing !== undefined) return `the pinned job has none: ${before.missing}`;
  if (after.missing !== undefined) return `the shown job has none: ${after.missing}`;
  return {
    device: after.device,
    beforeUs: before.latencyUs,
    afterUs: after.latencyUs,
    error: `the ratio of two builds is ${after.ratioErrorPercent.toFixed(0)} % off on average`,
  };
}

/**
 * The model's result for two jobs that have no GPU times to compare, or why it has none; empty if neither job
 * asked it.
 */
export function estimatesText(comparison: PinnedComparison): string {
  const estimates = estimatesOf(comparison);
  if (estimates === undefined) return '';
  if (typeof estimates === 'string') return `No estimates to compare: ${estimates}.`;
  const { device, beforeUs, afterUs, error } = estimates;
  const differ = problemsDiffer(comparison) ?? launchesDiffer(comparison);
  const both = `${formatMicroseconds(beforeUs)} pinned, ${formatMicroseconds(afterUs, beforeUs)} shown`;
  if (differ !== undefined) return `Estimates hot on ${device}: ${both}, not compared: ${differ}.`;
  const change = ((afterUs - beforeUs) / beforeUs) * 100;
  return `Estimated hot${placeText(comparison)} on ${device}: ${both}, ${change > 0 ? '+' : ''}${change.toFixed(0)} %; by a model, and ${error}.`;
}

/** Counters that cost time, and their names in a sentence. */
const COSTS: readonly (readonly [counter: string, name: string])[] = [
  ['ptx_instructions', 'instructions'],
  ['smem_wavefronts_per_request', 'shared-memory wavefronts a request'],
  ['smem_bank_conflict_percent', 'bank conflicts'],
];
/** Changes below this share are not worth a word. */
const LEAST_CHANGE = 0.005;

/**
 * Says what the shown job costs more or less than the pinned one, by the emulator's counts: "shown needs 88 % fewer
 * instructions, but 74 points more bank conflicts (…)". Empty if the counts can't be compared, or if none differs.
 */
export function countsText(comparison: PinnedComparison): string {
  if ((problemsDiffer(comparison) ?? launchesDiffer(comparison)) !== undefined) return '';
  const figures = counterFigures(comparison);
  const changes = COSTS.flatMap(([counter, noun]) => {
    const { before = 0, after = 0, isPercent = false } = figures.find(({ name }) => name === counter) ?? {};
    const change = isPercent ? (after - before) / 100 : after / before - 1;
    if (!Number.isFinite(change) || Math.abs(change) < LEAST_CHANGE) return [];
    return [{ isMore: change > 0, text: changeText(change, isPercent, noun) }];
  });
  const [fewer, more] = [false, true].map((wanted) =>
    changes.flatMap(({ isMore, text }) => (isMore === wanted ? [text] : [])).join(' and '),
  );
  const all = [fewer, more].filter((text) => text !== '').join(', but ');
  return all === '' ? '' : `shown needs ${all} (counts of the emulator${placeText(comparison)}, not GPU times)`;
}

/** Text such as "88 % fewer instructions", "12 times the wavefronts" or, of a share, "74 points more conflicts". */
function changeText(change: number, isPercent: boolean, noun: string): string {
  const amount = formatNumber(Number((Math.abs(change) * 100).toPrecision(2)));
  if (isPercent) return `${amount} points ${change > 0 ? 'more' : 'fewer'} ${noun}`;
  if (change >= 1) return `${formatNumber(Number((change + 1).toPrecision(2)))} times the ${noun}`;
  return `${amount} % ${change > 0 ? 'more' : 'fewer'} ${noun}`;
}

/** Which of two jobs was not measured; 'common' if both were, but nothing of one in the other. */
export function missingOf(
  { pinned, shown }: Pick<PinnedComparison, 'pinned' | 'shown'>,
  figures: 'times' | 'counters',
): Missing {
  const has = ({ variant }: ComparedJob): boolean =>
    figures === 'times'
      ? variant.benchmarks.some(({ subject, result }) => subject === 'candidate' && result !== undefined)
      : profiledMetrics(variant).length > 0;
  if (has(pinned)) return has(shown) ? 'common' : 'after';
  return has(shown) ? 'before' : 'both';
}

/** Errors of two jobs can be compared only on the same cases and the same inputs. */
function inputsDiffer({ pinned, shown }: PinnedComparison): string | undefined {
  const casesOf = ({ cases }: VariantView): string => cases.map(({ shape }) => shapeShort(shape)).join(' ');
  if (casesOf(pinned.variant) !== casesOf(shown.variant)) return 'the jobs ran different cases';
  const inputsOf = ({ job: { provenance }, variant: { verify } }: ComparedJob): string =>
    [provenance?.inputsVersion, ...(verify?.seeds ?? [])].join(' ');
  return inputsOf(pinned) === inputsOf(shown) ? undefined : 'each job drew its own random inputs';
}

/** The shape of both profiles, which is often not that of the times; empty if they differ. */
function placeText({ pinned, shown }: PinnedComparison): string {
  const [before, after] = [pinned, shown].map(
    ({ variant: { profile } }) => profile?.shape && shapeShort(profile.shape),
  );
  return before === undefined || before !== after ? '' : ` at ${before}`;
}

/** Counters are of one launch, so they depend on its device and shape. */
function launchesDiffer({ pinned, shown }: PinnedComparison): string | undefined {
  const [pinnedDevice, shownDevice] = [pinned, shown].map(({ job: { device } }) => device?.name ?? 'another device');
  if (pinnedDevice !== shownDevice) return `profiled on ${pinnedDevice} and on ${shownDevice}`;
  const [before, after] = [pinned, shown].map(({ variant: { profile } }) => shapeShort(profile?.shape));
  return before === after ? undefined : `profiled at ${before ?? ''} and at ${after ?? ''}`;
}

export const pairedTime = ({ pinned, shown, ratio, verdict, notCompared }: LatencyPair): PairedTime => ({
  shape: shapeShort(shown.shape),
  mode: MODE_WORDS[shown.mode],
  beforeUs: pinned.latency?.p50Us,
  afterUs: shown.latency?.p50Us,
  ratio,
  verdict,
  notCompared,
});

/** The latency figures that may be compared, so those of the emulator are left out. */
const latencyFigures = ({ pairs }: PinnedComparison): PairedFigure[] =>
  pairs
    .filter(({ pinned, shown }) => !pinned.simulated && !shown.simulated)
    .map(({ pinned, shown, notCompared }) => ({
      name: `${shapeShort(pinned.shape)} ${MODE_WORDS[pinned.mode]}`,
      before: pinned.latency?.p50Us,
      after: shown.latency?.p50Us,
      format: (value) => formatMicroseconds(value, pinned.latency?.p50Us),
      better: 'less',
      isNotCompared: notCompared !== undefined,
    }));

function buildFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): PairedFigure[] {
  const figure = (
    name: string,
    of: EntryFigureName,
    format: PairedFigure['format'],
    better: PairedFigure['better'],
  ): PairedFigure => ({ name, before: mostOf(pinned, of), after: mostOf(shown, of), format, better });
  const percent = (value: number): string => `${formatNumber(Math.round(value * 10) / 10)} %`;
  return [
    figure('registers/thread', 'registers_per_thread', formatNumber, 'less'),
    figure('SMEM/CTA', 'smem_bytes_per_cta', formatBytes, 'less'),
    figure('spills', 'spill_bytes', formatBytes, 'less'),
    figure('stack', 'local_bytes', formatBytes, 'less'),
    figure('threads/CTA', 'threads_per_cta', formatNumber, undefined),
    figure('CTAs/SM', 'theoretical_ctas_per_sm', formatNumber, 'more'),
    { ...figure('occupancy', 'theoretical_occupancy_percent', percent, 'more'), isPercent: true },
  ];
}

function errorFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): PairedFigure[] {
  const most = ({ cases }: VariantView): number | undefined =>
    cases.length === 0 ? undefined : Math.max(...cases.map(({ maxAbsError }) => maxAbsError));
  const sum = ({ cases }: VariantView): number | undefined =>
    cases.length === 0 ? undefined : cases.reduce((total, { mismatches }) => total + Number(mismatches), 0);
  return [
    { name: 'largest error', before: most(pinned), after: most(shown), format: formatError, better: 'less' },
    { name: 'mismatches', before: sum(pinned), after: sum(shown), format: formatNumber, better: 'less' },
  ];
}

// The better direction of each counter. For a counter that is not listed, neither direction is better.
const BETTER: Record<string, PairedFigure['better']> = {
  gpu_time_us: 'less',
  tensor_pipe_percent: 'more',
  l2_hit_percent: 'more',
  smem_bank_conflict_percent: 'less',
  smem_wavefronts_per_request: 'less',
  achieved_occupancy_percent: 'more',
  local_load_instructions: 'less',
  local_store_instructions: 'less',
};

const profiledMetrics = ({ profile }: VariantView): readonly Metric[] =>
  profile?.verdict === Verdict.PASS ? profile.metrics : [];

function counterFigures({ pinned: { variant: pinned }, shown: { variant: shown } }: PinnedComparison): PairedFigure[] {
  const others = profiledMetrics(shown);
  return profiledMetrics(pinned).flatMap(({ name, unit, value }) => {
    const other = others.find((metric) => metric.name === name);
    return other === undefined
      ? []
      : [
          {
            name,
            before: value,
            after: other.value,
            // Counts keep all their digits, so that the two counts differ by exactly the difference shown.
            format: (given: number) => formatNumber(Number.isInteger(given) ? given : Number(given.toPrecision(4))),
            unit: unit.replace('instructions', 'instr.'),
            isPercent: unit === '%',
            better: entryOf(BETTER, name),
          },
        ];
  });
}
