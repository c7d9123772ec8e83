import { Argument, Command, CommanderError, Option } from 'commander';
import { didYouMean } from '@flashcore/shared/text';
import { addAccessCommands } from './access/access-commands.ts';
import { addCompileCommand } from './build/compile-command.ts';
import { DEFAULT_SCRATCH_GIB, fleetSchema, type SchedulerName } from './fleet/fleet-file.ts';
import { addOperationCommands, keepOptions } from './operation/host-commands.ts';
import { KEEP_ALL } from './operation/retention.ts';
import { addCheckCommand } from './problem-check/check-command.ts';
import { addDescribeCommand } from './problem-check/describe-command.ts';
import { addServeOptions, defaultData as dataOf, optionsOf, type ServeOptions } from './serve-options.ts';
import { UsageError } from '@flashcore/shared/contract';

export interface CommandLine {
  version: string;
  /** The repository or the bundle that the runner belongs to, with kernels/ and proto/. */
  repositoryRoot: string;
  environment: NodeJS.ProcessEnv;
  /** Takes the work of a command other than serve. */
  defer?: (work: () => Promise<void>) => void;
}

/**
 * Parses the command line; undefined if it only asked for help or the version, which was then printed. Throws
 * UsageError.
 */
export function parseOptions(
  argv: readonly string[],
  { version, repositoryRoot, environment, defer = () => undefined }: CommandLine,
): ServeOptions | undefined {
  let options: ServeOptions | undefined;
  const defaultData = dataOf(environment);
  const program = new Command('flashcore-runner')
    .description('Builds, verifies, benchmarks and profiles attention kernels for its clients')
    .version(version)
    .exitOverride();
  program.configureOutput({ outputError: () => undefined }); // UsageError contains the text.
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const serving = (_: unknown, command: Command): void => {
    options = optionsOf(command, { repositoryRoot, environment });
  };
  const serve = program
    .command('serve', { isDefault: true })
    .description('serves until SIGTERM or SIGINT; the default command');
  addServeOptions(serve).action(serving);
  const gateway = program
    .command('gateway')
    .description('serves a cluster: jobs run on its nodes (docs/fleet.md)')
    .addOption(new Option('--slurm <file>', 'a Slurm cluster: partitions, pilots, how nodes reach the gateway'))
    .addOption(new Option('--kubernetes <file>', 'the same for a Kubernetes cluster').conflicts('slurm'));
  addServeOptions(gateway).action(serving);
  program
    .command('fleet-schema')
    .description("prints the JSON Schema of the gateway's --slurm or --kubernetes file, for editors")
    .addArgument(
      new Argument('[scheduler]', 'the scheduler that the file is for')
        .choices(['slurm', 'kubernetes'])
        .default('slurm'),
    )
    .action((scheduler: SchedulerName) => say(JSON.stringify(fleetSchema(scheduler), null, 2)));
  const pilot = program
    .command('pilot', { hidden: true })
    .description('take jobs from a gateway, whose scheduler starts it on a node')
    .requiredOption('--gateway <address>', 'host:port where the gateway lets pilots register')
    .option('--tls-ca <file>', "certificate of the authority that signed the gateway's");
  addServeOptions(pilot).action(serving);
  for (const command of [serve, gateway]) keepOptions(command, KEEP_ALL);
  // A pilot keeps little, because the gateway stores everything that must last.
  keepOptions(pilot, { eventsDays: 1, filesDays: 30, artifactsGib: DEFAULT_SCRATCH_GIB });
  addAccessCommands(program, { defaultData, say });
  addOperationCommands(program, { defaultData, say, defer });
  addCompileCommand(program, { repositoryRoot, defaultData, defer });
  addCheckCommand(program, { repositoryRoot, defaultData, environment, say, defer });
  addDescribeCommand(program, { repositoryRoot, environment, say, defer });
  try {
    requireKnown(argv[0], program);
    program.parse(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return undefined;
    throw new UsageError(error.message.replace(/^error: /, ''));
  }
  return options;
}

/** Refuses unknown commands. serve is the default command and would take an unknown command as its own argument. */
function requireKnown(first: string | undefined, program: Command): void {
  const known = [...program.commands.map((command) => command.name()), 'help'];
  if (first === undefined || first.startsWith('-') || known.includes(first)) return;
  throw new UsageError(`Unknown command "${first}"${didYouMean(first, known) || '; --help lists them'}`);
}
