/** Groups of command-line options. Each function adds its options to a command and returns the command. */
import { InvalidArgumentError, Option, type Command } from 'commander';
// Imported from shared/dtypes rather than shared/kernels, which would load YAML and zod at every start of fa-tui.
import { TENSOR_DTYPES } from '@flashcore/shared/dtypes';
import { RIVALS, SDPA_BACKENDS } from '@flashcore/shared/rivals';
import { EXPORT_OPTIONS } from '../export/export-options.ts';
import { REPORT_FORMATS, TEMPLATES } from '../handover/report-formats.ts';
import type { CommandContext } from './context.ts';
import type { GlobalOptions } from './options.ts';

/** Runs a command with its options and arguments; returns the exit code. */
export type Action<Options> = (
  context: CommandContext,
  options: Options,
  argument: string,
  second: string,
) => Promise<number>;

/** Attaches an action to a command. */
export type Define = <Options extends GlobalOptions>(command: Command, action: Action<Options>) => void;

export const repeated = (value: string, previous: string[] = []): string[] => [...previous, value];

export const pageOptions = (command: Command): Command =>
  command
    .option('--limit <n>', 'how many to list at most, 1 to 1000 (default 50)')
    .option('--kernel <id>', 'only jobs of this kernel')
    .option('--label <NAME=VALUE>', 'only with this label (repeatable)', repeated);

const dtypeOption = (about: string): Option => new Option('--dtype <name>', about).choices([...TENSOR_DTYPES]);

export const leaderboardOptions = (command: Command): Command =>
  command
    .option(
      '--device <name or id>',
      'the driver\'s name of the device ("NVIDIA H200"), or its id in fa-tui host (default: the host\'s first)',
    )
    .option('--problem <id>', 'what the kernels compute, for example rmsnorm (default attention)')
    .option(
      '--shape <case>',
      "BxHxSxD, c appended when causal, NAME=VALUE,… or a case's name (default: the canonical case)",
    )
    .option('--cases <set>', 'rank by the weighted geometric mean over a case set, for example success')
    .addOption(dtypeOption('dtype of the tensors (default fp16)'))
    .addOption(new Option('--mode <name>', 'how samples were taken (default hot)').choices(['hot', 'cold']))
    .option('--protocol <name>', 'measuring protocol, for example "flashcore-protocol 3" (default: the runner\'s)')
    .option('--limit <n>', 'how many rows to show at most, 1 to 1000 (default 50)')
    .option('--export <file>', 'also write the table as an HTML page, with the evidence of each row');

export const shapeOption = (command: Command): Command =>
  command.option(
    '--shape <case>',
    "shape, for example 2x8x512x64, c appended when causal, NAME=VALUE,… or a case's name (repeatable)",
    repeated,
  );

export const verifyOptions = (command: Command): Command =>
  command
    .option('--seeds <n>', 'fresh random inputs per shape, 1 to 100 (default 5)')
    .option('--seed <hex>', 'this seed instead of fresh ones, to repeat a result (repeatable)', repeated)
    .option('--tolerance <profile>', 'limit on the error: a profile of cases.yaml (fa-tui host lists them)')
    .option('--cases <set>', 'case set to verify: parity, odd, quick, success … (fa-tui host lists them)')
    .option('--sanitize', 'run under compute-sanitizer too');

const SDPA_NAMES = ['all', ...SDPA_BACKENDS];
const RIVAL_NAMES = ['all', ...RIVALS];

/** Collects repeated values, because commander's plain choices keep only the last value. */
const sdpaOption = (): Option =>
  new Option('--sdpa <backend>', "PyTorch's SDPA to measure, in turns with the kernel (repeatable)")
    .choices(SDPA_NAMES)
    .argParser((value, previous: string[] | undefined) => {
      if (!SDPA_NAMES.includes(value)) throw new InvalidArgumentError(`Must be one of ${SDPA_NAMES.join(', ')}.`);
      return repeated(value, previous);
    });

const rivalsOption = (): Option =>
  new Option(
    '--rivals <names>',
    `other projects' kernels to check and to measure in turns with the kernel: ${RIVAL_NAMES.join(', ')}`,
  ).argParser((value, previous: string[] | undefined) =>
    value.split(',').reduce((names, name) => {
      if (!RIVAL_NAMES.includes(name)) throw new InvalidArgumentError(`Must be some of ${RIVAL_NAMES.join(', ')}.`);
      return repeated(name, names);
    }, previous),
  );

