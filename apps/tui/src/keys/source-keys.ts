/** Opening the source in the user's editor. */
import { readForeignFile } from '@flashcore/shared/files';
import { MAX_TREE_BYTES } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import { sourceTarget, type SourceTarget } from '../state/source-place.ts';
import { compiledCopy, localSource } from '../watch/source-file.ts';
import type { KeyContext } from './handler.ts';

/** Opens the source at the error, and shows whether it was edited. */
export async function editSource(context: KeyContext): Promise<void> {
  const { store } = context;
  const target = sourceTarget(store.state);
  if (target === undefined) return;
  const tell = (text: string, tone: 'info' | 'warn' | 'bad'): void => store.dispatch({ type: 'notice', text, tone });
  try {
    const edited = (await editLocal(target, context)) ?? (await viewCopy(target, context));
    if (edited === undefined)
      tell(`The source of ${target.kernelId} is not on this machine, and the runner kept no copy of it`, 'warn');
    else tell(edited, 'info');
  } catch (error) {
    tell(errorText(error), 'bad');
  }
}

/** Undefined if no folder of this machine has the kernel. */
async function editLocal(
  target: SourceTarget,
  { lendTerminal, edit, kernelsDirectory }: KeyContext,
): Promise<string | undefined> {
  if (target.folders.length === 0 && kernelsDirectory === undefined) return undefined;
  let edited: string | undefined;
  // The terminal is lent before the file is searched, because keys typed right after `e` are meant for the editor.
  await lendTerminal(async () => {
    const file = await localSource(target, kernelsDirectory);
    if (file === undefined) return;
    const before = readForeignFile(file, MAX_TREE_BYTES);
    await edit({ file, line: target.line, column: target.column });
    const isChanged = !before.equals(readForeignFile(file, MAX_TREE_BYTES));
    edited = isChanged ? `Edited ${file}: r runs it again, W runs every save` : `${file} was not changed`;
  });
  return edited;
}

/**
 * Undefined if the runner kept no copy. The terminal is lent only after reading the copy, because the runner may never
 * answer.
 */
async function viewCopy(
  { compiled, line, column }: SourceTarget,
  { session, lendTerminal, edit }: KeyContext,
): Promise<string | undefined> {
  if (compiled === undefined) return undefined;
  const file = await compiledCopy(compiled, session.readArtifact);
  await lendTerminal(() => edit({ file, line, column }));
  return `${file} is a read-only copy of the compiled source: no known folder has this kernel`;
}
