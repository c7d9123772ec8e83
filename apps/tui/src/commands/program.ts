import { Argument, Command, CommanderError, Option } from 'commander';
import packageJson from '../../package.json' with { type: 'json' };
import type { GlobalOptions, JobCommandOptions } from './options.ts';
import type { CommandContext, Surroundings } from './context.ts';
import {
  againOptions,
  benchmarkOptions,
  evaluateOptions,
  evolveOptions,
  experimentOptions,
  fileOptions,
  jobOptions,
  leaderboardOptions,
  pageOptions,
  profileOptions,
  noteOption,
  saveOption,
  shapeOption,
  tuneOptions,
  variantOptions,
  verifyOptions,
  exportOptions,
  reportOptions,
  rbkOption,
} from './option-groups.ts';
import { DIAL, IDLE } from '../remote/hidden-commands.ts';
import { COMPLETE, SHELLS } from './completion-scripts.ts';
import type { EvaluateCommandOptions } from './evaluate.ts';
import type { EvolveCommandOptions } from './evolve.ts';
import type { ExportCommandOptions } from './export.ts';
import type { LeaderboardCommandOptions } from './leaderboard.ts';
import type { ReportCommandOptions } from './report.ts';
import type { TuneCommandOptions } from './tune.ts';
import type { JobCommand } from './start-job.ts';

type Action<Options> = (context: CommandContext, options: Options, argument: string, second: string) => Promise<number>;

/** What `fa-tui host` does besides telling. */
const HOST_ACTIONS = ['install', 'start', 'stop'];

const USAGE = 2;

/**
 * Runs a command line (without node and script) and gives its exit code: 0 passed, 1 failed, 2 bad usage, 3 the runner
 * could not
 * do it. Commands are loaded when they run: `--help` must not wait for gRPC.
 */
export async function runProgram(argumentList: readonly string[], surroundings: Surroundings): Promise<number> {
  let exitCode = 0;
  const define = <Options extends GlobalOptions>(command: Command, action: Action<Options>) =>
    command.action(async (...args: unknown[]) => {
      const command = args.at(-1) as Command;
      const options = command.optsWithGlobals<Options>();
      if ((options.inline || options.mouse) && !opensProgram(command))
        command.error(
          `error: ${command.name()} writes a plain report: --inline and --mouse are for the terminal program (no command, start, watch-source)`,
        );
      exitCode = await guarded(surroundings, options, (context) =>
        action(context, options, textOf(args[0]), textOf(args[1])),
      );
    });
  const program = buildProgram(define);
  if (argumentList[0] === COMPLETE) {
    await (await import('./complete.ts')).complete(program, argumentList.slice(1), surroundings);
    return 0;
  }
  if (argumentList[0] === DIAL)
    return (await import('../connection/dial-runner.ts')).dialRunner(argumentList.slice(1), surroundings.environment);
  if (argumentList[0] === IDLE) {
    const [, runner = '', ...flags] = argumentList;
    const options: GlobalOptions = { runner, color: 'never', startRunner: flags.includes('--start-runner') };
    return guarded(surroundings, options, async (context) =>
      (await import('./idle-watch-process.ts')).idleWatch(runner, context),
    );
  }
  try {
    configure(program, surroundings);
    await program.parseAsync([...argumentList], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : USAGE;
  }
  return exitCode;
}

/** Of an argument that may be repeated, all, a blank apart. */
const textOf = (argument: unknown): string => {
  if (Array.isArray(argument)) return argument.join(' ');
  return typeof argument === 'string' ? argument : '';
};

async function guarded(
  surroundings: Surroundings,
  options: GlobalOptions,
  body: (context: CommandContext) => Promise<number>,
): Promise<number> {
  const { CommandContext } = await import('./context.ts');
  const context = new CommandContext(surroundings, options);
  try {
    return await body(context);
  } catch (error) {
    const { reportError } = await import('./report-error.ts');
    return reportError(error, context);
  }
}

/** Whether a command opens the terminal program, where there is a terminal. */
const opensProgram = (command: Command): boolean =>
  command.parent === null || ['start', 'watch-source'].includes(command.name());

/** Those that a command heeds. */
function visibleGlobalOptions(command: Command): Option[] {
  return (command.parent?.options ?? []).filter(
    ({ long }) => opensProgram(command) || (long !== '--inline' && long !== '--mouse'),
  );
}

type Define = <Options extends GlobalOptions>(command: Command, action: Action<Options>) => void;

function buildProgram(define: Define): Command {
  const program = new Command('fa-tui')
    .description(
      "Builds, verifies, benchmarks, profiles and gates CUDA attention kernels on a runner: a GPU host, or this machine's CPU.",
    )
    .usage('[options] [command]')
    .version(packageJson.version)
    .helpCommand('help [command]', 'show what a command does and takes')
    .option(
      '--runner <name>',
      'host:port, ssh://host, unix:/path, or a name of fa-tui login; default $FLASHCORE_RUNNER, else a runner on this machine, started on demand',
    )
    .option('--start-runner', 'with ssh://host: start the runner there if none runs (FLASHCORE_START_RUNNER=1)')
    .option('--tls-ca <file>', "certificate of the runner's authority ($FLASHCORE_TLS_CA); default: that of the login")
    .option('--tls-cert <file>', 'client certificate ($FLASHCORE_TLS_CERT)')
    .option('--tls-key <file>', 'its key ($FLASHCORE_TLS_KEY)')
    .option('--json', "one JSON document on stdout, in the proto's JSON mapping")
    .option('--quiet', 'no progress on stderr')
    .addOption(
      new Option('--color <when>', 'colours in the report; respects NO_COLOR')
        .choices(['auto', 'always', 'never'])
        .default('auto'),
    )
    .option('--ascii', 'ASCII instead of box-drawing and block characters (FA_TUI_ASCII=1)')
    .option('--inline', 'the terminal program below the prompt: no screen of its own, the log stays in the scrollback')
    .option('--mouse', 'the wheel scrolls and a click selects')
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions })
    .showHelpAfterError('(--help lists commands and options)')
    .addHelpText(
      'after',
      '\nWithout a command, in a terminal: the terminal program.\nExit codes: 0 all passed, 1 a check or gate failed, 2 bad usage, 3 the runner\ncould not do it, 130 left by Ctrl-C.',
    );
  addJobCommands(program, define);
  addQueries(program, define);
  addLoginCommands(program, define);
  addAgentCommands(program, define);
  define(program.argument('[command]').allowExcessArguments(), async (context, _, command) => {
    if (command)
      return (await import('./unknown-command.ts')).unknownCommand(
        command,
        program.commands.map((known) => known.name()),
      );
    const { isInteractive, openTui } = await import('./interactive.ts');
    if (isInteractive(context)) return openTui(context);
    program.outputHelp({ error: true });
    const { stdin, stdout, stderr } = context.surroundings;
    const why =
      stdin.isTTY && stdout.isTTY
        ? "The terminal program can't draw on this terminal (TERM=dumb)"
        : 'There is no terminal on stdin and stdout for the terminal program';
    stderr.write(`\nerror: ${why}: give a command\n`);
    return USAGE;
  });
  return program;
}

