import { Command, CommanderError, Help, Option } from 'commander';
import { didYouMean } from '@flashcore/shared/text';
import packageJson from '../../package.json' with { type: 'json' };
import { COMPLETE } from './completion-scripts.ts';
import type { CommandContext, Surroundings } from './context.ts';
import { addLoginCommands } from './decision-commands.ts';
import { addStartingCommands } from './starting-commands.ts';
import type { GlobalOptions } from './options.ts';
import { addQueryCommands } from './query-commands.ts';
import { COMMAND_GROUPS, commandByHabit } from '../state/shell-commands.ts';
import type { Action, Define } from './option-groups.ts';
import { DIAL, IDLE } from '../remote/ssh-address.ts';
import { UsageError } from '../exit-code.ts';

const USAGE = 2;

/**
 * Runs a command line (without node and script) and returns its exit code: 0 passed, 1 failed, 2 bad usage, 3 the
 * runner could not carry it out. Each command's code is loaded when the command runs, so that `--help` does not have to
 * load gRPC.
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
    await (await import('./complete-line.ts')).complete(program, argumentList.slice(1), surroundings);
    return 0;
  }
  if (argumentList[0] === DIAL)
    return (await import('../connection/dial-runner.ts')).dialRunner(argumentList.slice(1), surroundings.environment);
  if (argumentList[0] === IDLE) {
    const [, runner = '', ...flags] = argumentList;
    const options: GlobalOptions = { runner, color: 'never', startRunner: flags.includes('--start-runner') };
    return guarded(surroundings, options, async (context) =>
      (await import('./host-actions.ts')).idleWatch(runner, context),
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

/** An argument as text. The values of a repeated argument are separated by spaces. */
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
    context.knowProblems();
    return await body(context);
  } catch (error) {
    const { reportError } = await import('./report-error.ts');
    return reportError(error, context);
  }
}

/** True if the command opens the terminal program in a terminal. */
const opensProgram = (command: Command): boolean =>
  command.parent === null || ['start', 'watch-source'].includes(command.name());

/** Global options that apply to a command. */
function visibleGlobalOptions(command: Command): Option[] {
  return (command.parent?.options ?? []).filter(
    ({ long }) => opensProgram(command) || (long !== '--inline' && long !== '--mouse'),
  );
}

/** A message about an unknown command, with our name for it if other tools have it, or the most similar commands. */
function unknownCommand(name: string, program: Command): string {
  const habit = program.commands.find((known) => known.name() === commandByHabit(name));
  const names = program.commands.map((known) => known.name());
  const meant = habit ? ` (here it is "${habit.name()}": ${habit.description()})` : didYouMean(name, names);
  return `Unknown command "${name}"${meant}; fa-tui --help lists them`;
}

/** Commander's groups, but in the order of the headings rather than of the commands. Options come first. */
function groupItems<Item extends Command | Option>(
  ...items: Parameters<typeof Help.prototype.groupItems<Item>>
): Map<string, Item[]> {
  const rank = (heading: string): number => COMMAND_GROUPS.findIndex(([known]) => known === heading);
  return new Map([...new Help().groupItems(...items)].toSorted(([a], [b]) => rank(a) - rank(b)));
}

