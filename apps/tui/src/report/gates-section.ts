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

function tally(gates: readonly GateResult[]): string {
  const of = (verdict: Verdict) => gates.filter((gate) => gate.verdict === verdict).length;
  const warnings = gates.filter(({ verdict, level }) => verdict === Verdict.FAIL && level === 'warn').length;
  const only = warnings === of(Verdict.FAIL) ? 'warn only' : `${warnings} warn only`;
  return `${of(Verdict.PASS)} passed, ${of(Verdict.FAIL)} failed${warnings > 0 ? ` (${only})` : ''}, ${of(Verdict.NOT_MEASURED)} not measured`;
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
  return paragraph([detail, source].filter(Boolean).join('; '), format, 4, 'dim');
}
