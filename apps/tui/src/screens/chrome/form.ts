/**
 * The form before a run. Each field has a row, with its value between arrows; below are the field's meaning and any
 * problem with it.
 */
import { padCells } from '../../present/cells/cell-text.ts';
import { inputRuns } from '../../present/cells/input-runs.ts';
import { fitRow, run, selectRow, windowStart, wrapRows, type Row, type Role } from '../../present/cells/row.ts';
import {
  actionOf,
  AS_USUAL,
  isPath,
  isTyped,
  matchingChoices,
  valueOf,
  type FormField,
} from '../../state/form-field.ts';
import { commandLineOf, isTaken, tunedValues } from '../../state/form-command.ts';
import { counted } from '../../present/numbers.ts';
import { usualOf } from '../../state/form-usual.ts';
import { partsOf } from '../../state/input-line.ts';
import type { Overlay } from '../../state/app-state.ts';
import { formProblems } from '../../state/form-problem.ts';
import { typedPath } from '../../state/run-form.ts';
import type { PaneContent, Size } from '../pane/view.ts';

const LABEL_CELLS = 16;
/** Mark, label and remark around a typed text. */
const CELLS_AROUND_TEXT = LABEL_CELLS + 13;
const MOST_ABOUT_ROWS = 5;
const MOST_COMMAND_ROWS = 2;

type OpenForm = Pick<Extract<Overlay, { kind: 'form' }>, 'form' | 'defaults'>;

export function formPane({ form, defaults }: OpenForm, { width, height }: Size): PaneContent {
  const { kernel, fields, selected } = form;
  const problems = formProblems(form);
  const [problem] = problems;
  const own = problems.find(({ index }) => index === selected);
  const searched = actionOf(form) === 'tune' ? tunedValues(form, defaults) : [];
  const rows = fields.map((field, index) =>
    fieldRow(field, {
      isDefault: isDefault(field, defaults),
      usual: usualOf(form, field),
      searched: searched.find(({ name }) => field.id === `param:${name}`)?.values,
      notIn: isTaken(form, field) ? undefined : actionOf(form),
      selected: index === selected,
      wrong: problems.some((each) => each.index === index),
      width,
    }),
  );
  const text = own?.text ?? aboutOf(fields[selected]);
  const about = wrapRows(text, width, { role: own === undefined ? 'dim' : 'bad' }).slice(0, MOST_ABOUT_ROWS);
  const command =
    problem === undefined
      ? wrapRows(`In a shell: ${commandLineOf(form, defaults)}`, width, { role: 'dim', hang: 2 }).slice(
          0,
          MOST_COMMAND_ROWS,
        )
      : [];
  const visible = Math.max(1, height - about.length - command.length - 1);
  const start = windowStart({ from: selected, to: selected + 1, count: rows.length, height: visible });
  const remark =
    problem === undefined
      ? 'Enter runs, Esc closes'
      : `fix ${problems.map(({ index }) => fields[index]?.label ?? '').join(', ')} before it can run`;
  const below = rows.length - start - visible;
  const rule = below > 0 ? ` ↓ ${counted(below, 'more field')} `.padEnd(width, '─') : '─'.repeat(width);
  return {
    title: `Run ${typedPath(form) ?? kernel.kernelId}`,
    remark,
    body: [...rows.slice(start, start + visible), [run(rule, 'border')], ...about, ...command],
  };
}

function aboutOf(field: FormField | undefined): string {
  if (field === undefined) return '';
  if (field.id === 'kernel' && isPath(field.typed ?? '')) return 'The kernel in this folder. Enter runs it.';
  return field.aboutChoices?.[field.chosen] ?? field.about;
}

const isDefault = (field: FormField, { fields }: OpenForm['defaults']): boolean =>
  field.id !== 'kernel' && fields.some((usual) => usual.id === field.id && valueOf(usual) === valueOf(field));

interface FieldLook {
  /** True if the value is the one that a run without the form would use. */
  isDefault: boolean;
  /** The value that a run uses if AS_USUAL is chosen. */
  usual: string | undefined;
  /** The values of a parameter that a search tries; undefined if the form does not start a search. */
  searched: readonly string[] | undefined;
  /** The form's command if it ignores the field; undefined if it uses the field. */
  notIn: string | undefined;
  selected: boolean;
  wrong: boolean;
  width: number;
}

function fieldRow(field: FormField, look: FieldLook): Row {
  const { notIn, selected, wrong, width } = look;
  const mark = wrong ? '✗ ' : '  ';
  const head: Row = [
    run(selected ? '▸ ' : mark, wrong ? 'bad' : undefined),
    run(padCells(field.label, LABEL_CELLS), 'key'),
  ];
  const role = wrong ? 'bad' : 'accent';
  const row: Row =
    notIn === undefined
      ? [...head, ...valueRuns(field, { ...look, role })]
      : [...head, run(`   not used by ${notIn}`, 'dim')];
  return selected ? selectRow(row, width) : fitRow(row, width);
}

/** The typed text with its cursor, or the choice between arrows. A kernel name that is being typed shows both. */
function valueRuns(
  field: FormField,
  { isDefault, usual, searched = [], selected, width, role }: FieldLook & { role: Role },
): Row {
  const { choices, chosen, keepsInSearch, typed = '' } = field;
  const text = partsOf({ text: typed, after: field.after ?? 0 });
  const typedRuns = (of?: Role): Row => (selected ? inputRuns(text, width - CELLS_AROUND_TEXT, of) : [run(typed, of)]);
  if (isTyped(field)) return [run('   '), ...typedRuns(role), run('   typed', 'dim')];
  if (searched.length > 1)
    return [run(' ← ', 'dim'), run(searched.join(', '), role), run(' →', 'dim'), run('   all are tried', 'dim')];
  if (searched.length === 1 && keepsInSearch && isDefault)
    return [
      run(' ← ', 'dim'),
      run(valueOf(field), role),
      run(' →', 'dim'),
      run('   kept: it decides a dtype or layout', 'dim'),
    ];
  const isFound = typed === '' || matchingChoices(field).length > 0;
  const arrows: Row = [run(' ← ', 'dim'), run(isFound ? shownValue(field, usual) : 'none', role), run(' →', 'dim')];
  if (typed !== '')
    return [...arrows, run('   /', 'key'), ...typedRuns(), run(` ${matchingChoices(field).length} match`, 'dim')];
  return [
    ...arrows,
    run(`   ${isDefault ? 'default, ' : ''}${chosen + 1} of ${choices.length}${howToChange(field, selected)}`, 'dim'),
  ];
}

/** A field that takes no text says how it changes, because typing into it does nothing. */
function howToChange({ typed, choices }: FormField, selected: boolean): string {
  if (typed !== undefined) return ', or type one';
  return selected && choices.length > 1 ? ', ← → change it' : '';
}

const shownValue = (field: FormField, usual: string | undefined): string =>
  valueOf(field) === AS_USUAL && usual !== undefined ? usual : valueOf(field);
