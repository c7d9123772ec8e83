import type { DeviceConditions, DeviceReading } from '@flashcore/shared/contract';
import { fact, facts, type Fact } from '../blocks.ts';
import { counted, formatNumber } from '../numbers.ts';
import { notMeasured } from '../words.ts';

/** The host's load, such as "7.9 on 2 CPUs"; undefined for a GPU. */
export function hostLoadText({
  hostLoad,
  hostCpus,
}: Pick<DeviceConditions | DeviceReading, 'hostLoad' | 'hostCpus'>): string | undefined {
  return hostLoad === undefined || hostCpus === undefined
    ? undefined
    : `${hostLoad.toFixed(1)} on ${counted(hostCpus, 'CPU')}`;
}

/** True if more processes want to run than there are CPUs, so that the emulator sometimes waits for a CPU. */
export const isHostBusy = ({ hostLoad = 0, hostCpus = 0 }: Pick<DeviceReading, 'hostLoad' | 'hostCpus'>): boolean =>
  hostLoad > hostCpus;

const of = (limit: number | undefined): string => (limit === undefined ? '' : ` of ${formatNumber(limit)}`);

/** Clocks, temperature and power during the measurement, if they were read. */
function conditionFacts(conditions: DeviceConditions): Fact[] {
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
    fact('host load', hostLoadText(conditions) ?? '', isHostBusy(conditions) ? 'warn' : undefined),
    conditions.otherProcesses ? fact('others on it', counted(conditions.otherProcesses, 'process'), 'warn') : undefined,
  ).facts.slice();
}

/** The conditions in one line, or the reason why they are not known. */
export function conditionsText(conditions: DeviceConditions | undefined): string {
  if (!conditions) return 'not recorded';
  const known = conditionFacts(conditions).map(({ label, value }) => `${label} ${value}`);
  const missing = conditions.notMeasured ? [notMeasured(conditions.notMeasured)] : [];
  return [...known, ...missing].join(', ') || 'not recorded';
}
