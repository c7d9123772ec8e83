/** Who may overrule a decision: replace a champion, reject it, or undo the decision. */
import { ComparisonVerdict, FlashcoreError, type Champion, type Decision } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import type { Caller } from '../access/caller.ts';
import type { Role } from '../access/roles.ts';

/** Who made a decision, from the view of a client who wants to overrule it. */
export type DecidedBy = 'themselves' | 'a submitter' | 'an admin' | 'nobody known the role of';

/** The decisions that a role may overrule; a viewer decides nothing. */
export const OVERRULES: Readonly<Record<Role, readonly DecidedBy[]>> = {
  viewer: [],
  submitter: ['themselves', 'a submitter'],
  admin: ['themselves', 'a submitter', 'an admin', 'nobody known the role of'],
};

/**
 * Throws unless a client may replace a champion by a result. Another submitter's champion is only replaced by a faster
 * result, because a mere copy is equally fast. Errors: NOT_ACCEPTABLE, PERMISSION_DENIED.
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

/** Errors: PERMISSION_DENIED, which names who may. `what` completes "You may not …". */
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
