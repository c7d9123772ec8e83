/** Marks of a gate's verdict: three that differ even without color, and marks for gates without a verdict yet. */
import { Verdict, type GateResult } from '@flashcore/shared/contract';
import { formatInUnit, formatNumber } from './numbers.ts';
import type { Mark } from './words.ts';

const WAITING: Mark = { mark: '○', role: 'dim', word: 'to come' };
const MEASURING: Mark = { mark: '●', role: 'accent', word: 'being measured' };
const WARNS: Mark = { mark: '⚠', role: 'warn', word: 'warns' };
/** A gate that the plan turned off keeps no job waiting. */
const OFF: Mark = { mark: '·', role: 'dim', word: 'off' };
const ANSWERS: Record<Verdict, Mark> = {
  [Verdict.UNSPECIFIED]: WAITING,
  [Verdict.PASS]: { mark: '✓', role: 'good', word: 'pass' },
  [Verdict.FAIL]: { mark: '✗', role: 'bad', word: 'FAIL' },
  [Verdict.NOT_MEASURED]: { mark: '–', role: 'dim', word: 'not measured' },
  // A gate that the plan turned off aside, only missing documentation is not judged.
  [Verdict.NOT_JUDGED]: { mark: '–', role: 'dim', word: 'to do' },
};

/** A gate of level "warn" that fails does not fail the experiment, so it has its own mark. */
export const warnsOnly = ({ verdict, level }: Pick<GateResult, 'verdict' | 'level'>): boolean =>
  verdict === Verdict.FAIL && level !== 'hard';

/** True for a gate that the plan turned off and that has no answer, so that nobody waits for one. */
export const isUnansweredOff = ({ verdict, level }: Pick<GateResult, 'verdict' | 'level'>): boolean =>
  level === 'off' && verdict !== Verdict.PASS && verdict !== Verdict.FAIL;

export function gateMark(gate: Pick<GateResult, 'verdict' | 'level' | 'modelled'>, isMeasured = false): Mark {
  if (isUnansweredOff(gate)) return OFF;
  if (gate.verdict === Verdict.UNSPECIFIED && isMeasured) return MEASURING;
  const answer = warnsOnly(gate) ? WARNS : ANSWERS[gate.verdict];
  return isModelled(gate) ? { ...answer, word: `${answer.word} (modelled)` } : answer;
}

/** True if a modelled figure decided the gate; the emulator's counters are not a GPU's. */
export const isModelled = ({ verdict, modelled }: Pick<GateResult, 'verdict' | 'modelled'>): boolean =>
  modelled && (verdict === Verdict.PASS || verdict === Verdict.FAIL);

export const MODELLED_SIGN = '~';

/** The sign before a modelled figure, for places without room for the word. */
export const modelledSign = (gate: Pick<GateResult, 'verdict' | 'modelled'>): string =>
  isModelled(gate) ? MODELLED_SIGN : '';

/** A target is an exact number, so it does not get the trailing digits of a measured value. */
const targetText = (target: number, unit: string): string =>
  unit === 'us' ? `${formatNumber(target)} us` : formatInUnit(target, unit);

/** A value with its unit. The parts of a documentation are counted where they are missing. */
export function amountOf(value: number, unit: string): string {
  if (unit !== 'parts') return formatInUnit(value, unit);
  return value === 0 ? 'none missing' : `${formatInUnit(value, unit)} missing`;
}

/** Text such as "<= 48 KiB". It contains no sign that ASCII lacks. */
export const gateTarget = ({ comparison, target, unit }: Pick<GateResult, 'comparison' | 'target' | 'unit'>): string =>
  unit === 'parts' ? amountOf(target, unit) : `${comparison === '==' ? '=' : comparison} ${targetText(target, unit)}`;
