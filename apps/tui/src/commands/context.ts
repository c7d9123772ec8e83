import { connect, type Connection } from '../connection/connect.ts';
import { leaveIdleWatch } from '../connection/leave-idle-watch.ts';
import { connectToHost, instanceText, type HostedRunner } from '../connection/start-host.ts';
import { resolveTarget } from '../connection/target.ts';
import { Instance } from '../remote/instance.ts';
import type { GlobalOptions } from './options.ts';
import type { Block } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { plainLines } from '../present/plain/plain-painter.ts';
import { formatFor, styled, type OutputStream, type ReportFormat } from '../present/plain/report-format.ts';
import { hooksOf, readSettings, type Settings } from '../settings/settings.ts';

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
  withRunner<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#with({ forWork: false }, body);
  }

  /** `withRunner` for commands that start jobs: a stopped host is started for them, where hooks say how. */
  withStartedRunner<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#with({ forWork: true }, body);
  }

  async #with<Result>(
    purpose: { readonly forWork: boolean },
    body: (connection: Connection) => Promise<Result>,
  ): Promise<Result> {
    const connection = await this.connect(purpose);
    try {
      return await body(connection);
    } finally {
      connection.close();
    }
  }

  async connect({ forWork = false } = {}): Promise<Connection> {
    const hosted = this.hosted(undefined, { mayStart: forWork });
    const connection = await (hosted === undefined ? this.#connectTo(this.runner()) : connectToHost(hosted));
    const instance = hosted && new Instance(hosted.runner, hosted.environment).read();
    const since = instance && instanceText(instance);
    this.note(`runner: ${connection.description}${since === undefined ? '' : `; its host: ${since}`}`);
    if (hosted === undefined) return connection;
    leaveIdleWatch(hosted, (text) => this.note(text));
    return { ...connection, instance };
  }

  /** The runner asked for: --runner, $FLASHCORE_RUNNER, the settings; undefined: the embedded one. */
  runner(): string | undefined {
    return this.options.runner || this.surroundings.environment.FLASHCORE_RUNNER || this.settings().runner;
  }

  /** The runner and how its host is started and stopped; undefined where the settings have no hooks for it. */
  hosted(named = this.runner(), { mayStart = false } = {}): HostedRunner | undefined {
    const { environment } = this.surroundings;
    const settings = this.settings();
    if (!named || settings.hooks === undefined) return undefined;
    const found = hooksOf(settings, [named, resolveTarget(named, this.options, environment).address]);
    if (found === undefined) return undefined;
    const { runner, hooks } = found;
    const connect = (): Promise<Connection> => this.#connectTo(named, hooks.login);
    return {
      runner,
      hooks,
      environment,
      connect,
      mayStart,
      startRunner: this.#startRunner(),
      notify: (message) => this.note(message),
    };
  }

  #connectTo(runner: string | undefined, login?: string): Promise<Connection> {
    return connect({
      runner,
      tls: this.options,
      environment: this.surroundings.environment,
      mayAsk: this.mayAsk,
      startRunner: this.#startRunner(),
      login,
      notify: (message) => this.note(message),
    });
  }

  #startRunner(): boolean {
    const { environment } = this.surroundings;
    return (
      this.options.startRunner ?? (environment.FLASHCORE_START_RUNNER === '1' || this.settings().start_runner === true)
    );
  }

  /** Whether a person sits before it, whom ssh may ask before a screen is there. */
  get mayAsk(): boolean {
    const { stdin, stderr } = this.surroundings;
    return stdin.isTTY === true && stderr.isTTY === true;
  }
}
