/** One line that says whether the shown job can be accepted, or which decision was made about it. */
import { DecisionKind } from '@flashcore/shared/contract';
import { formatShortInstant } from '../../present/numbers.ts';
import type { Role } from '../../present/roles.ts';
import { DECISION_WORDS } from '../../present/sections/decisions.ts';
import type { AppState } from '../../state/app-state.ts';
import { openAcceptability, standingDecision } from '../../state/decision.ts';
import { attachedJob } from '../../state/selectors.ts';

export interface Standing {
  readonly text: string;
  readonly role: Role;
  /** The line deserves attention: a decision was made, or a key makes one. */
  readonly matters: boolean;
}

/** Undefined if there is nothing to decide: the job is running, or it is not an experiment. */
export function standingOf(state: AppState): Standing | undefined {
  const job = attachedJob(state);
  if (job === undefined) return undefined;
  const decision = standingDecision(state, job.name);
  if (decision !== undefined) {
    const { kind, client, time, note } = decision;
    const accepted = kind === DecisionKind.ACCEPTED;
    const text = `${accepted ? '✓' : '✗'} ${DECISION_WORDS[kind]} by ${client}, ${formatShortInstant(time)}${note === '' ? '' : `: ${note}`}; u undoes it`;
    return { text: text.replaceAll('\n', ' '), role: accepted ? 'good' : 'warn', matters: true };
  }
  const acceptability = openAcceptability(state, job);
  if (acceptability === undefined) return undefined;
  return acceptability.possible
    ? { text: `→ a accepts it: ${acceptability.reason}`, role: 'accent', matters: true }
    : { text: `cannot be accepted: ${acceptability.reason}`, role: 'dim', matters: false };
}
