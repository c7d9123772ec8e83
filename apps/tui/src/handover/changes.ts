/**
 * Differences between a job's build and an earlier build: its champion's or, without a champion, that of the kernel's
 * earlier job.
 */
import type { GetJobResponse, VariantResult } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { shortName } from '../present/words.ts';

export interface Changes {
  readonly against: string;
  readonly parameters: readonly ParameterChange[];
  readonly sources: readonly SourceChange[];
  /** Further remarks; empty if there are none. */
  readonly remark: string;
}

interface ParameterChange {
  readonly name: string;
  readonly before: string | null;
  readonly after: string | null;
}

interface SourceChange {
  readonly path: string;
  readonly added: number;
  readonly removed: number;
  readonly hunks: number;
  readonly diff: string;
}

/** `before` contains earlier jobs, oldest first. Returns null if there is nothing to compare with. */
export function changesOf(
  { job, result }: GetJobResponse,
  variant: VariantResult,
  before: readonly GetJobResponse[],
): Changes | null {
  const { difference } = variant;
  if (difference)
    return {
      against: difference.championJob
        ? `${difference.champion} of ${shortName(difference.championJob)}`
        : difference.champion,
      parameters: difference.parameters.map(({ name, champion, candidate }) => ({
        name,
        before: champion ?? null,
        after: candidate ?? null,
      })),
      sources: difference.sources.map(({ path, linesAdded, linesRemoved, hunks, diff }) => ({
        path,
        added: linesAdded,
        removed: linesRemoved,
        hunks,
        diff,
      })),
      remark: difference.warning ?? (difference.changes === 0 ? 'nothing' : ''),
    };
  const last = before.findLast((each) => each.job?.kernelId === job?.kernelId && each.result);
  const lastVariant = last?.result?.variants.find(({ fallback }) => !fallback);
  if (!last || !lastVariant) return null;
  return {
    against: `${last.job!.label || last.job!.kernelId} of ${shortName(last.job!.name)}`,
    parameters: parameterChanges(lastVariant, variant),
    sources: [],
    remark: sourceRemark(last.result?.provenance?.sourceDigest, result?.provenance?.sourceDigest),
  };
}

function parameterChanges(before: VariantResult, after: VariantResult): ParameterChange[] {
  const names = [...new Set([...Object.keys(before.parameters), ...Object.keys(after.parameters)])].sort();
  return names
    .map((name) => ({
      name,
      before: textOf(entryOf(before.parameters, name)),
      after: textOf(entryOf(after.parameters, name)),
    }))
    .filter((change) => change.before !== change.after);
}

const textOf = (value: bigint | undefined): string | null => (value === undefined ? null : String(value));

/** Hunks are known only in a comparison with a champion, because the runner has the champion's files. */
function sourceRemark(before: string | undefined, after: string | undefined): string {
  if (!before || !after) return 'whether the source changed is not known';
  return before === after
    ? 'the source is the same'
    : `the source: ${before.slice(0, 8)} to ${after.slice(0, 8)}; the diff is listed only against a champion`;
}
