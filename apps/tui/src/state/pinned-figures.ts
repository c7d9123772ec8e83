/** Every figure that both jobs have, side by side: latency, resources, errors and counters. */
import { Verdict, type Metric } from '@flashcore/shared/contract';
import type { EntryFigureName } from '@flashcore/shared/kernels';
import { EMULATOR_TIMES, entryOf } from '@flashcore/shared/text';
import { formatBytes, formatError, formatMicroseconds, formatNumber } from '../present/numbers.ts';
import type { FigureGroup, Missing, PairedFigure, PairedTime } from '../present/sections/paired.ts';
import { mostOf, problemsDiffer, type ComparedJob, type LatencyPair, type PinnedComparison } from './pinned.ts';
import type { VariantView } from './job-view.ts';
import { MODE_WORDS, shapeShort } from '../present/words.ts';

const LATENCY = 'Latency, p50';
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
    group('Build', buildFigures(comparison)),
    group('Correctness', errorFigures(comparison), inputsDiffer(comparison)),
    group(`Hardware counters${placeText(comparison)}`, counterFigures(comparison), launchesDiffer(comparison)),
  ];
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
