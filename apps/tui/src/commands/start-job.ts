import { create } from '@bufbuild/protobuf';
import {
  BenchmarkRequestSchema, BuildRequestSchema, ProfileRequestSchema, RunExperimentRequestSchema, VerifyRequestSchema,
  type KernelReference, type RunnerClient,
} from '@flashcore/shared';
import {
  compileBenchmarkSettings, compileJobOptions, compileProfileSettings, compileVariant, compileVerifySettings, type JobCommandOptions,
} from '../options.ts';
import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-code.ts';
import { detachFromJob, followJob, type OpenEvents } from './job-command.ts';
import { kernelReference, parseKernelArgument } from './kernel-argument.ts';

/** The commands that start a job. */
export type JobCommand = 'run' | 'build' | 'verify' | 'bench' | 'profile';

type Start = (client: RunnerClient, kernel: KernelReference) => OpenEvents;

/** `fa-tui run|build|verify|bench|profile <kernel or folder>`. All that can be wrong with the command line shows before a runner is asked. */
export async function startJob(command: JobCommand, kernelText: string, options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  const start = compileStart(command, options);
  const kernel = await parseKernelArgument(kernelText);
  return context.withRunner(async (connection) => {
    const open = start(connection.client, await kernelReference(kernel, connection.client));
    return options.detach ? detachFromJob(open, connection, context) : followJob(open, connection, context);
  });
}

/** Compiles a command's options once and gives the call that starts its job. Errors: UsageError, INVALID_REQUEST for a malformed shape. */
export function compileStart(command: JobCommand, options: JobCommandOptions): Start {
  const common = { options: compileJobOptions(options), variant: compileVariant(options) };
  switch (command) {
    case 'build':
      return (client, kernel) => (watch) => client.start('build', create(BuildRequestSchema, { ...common, kernel }), watch);
    case 'verify': {
      const settings = compileVerifySettings(options);
      return (client, kernel) => (watch) => client.start('verify', create(VerifyRequestSchema, { ...common, settings, kernel }), watch);
    }
    case 'bench': {
      const settings = compileBenchmarkSettings(options);
      return (client, kernel) => (watch) => client.start('benchmark', create(BenchmarkRequestSchema, { ...common, settings, kernel }), watch);
    }
    case 'profile': {
      const settings = compileProfileSettings(options);
      return (client, kernel) => (watch) => client.start('profile', create(ProfileRequestSchema, { ...common, settings, kernel }), watch);
    }
    case 'run':
      return compileExperiment(options, common);
  }
}

function compileExperiment(options: JobCommandOptions, common: Pick<Parameters<typeof create<typeof RunExperimentRequestSchema>>[1] & object, 'options' | 'variant'>): Start {
  const parts = {
    verify: compileVerifySettings(options),
    benchmark: compileBenchmarkSettings(options),
    profile: compileProfileSettings(options),
    noFallback: options.fallback === false,
  };
  return (client, kernel) => (watch) => client.start('runExperiment', create(RunExperimentRequestSchema, { ...common, ...parts, kernel }), watch);
}