function addJobCommands(program: Command, define: Define): void {
  const start = (name: JobCommand, about: string, argument = '<kernel or folder>') => {
    const command = program
      .command(name)
      .argument(argument, "id of a runner's kernel, a folder with a kernel.yaml, or a build_id")
      .description(about);
    define<JobCommandOptions>(command, async (context, options, kernel) =>
      (await import('./start-job.ts')).startJob(name, kernel, options, context),
    );
    return againOptions(command);
  };
  saveOption(experimentOptions(start('run', 'run an experiment: build, verify, bench, profile, then the gates')));
  jobOptions(variantOptions(start('build', 'compile; report registers, shared memory, spills, occupancy')));
  jobOptions(variantOptions(verifyOptions(shapeOption(start('verify', 'compare the output with the fp64 reference')))));
  rbkOption(
    jobOptions(
      variantOptions(
        benchmarkOptions(
          shapeOption(start('bench', "measure the latency, or without a kernel SDPA's (--sdpa)", '[kernel or folder]')),
        ),
      ),
    ),
  );
  saveOption(jobOptions(variantOptions(profileOptions(shapeOption(start('profile', 'read hardware counters'))))));
  define<EvaluateCommandOptions>(
    evaluateOptions(
      program
        .command('evaluate')
        .argument('<file or folder>', "a .cu that replaces --base's, or a folder with a kernel.yaml")
        .description('judge a candidate for a search program: one JSON document, 0 whenever it could be judged'),
    ),
    async (context, options, candidate) => (await import('./evaluate.ts')).evaluate(candidate, options, context),
  );
  define<TuneCommandOptions>(
    tuneOptions(
      program
        .command('tune')
        .argument('<kernel or folder>', "id of a runner's kernel, or a folder with a kernel.yaml")
        .description("search a kernel's variants: build all, verify, race, compare the winner"),
    ),
    async (context, options, kernel) => (await import('./tune.ts')).tune(kernel, options, context),
  );
  define<EvolveCommandOptions>(
    evolveOptions(
      program
        .command('evolve')
        .argument('[kernel or folder]', 'where the search begins')
        .description('search for a faster kernel with a program that proposes candidates'),
    ),
    async (context, options, kernel) => (await import('./evolve.ts')).evolveCommand(kernel, options, context),
  );
  define<ExportCommandOptions>(
    exportOptions(
      program
        .command('export')
        .argument('<kernel or folder>', "id of a runner's kernel, or a folder with a kernel.yaml")
        .description('write a kernel for others to call: PyTorch, KernelBench, FlashInfer-Bench …'),
    ),
    async (context, options, kernel) => (await import('./export.ts')).exportKernel(kernel, options, context),
  );
  const watched = experimentOptions(
    program
      .command('watch-source')
      .argument('<folder>', 'a folder with a kernel.yaml')
      .description('run the experiment at every save (in a terminal: in the program); a newer save supersedes')
      .option('--quick', 'build and run the smallest case first; the rest only if that passes'),
  );
  define<JobCommandOptions>(watched, async (context, options, folder) =>
    (await import('./watch-source.ts')).watchSource(folder, options, context),
  );
  const first = experimentOptions(
    program.command('start').description('the default experiment (npm start); in a terminal, the program opens on it'),
  );
  define<JobCommandOptions>(first, async (context, options) =>
    (await import('./interactive.ts')).startDefault(options, context),
  );
}

