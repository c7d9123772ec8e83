/** Keys in the form before a run. */
import path from 'node:path';
import { JobKind } from '@flashcore/shared/contract';
import { DEFAULT_PROBLEM, recordedProblem } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Overlay, StartedForm, AppState } from '../state/app-state.ts';
import type { JobInHand } from '../state/chosen.ts';
import { formRequest } from '../session/form-request.ts';
import type { FormContext } from '../state/form-choices.ts';
import { commandLineOf, rowsToNext } from '../state/form-command.ts';
import { isTyped, valueOf, type Action } from '../state/form-field.ts';
import { kernelKey, type ListedKernel } from '../state/listed-kernel.ts';
import {
  formOf,
  typedPath,
  withAction,
  withKernel,
  withKeys,
  withParameters,
  withTyping,
  type RunForm,
} from '../state/run-form.ts';
import { formProblem } from '../state/form-problem.ts';
import { expandHome } from '../watch/complete-path.ts';
import type { KeyContext } from './handler.ts';
import { typedCharacter } from '../state/input-line.ts';

const formContextOf = (
  { kernels, host, plans, caseSets, problems, tolerances }: AppState,
  among?: readonly ListedKernel[],
): FormContext => ({
  kernels,
  among,
  host,
  archs: host?.tools.find(({ name }) => name === 'nvcc')?.archs ?? [],
  devices: host?.devices.map(({ deviceId }) => deviceId) ?? [],
  plans,
  caseSets,
  problems,
  tolerances,
});

/** Opens a form. `form` has the user's values, and `defaults` the kernel's own. */
export function openForm({ store }: KeyContext, form: RunForm, defaults: RunForm = form): void {
  store.dispatch({ type: 'overlay', overlay: { kind: 'form', form, defaults } });
}

interface FormStart {
  /** The kernels to choose from; default: all. */
  readonly among?: readonly ListedKernel[];
  /** Values to begin with, by the parameter's name; default: the kernel's own. */
  readonly parameters?: Readonly<Record<string, bigint>>;
}

/** Opens the form of a kernel. */
export async function openKernelForm(
  context: KeyContext,
  kernel: ListedKernel,
  { among, parameters = {} }: FormStart = {},
): Promise<void> {
  const reading = unreadProblems(context, kernel);
  // Without anything to read, the form opens at once, for the keys that were typed ahead.
  if (reading !== undefined) await reading;
  const defaults = formOf(kernel, formContextOf(context.store.state, among));
  openForm(context, withParameters(defaults, parameters), defaults);
}

/** Reads the problems, which have the cases of a kernel that is not about attention; undefined if that was done. */
export const unreadProblems = (
  { store: { state }, session }: KeyContext,
  { problem }: ListedKernel,
): Promise<void> | undefined =>
  state.problems === undefined && recordedProblem(problem) !== DEFAULT_PROBLEM ? session.lists.problems() : undefined;

/** The form of a kernel at its defaults. */
export function usualForm({ store }: KeyContext, kernel: ListedKernel): StartedForm {
  const defaults = formOf(kernel, formContextOf(store.state));
  return { form: defaults, defaults };
}

/**
 * The form that started a job. For a job that this program did not start from a form, its command and the parameters in
 * its label; the runner's list tells no more of it.
 */
export function formOfJob(context: KeyContext, job: JobInHand, kernel: ListedKernel): StartedForm {
  const started = entryOf(context.store.state.ui.forms, job.name);
  if (started !== undefined) return started;
  const { defaults } = usualForm(context, kernel);
  return { form: withParameters(withAction(defaults, KIND_ACTIONS[job.kind]), parametersIn(job.label)), defaults };
}

const KIND_ACTIONS: Record<JobKind, Action> = {
  [JobKind.UNSPECIFIED]: 'run',
  [JobKind.EXPERIMENT]: 'run',
  [JobKind.BUILD]: 'build',
  [JobKind.VERIFY]: 'verify',
  [JobKind.BENCHMARK]: 'bench',
  [JobKind.PROFILE]: 'profile',
  [JobKind.TUNE]: 'tune',
};

/** The parameters in a label such as "flashcore_v6 USE_WMMA=0 BLOCK_Q=64". */
const parametersIn = (label: string): Record<string, bigint> =>
  Object.fromEntries(
    [...label.matchAll(/(?<= )(\w+)=(-?\d+)(?= |$)/g)].map(([, name = '', value = '']) => [name, BigInt(value)]),
  );

