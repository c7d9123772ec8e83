import type { ProblemProgram, TensorDtype } from '@flashcore/shared/kernels';
import { Argument, Option, type Command } from 'commander';
import type { CheckProblemOptions } from './check-problem.ts';
import type { CompileOptions } from './compile.ts';
import { completion, SHELLS } from './completion-scripts.ts';
import { addDecisionCommands } from './decision-commands.ts';
import type { ImportProblemOptions } from './import-problem.ts';
import type { LeaderboardCommandOptions } from './leaderboard.ts';
import type { PageOptions } from './lists.ts';
import {
  fileOptions,
  leaderboardOptions,
  pageOptions,
  repeated,
  reportOptions,
  type Action,
  type Define,
} from './option-groups.ts';
import type { GlobalOptions, JobCommandOptions } from './options.ts';
import type { ReportCommandOptions } from './report.ts';
import type { UninstallOptions } from './uninstall.ts';

/** Actions of `fa-tui host`. Without an action, it shows the host. */
const HOST_ACTIONS = ['install', 'start', 'stop'];

/** A copy of PROBLEM_PROGRAMS, because importing that would load the problems at each command's start. */
const PROGRAMS: readonly ProblemProgram[] = ['kernelbench', 'gpumode', 'sol-execbench'];
/** A copy of TENSOR_DTYPES, for the same reason as PROGRAMS. */
const DTYPES: readonly TensorDtype[] = ['fp16', 'bf16', 'fp32', 'e4m3', 'e5m2', 'int8'];

const PROBLEM_EXAMPLES = `
fa-tui problem list
fa-tui problem check rmsnorm
fa-tui problem import flashinfer_trace --to problems
fa-tui problem import definitions/gqa_paged/gqa_paged_decode_h32_kv8_d128_ps1.json --to problems
fa-tui problem import KernelBench/level1 --from kernelbench --to problems
fa-tui problem import reference-kernels/problems --from gpumode --to problems`;

