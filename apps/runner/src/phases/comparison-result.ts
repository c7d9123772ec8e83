import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  ShapeComparisonSchema,
  StopReason,
  type Shape,
  type ShapeComparison,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import {
  blockRatioInterval,
  describe,
  histogram,
  judgeShape,
  type BlockRatio,
  type Judgement,
} from '@flashcore/shared/statistics';
import type { ComparisonReport, PairedSamples } from '../../worker/messages/measuring.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import { MAX_DROPPED_SHARE } from '../findings/timing-findings.ts';
import { storeRaw } from './benchmark-phase.ts';

/** Samples of each build in a block. */
export const PER_BLOCK = 2;
/** Resamples for the running ratio; the final result uses more. */
const RUNNING_RESAMPLES = 500;
const LEAST_BLOCKS = 4;

/** Ratio of champion to candidate so far; undefined while there are too few blocks. */
export function runningRatio(champion: readonly number[], candidate: readonly number[]): BlockRatio | undefined {
  return champion.length < LEAST_BLOCKS * PER_BLOCK
    ? undefined
    : blockRatioInterval(champion, candidate, { perBlock: PER_BLOCK, resamples: RUNNING_RESAMPLES });
}

interface MeasuredShape {
  report: ComparisonReport;
  shape: Shape;
  simulated: boolean;
}

/** Evaluates the raw samples of a shape and stores them. */
export function shapeComparison(
  artifacts: ArtifactStore,
  { report, shape, simulated }: MeasuredShape,
): ShapeComparison {
  const { mode, pairs, self, clockSource, launchesPerSample, championCheck, candidateCheck, conditions } = report;
  const [kept, selfKept] = [chosen(pairs, 'kept'), chosen(self, 'kept')];
  const place = { shape, mode };
  const files: [string, Float32Array][] = [
    ['champion.samples', pairs.championUs],
    ['candidate.samples', pairs.candidateUs],
    ['self-1.samples', self.championUs],
    ['self-2.samples', self.candidateUs],
    ['champion.sm-clocks', pairs.championMhz],
    ['candidate.sm-clocks', pairs.candidateMhz],
    ['self-1.sm-clocks', self.championMhz],
    ['self-2.sm-clocks', self.candidateMhz],
  ];
  const comparison = create(ShapeComparisonSchema, {
    shape,
    mode: TIMING_MODES[mode],
    simulated,
    clockSource,
    launchesPerSample,
    conditions,
    ...ratiosOf(kept, selfKept),
    champion: describe(kept.championUs, { dropped: kept.dropped }),
    candidate: describe(kept.candidateUs, { dropped: kept.dropped }),
    championHistogram: histogram(kept.championUs),
    candidateHistogram: histogram(kept.candidateUs),
    blocks: kept.championUs.length / PER_BLOCK,
    droppedBlocks: (kept.dropped + selfKept.dropped) / PER_BLOCK,
    selfBlocks: selfKept.championUs.length / PER_BLOCK,
    stopReason: StopReason[pairs.stopReason],
    championOutputCheck: championCheck.detail,
    candidateOutputCheck: candidateCheck.detail,
    samples: files.map(([name, values]) => storeRaw(artifacts, values, { name, ...place })),
  });
  const judged = judgeShape(comparison, wrongOutput(report));
  const [dropped, taken] = [kept.dropped + selfKept.dropped, pairs.championUs.length + self.championUs.length];
  if (dropped <= MAX_DROPPED_SHARE * taken) return Object.assign(comparison, judged);
  const all = ratiosOf(chosen(pairs, 'all'), chosen(self, 'all'));
  return Object.assign(comparison, heldWith(judged, judgeShape({ ...comparison, ...all }), { dropped, taken }));
}

/** If many samples were dropped, the verdict holds only if including them gives the same verdict. */
function heldWith(
  judged: Judgement,
  withDropped: Judgement,
  { dropped, taken }: { dropped: number; taken: number },
): Judgement {
  if (judged.verdict === ComparisonVerdict.NOT_JUDGED) return judged;
  const slow = `${dropped} of ${taken} samples of each build were dropped, because the device slowed down`;
  return withDropped.verdict === judged.verdict
    ? { ...judged, reason: `${judged.reason} (${slow}; with them the answer is the same)` }
    : {
        verdict: ComparisonVerdict.NOT_JUDGED,
        reason: `${slow}, and with them the answer is another: ${withDropped.reason}`,
      };
}

interface Chosen {
  championUs: number[];
  candidateUs: number[];
  /** Empty if the clock of a chosen sample is unknown. */
  championCycles: number[];
  candidateCycles: number[];
  /** Number of dropped samples of each build. */
  dropped: number;
}

/** Times and cycles of the kept blocks, or of all blocks. */
function chosen({ championUs, candidateUs, championMhz, candidateMhz }: PairedSamples, which: 'kept' | 'all'): Chosen {
  const blocks = Array.from(
    { length: championUs.length / PER_BLOCK },
    (_, block) => [PER_BLOCK * block, PER_BLOCK * block + 1] as const,
  );
  const kept = which === 'all' ? blocks : blocks.filter(([first]) => championUs[first]! > 0);
  // Dropped samples are negative.
  const us = (times: Float32Array, place: number): number => Math.abs(times[place]!);
  const clocked = kept.filter((places) => places.every((place) => championMhz[place]! > 0 && candidateMhz[place]! > 0));
  const pick = (from: readonly (readonly [number, number])[], value: (place: number) => number): number[] =>
    from.flat().map(value);
  return {
    championUs: pick(kept, (place) => us(championUs, place)),
    candidateUs: pick(kept, (place) => us(candidateUs, place)),
    // MHz times microseconds.
    championCycles: pick(clocked, (place) => us(championUs, place) * championMhz[place]!),
    candidateCycles: pick(clocked, (place) => us(candidateUs, place) * candidateMhz[place]!),
    dropped: championUs.length - PER_BLOCK * kept.length,
  };
}

type Ratios = Partial<Record<'time' | 'cycles' | 'selfTime' | 'selfCycles', BlockRatio>>;

/** Only the ratios that were measured. */
function ratiosOf(pairs: Chosen, self: Chosen): Ratios {
  const ratios = {
    time: ratioOf(pairs.championUs, pairs.candidateUs),
    cycles: ratioOf(pairs.championCycles, pairs.candidateCycles),
    selfTime: ratioOf(self.championUs, self.candidateUs),
    selfCycles: ratioOf(self.championCycles, self.candidateCycles),
  };
  return Object.fromEntries(Object.entries(ratios).filter(([, ratio]) => ratio !== undefined));
}

function ratioOf(champion: readonly number[], candidate: readonly number[]): BlockRatio | undefined {
  return champion.length === 0 ? undefined : blockRatioInterval(champion, candidate, { perBlock: PER_BLOCK });
}

function wrongOutput({ championCheck, candidateCheck }: ComparisonReport): string | undefined {
  if (!championCheck.passed) return `the champion's output was wrong ${championCheck.detail}`;
  return candidateCheck.passed ? undefined : `the candidate's output was wrong ${candidateCheck.detail}`;
}
