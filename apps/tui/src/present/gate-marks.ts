/** How a gate's answer looks: three answers that are told apart without colour, and those that are still to come. */
import { Verdict, type GateResult } from '@flashcore/shared/contract';
import { formatInUnit, formatNumber } from './numbers.ts';
import type { Mark } from './words.ts';

const WAITING: Mark = { mark: '○', role: 'dim', word: 'to come' };
const MEASURING: Mark = { mark: '●', role: 'accent', word: 'being measured' };
const WARNS: Mark = { mark: '⚠', role: 'warn', word: 'warns' };
const ANSWERS: Record<Verdict, Mark> = {
  [Verdict.UNSPECIFIED]: WAITING,
  [Verdict.PASS]: { mark: '✓', role: 'good', word: 'pass' },
  [Verdict.FAIL]: { mark: '✗', role: 'bad', word: 'FAIL' },
  [Verdict.NOT_MEASURED]: { mark: '–', role: 'dim', word: 'not measured' },
  [Verdict.NOT_JUDGED]: { mark: '–', role: 'dim', word: 'not judged' },
};

/** A gate of level "warn" that fails does not fail the experiment: it has a mark of its own. */
export const warnsOnly = ({ verdict, level }: Pick<GateResult, 'verdict' | 'level'>): boolean =>
  verdict === Verdict.FAIL && level !== 'hard';

export function gateMark(gate: Pick<GateResult, 'verdict' | 'level' | 'modelled'>, isMeasured = false): Mark {
  if (gate.verdict === Verdict.UNSPECIFIED && isMeasured) return MEASURING;
  const answer = warnsOnly(gate) ? WARNS : ANSWERS[gate.verdict];
  return isModelled(gate) ? { ...answer, word: `${answer.word} (modelled)` } : answer;
}

/** Whether a model's figure decided it: the emulator's counters are no GPU's. */
export const isModelled = ({ verdict, modelled }: Pick<GateResult, 'verdict' | 'modelled'>): boolean =>
  modelled && (verdict === Verdict.PASS || verdict === Verdict.FAIL);

export const MODELLED_SIGN = '~';

/** What stands before a figure of a model, also where there is no room for the word. */
export const modelledSign = (gate: Pick<GateResult, 'verdict' | 'modelled'>): string =>
  isModelled(gate) ? MODELLED_SIGN : '';

/** A target is exact: it has no digits that only a measured value has. */
const targetText = (target: number, unit: string): string =>
  unit === 'us' ? `${formatNumber(target)} us` : formatInUnit(target, unit);

/** "<= 48 KiB"; no sign that ASCII would have to tell as another. */
export const gateTarget = ({ comparison, target, unit }: Pick<GateResult, 'comparison' | 'target' | 'unit'>): string =>
  `${comparison === '==' ? '=' : comparison} ${targetText(target, unit)}`;
