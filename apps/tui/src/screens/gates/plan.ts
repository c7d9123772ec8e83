/** The plan that judges an experiment: the cases and measurements, and the gates that decide. */
import type { CaseSet, GatePlan } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import { flowRows, fitRow, labelled, run, wrapRows, type Row } from '../../present/cells/row.ts';
import { aimText, decidingText, measuresText } from '../../present/sections/gate-plan.ts';
import type { Size } from '../pane/view.ts';

/** At most `height` rows: the title, then the measurements, the deciding gates and the requirements. */
export function planRows(plan: GatePlan, caseSets: readonly CaseSet[], { width, height }: Size): Row[] {
  const { name, fallback, requirements } = plan;
  const dim = { role: 'dim', hang: 2 } as const;
  const all: Row[] = [
    fitRow([run(`plan ${name}`, 'title'), run(`  ${aimText(plan)}`, 'dim')], width),
    ...wrapRows(measuresText(plan, caseSets), width, dim),
    ...wrapRows(decidingText(plan), width, dim),
    ...flowRows(
      [
        ...(requirements.length === 0 ? [] : [labelled('requires', requirements.join(', '))]),
        labelled('where it fails', entryOf(FALLBACKS, fallback) ?? fallback),
      ],
      width,
    ),
  ];
  return all.slice(0, height);
}

const FALLBACKS: Record<string, string> = {
  beside: 'USE_WMMA=0 is run too, and decides nothing',
  continue: 'continues with USE_WMMA=0, whose result decides',
  none: 'nothing else is run',
};
