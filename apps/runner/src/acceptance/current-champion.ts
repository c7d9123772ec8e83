/**
 * Compare-and-accept: a result replaces a champion only if it was compared with the current one. This file also decides
 * who may overrule a decision: replace a champion, reject it, or undo the decision.
 */
import {
  FlashcoreError,
  invalidRequest,
  type Champion,
  type Job,
  type JobResult,
  ComparisonVerdict,
  type Decision,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { NO_CHAMPION, championFor } from '../store/decisions.ts';
import type { Caller } from '../access/caller.ts';
import type { Role } from '../access/roles.ts';

interface Comparing {
  job: Job;
  result: JobResult;
  /** The champion that the job would become if it were accepted. */
  wanted: Champion;
  champions: readonly Champion[];
  /** The job of the champion that the request names. */
  over: string;
}

/**
 * The champions that the result replaces; empty if there is none. Errors: NOT_ACCEPTABLE with the command that compares
 * with the current champion, INVALID_REQUEST if the request names a champion other than the one that the result was
 * compared with.
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
      description: `must be ${compared}, which the result was compared with, got ${over}`,
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

/** The maker of a decision, as seen by a client who wants to overrule it. */
export type DecidedBy = 'themselves' | 'a submitter' | 'an admin' | 'nobody known the role of';

/** The decisions that a role may overrule; a viewer decides nothing. */
export const OVERRULES: Readonly<Record<Role, readonly DecidedBy[]>> = {
  viewer: [],
  submitter: ['themselves', 'a submitter'],
  admin: ['themselves', 'a submitter', 'an admin', 'nobody known the role of'],
};

/**
 * Throws unless a client may replace a champion with a result. A submitter can replace another submitter's champion
 * only with a faster result, because a mere copy is equally fast. Errors: NOT_ACCEPTABLE, PERMISSION_DENIED.
 */
export function requireReplacing(caller: Caller, champion: Champion, { buildId, verdict, job }: Replacing): void {
  requireOverruling(caller, champion.decision, `replace the champion ${champion.label}`);
  const refuse = (why: string): never => {
    throw new FlashcoreError('NOT_ACCEPTABLE', { job, champion: champion.job }, `Cannot accept ${job}: ${why}`);
  };
  if (champion.buildId === buildId) refuse(`the champion of ${champion.job} is the same build`);
  if (caller.role === 'admin' || champion.decision?.client === caller.name) return;
  if (verdict !== ComparisonVerdict.FASTER)
    refuse(
      `${champion.label} is the champion of ${champion.decision?.client ?? 'another'}, and the result is not shown to be faster: only its owner or an admin replaces it with an equal one`,
    );
}

/** The result that would replace the champion. */
interface Replacing {
  job: string;
  buildId: string;
  /** Verdict of its comparison with the champion. */
  verdict: ComparisonVerdict | undefined;
}

/** Errors: PERMISSION_DENIED, which says whom to ask. `what` completes "You may not …". */
export function requireOverruling(caller: Caller, decision: Decision | undefined, what: string): void {
  if (!decision || OVERRULES[caller.role].includes(decidedBy(caller, decision))) return;
  const by = decision.role === '' ? decision.client : `${decision.client}, ${decision.role}`;
  throw new FlashcoreError(
    'PERMISSION_DENIED',
    { needed: 'decide-any', role: caller.role },
    `${caller.name} is ${caller.role} and may not ${what}, which ${by} decided: ask an admin of the runner to do it`,
  );
}

const DECIDED_BY: Readonly<Record<string, DecidedBy>> = { submitter: 'a submitter', admin: 'an admin' };

const decidedBy = (caller: Caller, { client, role }: Decision): DecidedBy =>
  client === caller.name ? 'themselves' : (entryOf(DECIDED_BY, role) ?? 'nobody known the role of');
