import { Verdict, type GateResult } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { figure } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { heading, paragraph } from './text.ts';

/** Every gate: answer, value, target, and below it where the value is from or why there is none. */
export function gatesSection(gates: readonly GateResult[], format: ReportFormat): string[] {
  if (gates.length === 0) return [];
  const columns = [
    { title: 'answer' },
    { title: 'gate', shrinks: true },
    { title: 'value', align: 'right' as const },
    { title: 'target', align: 'right' as const },
  ];
  const [head = '', ...rows] = table(columns, gates.map(gateRow), format);
  return [
    ...heading('Gates', tally(gates), format),
    head,
    ...gates.flatMap((gate, i) => [rows[i] ?? '', ...evidence(gate, format)]),
  ];
}

/** "3 of 4 gates passed" counts those that can reject. */
function tally(gates: readonly GateResult[]): string {
  const hard = gates.filter(({ level }) => level === 'hard');
  const of = (verdict: Verdict) => hard.filter((gate) => gate.verdict === verdict).length;
  const missed = gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'warn').length;
  return [
    `${of(Verdict.PASS)} of ${hard.length} gates passed`,
    ...(of(Verdict.FAIL) > 0 ? [`${of(Verdict.FAIL)} failed`] : []),
    ...(of(Verdict.NOT_MEASURED) > 0 ? [`${of(Verdict.NOT_MEASURED)} not measured`] : []),
    ...(missed > 0 ? [`${missed} shown as missed`] : []),
  ].join(', ');
}

function gateRow(gate: GateResult): Cell[] {
  return [
    answer(gate),
    gate.title || gate.gateId,
    gate.value === undefined ? '-' : valueText(gate.value, gate.unit),
    `${gate.comparison} ${withUnit(gate.target, gate.unit)}`,
  ];
}

// A gate of level "warn" that fails changes nothing, one of level "off" is not judged: neither may look like a
// rejection.
function answer(gate: GateResult): Cell {
  if (gate.verdict === Verdict.NOT_MEASURED) return { text: 'not measured', style: 'yellow' };
  if (gate.verdict === Verdict.NOT_JUDGED) return { text: 'not judged', style: 'dim' };
  if (gate.verdict === Verdict.PASS) return { text: 'pass', style: 'green' };
  return gate.level === 'warn' ? { text: 'fail (warn)', style: 'yellow' } : { text: 'FAIL', style: 'red' };
}

const BARE_UNITS = new Set(['', '1']);
const withUnit = (value: number, unit: string): string =>
  BARE_UNITS.has(unit) ? figure(value) : unit === 'share' ? valueText(value, unit) : `${figure(value)} ${unit}`;
// A share of cases reads as per cent; other units stand beside the target.
const valueText = (value: number, unit: string): string =>
  unit === 'share' ? `${figure(value * 100)} %` : figure(value);

function evidence(gate: GateResult, format: ReportFormat): string[] {
  // The answer above says "not measured" already.
  const { detail } = gate;
  const source =
    gate.verdict !== Verdict.NOT_MEASURED && gate.source && !detail.includes(gate.source)
      ? `source: ${gate.source}`
      : '';
  const own = gate.ownReason === '' ? '' : `by the kernel's own gates: ${gate.ownReason}`;
  return paragraph([detail, source, own].filter(Boolean).join('; '), format, 4, 'dim');
}
