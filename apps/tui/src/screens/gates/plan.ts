/** What an experiment is judged by: the plan, what it verifies and measures, which gates decide. */
import type { CaseSet, GatePlan } from '@flashcore/shared/contract';
import { flowRows, fitRow, labelled, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { counted } from '../../present/numbers.ts';
import { MODE_WORDS } from '../../present/words.ts';

/** "parity, 7 shapes"; the number of a set that the runner does not tell of stays away. */
function setText(name: string, caseSets: readonly CaseSet[]): string {
  const set = caseSets.find((known) => known.name === name);
  return set === undefined ? name || 'none' : `${name}, ${counted(set.shapes.length, 'shape')}`;
}

const titles = ({ gates }: GatePlan, levels: readonly string[]): string[] =>
  gates.filter(({ level }) => levels.includes(level)).map(({ gateId }) => gateId);

/** "spills, correctness, regression, documented decide; 19 others are only shown". */
export function decidingText(plan: GatePlan): string {
  const [hard, shown, off] = [titles(plan, ['hard']), titles(plan, ['warn']), titles(plan, ['off'])];
  const are = (number: number): string => (number === 1 ? 'is' : 'are');
  return [
    hard.length === 0 ? 'no gate decides' : `${hard.join(', ')} ${hard.length === 1 ? 'decides' : 'decide'}`,
    ...(shown.length === 0 ? [] : [`${counted(shown.length, 'other')} ${are(shown.length)} only shown`]),
    ...(off.length === 0 ? [] : [`${off.join(', ')} ${are(off.length)} off`]),
  ].join('; ');
}

/** What it measures, without its gates: cases, shapes, modes, counters, champion. */
export function measuresText(plan: GatePlan, caseSets: readonly CaseSet[]): string {
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

/** In at most `height` rows: the title first, then what it measures, what decides, what it requires. */
export function planRows(
  plan: GatePlan,
  caseSets: readonly CaseSet[],
  { width, height }: { width: number; height: number },
): Row[] {
  const { name, title, about, fallback, requirements } = plan;
  const dim = { role: 'dim', hang: 2 } as const;
  const all: Row[] = [
    fitRow([run(`plan ${name}`, 'title'), run(`  ${title}: ${about}`, 'dim')], width),
    ...wrapRows(measuresText(plan, caseSets), width, dim),
    ...wrapRows(decidingText(plan), width, dim),
    ...flowRows(
      [
        ...(requirements.length === 0 ? [] : [labelled('requires', requirements.join(', '))]),
        labelled('where it fails', FALLBACKS[fallback] ?? fallback),
      ],
      width,
    ),
  ];
  return all.slice(0, height);
}

const FALLBACKS: Record<string, string> = {
  beside: 'USE_WMMA=0 is run beside it and decides nothing',
  continue: 'goes on with USE_WMMA=0, whose result decides',
  none: 'nothing else is run',
};
