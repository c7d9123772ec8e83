/** The form before a run: a field a row, its value between arrows, below it what it means. */
import { padCells } from '../plot/cells.ts';
import { fitRow, run, selectRow, windowStart, wrapRows, type Row } from '../plot/row.ts';
import type { RunForm } from '../state/run-form.ts';
import type { PaneContent, Size } from './view.ts';

const LABEL_CELLS = 16;

export function formPane({ kernelId, fields, selected }: RunForm, { width, height }: Size): PaneContent {
  const rows = fields.map(({ label, choices, chosen }, index): Row => {
    const row: Row = [run(index === selected ? '▸ ' : '  '), run(padCells(label, LABEL_CELLS), 'key'), run(' ← ', 'dim'), run(choices[chosen] ?? '', 'accent'), run(' →', 'dim'), run(`   ${chosen + 1} of ${choices.length}`, 'dim')];
    return index === selected ? selectRow(row, width) : fitRow(row, width);
  });
  const about = wrapRows(fields[selected]?.about ?? '', width, { role: 'dim' }).slice(0, 3);
  const visible = Math.max(1, height - about.length - 1);
  const start = windowStart({ from: selected, to: selected + 1, count: rows.length, height: visible });
  return { title: `Run ${kernelId}`, remark: 'Enter runs, Esc closes', body: [...rows.slice(start, start + visible), [run('─'.repeat(width), 'border')], ...about] };
}
