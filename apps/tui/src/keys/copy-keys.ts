/** Copying the content of the screen. */
import { entryOf, errorText } from '@flashcore/shared/text';
import { copyOf, selectedLine, type CopyFormat } from '../screens/copy.ts';
import type { Copied } from '../terminal/clipboard.ts';
import type { Handler, KeyContext } from './handler.ts';

export const COPY_HANDLERS: Record<'copy' | 'copy-line', Handler> = {
  copy: ({ store }) => store.dispatch({ type: 'overlay', overlay: { kind: 'copy' } }),
  'copy-line': copyLine,
};

function copyLine(context: KeyContext): void {
  const line = selectedLine(snapshotOf(context));
  if (line !== undefined) return tellCopied(context, `${line}\n`, 'line.txt');
  context.store.dispatch({
    type: 'notice',
    text: 'No line is under a cursor here; y copies the view',
    tone: 'warn',
  });
}

const FORMAT_KEYS: Record<string, CopyFormat> = { t: 'text', y: 'text', m: 'markdown', j: 'json', s: 'svg' };

/** Handles the key after y, which chooses the format of the copy. */
export function pressInCopy(key: string, context: KeyContext): void {
  context.store.dispatch({ type: 'overlay', overlay: undefined });
  const format = entryOf(FORMAT_KEYS, key);
  if (format === undefined) return;
  const { text, fileName } = copyOf(snapshotOf(context), format);
  tellCopied(context, text, fileName);
}

const snapshotOf = ({ store }: KeyContext) => ({ state: store.state, log: store.log, search: store.search });

function copiedText({ file, sent, inTmux }: Copied): string {
  if (inTmux) return `Copied into tmux's buffer (prefix ] pastes it); it is in ${file} too`;
  return sent
    ? `Copied, if your terminal takes OSC 52; in any case it is in ${file}`
    : `Too long for a terminal's clipboard; it is in ${file}`;
}

/** Copies a text, and shows where it was put. */
export function tellCopied({ store, copy }: KeyContext, text: string, name: string): void {
  try {
    const { file, sent, inTmux } = copy(text, name);
    store.dispatch({
      type: 'notice',
      text: copiedText({ file, sent, inTmux }),
      tone: 'info',
    });
  } catch (error) {
    store.dispatch({
      type: 'notice',
      text: `Copying failed: ${errorText(error)}`,
      tone: 'bad',
    });
  }
}
