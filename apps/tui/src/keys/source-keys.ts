/** To the source, in the user's editor. */
import { readForeignFile } from '@flashcore/shared/files';
import { MAX_TREE_BYTES } from '@flashcore/shared/kernels';
import { errorText } from '@flashcore/shared/text';
import { sourceTarget } from '../state/source-place.ts';
import { sourceFile } from '../watch/source-file.ts';
import type { KeyContext } from './handler.ts';

function editedText(file: string, { isCopy, isChanged }: { isCopy: boolean; isChanged: boolean }): string {
  if (isCopy) return `${file} is a read-only copy of the compiled source: no known folder has this kernel`;
  return isChanged ? `Edited ${file}; r runs it again, W runs every save` : `${file} was not changed`;
}

/** Opens the source where the error is; what became of it is a message. */
export async function editSource({ store, session, lendTerminal, edit, kernelsDirectory }: KeyContext): Promise<void> {
  const target = sourceTarget(store.state);
  if (target === undefined) return;
  const tell = (text: string, tone: 'info' | 'warn' | 'bad'): void => store.dispatch({ type: 'notice', text, tone });
  try {
    const source = await sourceFile(target, {
      kernelsDirectory,
      readArtifact: session.readArtifact,
    });
    if (source === undefined)
      return tell(`The source of ${target.kernelId} is not on this machine, and the runner kept no copy of it`, 'warn');
    const { file, isCopy } = source;
    const before = readForeignFile(file, MAX_TREE_BYTES);
    await lendTerminal(() => edit({ file, line: target.line, column: target.column }));
    const isChanged = !before.equals(readForeignFile(file, MAX_TREE_BYTES));
    tell(editedText(file, { isCopy, isChanged }), 'info');
  } catch (error) {
    tell(errorText(error), 'bad');
  }
}
