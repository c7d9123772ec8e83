/** The command line that is equivalent to a form. */
import { entryOf, shellWord } from '@flashcore/shared/text';
import { ACTIONS, actionOf, NONE, OFF, valueOf, type Action, type FormField } from './form-field.ts';
import { kernelKey } from './listed-kernel.ts';
import { typedPath, type RunForm } from './run-form.ts';

/** The commands that take a field, and the option for its value. */
interface Flag {
  readonly in: readonly Action[];
  readonly words: (value: string, field: FormField) => string[];
}

const ALL: readonly Action[] = ACTIONS.filter((action) => action !== 'tune');
const plain =
  (option: string) =>
  (value: string): string[] => [option, value];

const FLAGS: Readonly<Record<string, Flag>> = {
  plan: { in: ['run'], words: plain('--plan') },
  config: { in: ALL, words: plain('--config') },
  shape: {
    in: ['run', 'verify', 'bench', 'profile', 'tune'],
    words: (value) =>
      value
        .split(',')
        .map((shape) => shape.trim())
        .filter(Boolean)
        .flatMap((shape) => ['--shape', shape]),
  },
  cases: { in: ['run', 'verify'], words: plain('--cases') },
  seeds: { in: ['run', 'verify'], words: plain('--seeds') },
  tolerance: { in: ['run', 'verify'], words: plain('--tolerance') },
  seconds: { in: ['run', 'bench'], words: plain('--max-seconds') },
  samples: { in: ['run', 'bench'], words: plain('--samples') },
  arch: { in: ALL, words: plain('--arch') },
  registers: { in: ALL, words: plain('--max-registers') },
  'fast-math': { in: ALL, words: (value) => [value === OFF ? '--no-fast-math' : '--fast-math'] },
  sanitizer: { in: ['run', 'verify'], words: () => ['--sanitize'] },
  metrics: { in: ['run', 'profile'], words: plain('--metrics') },
  device: { in: ACTIONS, words: plain('--device') },
  champion: {
    in: ['run', 'bench'],
    words: (value) => (value === NONE ? ['--no-champion'] : ['--champion', value]),
  },
};

/** True if the form's command takes the field. */
export const isTaken = (form: Pick<RunForm, 'fields'>, { id }: FormField): boolean =>
  entryOf(FLAGS, id)?.in.includes(actionOf(form)) ?? true;

/** Rows from the cursor to the next field in a direction that the form's command takes; 0 if there is none. */
export function rowsToNext(form: Pick<RunForm, 'fields' | 'selected'>, direction: 1 | -1): number {
  const { fields, selected } = form;
  const ahead = direction > 0 ? fields.slice(selected + 1) : fields.slice(0, selected).toReversed();
  return direction * (ahead.findIndex((field) => isTaken(form, field)) + 1);
}

const isParameter = ({ id }: FormField): boolean => id.startsWith('param:');

const isChanged = (field: FormField, defaults: Pick<RunForm, 'fields'>): boolean => {
  const usual = defaults.fields.find(({ id }) => id === field.id);
  return usual === undefined || valueOf(usual) !== valueOf(field);
};

/**
 * Values that a search tries: all values of an unchanged parameter, unless it decides dtype or layout, and only the
 * chosen value of a changed one.
 */
export function tunedValues(
  { fields }: Pick<RunForm, 'fields'>,
  defaults: Pick<RunForm, 'fields'>,
): { readonly name: string; readonly values: readonly string[] }[] {
  return fields.filter(isParameter).map((field) => ({
    name: field.label,
    values: isChanged(field, defaults) || field.keepsInSearch ? [valueOf(field)] : field.choices,
  }));
}

/** The command line of a form, such as "fa-tui run ./mine --seeds 1". Fields at their defaults are left out. */
export function commandLineOf(form: RunForm, defaults: RunForm): string {
  const action = actionOf(form);
  const changed = form.fields.filter((field) => isChanged(field, defaults));
  const parameters = changed.filter(isParameter);
  const options = changed.flatMap((field): string[] => {
    const flag = entryOf(FLAGS, field.id);
    return flag?.in.includes(action) ? flag.words(valueOf(field), field) : [];
  });
  // If `--set` names any parameter, a search varies only the parameters that it names. So all parameters to vary are
  // named.
  const sets =
    action === 'tune' && parameters.length > 0
      ? tunedValues(form, defaults).map(({ name, values }) => `${name}=${values.join(',')}`)
      : parameters.map((field) => `${field.label}=${valueOf(field)}`);
  return [
    'fa-tui',
    action,
    typedPath(form) ?? kernelKey(form.kernel),
    ...sets.flatMap((text) => ['--set', text]),
    ...options,
  ]
    .map(shellWord)
    .join(' ');
}
