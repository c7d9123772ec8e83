import type { DeviceConditions } from '@flashcore/shared/contract';
import { fact, facts, type Fact } from '../blocks.ts';
import { counted, formatNumber } from '../numbers.ts';
import { notMeasured } from '../words.ts';

const of = (limit: number | undefined): string => (limit === undefined ? '' : ` of ${formatNumber(limit)}`);

/** Clocks, temperature, power as they were while it ran; only what was read. */
export function conditionFacts(conditions: DeviceConditions): Fact[] {
  const figure = (value: number | undefined, unit: string, limit?: number): string =>
    value === undefined ? '' : `${formatNumber(value)} ${unit}${of(limit)}`;
  return facts(
    fact('SM clock', figure(conditions.smClockMhz, 'MHz', conditions.maxSmClockMhz)),
    fact('memory clock', figure(conditions.memoryClockMhz, 'MHz')),
    fact('temperature', figure(conditions.temperatureC, '°C')),
    fact('power', figure(conditions.powerW, 'W', conditions.powerLimitW)),
    conditions.persistenceMode === undefined
      ? undefined
      : fact('persistence', conditions.persistenceMode ? 'on' : 'off'),
    fact('throttled by', conditions.throttleReasons.join(', '), 'warn'),
    conditions.otherProcesses ? fact('others on it', counted(conditions.otherProcesses, 'process'), 'warn') : undefined,
  ).facts.slice();
}

/** The same in a line; or why they are not known. */
export function conditionsText(conditions: DeviceConditions | undefined): string {
  if (!conditions) return 'not recorded';
  const known = conditionFacts(conditions).map(({ label, value }) => `${label} ${value}`);
  const missing = conditions.notMeasured ? [notMeasured(conditions.notMeasured)] : [];
  return [...known, ...missing].join(', ') || 'not recorded';
}