function addQueries(program: Command, define: Define): void {
  const query = <Options extends object>(command: Command, action: Action<GlobalOptions & Options>) =>
    define<GlobalOptions & Options>(command, action);
  query<{ all?: boolean }>(
    program.command('kernels').description("the runner's kernels").option('--all', 'also the faulty fixtures'),
    async (context, options) => (await import('./lists.ts')).listKernels(options, context),
  );
  const host = program
    .command('host')
    .addArgument(new Argument('[action]', 'of a host behind ssh').choices(HOST_ACTIONS))
    .argument('[runner]', 'ssh://host, or its name (default: --runner)')
    .option('--bundle <file>', 'install: made by npx nx bundle runner (default: the one in out/)')
    .description(
      "devices, tools and isolation of the runner's host; install: bring flashcore there; start, stop: by its hooks",
    );
  query<{ bundle?: string }>(host, async (context, options, action, runner) =>
    action === ''
      ? (await import('./lists.ts')).showHost(context)
      : (await import('./host-actions.ts')).hostCommand(action, { ...options, named: runner }, context),
  );
  query(
    program.command('fleet').description('partitions and pilots of the cluster behind a gateway'),
    async (context) => (await import('./lists.ts')).showFleet(context),
  );
  query<PageOptions>(pageOptions(program.command('jobs').description('jobs, newest first')), async (context, options) =>
    (await import('./lists.ts')).listJobs(options, context),
  );
  query<PageOptions>(
    pageOptions(program.command('history').description('ended experiments, newest first')),
    async (context, options) => (await import('./lists.ts')).listHistory(options, context),
  );
  define<LeaderboardCommandOptions>(
    leaderboardOptions(
      program.command('leaderboard').description('the best result of each kernel variant and of SDPA, fastest first'),
    ),
    async (context, options) => (await import('./leaderboard.ts')).showLeaderboard(options, context),
  );
  query<{ record?: string; junit?: string }>(
    fileOptions(
      program
        .command('watch')
        .argument('<job>', 'its name or first digits')
        .description('follow a job from its first event'),
    ),
    async (context, options, job) => (await import('./watch.ts')).watchJob(job, context, options),
  );
  query<JobCommandOptions & { speed?: string }>(
    fileOptions(
      program
        .command('replay')
        .argument('<file>', 'made with --record')
        .description('show a recorded job again, without a runner')
        .option('--speed <n>', 'times as fast as it happened; 0: no pauses (default 1)'),
    ),
    async (context, options, file) => (await import('./replay.ts')).replay(file, options, context),
  );
  query(
    program
      .command('config')
      .addArgument(
        new Argument(
          '<action>',
          'print the settings, where their file is, what is wrong in it, its JSON Schema',
        ).choices(['show', 'path', 'validate', 'schema']),
      )
      .description('the settings file of the terminal program'),
    async (context, _, action) => (await import('./config.ts')).config(action, context),
  );
  query(
    program
      .command('completion')
      .addArgument(new Argument('<shell>', 'the shell to complete in').choices(Object.keys(SHELLS)))
      .description('print the completion script for bash, zsh or fish')
      .addHelpText(
        'after',
        '\nbash: source <(fa-tui completion bash), in ~/.bashrc; zsh: the same in ~/.zshrc after compinit;\nfish: fa-tui completion fish > ~/.config/fish/completions/fa-tui.fish',
      ),
    async (context, _, shell) => (await import('./completion.ts')).completion(shell, context),
  );
  query(
    program.command('cancel').argument('<job>', 'its name or first digits').description('end a job'),
    async (context, _, job) => (await import('./cancel.ts')).cancelJob(job, context),
  );
  addDecisions(program, define);
  query<{ output?: string }>(
    program
      .command('artifact')
      .argument('<sha256>', 'digest, as a report gives it')
      .description('read a file that a job made')
      .option('-o, --output <file>', 'write it there'),
    async (context, options, sha256) => (await import('./artifact.ts')).readArtifact(sha256, options, context),
  );
  const report = reportOptions(
    program
      .command('report')
      .argument('[names...]', 'jobs, by name or first digits; for --template kernel or search, its id')
      .description('results for others: pages (Markdown, HTML, JSON), JUnit, SARIF, annotations, benchmark files'),
  );
  define<ReportCommandOptions>(report, async (context, options, names) =>
    (await import('./report.ts')).report(names === '' ? [] : names.split(' '), options, context),
  );
  query<{ out?: string }>(
    program
      .command('trace')
      .argument('<job>', 'its name or first digits')
      .description("a job's phases as trace events, for Perfetto and chrome://tracing")
      .option('-o, --out <file>', 'write it there (default: stdout)'),
    async (context, options, job) => (await import('./report.ts')).traceJob(job, options, context),
  );
}

