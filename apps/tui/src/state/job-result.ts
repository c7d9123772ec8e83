/** A job's findings so far, in the form of its final result. */
import { create } from '@bufbuild/protobuf';
import {
  Verdict,
  JobResultSchema,
  VariantResultSchema,
  VerifyResultSchema,
  type JobResult,
  type VariantResult,
  type VerifyResult,
} from '@flashcore/shared/contract';
import type { JobView, VariantView } from './job-view.ts';
import { variantsOf } from './selectors.ts';

/**
 * The job's result. If the job was cut off and has none, the result is built from its events. Undefined if there are no
 * findings yet.
 */
export function resultOf(job: JobView): JobResult | undefined {
  if (job.result !== undefined && isTelling(job.result)) return job.result;
  const variants = variantsOf(job);
  if (job.prechecks.length === 0 && !variants.some(tellsSomething)) return undefined;
  return create(JobResultSchema, { prechecks: [...job.prechecks], variants: variants.map(variantResult) });
}

/** True if a result has anything besides its provenance. */
export const isTelling = ({ variants, sdpaBenchmarks, tune }: JobResult): boolean =>
  variants.length + sdpaBenchmarks.length > 0 || tune !== undefined;

function variantResult(variant: VariantView): VariantResult {
  const { label, fallback, build, benchmarks, comparison, profile, gates, findings } = variant;
  const verify = verifyOf(variant);
  return create(VariantResultSchema, {
    label,
    fallback,
    benchmarks: benchmarks.flatMap(({ result }) => result ?? []),
    gates: [...gates],
    findings: [...findings],
    ...(build && { build }),
    ...(verify && { verify }),
    ...(comparison?.result && { comparison: comparison.result }),
    ...(profile && { profile }),
  });
}

/** The verification's result; if there is none yet, one built from the finished cases. */
function verifyOf({ verify, cases }: VariantView): VerifyResult | undefined {
  if (verify !== undefined || cases.length === 0) return verify;
  return create(VerifyResultSchema, {
    reference: 'the job was cut off',
    cases: [...cases],
    passedCases: cases.filter(({ verdict }) => verdict === Verdict.PASS).length,
  });
}

const tellsSomething = ({ build, verify, cases, benchmarks, profile, gates, findings }: VariantView): boolean =>
  build !== undefined ||
  verify !== undefined ||
  profile !== undefined ||
  cases.length + gates.length + findings.length > 0 ||
  benchmarks.some(({ result }) => result !== undefined);