function buildProgram(define: Define): Command {
  const program = new Command('fa-tui')
    .description(
      "Builds, verifies, benchmarks, profiles and gates CUDA attention kernels on a runner: a GPU host, or this machine's CPU.",
    )
    .usage('[options] [command]')
    .version(packageJson.version)
    .helpCommand(false)
    .option(
      '--runner <name>',
      'host:port, ssh://host, unix:/path, or a name of fa-tui login; default: $FLASHCORE_RUNNER, flashcore.yaml, the settings, else a runner on this machine, started on demand',
    )
    .option('--start-runner', 'with ssh://host: start the runner there if none runs (FLASHCORE_START_RUNNER=1)')
    .option('--tls-ca <file>', "certificate of the runner's authority ($FLASHCORE_TLS_CA); default: that of the login")
    .option('--tls-cert <file>', 'client certificate ($FLASHCORE_TLS_CERT)')
    .option('--tls-key <file>', 'its key ($FLASHCORE_TLS_KEY)')
    .option('--json', "one JSON document on stdout, in the proto's JSON mapping")
    .option('--quiet', 'no progress on stderr')
    .addOption(
      new Option('--color <when>', 'colors in the report; respects NO_COLOR')
        .choices(['auto', 'always', 'never'])
        .default('auto'),
    )
    .option('--ascii', 'ASCII instead of box-drawing and block characters (FA_TUI_ASCII=1)')
    .option('--inline', 'the terminal program below the prompt: no screen of its own, the log stays in the scrollback')
    .option('--mouse', 'the wheel scrolls and a click selects')
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions, groupItems })
    .addHelpText(
      'after',
      '\nWithout a command, in a terminal: the terminal program.\nExit codes: 0 all passed, 1 a check or gate failed, 2 bad usage, 3 the runner\ncould not do it, 130 left by Ctrl-C.',
    );
  addStartingCommands(program, define);
  addQueryCommands(program, define);
  addLoginCommands(program, define);
  addAgentCommand(program, define);
  addHelpCommand(program, define);
  for (const [group, names] of COMMAND_GROUPS)
    for (const command of program.commands) if (names.includes(command.name())) command.helpGroup(group);
  define(program.argument('[command]').allowExcessArguments(), async (context, _, command) => {
    if (command) throw new UsageError(unknownCommand(command, program));
    const { isInteractive, openTui } = await import('./interactive.ts');
    if (isInteractive(context)) return openTui(context);
    const { stdin, stdout } = context.surroundings;
    const why =
      stdin.isTTY && stdout.isTTY
        ? "The terminal program can't draw on this terminal (TERM=dumb)"
        : 'There is no terminal on stdin and stdout for the terminal program';
    throw new UsageError(`${why}: give a command; fa-tui --help lists them`);
  });
  return program;
}

/** Replaces commander's own help command, which answers an unknown name with the general help. */
function addHelpCommand(program: Command, define: Define): void {
  const help = program.command('help').argument('[command]').description('show what a command does and takes');
  define(help, (_context, _options, name) => {
    const command = name === '' ? program : program.commands.find((each) => each.name() === name);
    if (!command) throw new UsageError(unknownCommand(name, program));
    command.outputHelp();
    return Promise.resolve(0);
  });
}

function addAgentCommand(program: Command, define: Define): void {
  const command = program
    .command('mcp')
    .argument('[config]', 'print the configuration for a coding agent instead of serving')
    .argument('[host]', 'claude, codex or cursor')
    .option('--no-accept', 'do not offer the tool that makes a build the champion')
    .description('serve coding agents over the Model Context Protocol on stdin and stdout');
  define(command, async (context, { accept }: GlobalOptions & { accept: boolean }, action, host) =>
    (await import('./mcp.ts')).mcp(action, host, { accept, context }),
  );
}

function configure(program: Command, { stdout, stderr }: Surroundings): void {
  const output = {
    writeOut: (text: string) => void stdout.write(text),
    writeErr: (text: string) => void stderr.write(text),
    getOutHelpWidth: () => stdout.columns ?? 80,
    getErrHelpWidth: () => stderr.columns ?? 80,
  };
  for (const command of [program, ...program.commands])
    command.exitOverride().configureOutput({
      ...output,
      outputError: (text, write) => write(usageError(text, command, program)),
    });
}

/** A text of two lines: the mistake, and the command that lists the valid choices. */
function usageError(text: string, command: Command, program: Command): string {
  const [first = ''] = program.args;
  // If the command is unknown, its options are unknown too, so the message names the command.
  if (command === program && first !== '' && !first.startsWith('-'))
    return `error: ${unknownCommand(first, program)}\n`;
  const wrong = text
    .trim()
    .replace(/\n\(Did/, ' (did')
    .replace(/\.$/, '');
  const asked = command === program ? 'fa-tui' : `fa-tui ${command.name()}`;
  return `${wrong}\n${asked} --help lists what it takes\n`;
}
