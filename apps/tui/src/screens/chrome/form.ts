/**
 * The form before a run. Each field has a row, with its value between arrows; below are the field's meaning and any
 * problem with it.
 */
import { padCells } from '../../present/cells/cell-text.ts';
import { inputRuns } from '../../present/cells/input-runs.ts';
import {
  BLANK_ROW,
  fitRow,
  run,
  selectRow,
  windowStart,
  wrapRows,
  type Row,
  type Role,
} from '../../present/cells/row.ts';
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
import { choicesOf, usualOf } from '../../state/form-usual.ts';
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
/** Rows below the fields that are kept free even if they do not fit, for most texts. */
const LEAST_ROWS_BELOW = 3;

type OpenForm = Pick<Extract<Overlay, { kind: 'form' }>, 'form' | 'defaults'>;

export function formPane({ form, defaults }: OpenForm, { width, height }: Size): PaneContent {
  const { kernel, fields, selected } = form;
  const problems = formProblems(form);
  const [problem] = problems;
  const own = problems.find(({ index }) => index === selected);
  const searched = actionOf(form) === 'tune' ? tunedValues(form, defaults) : [];
  const fieldRows = fields.map((field, index) =>
    fieldRow(field, {
      isDefault: isDefault(field, defaults),
      usual: usualOf(form, field),
      choices: choicesOf(form, field),
      searched: searched.find(({ name }) => field.id === `param:${name}`)?.values,
      selected: index === selected,
      wrong: problems.some((each) => each.index === index),
      width,
    }),
  );
  // Fields that the command does not take share a row, so that they push none of the others out of sight.
  const isShown = (field: FormField, index: number): boolean =>
    isTaken(form, field) || index === selected || problems.some((each) => each.index === index);
  const used = fields.flatMap((field, index) => (isShown(field, index) ? [index] : []));
  const unused = fields.filter((field, index) => !isShown(field, index)).map(({ label }) => label);
  const rows = [
    ...used.map((index) => fieldRows[index] ?? []),
    ...(unused.length === 0
      ? []
      : [fitRow([run(`  not used by ${actionOf(form)}: ${unused.join(', ')}`, 'dim')], width)]),
  ];
  const about =
    own === undefined
      ? aboutRows(fields[selected], width)
      : wrapRows(own.text, width, { role: 'bad' }).slice(0, MOST_ABOUT_ROWS);
  const command =
    problem === undefined
      ? wrapRows(`In a shell: ${commandLineOf(form, defaults)}`, width, { role: 'dim', hang: 2 }).slice(
          0,
          MOST_COMMAND_ROWS,
        )
      : [];
  // The form keeps its height while the cursor moves, unless a text is longer than the rows that are left for it.
  const longest =
    Math.max(...used.map((index) => aboutRows(fields[index], width).length)) + Math.max(1, command.length);
  const left = Math.max(LEAST_ROWS_BELOW, height - rows.length - 1);
  const free = Math.max(about.length + command.length, Math.min(longest, left));
  const visible = Math.max(1, Math.min(rows.length, height - free - 1));
  const blank = Array.from({ length: free - about.length - command.length }, () => BLANK_ROW);
  const place = used.indexOf(selected);
  const start = windowStart({ from: place, to: place + 1, count: rows.length, height: visible });
  const remark =
    problem === undefined
      ? 'Enter runs, Esc closes'
      : `fix ${problems.map(({ index }) => fields[index]?.label ?? '').join(', ')} before it can run`;
  const below = used.length - start - visible;
  const rule = below > 0 ? ` ↓ ${counted(below, 'more field')} `.padEnd(width, '─') : '─'.repeat(width);
  return {
    title: `Run ${typedPath(form) ?? kernel.kernelId}`,
    remark,
    body: [...rows.slice(start, start + visible), [run(rule, 'border')], ...about, ...blank, ...command],
  };
}

const aboutRows = (field: FormField | undefined, width: number): Row[] =>
  wrapRows(aboutOf(field), width, { role: 'dim' }).slice(0, MOST_ABOUT_ROWS);

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
  /** The choices that Left and Right go through. */
  choices: readonly string[];
  /** The values of a parameter that a search tries; undefined if the form does not start a search. */
  searched: readonly string[] | undefined;
  selected: boolean;
  wrong: boolean;
  width: number;
}

function fieldRow(field: FormField, look: FieldLook): Row {
  const { selected, wrong, width } = look;
  const mark = wrong ? '✗ ' : '  ';
  const head: Row = [
    run(selected ? '▸ ' : mark, wrong ? 'bad' : undefined),
    run(padCells(field.label, LABEL_CELLS), 'key'),
  ];
  const role = wrong ? 'bad' : 'accent';
  const row: Row = [...head, ...valueRuns(field, { ...look, role })];
  return selected ? selectRow(row, width) : fitRow(row, width);
}

/** The typed text with its cursor, or the choice between arrows. A kernel name that is being typed shows both. */
function valueRuns(
  field: FormField,
  { isDefault, usual, choices, searched = [], selected, width, role }: FieldLook & { role: Role },
): Row {
  const { keepsInSearch, typed = '' } = field;
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
    run(
      `   ${isDefault ? 'default, ' : ''}${choices.indexOf(choiceOf(field)) + 1} of ${choices.length}${howToChange(field, selected)}`,
      'dim',
    ),
  ];
}

/** A field that takes no text says how it changes, because typing into it does nothing. */
function howToChange({ typed, choices }: FormField, selected: boolean): string {
  if (typed !== undefined) return ', or type one';
  return selected && choices.length > 1 ? ', ← → change it' : '';
}

const choiceOf = ({ choices, chosen }: FormField): string => choices[chosen] ?? '';

const shownValue = (field: FormField, usual: string | undefined): string =>
  valueOf(field) === AS_USUAL && usual !== undefined ? usual : valueOf(field);
