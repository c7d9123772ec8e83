import { connect, type Connection } from '../connection/connect.ts';
import type { GlobalOptions } from './options.ts';
import type { Block } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { plainLines } from '../present/plain/plain-painter.ts';
import { formatFor, styled, type OutputStream, type ReportFormat } from '../present/plain/report-format.ts';
import { readSettings, type Settings } from '../settings/settings.ts';

/** A stream of text, and whether a terminal shows it. */
export interface TextStream extends OutputStream {
  write(text: string): unknown;
}

/** A stream that is read, and whether a person types it. */
export interface InputStream extends Partial<AsyncIterable<string | Buffer>> {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
}

/** The world as commands see it: the process's own streams, or a test's. */
export interface Surroundings {
  readonly stdin: InputStream;
  readonly stdout: TextStream;
  readonly stderr: TextStream;
  readonly environment: NodeJS.ProcessEnv;
}

/** What a command works with: the report goes to stdout, everything else to stderr. */
export class CommandContext {
  readonly options: GlobalOptions;
  readonly surroundings: Surroundings;
  /** For stdout. */
  readonly format: ReportFormat;
  /** For stderr. */
  readonly progressFormat: ReportFormat;

  constructor(surroundings: Surroundings, options: GlobalOptions) {
    this.surroundings = surroundings;
    this.options = options;
    const choice = { color: options.color, environment: surroundings.environment, ascii: options.ascii };
    this.format = formatFor(surroundings.stdout, choice);
    this.progressFormat = formatFor(surroundings.stderr, choice);
  }

  /** The user's settings file. Errors: UsageError. */
  settings(): Settings {
    return readSettings(this.surroundings.environment);
  }

  /** The result, as lines. */
  report(lines: readonly string[]): void {
    this.surroundings.stdout.write(lines.map((line) => `${line}\n`).join(''));
  }

  /** The result, as blocks. */
  show(blocks: readonly Block[]): void {
    this.report(plainLines(blocks, this.format));
  }

  /** The result, as the one JSON document of --json. */
  document(json: unknown): void {
    this.surroundings.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
  }

  /** Something to know beside the result; --quiet leaves it out. */
  note(text: string): void {
    if (!this.options.quiet) this.surroundings.stderr.write(`${styled(sanitize(text), 'dim', this.progressFormat)}\n`);
  }

  /** Connects to the runner asked for, says on stderr which it is, and closes it when `body` has settled. */
  async withRunner<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    const connection = await this.connect();
    try {
      return await body(connection);
    } finally {
      connection.close();
    }
  }

  async connect(): Promise<Connection> {
    const { surroundings, options } = this;
    const { runner: named, startRunner, ...tls } = options;
    const { environment } = surroundings;
    const fromEnvironment = environment.FLASHCORE_RUNNER !== undefined && environment.FLASHCORE_RUNNER !== '';
    const settings = named !== undefined && startRunner !== undefined ? {} : this.settings();
    const connection = await connect({
      runner: named ?? (fromEnvironment ? undefined : settings.runner),
      tls,
      environment,
      mayAsk: this.mayAsk,
      startRunner: startRunner ?? (environment.FLASHCORE_START_RUNNER === '1' || settings.start_runner === true),
      notify: (message) => this.note(message),
    });
    this.note(`runner: ${connection.description}`);
    return connection;
  }

  /** Whether a person sits before it, whom ssh may ask before a screen is there. */
  get mayAsk(): boolean {
    const { stdin, stderr } = this.surroundings;
    return stdin.isTTY === true && stderr.isTTY === true;
  }
}