function addAgentCommands(program: Command, define: Define): void {
  const command = program
    .command('mcp')
    .argument('[config]', 'print the configuration for a coding agent instead of serving')
    .argument('[host]', 'claude, codex or cursor')
    .description('serve coding agents over the Model Context Protocol on stdin and stdout');
  define(command, async (context, _, action, host) => (await import('./mcp.ts')).mcp(action, host, context));
}

const JOB = ['<job>', 'its name or first digits'] as const;

function addDecisions(program: Command, define: Define): void {
  type Noted = GlobalOptions & { note?: string };
  const decision = (name: string, about: string) =>
    noteOption(
      program
        .command(name)
        .argument(...JOB)
        .description(about),
    );
  define<Noted>(
    decision('accept', 'make its build the champion of its kernel, device model, shapes and protocol'),
    async (context, options, job) => (await import('./decide.ts')).acceptJob(job, options, context),
  );
  define<Noted>(
    decision('reject', 'note that its result is not wanted; a champion that it made is none any more'),
    async (context, options, job) => (await import('./decide.ts')).rejectJob(job, options, context),
  );
  define<Noted>(decision('undo', 'take back the latest decision about it'), async (context, options, job) =>
    (await import('./decide.ts')).undoDecision(job, options, context),
  );
  const noted = program
    .command('note')
    .argument(...JOB)
    .argument('<text>', 'the note')
    .description('add a note to a result');
  define(noted, async (context, _, job, text) => (await import('./decide.ts')).noteJob(job, text, context));
  const champions = program
    .command('champions')
    .option('--trail', 'also every decision that was made')
    .option('--kernel <id>', 'only of this kernel')
    .description('what experiments are compared with');
  define<GlobalOptions & { trail?: boolean; kernel?: string }>(champions, async (context, options) =>
    (await import('./decide.ts')).listChampions(options, context),
  );
}

function addLoginCommands(program: Command, define: Define): void {
  const login = program
    .command('login')
    .argument('<address>', 'host:port of a runner that serves TLS, or ssh://host before it')
    .option('--name <name>', "for --runner (default: the address's host)")
    .description('store how to reach a runner: a token (typed, or from stdin), or --tls-cert with --tls-key');
  define<GlobalOptions & { name?: string }>(login, async (context, options, address) =>
    (await import('./login.ts')).login(address, options, context),
  );
  const logout = program
    .command('logout')
    .argument('<name>', 'as fa-tui runners lists it')
    .description('forget a runner and its credential');
  define(logout, async (context, _, name) => (await import('./login.ts')).logout(name, context));
  define(program.command('runners').description('the runners you are logged in to'), async (context) =>
    (await import('./login.ts')).listRunners(context),
  );
}

interface PageOptions {
  readonly limit?: string;
  readonly kernel?: string;
  readonly label?: string[];
}

function configure(program: Command, { stdout, stderr }: Surroundings): void {
  const output = {
    writeOut: (text: string) => void stdout.write(text),
    writeErr: (text: string) => void stderr.write(text),
    getOutHelpWidth: () => stdout.columns ?? 80,
    getErrHelpWidth: () => stderr.columns ?? 80,
  };
  for (const command of [program, ...program.commands])
    command.exitOverride().configureOutput(output).showHelpAfterError('(--help lists commands and options)');
}