/** Adds the commands that query the runner or show the results of jobs. */
export function addQueryCommands(program: Command, define: Define): void {
  const query = <Options extends object>(command: Command, action: Action<GlobalOptions & Options>) =>
    define<GlobalOptions & Options>(command, action);
  query<{ all?: boolean }>(
    program
      .command('kernels')
      .description("list the runner's kernels")
      .option('--all', 'also the faulty fixtures and your own folders'),
    async (context, options) => (await import('./lists.ts')).listKernels(options, context),
  );
  query<{ from?: string; fromPtx?: string; fromTriton?: string; entry?: string; problem?: string }>(
    program
      .command('new')
      .argument('<name>', "the folder to make; its last part becomes the kernel's id")
      .option('--from <kernel or folder>', 'the kernel, folder or build_id to copy (default: fa_v1_baseline)')
      .option('--from-ptx <file>', "start from another compiler's PTX: the code gives a draft of the manifest")
      .option('--from-triton <file>', 'start from a function in Triton: the Python gives kernel.py and a draft')
      .option('--entry <function>', 'with --from-triton, the function that is launched (default: the only one)')
      .option(
        '--problem <id>',
        "what the kernel computes; without --from, the problem's simplest kernel is copied (default: attention)",
      )
      .description('start a kernel of your own as a copy of another: manifest, source and notes'),
    async (context, options, name) => (await import('./new-kernel.ts')).newKernel(name, options, context),
  );
  query<CompileOptions>(
    program
      .command('compile')
      .argument('<folder>', "a kernel folder whose source is Triton's Python")
      .option('--to <folder>', "the folder to make; its last part becomes the kernel's id")
      .option('--set <NAME=VALUE>', 'a parameter of the kernel, for example NUM_WARPS=8 (repeatable)', repeated)
      .option('--config <name>', 'a named set of parameters of the kernel')
      .option('--arch <arch>', "for example sm_90 (default: the manifest's)")
      .description("compile a Triton kernel to PTX with this machine's Triton, for runners without it"),
    async (context, options, folder) => (await import('./compile.ts')).compileKernel(folder, options, context),
  );
  query(
    program.command('init').description('make the current folder a project: writes flashcore.yaml'),
    async (context) => (await import('./init.ts')).init(context),
  );
  const host = program
    .command('host')
    .addArgument(new Argument('[action]', 'what to do with a host behind ssh').choices(HOST_ACTIONS))
    .argument('[runner]', 'ssh://host, or its name (default: --runner)')
    .option('--bundle <file>', 'install: the bundle that npx nx bundle runner made (default: the one in out/)')
    .description(
      "devices, tools and isolation of the runner's host; install: bring flashcore there; start, stop: by its hooks",
    );
  query<{ bundle?: string }>(host, async (context, options, action, runner) =>
    action === ''
      ? (await import('./lists.ts')).showHost(context)
      : (await import('./host-actions.ts')).hostCommand(action, { ...options, named: runner }, context),
  );
  query(
    program
      .command('doctor')
      .description('check client and runner: what is missing, why it matters, how to install it'),
    async (context) => (await import('./doctor.ts')).doctor(context),
  );
  query<UninstallOptions>(
    program
      .command('uninstall')
      .option('--purge', "ask, then remove this user's jobs, results, settings and logins")
      .option('--yes', 'with --purge: do not ask')
      .description('show how to remove flashcore and what it keeps on this machine; --purge deletes that'),
    async (context, options) => (await import('./uninstall.ts')).uninstall(options, context),
  );
  query(
    program.command('fleet').description('list the partitions and pilots of the cluster behind a gateway'),
    async (context) => (await import('./lists.ts')).showFleet(context),
  );
  query<CheckProblemOptions & ImportProblemOptions>(
    program
      .command('problem')
      .addArgument(
        new Argument(
          '<action>',
          "list: what kernels can compute; check: do a problem's cases find its mutants? import: problems of other benchmarks (docs/imports.md)",
        ).choices(['list', 'check', 'import']),
      )
      .argument(
        '[problem]',
        'list, check: its id (default: all, or all with mutants); import: a definition, or a folder of them',
      )
      .addOption(new Option('--dtype <dtype>', 'check: dtype of the tensors (default fp16)').choices(DTYPES))
      .option('--tolerance <profile>', 'check: limit on the error, a profile of cases.yaml (default parity)')
      .option('--to <folder>', 'import: the folder of problems, where each becomes a folder')
      .addOption(
        new Option(
          '--from <benchmark>',
          'import: problems that are Python programs, run in a sandbox on a host with PyTorch',
        ).choices(PROGRAMS),
      )
      .option('--any-reference', 'import: also definitions whose reference nobody has compared with the operation')
      .description(
        "list problems, check that a problem's cases find mistakes, or import problems; needs neither runner nor GPU (docs/problems.md)",
      )
      .addHelpText('after', PROBLEM_EXAMPLES),
    async (context, options, action, problem) => {
      if (action === 'list') return (await import('./problem-kernels.ts')).listProblems(problem, context);
      return action === 'import'
        ? (await import('./import-problem.ts')).importProblem(problem, options, context)
        : (await import('./check-problem.ts')).checkProblem(problem, options, context);
    },
  );
  query<PageOptions>(
    pageOptions(program.command('jobs').description('list jobs, newest first')),
    async (context, options) => (await import('./lists.ts')).listJobs(options, context),
  );
  query<PageOptions>(
    pageOptions(program.command('history').description('list finished experiments, newest first')),
    async (context, options) => (await import('./lists.ts')).listHistory(options, context),
  );
  define<LeaderboardCommandOptions>(
    leaderboardOptions(
      program
        .command('leaderboard')
        .description('list the best result of each kernel variant and of SDPA, fastest first'),
    ),
    async (context, options) => (await import('./leaderboard.ts')).showLeaderboard(options, context),
  );
  query<{ record?: string; junit?: string }>(
    fileOptions(
      program
        .command('watch')
        .argument('[job]', 'its name or first digits (default: the one that runs, else the newest)')
        .description('follow a job from its first event'),
    ),
    async (context, options, job) => (await import('./follow-job.ts')).watchJob(job, context, options),
  );
  query(
    program
      .command('compare')
      .argument('<job or kernel>', "a job's name or first digits, or a kernel's id for its last finished job")
      .argument('[job or kernel]', 'the job or kernel to compare with (default: the champion)')
      .description('compare a job with another one or its champion: times, resources, counters, source'),
    async (context, _, job, other) => (await import('./compare.ts')).compare(job, other, context),
  );
  query<JobCommandOptions & { speed?: string }>(
    fileOptions(
      program
        .command('replay')
        .argument('<file>', 'made with --record')
        .description('show a recorded job again, without a runner')
        .option('--speed <n>', 'speed relative to the recording; 0: no pauses (default 1)'),
    ),
    async (context, options, file) => (await import('./replay.ts')).replay(file, options, context),
  );
  query(
    program
      .command('config')
      .addArgument(
        new Argument('<action>', 'print the settings, the path of their file, its mistakes or its JSON Schema').choices(
          ['show', 'path', 'validate', 'schema'],
        ),
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
    (context, _, shell) => Promise.resolve(completion(shell, context)),
  );
  query(
    program.command('cancel').argument('<jobs...>', 'their names or first digits').description('cancel jobs'),
    async (context, _, jobs) => (await import('./decide.ts')).cancelJobs(jobs.split(' '), context),
  );
  addDecisionCommands(program, define);
  query<{ output?: string }>(
    program
      .command('artifact')
      .argument('<sha256>', "the file's digest, as a report shows it")
      .description('print or save a file that a job produced')
      .option('-o, --output <file>', 'write to this file (default: stdout, unless it is a terminal)'),
    async (context, options, sha256) => (await import('./lists.ts')).readArtifact(sha256, options, context),
  );
  const report = reportOptions(
    program
      .command('report')
      .argument(
        '[names...]',
        'names or first digits of jobs; for --template kernel or search, the id of that kernel or search',
      )
      .description('write results as pages (Markdown, HTML, JSON), JUnit, SARIF, annotations, benchmark files'),
  );
  define<ReportCommandOptions>(report, async (context, options, names) =>
    (await import('./report.ts')).report(names === '' ? [] : names.split(' '), options, context),
  );
  query<{ output?: string }>(
    program
      .command('trace')
      .argument('<job>', 'its name or first digits')
      .description("write a job's phases as trace events, for Perfetto and chrome://tracing")
      .option('-o, --output <file>', 'write to this file (default: stdout)'),
    async (context, options, job) => (await import('./report.ts')).traceJob(job, options, context),
  );
}
