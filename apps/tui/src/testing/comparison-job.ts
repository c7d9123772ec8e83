/**
 * A constructed job with a champion: flashcore_v10 against flashcore_v9. Its figures come from two measured jobs,
 * although a runner would measure both kernels in turns.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  Phase,
  Verdict,
  type BenchmarkResult,
  type JobEvent,
  type JobEventSchema,
  type ShapeComparisonSchema,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { ratioInterval } from '@flashcore/shared/statistics';
import { samplesOf } from '../state/pinned.ts';
import { measuredArtifact, measuredEvents, measuredJob, type MeasuredName } from './measured-job.ts';
import { eventsOf } from './sample-job.ts';

type PayloadInit = NonNullable<MessageInitShape<typeof JobEventSchema>['payload']>;

const JOB = 'jobs/aaaaaaaa-0000-4000-8000-00000000a9a9';
const RULE = { acceptRatio: 1.03, floorRatio: 0.99, noiseLimit: 0.015 };

const benchmarksOf = (name: MeasuredName): BenchmarkResult[] => measuredJob(name).result?.variants[0]?.benchmarks ?? [];
const samples = ({ samples: artifact }: BenchmarkResult): number[] =>
  samplesOf(measuredArtifact(artifact?.sha256 ?? '') ?? new Uint8Array());

/** The experiment of flashcore_v10, with a comparison before its end. */
export function comparisonEvents(): JobEvent[] {
  const events = measuredEvents('flashcore_v10');
  const shapes = benchmarksOf('flashcore_v9').map((champion, index) =>
    shapeComparison(champion, benchmarksOf('flashcore_v10')[index] ?? champion),
  );
  const compared: PayloadInit[] = [
    { case: 'phaseStarted', value: { phase: Phase.COMPARE, variant: 'SMS=132', steps: shapes.length } },
    ...shapes.map((value): PayloadInit => ({ case: 'shapeComparison', value })),
    {
      case: 'comparisonResult',
      value: {
        shapes,
        rule: RULE,
        verdict: ComparisonVerdict.FASTER,
        reason: 'every shape at least 1.03 times as fast, in time',
        seconds: 3.1,
        champion: { label: 'flashcore_v9 BLOCK_Q=64 STAGES=2', kernelId: 'flashcore_v9', verified: Verdict.PASS },
        candidate: { label: 'flashcore_v10 SMS=132', kernelId: 'flashcore_v10', verified: Verdict.PASS },
      },
    },
  ];
  return eventsOf([...events.slice(0, -1).map(({ payload }) => payload as PayloadInit), ...compared], JOB);
}

function shapeComparison(
  champion: BenchmarkResult,
  candidate: BenchmarkResult,
): MessageInitShape<typeof ShapeComparisonSchema> {
  const [a, b] = [samples(champion), samples(candidate)];
  return {
    shape: champion.shape,
    mode: champion.mode,
    verdict: ComparisonVerdict.FASTER,
    reason: `${formatShape(champion.shape!)}: the lower end of the interval is above 1.03`,
    time: ratioInterval(a, b),
    selfTime: { ratio: 1.0004, low: 0.9991, high: 1.0019 },
    champion: champion.latency,
    candidate: candidate.latency,
    championHistogram: champion.histogram,
    candidateHistogram: candidate.histogram,
    blocks: 120,
    droppedBlocks: 3,
    selfBlocks: 40,
    stopReason: champion.stopReason,
  };
}
