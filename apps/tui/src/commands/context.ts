import { credentialsIn, withoutCredentials } from '@flashcore/shared/files';
import { addProjectProblems } from '@flashcore/shared/kernels';
import { toJson, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import type { Connection } from '../connection/connect.ts';
import { dataDirectory, readRunnerRecord } from '../connection/data-directory.ts';
import type { HostedRunner } from '../connection/start-host.ts';
import { describeTarget, hasTlsFlags, resolveTarget, type Target, type TlsFlags } from '../connection/target.ts';
import { isSshAddress } from '../remote/ssh-address.ts';
import type { GlobalOptions } from './options.ts';
import type { Block } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { plainLines } from '../present/plain/plain-painter.ts';
import { formatFor, styled, type OutputStream, type ReportFormat } from '../present/plain/report-format.ts';
import { configuredRunner, findProject, type AskedRunner, type Project } from '../settings/project.ts';
import { hooksOf, readSettings, type Settings } from '../settings/settings.ts';
import { UsageError } from '../exit-code.ts';

/** A text stream; `isTTY` is set if a terminal shows it. */
export interface TextStream extends OutputStream {
  write(text: string): unknown;
}

/** An input stream; `isTTY` is set if it is a terminal. */
export interface InputStream extends Partial<AsyncIterable<string | Buffer>> {
  readonly isTTY?: boolean;
  setRawMode?(raw: boolean): unknown;
}

/** The streams and the environment of a command: the process's own, or those of a test. */
export interface Surroundings {
  readonly stdin: InputStream;
  readonly stdout: TextStream;
  readonly stderr: TextStream;
  readonly environment: NodeJS.ProcessEnv;
}

interface ReachOptions {
  /** The user's command that renews the login of this runner's host. */
  readonly login?: string | undefined;
  readonly signal?: AbortSignal;
  /** Receives messages for the user while connecting; default: writes them to stderr. */
  readonly notify?: (text: string) => void;
}

/** Credentials from flags and environment variables, in addition to those stored with a login. */
interface Credentials {
  readonly tls: TlsFlags;
  readonly environment: NodeJS.ProcessEnv;
}

/** A runner that was chosen but has not answered yet. */
interface ExpectedRunner {
  readonly label: string;
  readonly embedded: boolean;
  /** Empty if the address is not known before connecting. */
  readonly address: string;
}

/** The surroundings and output of a command. The report goes to stdout, and everything else to stderr. */
export class CommandContext {
  readonly options: GlobalOptions;
  readonly surroundings: Surroundings;
  /** Format of stdout. */
  readonly format: ReportFormat;
  /** Format of stderr. */
  readonly progressFormat: ReportFormat;

  constructor(surroundings: Surroundings, options: GlobalOptions) {
    this.surroundings = surroundings;
    this.options = options;
    const choice = { color: options.color, environment: surroundings.environment, ascii: options.ascii };
    this.format = formatFor(surroundings.stdout, choice);
    this.progressFormat = formatFor(surroundings.stderr, choice);
  }

  /** The settings in the user's file. Errors: UsageError. */
  settings(): Settings {
    return readSettings(this.surroundings.environment);
  }

  /** Prints the result as lines. */
  report(lines: readonly string[]): void {
    this.surroundings.stdout.write(lines.map((line) => `${line}\n`).join(''));
  }

  /** Prints the result as blocks. */
  show(blocks: readonly Block[]): void {
    this.report(plainLines(blocks, this.format));
  }

  /** Prints the result as the single JSON document of --json. */
  document(json: unknown): void {
    this.surroundings.stdout.write(`${JSON.stringify(json, null, 2)}\n`);
  }

  /** Prints a remark on stderr, unless --quiet is set. */
  note(text: string): void {
    if (!this.options.quiet) this.surroundings.stderr.write(`${styled(sanitize(text), 'dim', this.progressFormat)}\n`);
  }

  /** Connects to the chosen runner, names it on stderr, and closes the connection when `body` has settled. */
  withRunner<Result>(body: (connection: Connection) => Promise<Result>): Promise<Result> {
    return this.#with({ forWork: false }, body);
  }

  /** Like `withRunner`, for commands that start jobs: a stopped host is started if the settings have hooks for it. */
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

  /** Connects and names the runner on stderr. */
  async connect({ forWork = false } = {}): Promise<Connection> {
    const hosted = this.hosted(undefined, { mayStart: forWork });
    if (hosted === undefined) {
      const connection = await this.reach();
      this.note(`runner: ${connection.description}`);
      return connection;
    }
    const { connectToHost, instanceText } = await import('../connection/start-host.ts');
    const { leaveIdleWatch } = await import('../remote/instance.ts');
    const { Instance } = await import('../remote/instance.ts');
    const connection = await connectToHost(hosted);
    const instance = new Instance(hosted.runner, hosted.environment).read();
    const since = instanceText(instance);
    this.note(`runner: ${connection.description}${since === undefined ? '' : `; its host: ${since}`}`);
    leaveIdleWatch(hosted, (text) => this.note(text));
    return { ...connection, instance };
  }

  /** Connects without a message, and without starting the runner's host. */
  reach(options: ReachOptions = {}): Promise<Connection> {
    return this.#connectTo(this.runner(), options);
  }

  /**
   * The chosen runner, if connecting neither asks nor prints anything, so that the screen may open before the runner
   * answers; otherwise undefined. Errors: UsageError.
   */
  expectedRunner(): ExpectedRunner | undefined {
    const asked = this.runner();
    const { environment } = this.surroundings;
    if (asked) {
      const target = this.#targetOf(asked);
      if (isSshAddress(target.address) || this.hosted(asked) !== undefined) return undefined;
      return { label: describeTarget(target), embedded: false, address: target.address };
    }
    const directory = dataDirectory(environment);
    const record = readRunnerRecord(directory);
    return { label: directory, embedded: record?.embedded ?? true, address: record?.address ?? '' };
  }

  /** The repository's flashcore.yaml; undefined if there is none. Errors: UsageError. */
  project(): Project | undefined {
    return findProject(process.cwd());
  }

  /** Adds the repository's own problems: manifests name them, and a runner that is started here must know them. */
  knowProblems(): void {
    const problems = this.project()?.problems;
    if (problems !== undefined) addProjectProblems(problems);
  }

  /**
   * The chosen runner: from --runner, $FLASHCORE_RUNNER, the project or the settings, in this order; undefined for the
   * embedded one.
   */
  runner(): string | undefined {
    return this.#asked()?.name;
  }

  #asked(): AskedRunner | undefined {
    const name = this.options.runner;
    return name ? { name, from: '--runner' } : configuredRunner(this.surroundings.environment);
  }

  /**
   * The credentials for this runner. Errors: UsageError for TLS flags if only a project's file chose the host that
   * would receive them.
   */
  #credentialsFor(runner: string | undefined): Credentials {
    const { environment } = this.surroundings;
    const asked = this.#asked();
    if (asked?.byProject !== true || asked.name !== runner) return { tls: this.options, environment };
    if (hasTlsFlags(this.options))
      throw new UsageError(
        `--tls-ca, --tls-cert and --tls-key: name the runner that they are for with --runner: ${asked.from} names ${asked.name}, which is reached with what its login kept`,
      );
    return { tls: {}, environment: withoutCredentials(environment) };
  }

  #targetOf(runner: string): Target {
    const { tls, environment } = this.#credentialsFor(runner);
    return resolveTarget(runner, tls, environment);
  }

  /** The runner with the hooks that start and stop its host; undefined if the settings have no such hooks. */
  hosted(named = this.runner(), { mayStart = false } = {}): HostedRunner | undefined {
    const settings = this.settings();
    if (!named || settings.hooks === undefined) return undefined;
    const { environment } = this.#credentialsFor(named);
    const found = hooksOf(settings, [named, this.#targetOf(named).address]);
    if (found === undefined) return undefined;
    const { runner, hooks } = found;
    const connect = (): Promise<Connection> => this.#connectTo(named, { login: hooks.login });
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

  /** gRPC is loaded only when connecting, because loading it takes a fifth of the time to the first frame. */
  async #connectTo(
    runner: string | undefined,
    { login, signal, notify = (message) => this.note(message) }: ReachOptions,
  ): Promise<Connection> {
    const { tls, environment } = this.#credentialsFor(runner);
    const kept = environment === this.surroundings.environment ? [] : credentialsIn(this.surroundings.environment);
    if (kept.length > 0)
      notify(`${kept.join(', ')}: not sent to a runner that ${this.#asked()?.from} names: --runner ${runner} sends it`);
    const { connect } = await import('../connection/connect.ts');
    return connect({
      runner,
      tls,
      environment,
      mayAsk: this.mayAsk,
      startRunner: this.#startRunner(),
      login,
      notify,
      ...(signal && { signal }),
    });
  }

  #startRunner(): boolean {
    const { environment } = this.surroundings;
    return (
      this.options.startRunner ?? (environment.FLASHCORE_START_RUNNER === '1' || this.settings().start_runner === true)
    );
  }

  /** True if ssh may ask a person at the terminal. This holds only until the screen opens. */
  get mayAsk(): boolean {
    const { stdin, stderr } = this.surroundings;
    return stdin.isTTY === true && stderr.isTTY === true;
  }
}

/**
 * The proto's JSON mapping including default values. Without them a count of 0 would be omitted, which a reader would
 * have to know.
 */
export function jsonOf<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): unknown {
  return toJson(schema, message, { alwaysEmitImplicit: true });
}
