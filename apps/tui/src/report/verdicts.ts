import { Outcome, Verdict } from '@flashcore/shared/contract';
import type { Cell } from './table.ts';
import type { StyleName } from './format.ts';

const WORDS: Partial<Record<Verdict, { text: string; style: StyleName }>> = {
  [Verdict.PASS]: { text: 'pass', style: 'green' },
  [Verdict.FAIL]: { text: 'FAIL', style: 'red' },
  [Verdict.NOT_MEASURED]: { text: 'not measured', style: 'yellow' },
  [Verdict.NOT_JUDGED]: { text: 'not judged', style: 'dim' },
};

/** A verdict as a table cell, in words: colour never carries the meaning alone. */
export const verdictCell = (verdict: Verdict): Cell => WORDS[verdict] ?? '-';

/** "pass", "FAIL" or "not measured". */
export const verdictText = (verdict: Verdict): string => WORDS[verdict]?.text ?? '-';

/** "COMPILE FAILED": an outcome's name for people. */
export const outcomeText = (outcome: Outcome): string =>
  (Outcome[outcome] ?? `OUTCOME ${outcome}`).replaceAll('_', ' ');

/** Green for what passed, yellow for what nobody found out, red for the rest. */
export function outcomeStyle(outcome: Outcome): StyleName {
  if (outcome === Outcome.PASSED) return 'green';
  return outcome === Outcome.CANCELLED || outcome === Outcome.INTERRUPTED || outcome === Outcome.UNSPECIFIED
    ? 'yellow'
    : 'red';
}
