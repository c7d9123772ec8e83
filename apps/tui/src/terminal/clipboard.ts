/**
 * Copies to the clipboard of the user's terminal, even over ssh (OSC 52). Not every terminal accepts OSC 52, and none
 * confirms it, so the text is also written to a file. By default tmux refuses OSC 52 from programs, so inside tmux the
 * text goes into tmux's own buffer, and tmux passes it on.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { withoutSecrets } from '@flashcore/shared/files';

// Limit of xterm and others, in base64 characters. Some terminals silently cut off longer text.
const MOST_BASE64 = 74_994;

export interface Copied {
  /** The file that contains the text in any case. */
  readonly file: string;
  /** True if the text was short enough for the terminal's clipboard. */
  readonly sent: boolean;
  /** True if the text is in tmux's buffer, whatever its length. */
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

/**
 * Puts the text into tmux's buffer. With -w, tmux also passes it on to the terminal's clipboard; tmux before 3.2 lacks
 * -w.
 */
const intoTmux = (text: string, environment: NodeJS.ProcessEnv): boolean =>
  [
    ['load-buffer', '-w', '-'],
    ['load-buffer', '-'],
  ].some(
    (words) => spawnSync('tmux', words, { input: text, env: withoutSecrets(environment), timeout: 2_000 }).status === 0,
  );
