/**
 * Runs a program in a real pseudo-terminal. A headless xterm keeps the screen that a person would see, as text and as
 * cells.
 */
import pty from '@lydell/node-pty';
import xterm from '@xterm/headless';

interface TerminalOptions {
  columns: number;
  rows: number;
  /** The value of TERM; default: xterm-256color. */
  kind?: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
}

export class Terminal {
  readonly screen: InstanceType<typeof xterm.Terminal>;
  /** The program's whole output, including escape sequences. */
  output = '';
  /** Resolves with the exit code when the program has ended. */
  readonly exit: Promise<number>;
  readonly #pty: pty.IPty;

  constructor(file: string, args: string[], options: TerminalOptions) {
    const { columns: cols, rows, cwd } = options;
    this.screen = new xterm.Terminal({ cols, rows, allowProposedApi: true, scrollback: 1000 });
    // Unsets CI, because otherwise ink treats the terminal as a build log and draws only one frame, at the end.
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
    // The terminal answers the program's queries, such as the position of the cursor.
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

  /** The visible rows, without trailing blanks. */
  lines(): string[] {
    const { active } = this.screen.buffer;
    return Array.from(
      { length: this.screen.rows },
      (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? '',
    );
  }

  /** All rows since the start, including those that have scrolled away. */
  history(): string[] {
    const { active } = this.screen.buffer;
    return Array.from({ length: active.length }, (_, row) => active.getLine(row)?.translateToString(true) ?? '');
  }

  text(): string {
    return this.lines().join('\n');
  }

  /** Waits until the screen matches. Throws an error with the screen's text if it does not match within `timeoutMs`. */
  async waitFor(pattern: RegExp, timeoutMs = 30_000): Promise<void> {
    const deadline = Date.now() + timeoutMs;
    while (!pattern.test(this.text())) {
      if (Date.now() > deadline)
        throw new Error(`Waited ${timeoutMs} ms for ${pattern} on the screen:\n${this.text()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
