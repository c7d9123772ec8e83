import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  AcceptabilitySchema,
  Outcome,
  Verdict,
  type Acceptability,
  type VariantResult,
} from '@flashcore/shared/contract';
import type { JobSpec } from '../spec/job-spec.ts';
import { gateTitles } from './summary.ts';

interface Ended {
  outcome: Outcome;
  variants: readonly VariantResult[];
  fellBack?: string;
  /** Name of the job. */
  job: string;
}

/** Whether an experiment could become a champion, what it would replace, and how. */
export function acceptabilityOf(spec: JobSpec, ended: Ended): Acceptability | undefined {
  if (!spec.judged) return undefined;
  const reason = refusal(spec, ended);
  const short = ended.job.replace(/^jobs\//, '').slice(0, 8);
  const replaces = spec.champion?.accepted?.label;
  // Where it was left out, or can't be compared with any more, there may be one all the same.
  const none =
    spec.noChampion ??
    (spec.champion ? 'the request named what to compare with' : `no champion of ${spec.device.name} yet`);
  const answer: MessageInitShape<typeof AcceptabilitySchema> =
    reason === undefined
      ? {
          possible: true,
          reason: replaces === undefined ? none : `the champion is ${replaces}`,
          ...(replaces !== undefined && { replaces }),
          command: `fa-tui accept ${short}`,
        }
      : { possible: false, reason, ...(replaces !== undefined && { replaces }) };
  return create(AcceptabilitySchema, answer);
}

function refusal({ judged, kernel, benchmark }: JobSpec, { outcome, variants, fellBack }: Ended): string | undefined {
  const { plan } = judged!;
  const { deprecated } = kernel.manifest;
  if (deprecated !== undefined) return `the kernel is deprecated: ${deprecated}`;
  if (!plan.acceptable) return `plan ${plan.name} accepts nothing: run it with a plan such as merge`;
  if (outcome !== Outcome.PASSED) return `it did not pass${rejectedBy(variants)}`;
  if (fellBack !== undefined) return `it fell back: ${fellBack}`;
  const build = variants[0]?.build;
  if (!build?.succeeded) return 'nothing was built';
  if (!benchmark) return 'it was not benchmarked';
  if (variants[0]!.verify?.probes.length === 0)
    return 'it was not probed: it takes none of the shapes that the probes of cases.yaml have';
  return correctnessProblem(variants[0]!);
}

function rejectedBy([asked]: readonly VariantResult[]): string {
  const failed = asked?.gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'hard') ?? [];
  return failed.length === 0 ? '' : `: rejected by ${gateTitles(failed)}`;
}

const AS_STRICT_AS_PARITY: readonly string[] = ['parity', 'strict'];

/** A gates file of the client's may lack the gate, or give its name to another. */
function correctnessProblem({ gates, verify }: VariantResult): string | undefined {
  const gate = gates.find(({ metric }) => metric === 'parity_cases_passed');
  if (gate) return gate.verdict === Verdict.PASS ? undefined : `its correctness is not known: ${gate.detail}`;
  const { profile = '', absolute, relative } = verify?.tolerance ?? {};
  return AS_STRICT_AS_PARITY.includes(profile)
    ? undefined
    : `its correctness is not known: verified with ${profile || `atol ${absolute} rtol ${relative}`}; run it with the tolerance parity or strict`;
}
