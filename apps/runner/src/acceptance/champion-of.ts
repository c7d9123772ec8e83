import { create } from '@bufbuild/protobuf';
import {
  ChampionSchema,
  EvidenceSchema,
  FlashcoreError,
  TimingMode,
  parityCounts,
  parityText,
  type Champion,
  type Evidence,
  type Job,
  type JobResult,
} from '@flashcore/shared/contract';
import { formatShape, notesSaySomething, recordedDtype, recordedProblem } from '@flashcore/shared/kernels';
import type { JobPlanner } from '../jobs/job-context.ts';

/**
 * The champion that an ended experiment would become if it were accepted. The decision is not filled in. Errors:
 * NOT_ACCEPTABLE with the reason that the experiment's result gives. `notes` is the NOTES.md that came with the
 * decision; it matters only if the result lacked nothing but notes.
 */
export function championOf(job: Job, result: JobResult | undefined, notes: string): Champion {
  const { acceptability, provenance, plan, ranking } = result ?? {};
  const isPossible = acceptability?.possible || (acceptability?.notesWanted && notesSaySomething(notes));
  if (!isPossible || !ranking?.ranked) {
    const reason =
      (!acceptability?.possible && acceptability?.reason) ||
      'it is not an experiment, or it ran before ranked runs existed: run it again with fa-tui run';
    throw new FlashcoreError('NOT_ACCEPTABLE', { job: job.name }, `Cannot accept ${job.label}: ${reason}`);
  }
  const variant = result!.variants[0]!;
  const hot = variant.benchmarks.find(({ mode }) => mode === TimingMode.HOT) ?? variant.benchmarks[0];
  const shapes = new Map(variant.benchmarks.flatMap(({ shape }) => (shape ? [[formatShape(shape), shape]] : [])));
  return create(ChampionSchema, {
    label: job.label,
    kernelId: job.kernelId,
    after: result!.lineage[1] ?? '',
    deviceName: provenance?.device?.name ?? '',
    shapes: [...shapes.values()],
    protocol: provenance?.protocol ?? '',
    dtype: recordedDtype(provenance?.dtype),
    problem: recordedProblem(provenance?.problem),
    buildId: variant.build?.buildId ?? '',
    sourceDigest: provenance?.sourceDigest ?? '',
    job: job.name,
    plan: plan?.name ?? '',
    hostName: provenance?.hostName ?? '',
    ...(provenance?.schedulerJob !== undefined && { schedulerJob: provenance.schedulerJob }),
    ...(hot?.latency && hot.valid && { latency: hot.latency }),
  });
}

/**
 * Refuses a result that was judged by earlier rules, because the runner's owner may have changed the rules to exclude
 * such a result. Errors: NOT_ACCEPTABLE.
 */
export function requireCurrentRules(
  { name, label }: Job,
  { provenance, ranking, variants }: JobResult,
  { rulesDigest }: Pick<JobPlanner, 'rulesDigest'>,
): void {
  const plan = provenance?.plan ?? '';
  if (ranking?.rulesDigest === rulesDigest(plan, recordedProblem(provenance?.problem))) return;
  const again = `fa-tui run ${variants[0]?.build?.buildId ?? label} --plan ${plan}`;
  throw new FlashcoreError(
    'NOT_ACCEPTABLE',
    { job: name },
    `Cannot accept ${label}: it was judged by earlier rules, and the gates or cases of plan ${plan} have changed since; run it again: ${again}`,
  );
}

/** The evidence for an acceptance, which is stored with it. */
export function evidenceOf(
  job: Job,
  { provenance, variants: [variant], acceptability, ranking }: JobResult,
  notes: string,
): Evidence {
  const regression = variant!.gates.find(({ metric }) => metric === 'speedup_vs_champion');
  return create(EvidenceSchema, {
    plan: provenance?.plan ?? '',
    gatesDigest: provenance?.gatesDigest ?? '',
    rulesDigest: ranking?.rulesDigest ?? '',
    cases: variant!.verify ? parityText(parityCounts(variant!.verify)) : '',
    seeds: provenance?.seeds ?? [],
    comparison:
      variant!.comparison?.reason || regression?.detail || (acceptability!.possible ? acceptability!.reason : ''),
    sourceDigest: provenance?.sourceDigest ?? '',
    over: acceptability!.over,
    owner: job.owner ?? '',
    ...(acceptability!.notesWanted && { notes }),
  });
}