/** An option's former name. Using it is an error that gives the new name. */
const formerOption = (flags: string, answer: string): Option =>
  new Option(flags).hideHelp().argParser(() => {
    throw new InvalidArgumentError(answer);
  });

export const benchmarkOptions = (command: Command): Command =>
  command
    .option('--samples <n>', 'take exactly this many timed samples (default: until the interval is narrow)')
    .option('--max-seconds <s>', 'limit on the time for one shape')
    .option(
      '--champion <kernel or folder>',
      'compare with this build, the champion, in interleaved blocks in one process',
    )
    .option('--shapes <set>', 'case set to measure on, for example success')
    .addOption(sdpaOption())
    .addOption(rivalsOption())
    .addOption(dtypeOption("dtype of SDPA's tensors where no kernel is named (default fp16)"))
    .addOption(formerOption('--baseline <name>', 'The option is now --sdpa, for example --sdpa all.'))
    .option('--legacy-loop', 'also the mean over launches in a plain loop, as in old notes; not a latency')
    .option('--champion-set <NAME=VALUE>', 'a parameter of the champion (repeatable)', repeated);

export const profileOptions = (command: Command): Command =>
  command
    .addOption(
      new Option('--metrics <set>', 'counters to read').choices(['gates', 'roofline', 'stalls', 'full', 'none']),
    )
    .option('--metric <name>', "another counter, by Nsight Compute's own name (repeatable)", repeated);

export const saveOption = (command: Command): Command =>
  command
    .option('--save <file>', "write Nsight Compute's report (.ncu-rep) there, for ncu-ui")
    .option('--lines', 'also the counters of each source line, if the emulator counted them (--json always has them)');

export const variantOptions = (command: Command): Command =>
  parameterOptions(command).option('--config <name>', 'a named set of parameters of the kernel');

const parameterOptions = (command: Command): Command =>
  command
    .option('--set <NAME=VALUE>', 'a parameter of the kernel, for example USE_WMMA=0 (repeatable)', repeated)
    .option('--arch <arch>', "target for nvcc, for example sm_89 (default: the device's)")
    .option('--max-registers <n>', "nvcc's -maxrregcount, 16 to 255")
    .option('--fast-math', "compile with nvcc's --use_fast_math (default: as kernel.yaml says)")
    .option('--no-fast-math', 'compile without --use_fast_math')
    .option('--keep-ptx', 'keep the PTX as an artifact')
    .option('--keep-sass', 'keep the SASS as an artifact');

export const fileOptions = (command: Command): Command =>
  command
    .option('--record <file>', 'write every event there, for fa-tui replay')
    .option('--junit <file>', 'write cases and gates there as JUnit XML');

export const jobOptions = (command: Command): Command =>
  fileOptions(command)
    .option('--device <id>', 'device of the runner, as fa-tui host lists them (default: its first)')
    .option('--label <NAME=VALUE>', 'label to find the job by (repeatable)', repeated)
    .option('--detach', "print the job's name and leave it running");

/** Options for requesting a job again after the script or the runner was interrupted. */
export const againOptions = (command: Command): Command =>
  command
    .option('--request-id <uuid>', 'your own id for this request; repeating the id gives the same job')
    .option('--restart-interrupted', "with --request-id: queue the job again if its runner's end interrupted it");

/** Options for the experiments of a search. */
const settingsOptions = (command: Command): Command =>
  parameterOptions(shapeOption(command))
    .option('--plan <name>', "plan of the runner's gates file (default: its first)")
    .option('--seeds <n>', 'fresh random inputs per shape, 1 to 100 (default 5)')
    .option('--samples <n>', 'take exactly this many timed samples (default: until the interval is narrow)')
    .option('--max-seconds <s>', 'limit on the time for one shape')
    .option('--device <id>', 'device of the runner, as fa-tui host lists them (default: its first)');

export const evaluateOptions = (command: Command): Command =>
  settingsOptions(command)
    .option('--config <name>', 'a named set of parameters of the kernel')
    .option(
      '--base <kernel or folder>',
      'the kernel that the candidate was made from and must beat; it also gives the kernel.yaml',
    )
    .option('--timeout <s>', 'limit on the whole evaluation, including the time in the queue (default 240)')
    .option('--repeat', 'measure again what this runner has measured before');

