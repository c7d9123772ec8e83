/** Opening sources and notes in the user's editor. */
import path from 'node:path';
import { readForeignFile } from '@flashcore/shared/files';
import { MAX_TREE_BYTES, NOTES_FILE, sha256Of } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import { hasRun, kernelWithNotes } from '../state/chosen.ts';
import { sourceTarget, type SourceTarget } from '../state/source-place.ts';
import { compiledCopy, localSource, readOnlyCopy } from '../watch/source-file.ts';
import type { Store } from '../session/store.ts';
import type { AppState, Notice } from '../state/app-state.ts';
import type { KeyContext } from './handler.ts';

/** How to open a source that has changed since its job. */
export type ChangedSource = 'ask' | 'file' | 'copy';

/** Opens the source at the error, and shows whether it was edited. Asks first if the file is not the job's source. */
export async function editSource(context: KeyContext, changed: ChangedSource = 'ask'): Promise<void> {
  const { store } = context;
  const target = sourceTarget(store.state);
  if (target === undefined) return;
  await telling(store, async () => {
    if (changed === 'copy') return viewed(await viewCopy(target, context), target, "the job's source");
    const edited = await editLocal(target, context, changed);
    if (edited === ASKED) return undefined;
    // A changed source marks the jobs that ran another one.
    void context.session.lists.kernels();
    if (edited !== undefined) return edited;
    return viewed(await viewCopy(target, context), target, 'the compiled source: no known folder has this kernel');
  });
}

const viewed = (copy: string | undefined, { kernelId }: SourceTarget, what: string): Told =>
  copy === undefined
    ? { text: `The source of ${kernelId} is not on this machine, and the runner kept no copy of it`, tone: 'warn' }
    : { text: `${copy} is a read-only copy of ${what}`, tone: 'info' };

/** Opens NOTES.md of `kernelWithNotes`: the user's own, or a copy of the runner's. */
export async function openNotes({ store, session, lendTerminal, edit }: KeyContext): Promise<void> {
  const kernel = kernelWithNotes(store.state);
  if (kernel === undefined) return;
  const { folder, kernelId, notes } = kernel;
  await telling(store, async () => {
    const file = folder === undefined ? readOnlyCopy(NOTES_FILE, notes) : path.join(folder, NOTES_FILE);
    await lendTerminal(() => edit({ file, line: 0, column: 0 }));
    // A result may wait for these notes.
    if (folder !== undefined) await session.lists.ownKernels();
    const text = folder === undefined ? `${file} is a read-only copy of the notes of ${kernelId}` : `Opened ${file}`;
    return { text, tone: 'info' };
  });
}

type Told = Pick<Notice, 'text' | 'tone' | 'until'>;

/** Runs `body`, then shows its message or its error. */
async function telling(store: Store, body: () => Promise<Told | undefined>): Promise<void> {
  const told = await body().catch((error: unknown): Told => ({ text: errorText(error), tone: 'bad' }));
  if (told !== undefined) store.dispatch({ type: 'notice', ...told });
}

/** Means that the user has to answer a question before a file is opened. */
const ASKED = Symbol('asked');

/** Opens the source on this machine. Undefined if no folder of this machine has the kernel. */
async function editLocal(
  target: SourceTarget,
  { store, lendTerminal, edit, kernelsDirectory }: KeyContext,
  changed: ChangedSource,
): Promise<Told | typeof ASKED | undefined> {
  if (target.folders.length === 0 && kernelsDirectory === undefined) return undefined;
  let edited: Told | typeof ASKED | undefined;
  // The terminal is lent before the file is searched, because keys typed right after `e` are meant for the editor.
  await lendTerminal(async () => {
    const file = await localSource(target, kernelsDirectory);
    if (file === undefined) return;
    const before = readForeignFile(file, MAX_TREE_BYTES);
    const isOther = target.compiled !== undefined && target.compiled.sha256 !== sha256Of(before);
    if (changed === 'ask' && isOther && !isNewest(store, target)) {
      edited = ASKED;
      return askWhich(store, path.basename(file));
    }
    if (target.examples?.includes(path.dirname(file))) {
      const copy = readOnlyCopy(path.basename(file), before);
      await edit({ file: copy, line: target.line, column: target.column });
      const copies = `N in 7 makes a copy of your own, as fa-tui new NAME --from ${path.dirname(file)} does`;
      const isCopy = `${copy} is a read-only copy: ${target.kernelId} is an example of this installation`;
      edited = { text: `${isCopy}. ${copies}`, tone: 'info' };
      return;
    }
    await edit({ file, line: target.line, column: target.column });
    const isChanged = !before.equals(readForeignFile(file, MAX_TREE_BYTES));
    edited = isChanged
      ? editedNotice({ file, kernelId: target.kernelId }, store.state)
      : { text: `${file} was not changed`, tone: 'info' };
  });
  return edited;
}

interface EditedSource {
  readonly file: string;
  readonly kernelId: string;
}

/** Says how the edited source is run, until a job runs it or another folder is watched. */
function editedNotice({ file, kernelId }: EditedSource, state: AppState): Told {
  const watched = state.watching?.folder;
  const isWatched = watched !== undefined && file.startsWith(`${watched}${path.sep}`);
  const next = isWatched ? 'every save runs' : `r runs it${hasRun(state) ? ' again' : ''}, W runs every save`;
  const before = new Set(state.jobs.map(({ name }) => name));
  return {
    text: `Edited ${file}: ${next}`,
    tone: 'info',
    until: ({ jobs, watching }) =>
      watching?.folder !== watched || jobs.some((job) => job.kernelId === kernelId && !before.has(job.name)),
  };
}

/**
 * True if the source's job is the kernel's newest. If the source has changed since then, the user is working on it, so
 * no question is necessary.
 */
const isNewest = ({ state }: Store, { kernelId, job: name }: SourceTarget): boolean =>
  state.jobs.find((job) => job.kernelId === kernelId)?.name === name;

function askWhich(store: Store, file: string): void {
  store.dispatch({
    type: 'overlay',
    overlay: {
      kind: 'confirm',
      question: `${file} differs from this job's source.`,
      answers: "y edit it  c the job's copy  any key neither",
      commandId: 'edit-source',
      subjects: [],
    },
  });
}

/**
 * Opens a copy of the compiled source. Undefined if the runner kept no copy. The terminal is lent only after the copy
 * was read, because the runner may never answer.
 */
async function viewCopy(
  { compiled, line, column }: SourceTarget,
  { session, lendTerminal, edit }: KeyContext,
): Promise<string | undefined> {
  if (compiled === undefined) return undefined;
  const file = await compiledCopy(compiled, session.readArtifact);
  await lendTerminal(() => edit({ file, line, column }));
  return file;
}
