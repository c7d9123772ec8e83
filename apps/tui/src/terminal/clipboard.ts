/**
 * Copies to the clipboard of the terminal that the user sits at, also over ssh (OSC 52). Not every terminal takes it,
 * and none answers: so the text is put into a file as well. Inside tmux, which by default takes no OSC 52 from
 * programs, it goes into tmux's own buffer, from where tmux hands it on.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { withoutSecrets } from '@flashcore/shared/files';

// What xterm and others take at most, in base64; more is cut off by some of them without a word.
const MOST_BASE64 = 74_994;

export interface Copied {
  /** The file that has it in any case. */
  readonly file: string;
  /** Whether it was short enough for the terminal's clipboard. */
  readonly sent: boolean;
  /** Whether it is in tmux's buffer, however long it is. */
  readonly inTmux: boolean;
}

export type Copy = (text: string, fileName: string) => Copied;

/** Copies into a folder that only the user can read. */
export function clipboard(stdout: { write(text: string): unknown }, environment: NodeJS.ProcessEnv = {}): Copy {
  let folder: string | undefined;
  return (text, fileName) => {
    folder ??= mkdtempSync(path.join(tmpdir(), 'fa-tui-'));
    const file = path.join(folder, fileName);
    writeFileSync(file, text, { mode: 0o600 });
    const base64 = Buffer.from(text).toString('base64');
    const sent = base64.length <= MOST_BASE64;
    if (sent) stdout.write(`\u001b]52;c;${base64}\u0007`);
    return { file, sent, inTmux: Boolean(environment.TMUX) && intoTmux(text, environment) };
  };
}

/** -w hands it on to the terminal's clipboard; tmux before 3.2 knows only the buffer. */
const intoTmux = (text: string, environment: NodeJS.ProcessEnv): boolean =>
  [
    ['load-buffer', '-w', '-'],
    ['load-buffer', '-'],
  ].some(
    (words) => spawnSync('tmux', words, { input: text, env: withoutSecrets(environment), timeout: 2_000 }).status === 0,
  );