export const tuneOptions = (command: Command): Command =>
  shapeOption(command)
    .option('--set <NAME=A,B,C>', 'values of a parameter to try (repeatable; default: all values of all)', repeated)
    .option('--budget <n>', 'variants (50), device time (10m) or dollars (0.25usd); repeatable', repeated)
    .option('--seed <n>', 'seed of the draw, where the budget allows fewer variants than there are (default 1)')
    .option(
      '--champion <kernel or folder>',
      "kernel that the winner is compared with (default: the device's champion, else the kernel with its defaults)",
    )
    .option('--remeasure', 'measure again what this runner has measured before')
    .option('--device <id>', 'device of the runner, as fa-tui host lists them (default: its first)')
    .option('--label <NAME=VALUE>', 'label to find the job by (repeatable)', repeated)
    .option('--request-id <uuid>', 'continue the search with this id, if the runner ended during it');

export const evolveOptions = (command: Command): Command =>
  settingsOptions(command)
    .option('--proposer <command>', 'proposes the next candidate: one JSON document in, one out')
    .option('--proposer-seconds <s>', 'limit on one proposal (default 300)')
    .addOption(
      new Option(
        '--config <name>',
        'what the proposer gets: the best code, also thoughts of other trials, or also parents',
      ).choices(['free', 'insight', 'full']),
    )
    .option('--trials <n>', 'candidates to try (default 45)')
    .option('--population <n>', 'correct candidates that parents are drawn from (default 5)')
    .option('--islands <n>', 'populations that evolve apart and exchange their best (default 1)')
    .option('--in-flight <n>', 'candidates at a time, at most one of each island (default: all); changes no result')
    .option('--seed <n>', 'seed of the random choices (default 1)')
    .option('--max-usd <n>', 'start no trial once device and proposer have cost this much')
    .option('--max-device-seconds <s>', 'start no trial once the device has been used this long')
    .option('--patience <n>', 'end after this many trials in a row without an accepted one')
    .option('--resume <search>', 'continue a search where it stopped')
    .option('--show <search>', 'show what a search has found so far')
    .option('--schema', "the JSON Schema of a proposer's request and answer");

/** --torch, --kernelbench …, and options for the exported build. */
export const exportOptions = (command: Command): Command => {
  for (const { option, about } of EXPORT_OPTIONS) command.option(option, about);
  return variantOptions(command)
    .option('--device <id>', 'device to build for, as fa-tui host lists them (default: its first)')
    .option('--backward <kernel>', 'kernel or folder of the backward pass, for gradients (--torch, --wheel)')
    .option('--backward-set <NAME=VALUE>', 'a parameter of the backward kernel (repeatable)', repeated)
    .option('--unverified', 'export also if the latest result was wrong; every file then says so');
};

export const experimentOptions = (command: Command): Command =>
  jobOptions(variantOptions(profileOptions(benchmarkOptions(verifyOptions(shapeOption(command))))))
    .option(
      '--plan <name>',
      "plan that judges the run: merge, final, explore, nsight, phase1 … (default: flashcore.yaml's, else merge; fa-tui host lists them)",
    )
    .option('--gates <file>', "a gates file to judge by in place of the runner's")
    .option('--no-champion', "do not compare with the device's champion")
    .option('--no-fallback', 'do not run USE_WMMA=0 where the variant fails');

/** The reason for a decision. */
export const noteOption = (command: Command): Command => command.option('--note <text>', 'reason, for the audit trail');

export const rbkOption = (command: Command): Command =>
  command.option('--rbk <file>', 'shapes and iterations of an rbk_config.yaml; writes rbk_report.json and .md');

export const reportOptions = (command: Command): Command =>
  command
    .addOption(
      new Option('--template <name>', 'the page: chosen jobs, what was tried, all of a kernel, a search')
        .choices(TEMPLATES)
        .default('final'),
    )
    .addOption(
      new Option('--format <name>', 'what to write (default: markdown; in a terminal, a text)').choices(REPORT_FORMATS),
    )
    .option('--from <paths...>', 'files or folders of --json output, instead of a runner; for a search, its folder')
    .option('--since <when>', 'lab-log, kernel: jobs that ended since then, for example 2026-11-21 or 3d')
    .option('--kernel <id>', 'lab-log: only jobs of this kernel')
    .option('--limit <n>', 'lab-log, kernel: most jobs to read (default 200)')
    .option('--svg <folder>', 'also write each plot into this folder as an SVG file')
    .option('--suite <name>', 'pull-request: title of the comment, which identifies it (default flashcore)')
    .option('--folder <path>', "the kernel's folder in the repository, for the places of problems")
    .option('-o, --output <file>', 'write to this file (default: stdout)');
