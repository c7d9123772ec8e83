/** Every gate: verdict, value, target, distance, and the source of the value or the reason why there is none. */
import { Verdict, type GateResult } from '@flashcore/shared/contract';
import { heading, tableOf, type Block, type Column } from '../blocks.ts';
import { counted, formatInUnit, formatNumber, formatPercent } from '../numbers.ts';
import { marked, piece, type Piece, type Role } from '../roles.ts';
import { amountOf, gateMark, gateTarget, isModelled, modelledSign, warnsOnly } from '../gate-marks.ts';
import { VERDICT_MARKS, reasonText } from '../words.ts';

export const gateTitle = ({ title, gateId }: Pick<GateResult, 'title' | 'gateId'>): string => title || gateId;

export const gateValue = (gate: Pick<GateResult, 'value' | 'unit' | 'verdict' | 'modelled'>): Piece =>
  gate.value === undefined ? piece('-', 'dim') : piece(`${modelledSign(gate)}${amountOf(gate.value, gate.unit)}`);

/** All columns except the title. */
export const GATE_COLUMNS: readonly Column<GateResult>[] = [
  { title: 'answer', drop: 0.5, cell: (gate) => piece(gateMark(gate).word, gateMark(gate).role) },
  { title: 'value', align: 'right', cell: gateValue },
  { title: 'target', align: 'right', cell: gateTarget },
  { title: 'distance', align: 'right', cell: (gate) => piece(distanceText(gate), gateMark(gate).role) },
  { title: 'level', drop: 1, cell: ({ level }) => piece(level, level === 'hard' ? 'title' : 'dim') },
  { title: 'source', drop: 4, cell: ({ source }) => piece(source, 'dim') },
];

const REPORT_COLUMNS: readonly Column<GateResult>[] = [
  {
    title: 'gate',
    shrinkTo: 20,
    cell: (gate) => marked(gateMark(gate).mark, gateTitle(gate), gateMark(gate).role),
  },
  ...GATE_COLUMNS.slice(0, 4),
];

// Units of things that are counted. The distance to such a target is a number, because a percentage would say less.
const COUNTED = new Set(['CTAs', 'shapes', 'cases']);

function amountText(distance: number, { target, unit }: Pick<GateResult, 'target' | 'unit'>): string {
  // A percentage of a percentage would be taken for the difference of the two.
  if (unit === '%' || unit === 'share') return `${formatNumber(unit === '%' ? distance : distance * 100, 3)} points`;
  return target === 0 || COUNTED.has(unit) ? formatInUnit(distance, unit) : formatPercent((distance / target) * 100);
}

/**
 * Distance of a value from its target, such as "4.7 % spare", "at limit", "3 CTAs short", "12 % over" or "52.4 points
 * short".
 */
function distanceText({ value, target, comparison, unit }: GateResult): string {
  if (value === undefined) return '-';
  const distance = value - target;
  if (distance === 0) return comparison === '==' || comparison === '=' ? 'met' : 'at limit';
  const isLeast = comparison.startsWith('>');
  // The value itself says how many are missing.
  if (unit === 'parts') return 'to write';
  if (comparison.startsWith('=')) return `${formatInUnit(Math.abs(distance), unit)} off`;
  const amount = amountText(Math.abs(distance), { target, unit });
  if (distance > 0 === isLeast) return `${amount} spare`;
  return `${amount} ${isLeast ? 'short' : 'over'}`;
}

/** The reason why a gate was not measured, or the explanation of its value. */
export const gateReason = ({ verdict, detail }: Pick<GateResult, 'verdict' | 'detail'>): string =>
  verdict === Verdict.NOT_MEASURED ? `${VERDICT_MARKS[verdict].word}: ${reasonText(detail)}` : reasonText(detail);

/** The numbers of hard gates, which can reject, and the number of warnings. */
export interface GateTally {
  readonly hard: number;
  readonly passed: number;
  readonly failed: number;
  readonly open: number;
  /** Number of open hard gates that matter only for an acceptance. */
  readonly toDo: number;
  readonly warned: number;
  /** Number of hard gates that a modelled figure decided. */
  readonly modelled: number;
}

export function tallyOf(gates: readonly GateResult[]): GateTally {
  const hard = gates.filter(({ level }) => level === 'hard');
  const count = (wanted: Verdict): number => hard.filter(({ verdict }) => verdict === wanted).length;
  return {
    hard: hard.length,
    passed: count(Verdict.PASS),
    failed: count(Verdict.FAIL),
    open: count(Verdict.NOT_MEASURED),
    toDo: count(Verdict.NOT_JUDGED),
    warned: gates.filter(warnsOnly).length,
    modelled: hard.filter(isModelled).length,
  };
}

/**
 * Text such as "3 of 4 hard gates passed, 1 failed, 2 warnings". Only hard gates can reject. `noun` is the page's word
 * for them.
 */
export function tallyText(gates: readonly GateResult[], noun = 'hard gate'): string {
  const { hard, passed, failed, open, toDo, warned, modelled } = tallyOf(gates);
  return [
    // "2 of 4 passed" would read like a rejection where nothing failed.
    ...(failed === 0 && open + toDo > 0
      ? [`no ${noun} failed`, ...(open > 0 ? [`${open} of ${hard} not measured`] : [])]
      : [`${passed} of ${counted(hard, noun)} passed`]),
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(failed > 0 && open > 0 ? [`${open} not measured`] : []),
    ...(toDo > 0 ? [`${toDo} to do before accepting`] : []),
    ...(modelled > 0 ? [`${modelled} of them modelled`] : []),
    ...(warned > 0 ? [counted(warned, 'warning')] : []),
  ].join(', ');
}

export function gatesBlocks(gates: readonly GateResult[]): Block[] {
  if (gates.length === 0) return [];
  return [
    heading('Gates', tallyText(gates)),
    tableOf(REPORT_COLUMNS, gates, (gate) => {
      const text = evidence(gate);
      return text === '' ? undefined : piece(text, 'dim' satisfies Role);
    }),
  ];
}

function evidence(gate: GateResult): string {
  const reason = gateReason(gate);
  const source =
    gate.verdict !== Verdict.NOT_MEASURED && gate.source !== '' && !reason.includes(gate.source)
      ? `source: ${gate.source}`
      : '';
  return [reason, source, ownGateText(gate)].filter((part) => part !== '').join('; ');
}

/**
 * Text for a target from the kernel's own manifest, with the manifest's reason unless the detail already contains it.
 */
export function ownGateText({ ownReason, detail }: Pick<GateResult, 'ownReason' | 'detail'>): string {
  if (ownReason === '') return '';
  return detail.includes(ownReason) ? "by the kernel's own gates" : `by the kernel's own gates: ${ownReason}`;
}
