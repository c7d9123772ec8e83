/** Compare-and-accept: a result replaces a champion only if it was compared with the current one. */
import { FlashcoreError, invalidRequest, type Champion, type Job, type JobResult } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { NO_CHAMPION, championFor } from '../store/decisions.ts';

interface Comparing {
  job: Job;
  result: JobResult;
  /** The champion that results from accepting the job. */
  wanted: Champion;
  champions: readonly Champion[];
  /** The job of the champion that the request names. */
  over: string;
}

/**
 * The champions that the result replaces; empty if it is the first. Errors: NOT_ACCEPTABLE with the command that
 * compares with the current champion, INVALID_REQUEST if the request names another champion than the comparison did.
 */
export function replacedChampions({ job, result, wanted, champions, over }: Comparing): Champion[] {
  const compared = result.acceptability!.over;
  const current = currentChampion(wanted, champions, result.lineage);
  const currentJob = current?.job ?? NO_CHAMPION;
  const stale = currentJob !== compared;
  const held = champions.filter((other) => sharesPlace(other, wanted));
  const uncompared = held.find((other) => other.job !== compared);
  if (stale || uncompared) {
    const now = stale ? current : uncompared;
    const command = `fa-tui run ${wanted.buildId}${wanted.plan === '' ? '' : ` --plan ${wanted.plan}`}`;
    throw new FlashcoreError(
      'NOT_ACCEPTABLE',
      { job: job.name, over: compared, champion: now?.job ?? NO_CHAMPION },
      `Cannot accept ${job.label}: it was compared with ${named(compared, champions)}, and the champion is now ${now ? `${now.label} of ${now.job}` : 'none'}; compare with that: ${stale ? command : `fa-tui reject ${now!.job}, or ask an admin to, then ${command}`}`,
    );
  }
  if (over !== compared)
    throw invalidRequest({
      field: 'over',
      description: `must be ${compared}, which the result was compared with, is ${over}`,
    });
  return held;
}

const named = (job: string, champions: readonly Champion[]): string =>
  job === NO_CHAMPION ? 'no champion' : (champions.find((each) => each.job === job)?.label ?? job);

/** The champion that a run of the same kernel would be compared with now. */
function currentChampion(
  { deviceName, protocol, problem, shapes, dtype, kernelId }: Champion,
  champions: readonly Champion[],
  lineage: readonly string[],
): Champion | undefined {
  const line = (): readonly string[] => (lineage.length > 0 ? lineage : [kernelId]);
  return shapes
    .map((shape) => championFor(champions, { lineage: line, place: { deviceName, protocol, problem, shape, dtype } }))
    .find((champion) => champion !== undefined);
}

export function sharesPlace(a: Champion, b: Champion): boolean {
  const shapes = new Set(b.shapes.map(formatShape));
  return (
    a.kernelId === b.kernelId &&
    a.deviceName === b.deviceName &&
    a.protocol === b.protocol &&
    a.problem === b.problem &&
    a.dtype === b.dtype &&
    a.shapes.some((shape) => shapes.has(formatShape(shape)))
  );
}
