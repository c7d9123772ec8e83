import { once } from 'node:events';
import { HOSTS, hostConfig, type AgentHost } from '../agents/host-config.ts';
import { LazyRunner } from '../agents/lazy-runner.ts';
import { serveMcp } from '../agents/mcp-server.ts';
import { Refused } from '../agents/answers.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { UsageError } from '../usage-error.ts';
import { kernelReference, parseKernelArgument } from './kernel-argument.ts';

/**
 * `fa-tui mcp`: serves coding agents on stdin and stdout. `fa-tui mcp config HOST` prints the configuration for an
 * agent.
 */
export async function mcp(
  action: string,
  host: string,
  { accept, context }: { accept: boolean; context: CommandContext },
): Promise<ExitCode> {
  if (action === 'config') return config(host, { accept, context });
  if (action !== '') throw new UsageError(`fa-tui mcp ${action}: must be nothing, to serve, or config`);
  const { stderr } = context.surroundings;
  await serveMcp(
    {
      runner: new LazyRunner(() => context.connect()),
      mayDecide: accept,
      log: (text) => void stderr.write(`${text}\n`),
      kernelOf: async (text) => {
        const kernel = await parseKernelArgument(text).catch((error: unknown) => {
          if (error instanceof UsageError) throw new Refused(error.message);
          throw error;
        });
        if (kernel.kind === 'build')
          throw new Refused('kernel: must be a kernel of the runner or a folder; a build_id has no source');
        return kernel;
      },
      referenceTo: (place, client) => kernelReference(place.kind === 'folder' ? { ...place, id: '' } : place, client),
    },
    once(process.stdin, 'close'),
  );
  return ExitCode.PASSED;
}

function config(host: string, { accept, context }: { accept: boolean; context: CommandContext }): ExitCode {
  const known = HOSTS.find((each) => each === host);
  if (!known) throw new UsageError(`fa-tui mcp config ${host || 'HOST'}: must be ${HOSTS.join(', ')}`);
  const { runner, startRunner } = context.options;
  const { file, text } = hostConfig(known satisfies AgentHost, [
    ...(runner ? ['--runner', runner] : []),
    ...(startRunner ? ['--start-runner'] : []),
    'mcp',
    ...(accept ? [] : ['--no-accept']),
  ]);
  context.note(file);
  context.report([text]);
  return ExitCode.PASSED;
}
