/** The form before a run: a field a row, its value between arrows, below it what it means or what is wrong with it. */
import { padCells } from '../../present/cells/cell-text.ts';
import { fitRow, run, selectRow, windowStart, wrapRows, type Row, type Role } from '../../present/cells/row.ts';
import { matchingChoices, valueOf, type FormField } from '../../state/form-field.ts';
import type { RunForm } from '../../state/run-form.ts';
import { formProblem } from '../../state/form-problem.ts';
import type { PaneContent, Size } from '../pane/view.ts';

const LABEL_CELLS = 16;
const MOST_ABOUT_ROWS = 5;

export function formPane(form: RunForm, { width, height }: Size): PaneContent {
  const { kernel, fields, selected } = form;
  const problem = formProblem(form);
  const rows = fields.map((field, index) =>
    fieldRow(field, { selected: index === selected, wrong: index === problem?.index, width }),
  );
  const text = problem?.index === selected ? problem.text : aboutOf(fields[selected]);
  const about = wrapRows(text, width, { role: problem?.index === selected ? 'bad' : 'dim' }).slice(0, MOST_ABOUT_ROWS);
  const visible = Math.max(1, height - about.length - 1);
  const start = windowStart({ from: selected, to: selected + 1, count: rows.length, height: visible });
  const remark =
    problem === undefined
      ? 'Enter runs, Esc closes'
      : `${fields[problem.index]?.label ?? ''} must be corrected before it runs`;
  return {
    title: `Run ${kernel.kernelId}`,
    remark,
    body: [...rows.slice(start, start + visible), [run('─'.repeat(width), 'border')], ...about],
  };
}

const aboutOf = (field: FormField | undefined): string =>
  field === undefined ? '' : (field.aboutChoices?.[field.chosen] ?? field.about);

interface FieldLook {
  selected: boolean;
  wrong: boolean;
  width: number;
}

function fieldRow(field: FormField, { selected, wrong, width }: FieldLook): Row {
  const head: Row = [run(selected ? '▸ ' : '  '), run(padCells(field.label, LABEL_CELLS), 'key')];
  const row: Row = [...head, ...valueRuns(field, { selected, role: wrong ? 'bad' : 'accent' })];
  return selected ? selectRow(row, width) : fitRow(row, width);
}

/** What was typed with its cursor, or the choice between arrows; of a kernel that was typed for both. */
function valueRuns(field: FormField, { selected, role }: { selected: boolean; role: Role }): Row {
  const { id, choices, chosen, typed = '' } = field;
  const cursor = run(selected ? '█' : '', 'accent');
  if (typed !== '' && id !== 'kernel') return [run('   '), run(typed, role), cursor, run('   typed', 'dim')];
  const arrows: Row = [run(' ← ', 'dim'), run(valueOf(field), role), run(' →', 'dim')];
  if (typed !== '')
    return [...arrows, run('   /', 'key'), run(typed), cursor, run(` ${matchingChoices(field).length} match`, 'dim')];
  return [
    ...arrows,
    run(`   ${chosen + 1} of ${choices.length}${field.typed === undefined ? '' : ', or type'}`, 'dim'),
  ];
}