/** Arrows always move. In a text field every other character is typed; elsewhere vi's letters move too. */
export function pressInForm(
  key: string,
  { form, defaults }: Extract<Overlay, { kind: 'form' }>,
  context: KeyContext,
): void {
  const { store } = context;
  const show = (next: RunForm): void => openForm(context, next, defaults);
  if (LEAVES_FIELD.has(key) && typedPath(form) !== undefined) return void openFolder(key, form, context);
  switch (key) {
    case 'escape':
      return store.dispatch({ type: 'overlay', overlay: undefined });
    case 'up':
    case 'shift+tab':
      return show(withKeys(form, { by: rowsToNext(form, -1) }));
    case 'down':
    case 'tab':
      return show(withKeys(form, { by: rowsToNext(form, 1) }));
    case 'enter':
      return runForm(context, form, defaults);
  }
  const field = form.fields[form.selected];
  // A typed text that replaces the choices has no arrows around it: Left and Right move in it.
  const isChoice = field === undefined || !isTyped(field);
  if (isChoice && key === 'right') return changed(context, form, { defaults, change: 1 });
  if (isChoice && key === 'left') return changed(context, form, { defaults, change: -1 });
  const takesText = field?.typed !== undefined;
  if (takesText) return typedInto(context, withTyping(form, key), { form, defaults });
  switch (key) {
    case 'q':
      return store.dispatch({ type: 'overlay', overlay: undefined });
    case 'k':
      return show(withKeys(form, { by: rowsToNext(form, -1) }));
    case 'j':
      return show(withKeys(form, { by: rowsToNext(form, 1) }));
    case 'l':
    case 'space':
      return changed(context, form, { defaults, change: 1 });
    case 'h':
      return changed(context, form, { defaults, change: -1 });
  }
  if (typedCharacter(key) !== undefined) tellChoices(form, context);
}

/** Says that the field takes no text, to someone who types into it. */
function tellChoices({ fields, selected }: RunForm, { store }: KeyContext): void {
  const { label = '', choices = [] } = fields[selected] ?? {};
  const text = choices.length > 1 ? `${label} takes only its choices: ← → change it` : `${label} has only one choice`;
  const until = ({ ui: { overlay } }: AppState): boolean =>
    overlay?.kind !== 'form' || overlay.form.selected !== selected || overlay.form.fields[selected]?.label !== label;
  store.dispatch({ type: 'notice', text, tone: 'warn', until });
}

const LEAVES_FIELD = new Set(['enter', 'tab', 'shift+tab', 'up', 'down']);

/** Continues with the kernel in the typed folder, then handles `key`. A folder without a kernel is refused. */
async function openFolder(key: string, form: RunForm, context: KeyContext): Promise<void> {
  const { store, session } = context;
  const folder = path.resolve(expandHome(typedPath(form) ?? ''));
  const kernel = await session.readKernel(folder);
  if (kernel === undefined || kernel.manifestError !== undefined)
    return store.dispatch({
      type: 'notice',
      text: kernel?.manifestError ?? 'A replay cannot run a folder',
      tone: 'warn',
      // Another folder is typed, or the form is closed.
      until: ({ ui: { overlay } }) => overlay?.kind !== 'form' || typedPath(overlay.form) !== typedPath(form),
    });
  const withFolder = formForKernel(form, kernel, context);
  openForm(context, withFolder.form, withFolder.defaults);
  pressInForm(key, { kind: 'form', ...withFolder }, context);
}

/** The form for another kernel, with the typed kernel name cleared. */
function formForKernel(
  form: RunForm,
  kernel: ListedKernel,
  { store: { state } }: KeyContext,
): { form: RunForm; defaults: RunForm } {
  const fields = form.fields.map((field) => (field.id === 'kernel' ? { ...field, typed: '' } : field));
  // A form that was opened from a problem lists that problem's kernels only, until a kernel of another one is chosen.
  const isOfProblem = form.among?.some(({ problem }) => recordedProblem(problem) === recordedProblem(kernel.problem));
  const formContext = formContextOf(state, isOfProblem === true ? form.among : undefined);
  return { form: withKernel({ ...form, fields }, kernel, formContext), defaults: formOf(kernel, formContext) };
}

/** Changes the choice of the field. If that chooses another kernel, the form gets that kernel's parameters. */
function changed(
  context: KeyContext,
  form: RunForm,
  { defaults, change }: { defaults: RunForm; change: number },
): void {
  typedInto(context, withKeys(form, { change }), { form, defaults });
}

/** Shows the form after a change of its field. If the kernel has changed, the form gets the new kernel's parameters. */
function typedInto(context: KeyContext, next: RunForm, { form, defaults }: { form: RunForm; defaults: RunForm }): void {
  const field = next.fields[next.selected];
  const key = field?.id === 'kernel' ? valueOf(field) : kernelKey(form.kernel);
  if (key === kernelKey(form.kernel)) return openForm(context, next, defaults);
  const { state } = context.store;
  const kernel = (form.among ?? state.kernels).find((known) => kernelKey(known) === key);
  const formContext = formContextOf(state, form.among);
  if (kernel !== undefined) openForm(context, withKernel(next, kernel, formContext), formOf(kernel, formContext));
}

/** If a field has a mistake, moves the cursor to the first one. Otherwise starts the job, which r then repeats. */
function runForm(context: KeyContext, form: RunForm, defaults: RunForm): void {
  const problem = formProblem(form);
  if (problem !== undefined) return openForm(context, { ...form, selected: problem.index }, defaults);
  context.store.dispatch({ type: 'overlay', overlay: undefined });
  startForm(context, form, defaults);
}

export function startForm({ store, session }: KeyContext, form: RunForm, defaults: RunForm): void {
  store.dispatch({ type: 'form-run', form: { form, defaults } });
  store.dispatch({ type: 'command', text: commandLineOf(form, defaults) });
  void session.startKernel(
    form.kernel,
    (kernel) => formRequest(form, defaults, kernel),
    (job) => store.dispatch({ type: 'form-of-job', job, form: { form, defaults } }),
  );
}
