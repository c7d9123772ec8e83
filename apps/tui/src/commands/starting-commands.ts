import { existsSync } from 'node:fs';
import { InvalidArgumentError, type Command } from 'commander';
import type { EvaluateCommandOptions } from './evaluate.ts';
import type { EvolveCommandOptions } from './evolve.ts';
import type { ExportCommandOptions } from './export.ts';
import {
  againOptions,
  benchmarkOptions,
  evaluateOptions,
  evolveOptions,
  experimentOptions,
  exportOptions,
  jobOptions,
  profileOptions,
  rbkOption,
  saveOption,
  shapeOption,
  tuneOptions,
  variantOptions,
  verifyOptions,
  type Define,
} from './option-groups.ts';
import type { JobCommandOptions } from './options.ts';
import type { TuneCommandOptions } from './tune.ts';
import type { JobAction } from '../session/runner-port.ts';
import { UsageError } from '../exit-code.ts';

const HERE = "default: the current folder's";

/**
 * Refuses an empty argument. It may come from an unset variable in a script, and would otherwise select the current
 * folder.
 */
function given(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty: give a kernel or folder, or leave it out.');
  return text;
}

/** The argument that selects the kernel in the current folder. Errors: UsageError if the folder is not a kernel's. */
function kernelHere(command = ''): string {
  if (existsSync('kernel.yaml')) return '.';
  const alone = command === 'bench' ? ', or --sdpa all to measure SDPA alone' : '';
  throw new UsageError(
    `${process.cwd()} has no kernel.yaml: go to a kernel's folder, or give a kernel or folder${alone}`,
  );
}

/** Adds the commands that start jobs. */
export function addStartingCommands(program: Command, define: Define): void {
  const start = (name: JobAction, about: string) => {
    const command = program
      .command(name)
      .argument(
        '[kernel or folder]',
        `id of a runner's kernel, a folder with a kernel.yaml, a name below flashcore.yaml's kernels, or a build_id; ${HERE}`,
        given,
      )
      .description(about);
    define<JobCommandOptions>(command, async (context, options, kernel) =>
      (await import('./start-job.ts')).startJob(
        name,
        kernel || (options.sdpa ? '' : kernelHere(name)),
        options,
        context,
      ),
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
          shapeOption(start('bench', "measure a kernel's latency or, if none is named, SDPA's (--sdpa)")),
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
        .description('judge a candidate for a search program: prints JSON, exits with 0 if it could be judged'),
    ),
    async (context, options, candidate) => (await import('./evaluate.ts')).evaluate(candidate, options, context),
  );
  define<TuneCommandOptions>(
    tuneOptions(
      program
        .command('tune')
        .argument('[kernel or folder]', `id of a runner's kernel, or a folder with a kernel.yaml; ${HERE}`, given)
        .description("search a kernel's variants: build all, verify, race, compare the winner"),
    ),
    async (context, options, kernel) => (await import('./tune.ts')).tune(kernel || kernelHere(), options, context),
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
        .argument('[kernel or folder]', `id of a runner's kernel, or a folder with a kernel.yaml; ${HERE}`, given)
        .description('package a kernel for PyTorch, KernelBench, FlashInfer-Bench …'),
    ),
    async (context, options, kernel) =>
      (await import('./export.ts')).exportKernel(kernel || kernelHere(), options, context),
  );
  const watched = experimentOptions(
    program
      .command('watch-source')
      .argument('[folder]', `a folder with a kernel.yaml; ${HERE}`, given)
      .description(
        'run the experiment at every save; a newer save cancels a running job; in a terminal, opens the program',
      )
      .option('--quick', 'build and run the smallest case first; the rest only if that passes'),
  );
  define<JobCommandOptions>(watched, async (context, options, folder) =>
    (await import('./watch-source.ts')).watchSource(folder || kernelHere(), options, context),
  );
  const first = experimentOptions(
    program.command('start').description('run the default experiment (npm start); in a terminal, opens the program'),
  );
  define<JobCommandOptions>(first, async (context, options) =>
    (await import('./interactive.ts')).startDefault(options, context),
  );
}
