import { create } from '@bufbuild/protobuf';
import {
  LogLineSchema,
  TunedVariantSchema,
  Verdict,
  type TunedVariant,
  type VerifyResult,
} from '@flashcore/shared/contract';
import { figureOfEntries, type EntryFigureName, type ResolvedVariant } from '@flashcore/shared/kernels';
import { formatCount } from '@flashcore/shared/text';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import type { JobPayload } from '../jobs/job-context.ts';
import { runBuild, stopsAfterBuild } from '../phases/build-phase.ts';
import { variantServices, type JobServices, type VariantServices } from '../phases/job-services.ts';

/** A variant in a search. */
export interface Contender {
  readonly services: VariantServices;
  readonly row: TunedVariant;
  build?: KernelBuild;
  verify?: VerifyResult;
}

export const contenderOf = (services: JobServices, resolved: ResolvedVariant): Contender => ({
  services: variantServices({ ...services, job: quiet(services.job, resolved.label) }, resolved),
  row: rowOf(resolved),
});

/** Builds the variant, and drops it if ptxas's report leaves it no chance. */
export async function buildContender(contender: Contender): Promise<void> {
  const { row, services } = contender;
  const build = await runBuild(services);
  contender.build = build;
  const { entries, buildId } = build.result;
  Object.assign(row, { buildId, ...resourcesOf(entries) });
  if (stopsAfterBuild(build)) row.dropped = build.findings[0]?.message ?? 'it does not compile';
  else if (entries.some(({ ctasPerSm }) => ctasPerSm === 0)) row.dropped = 'no CTA of it fits on a multiprocessor';
  else if (row.spillBytes > 0) row.dropped = spillReason(row);
}

/** Whether the variant was dropped only because of spills. */
export const isDroppedForSpills = ({ row }: Contender): boolean => row.dropped === spillReason(row);

const spillReason = ({ spillBytes }: TunedVariant): string => `${formatCount(spillBytes)} bytes of registers spilled`;

const rowOf = ({ label, parameters }: ResolvedVariant): TunedVariant =>
  create(TunedVariantSchema, {
    label,
    parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)])),
    verified: Verdict.NOT_MEASURED,
  });

/** Registers, shared memory, spills and CTAs per SM of a variant, over the entries that the shapes launch. */
function resourcesOf(
  entries: KernelBuild['result']['entries'],
): Pick<TunedVariant, 'registers' | 'smemBytes' | 'spillBytes' | 'ctasPerSm'> {
  const figure = (name: EntryFigureName): number => figureOfEntries(name, entries) ?? 0;
  return {
    registers: figure('registers_per_thread'),
    smemBytes: figure('smem_bytes_per_cta'),
    spillBytes: figure('spill_bytes'),
    ctasPerSm: figure('theoretical_ctas_per_sm'),
  };
}

const TOLD: ReadonlySet<JobPayload['case']> = new Set<JobPayload['case']>([
  'logLine',
  'comparisonProgress',
  'deviceConditions',
]);

/**
 * A variant's build, cases and findings go into its row; as events they would look like the job's own. Variants are
 * built at the same time, so the log names the variant wherever its lines follow those of another one.
 */
const quiet = (job: JobServices['job'], label: string): JobServices['job'] => ({
  ...job,
  emit: (payload) => {
    if (!TOLD.has(payload.case)) return;
    if (payload.case === 'logLine' && lastLogged.get(job) !== label) {
      lastLogged.set(job, label);
      job.emit({ case: 'logLine', value: create(LogLineSchema, { source: 'tune', text: `variant ${label}` }) });
    }
    job.emit(payload);
  },
});

/** The variant of the last line in a search's log. */
const lastLogged = new WeakMap<JobServices['job'], string>();
