/**
 * A program in a real pseudo-terminal whose screen is kept by a headless xterm: what a person would see, as text and
 * cells.
 */
import pty from '@lydell/node-pty';
import xterm from '@xterm/headless';

export interface TerminalOptions {
  columns: number;
  rows: number;
  /** Its TERM; default: xterm-256color. */
  kind?: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
}

export class Terminal {
  readonly screen: InstanceType<typeof xterm.Terminal>;
  /** All that the program wrote, escape sequences included. */
  output = '';
  /** Settles with the exit code when the program has ended. */
  readonly exit: Promise<number>;
  readonly #pty: pty.IPty;

  constructor(file: string, args: string[], options: TerminalOptions) {
    const { columns: cols, rows, cwd } = options;
    this.screen = new xterm.Terminal({ cols, rows, allowProposedApi: true, scrollback: 1000 });
    // CI off: where it is set ink takes the terminal for a build log and draws one frame, at the end.
    const env = {
      ...(options.env ?? process.env),
      TERM: options.kind ?? 'xterm-256color',
      COLORTERM: 'truecolor',
      CI: '0',
      CONTINUOUS_INTEGRATION: '0',
    };
    this.#pty = pty.spawn(file, args, { cols, rows, cwd, env, name: env.TERM });
    this.#pty.onData((data) => {
      this.output += data;
      this.screen.write(data);
    });
    // The terminal answers questions of the program, such as where the cursor is.
    this.screen.onData((data) => this.#pty.write(data));
    this.exit = new Promise((resolve) => this.#pty.onExit(({ exitCode }) => resolve(exitCode)));
  }

  get pid(): number {
    return this.#pty.pid;
  }

  type(keys: string): void {
    this.#pty.write(keys);
  }

  resize(columns: number, rows: number): void {
    this.screen.resize(columns, rows);
    this.#pty.resize(columns, rows);
  }

  kill(signal: NodeJS.Signals = 'SIGTERM'): void {
    this.#pty.kill(signal);
  }

  /** The visible rows, right-trimmed. */
  lines(): string[] {
    const { active } = this.screen.buffer;
    return Array.from(
      { length: this.screen.rows },
      (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? '',
    );
  }

  /** All rows since the start, those that have scrolled away too. */
  history(): string[] {
    const { active } = this.screen.buffer;
    return Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString(true) ?? '');
  }

  text(): string {
    return this.lines().join('\n');
  }

  /** Waits until the screen matches; throws with the screen when it does not within `timeoutMs`. */
  async waitFor(pattern: RegExp, timeoutMs = 30_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!pattern.test(this.text())) {
      if (Date.now() > deadline)
        throw new Error(`Waited ${timeoutMs} ms for ${pattern} on the screen:\n${this.text()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
