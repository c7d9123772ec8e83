import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { runnerKernels } from '../connection/data-directory.ts';
import { resolveTarget } from '../connection/target.ts';
import { tableOf } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import {
  digestOf,
  hostFacts,
  install,
  lacking,
  missingForInstall,
  versionOf,
  type HostFacts,
} from '../remote/install.ts';
import { isSshAddress, parseSshAddress, type SshAddress } from '../remote/ssh-address.ts';
import { sshHost } from '../remote/ssh-command.ts';
import { UsageError } from '../usage-error.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';

interface HostOptions {
  readonly runner?: string;
  /** The runner as the command's own argument; empty: --runner. */
  readonly named: string;
  readonly bundle?: string;
}

/** `fa-tui host install ssh://box`. */
export function hostCommand(action: string, options: HostOptions, context: CommandContext): Promise<ExitCode> {
  switch (action) {
    case 'install':
      return installOn(options, context);
    default:
      throw new UsageError(`Wanted install; got ${action}`);
  }
}

/** Copies the bundle, and says what the host has and lacks. */
async function installOn(options: HostOptions, context: CommandContext): Promise<ExitCode> {
  const address = sshAddress(options, context);
  const { environment } = context.surroundings;
  const { mayAsk } = context;
  const host = await sshHost(address, environment);
  const facts = await hostFacts(host, environment, mayAsk);
  const file = bundleFile(options.bundle, facts);
  const problem = missingForInstall(facts);
  if (problem !== undefined) throw new UsageError(`${address.text}: ${problem}`);
  const digest = await digestOf(file);
  const isThere = facts.current === versionOf(digest);
  if (!isThere) {
    context.note(`copying ${path.basename(file)}, ${(statSync(file).size / 1e6).toFixed(1)} MB, to ${address.text}`);
    context.note(`it runs there: ${await install(host, { file, digest }, { environment, mayAsk })}`);
  }
  const lacks = lacking(facts);
  const folder = `${facts.folder}/${versionOf(digest)}`;
  if (context.options.json)
    context.document({ ...facts, address: address.text, folder, digest, copied: !isThere, lacks });
  else {
    const rows: (readonly [string, string])[] = [
      ['installed', isThere ? `${folder} (was there already)` : folder],
      ['sha256', digest],
      ...facts.gpus.map((gpu) => ['gpu', gpu] as const),
      ...Object.entries(facts.programs).filter(([name]) => TOLD.includes(name)),
      ...lacks.map((text) => ['lacks', text] as const),
    ];
    context.show([
      tableOf(
        [
          { title: 'host', cell: ([name]: readonly [string, string]) => name },
          { title: address.text, shrinkTo: 20, cell: ([, value]) => sanitize(value) },
        ],
        rows,
      ),
    ]);
  }
  context.note(`Use it: fa-tui --runner ${address.text} --start-runner`);
  return ExitCode.PASSED;
}

const TOLD = ['nvcc', 'g++', 'bwrap', 'ncu', 'python3'];

/** The ssh address that is meant: the argument, --runner, $FLASHCORE_RUNNER, the settings. */
function sshAddress({ named, runner }: HostOptions, context: CommandContext): SshAddress {
  const { environment } = context.surroundings;
  const text = named || runner || environment.FLASHCORE_RUNNER || context.settings().runner;
  if (!text) throw new UsageError('Wanted a host: fa-tui host install ssh://gpu-box');
  const { address } = resolveTarget(text, {}, environment);
  if (isSshAddress(address)) return parseSshAddress(address);
  throw new UsageError(`Wanted a host that ssh reaches (ssh://gpu-box); got ${address}`);
}

/** The bundle for the host's system. */
function bundleFile(given: string | undefined, { platform }: HostFacts): string {
  if (given !== undefined) {
    if (existsSync(given)) return given;
    throw new UsageError(`Wanted a bundle at ${given}; there is none: npx nx bundle runner makes one in out/`);
  }
  const file = path.resolve(runnerKernels(), '../out', `flashcore-runner-${platform}.tar.xz`);
  if (existsSync(file)) return file;
  throw new UsageError(
    `Make a bundle first (npx nx bundle runner, on ${platform}), or name one with --bundle: there is no ${file}`,
  );
}
