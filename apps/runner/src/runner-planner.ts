import { realpathSync } from 'node:fs';
import { FlashcoreError, type Shape, UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { parseHeldOut } from '@flashcore/shared/kernels';
import type { JobPlanner } from './jobs/job-context.ts';
import type { Logger } from './log.ts';
import type { RunnerOptions } from './serve-options.ts';
import type { RunnerStores } from './runner-stores.ts';
import { noGroups } from './sandbox/groups.ts';
import { FleetTable } from './store/fleet-table.ts';
import { MeasuredSteps } from './store/measured-steps.ts';

/**
 * Makes the planner for stores whose lock the caller has. Errors: UsageError if a sandbox is required and none works.
 */
export async function makePlanner(
  options: RunnerOptions,
  stores: RunnerStores,
  undo: DisposableStack,
): Promise<JobPlanner> {
  const { logger, findGroups, dataDirectory } = options;
  const isolation = isolationFor(options);
  const { database, artifacts, sources, kernels, decisions } = stores;
  // Must be made under the lock, because the groups of a data folder belong to one runner.
  const groups = undo.adopt(findGroups?.(realpathSync(dataDirectory)) ?? noGroups('none were asked for'), (made) =>
    made.close(),
  );
  if (findGroups) logger[groups.limited ? 'info' : 'warn']({ detail: groups.detail }, 'cgroups of boxes');
  // Copied field by field: the planner spreads its options over other options, which the runner's further fields would
  // overwrite.
  const planner = options.createPlanner({
    version: options.version,
    buildId: options.buildId,
    repositoryRoot: options.repositoryRoot,
    kernelsDirectory: options.kernelsDirectory,
    dataDirectory,
    logger,
    emulator: options.emulator,
    emulatorEngine: options.emulatorEngine,
    headers: options.headers,
    rates: options.rates,
    host: options.host,
    artifacts,
    sources,
    kernels,
    decisions,
    steps: new MeasuredSteps(database),
    fleet: new FleetTable(database),
    isolation,
    groups,
    heldOut: readHeldOut(options.heldOut),
  });
  // A gateway without a sandbox compiles nothing; its nodes compile in theirs.
  if (isolation === 'required' && !options.fleet) await requireBox(planner, options);
  else if (!options.fleet) void warnWithoutBox(planner, logger);
  return planner;
}

/**
 * If clients show credentials, the runner has keys and other people's results, so it requires a sandbox unless the
 * option says otherwise.
 */
const isolationFor = ({ isolation, security }: RunnerOptions): RunnerOptions['isolation'] =>
  isolation === 'auto' && security ? 'required' : isolation;

async function requireBox(planner: JobPlanner, { isolation }: RunnerOptions): Promise<void> {
  const { kind, detail } = await planner.isolation();
  if (kind !== 'none') return;
  const remedy =
    isolation === 'required'
      ? 'leave out --isolation required'
      : 'give --isolation none, with which every client can read tokens, keys and results';
  throw new UsageError(`${detail}: make bubblewrap work, or ${remedy}`);
}

async function warnWithoutBox(planner: JobPlanner, logger: Logger): Promise<void> {
  const { kind, detail } = await planner.isolation();
  if (kind === 'none') logger.warn({ detail }, 'there is no box around compilers and kernels');
}

/** The held-out shapes from the host's file, which clients never see. Empty without a file. Errors: UsageError. */
export function readHeldOut(path: string | undefined): readonly Shape[] {
  if (path === undefined) return [];
  try {
    return parseHeldOut(readForeignText(path, HAND_WRITTEN_BYTES), path);
  } catch (error) {
    if (error instanceof FlashcoreError) throw new UsageError(`--held-out ${path}: ${error.message}`);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UsageError(`--held-out ${path}: cannot be read (${whyUnreadable(error)})`);
  }
}
