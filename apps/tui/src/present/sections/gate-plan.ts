/** Describes a plan: the cases and measurements, and the gates that decide. */
import type { CaseSet, GatePlan, Shape, Tolerance } from '@flashcore/shared/contract';
import { fact, facts, heading, tableOf, type Block, type Column } from '../blocks.ts';
import { piece } from '../roles.ts';
import { counted } from '../numbers.ts';
import { MODE_WORDS, caseText } from '../words.ts';
import { toleranceRule } from './cases.ts';

/** Text such as "parity, 7 shapes"; without the count if the runner does not list the set. */
type CaseOfSet = Pick<CaseSet, 'name' | 'shapes'>;

function setText(name: string, caseSets: readonly CaseOfSet[]): string {
  const set = caseSets.find((known) => known.name === name);
  return set === undefined ? name || 'none' : `${name} (${counted(set.shapes.length, 'shape')})`;
}

/** Titles as in the table of gates, in quotes because a title may contain a comma. */
const titles = ({ gates }: GatePlan, wanted: string): string[] =>
  gates.filter(({ level }) => level === wanted).map(({ title, gateId }) => (title === '' ? gateId : `"${title}"`));

/** Text such as 'hard gates: "Register spills", "Parity cases"; 19 others only warn'. */
export function decidingText(plan: GatePlan): string {
  const [hard, shown, off] = [titles(plan, 'hard'), titles(plan, 'warn'), titles(plan, 'off')];
  const are = (number: number): string => (number === 1 ? 'is' : 'are');
  return [
    hard.length === 0 ? 'no hard gate' : `hard gate${hard.length === 1 ? '' : 's'}: ${hard.join(', ')}`,
    ...(shown.length === 0 ? [] : [`${counted(shown.length, 'other')} only ${shown.length === 1 ? 'warns' : 'warn'}`]),
    ...(off.length === 0 ? [] : [`${off.join(', ')} ${are(off.length)} off`]),
  ].join('; ');
}

/** The plan without its gates: cases, shapes, modes, counters and champion. */
export function measuresText(plan: GatePlan, caseSets: readonly CaseOfSet[]): string {
  const { cases, shapes, modes, metricSet, champion } = plan;
  return [
    `verifies ${setText(cases, caseSets)}`,
    shapes === 'none'
      ? 'times nothing'
      : `times ${setText(shapes, caseSets)} ${modes.map((mode) => MODE_WORDS[mode]).join(' and ')}`,
    metricSet === 'none' ? 'reads no counters' : `reads counters "${metricSet}"`,
    champion ? 'compares with the champion' : 'compares with no champion',
  ].join(', ');
}

/** Text such as "May be merged: compiles without spills, …". */
export const aimText = ({ title, about }: Pick<GatePlan, 'title' | 'about'>): string =>
  about === '' ? title : `${title}: ${about}`;

/** The whole description of a plan, in lines. */
export const planLines = (plan: GatePlan, caseSets: readonly CaseOfSet[]): string[] => [
  aimText(plan),
  measuresText(plan, caseSets),
  decidingText(plan),
];

const PLAN_COLUMNS: readonly Column<GatePlan>[] = [
  { title: 'plan', cell: ({ name, default: isDefault }) => `${name}${isDefault ? ' (default)' : ''}` },
  { title: 'cases', cell: ({ cases }) => cases },
  { title: 'times', cell: ({ shapes }) => (shapes === 'none' ? '-' : shapes) },
  {
    title: 'modes',
    drop: 2,
    cell: ({ shapes, modes }) => (shapes === 'none' ? '-' : modes.map((mode) => MODE_WORDS[mode]).join(' ')),
  },
  { title: 'counters', drop: 1, cell: ({ metricSet }) => metricSet },
  { title: 'champion', drop: 3, cell: ({ champion }) => (champion ? 'compared' : '-') },
  { title: 'accepts', drop: 4, cell: ({ acceptable }) => (acceptable ? 'yes' : '-') },
];

/** The runner's plans, the default first. */
export const plansBlocks = (plans: readonly GatePlan[]): Block[] =>
  plans.length === 0
    ? []
    : [
        heading('Plans', 'fa-tui run --plan NAME'),
        tableOf(PLAN_COLUMNS, plans, (plan) => piece(`${aimText(plan)}; ${decidingText(plan)}`, 'dim')),
      ];

/** The case sets of a runner with their shapes. */
export const caseSetsBlocks = (caseSets: readonly CaseSet[]): Block[] =>
  caseSets.length === 0
    ? []
    : [
        heading('Case sets', '--cases NAME, --shapes NAME'),
        facts(...caseSets.map(({ name, shapes }) => fact(name, shapesText(shapes)))),
      ];

/** The tolerance profiles of a runner. */
export const tolerancesBlocks = (tolerances: readonly Tolerance[]): Block[] =>
  tolerances.length === 0
    ? []
    : [
        heading('Tolerances', '--tolerance NAME, as they are for fp16'),
        facts(...tolerances.map((tolerance) => fact(tolerance.profile ?? '', toleranceRule(tolerance)))),
      ];

const MOST_SHAPES = 9;

function shapesText(shapes: readonly Shape[]): string {
  const between = shapes.some(({ name }) => name !== '') ? ', ' : ' ';
  const first = shapes.slice(0, MOST_SHAPES).map(caseText).join(between);
  return shapes.length <= MOST_SHAPES ? first : `${first} and ${shapes.length - MOST_SHAPES} more (--json has them)`;
}
