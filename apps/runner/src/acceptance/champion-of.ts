import { create } from '@bufbuild/protobuf';
import {
  ChampionSchema,
  FlashcoreError,
  TimingMode,
  type Champion,
  type Job,
  type JobResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';

/**
 * The champion that an ended experiment makes when it is accepted, without its decision. Errors: NOT_ACCEPTABLE with
 * the reason that the experiment itself gives.
 */
export function championOf(job: Job, result: JobResult | undefined, { after }: { after: string }): Champion {
  const { acceptability, provenance, plan } = result ?? {};
  if (!acceptability?.possible) {
    const reason =
      acceptability?.reason || 'it is not an experiment of a runner that knows plans: run it again with fa-tui run';
    throw new FlashcoreError('NOT_ACCEPTABLE', { job: job.name }, `Cannot accept ${job.label}: ${reason}`);
  }
  const variant = result!.variants[0]!;
  const hot = variant.benchmarks.find(({ mode }) => mode === TimingMode.HOT) ?? variant.benchmarks[0];
  const shapes = new Map(variant.benchmarks.flatMap(({ shape }) => (shape ? [[formatShape(shape), shape]] : [])));
  return create(ChampionSchema, {
    label: job.label,
    kernelId: job.kernelId,
    after,
    deviceName: provenance?.device?.name ?? '',
    shapes: [...shapes.values()],
    protocol: provenance?.protocol ?? '',
    buildId: variant.build?.buildId ?? '',
    sourceDigest: provenance?.sourceDigest ?? '',
    job: job.name,
    plan: plan?.name ?? '',
    ...(hot?.latency && hot.valid && { latency: hot.latency }),
  });
}
