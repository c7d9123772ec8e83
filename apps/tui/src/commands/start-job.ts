import type { KernelReference } from '@flashcore/shared';
import {
  compileBenchmarkSettings, compileJobOptions, compileProfileSettings, compileVariant, compileVerifySettings, type JobCommandOptions,
} from '../options.ts';
import type { StartRequest } from '../state/runner-port.ts';
import type { CommandContext } from './context.ts';
import { UsageError, type ExitCode } from './exit-code.ts';
import { detachFromJob, followJob, type OpenEvents } from './job-command.ts';
import { kernelReference, parseKernelArgument } from './kernel-argument.ts';

/** The commands that start a job. */
export type JobCommand = 'run' | 'build' | 'verify' | 'bench' | 'profile';

/** `fa-tui run|build|verify|bench|profile <kernel or folder>`. All that can be wrong with the command line shows before a runner is asked. */
export async function startJob(command: JobCommand, kernelText: string, options: JobCommandOptions, context: CommandContext): Promise<ExitCode> {
  if (options.detach && (options.record !== undefined || options.junit !== undefined)) throw new UsageError('Wanted --detach, or --record and --junit, which need the job to its end; both were given');
  const requestFor = compileRequest(command, options);
  const kernel = await parseKernelArgument(kernelText);
  return context.withRunner(async (connection) => {
    const { client } = connection;
    const { method, request } = requestFor(await kernelReference(kernel, client));
    const open: OpenEvents = (watch) => client.start(method, request, watch);
    return options.detach ? detachFromJob(open, connection, context) : followJob(open, connection, context, options);
  });
}

/** Compiles a command's options, once, to the request for a kernel. Errors: UsageError, INVALID_REQUEST for a malformed shape. */
export function compileRequest(command: JobCommand, options: JobCommandOptions): (kernel: KernelReference) => StartRequest {
  const common = { options: compileJobOptions(options), variant: compileVariant(options) };
  switch (command) {
    case 'build':
      return (kernel) => ({ method: 'build', request: { ...common, kernel } });
    case 'verify': {
      const settings = compileVerifySettings(options);
      return (kernel) => ({ method: 'verify', request: { ...common, settings, kernel } });
    }
    case 'bench': {
      const settings = compileBenchmarkSettings(options);
      return (kernel) => ({ method: 'benchmark', request: { ...common, settings, kernel } });
    }
    case 'profile': {
      const settings = compileProfileSettings(options);
      return (kernel) => ({ method: 'profile', request: { ...common, settings, kernel } });
    }
    case 'run': {
      const verify = compileVerifySettings(options);
      const benchmark = compileBenchmarkSettings(options);
      const profile = compileProfileSettings(options);
      return (kernel) => ({ method: 'runExperiment', request: { ...common, verify, benchmark, profile, noFallback: options.fallback === false, kernel } });
    }
  }
}
