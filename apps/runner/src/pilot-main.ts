import { X509Certificate } from 'node:crypto';
import { lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DeviceState, type Device, type Tool, UsageError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignFile, whyUnreadable } from '@flashcore/shared/files';
import { AssignedBuilds } from './build/assigned-builds.ts';
import { createPlanner, type PlannerOptions } from './experiment/planner.ts';
import { leaveLastWords, tryingWords } from './fleet/last-words.ts';
import { GatewayUnreachable } from './fleet/pilot-connection.ts';
import { flyPilot, type PilotOptions } from './fleet/pilot.ts';
import { lockGpus } from './gpu-lock.ts';
import { createLogger } from './log.ts';
import type { ServeOptions } from './serve-options.ts';
import { startRunner, type Runner } from './runner.ts';
import { findGroups } from './sandbox/groups.ts';
import { DirectoryInUse } from './store/directory-lock.ts';

/**
 * Options of a pilot's process. `serve` has the options of the pilot's own runner, whose data folder is the node's
 * scratch folder.
 */
export interface PilotProcess {
  pilot: NonNullable<ServeOptions['pilot']>;
  serve: ServeOptions;
  environment: NodeJS.ProcessEnv;
  version: string;
  buildId: string;
  repositoryRoot: string;
}

const MOST_SLOTS = 64;
const SOCKET = 's';

/** Runs a pilot: a runner that gets its jobs from the gateway. Errors: UsageError, the gateway's. */
export async function runPilot(own: PilotProcess): Promise<void> {
  try {
    await fly(own);
  } catch (error) {
    // The gateway has a remedy of its own for each way not to be reached.
    await leaveLastWords(error instanceof GatewayUnreachable ? error.said : (error as Error).message, own.environment);
    throw error;
  }
}

async function fly(own: PilotProcess): Promise<void> {
  const { environment, serve, version, buildId, repositoryRoot } = own;
  const scratch = serve.dataDirectory;
  const token = environment['FLASHCORE_PILOT_TOKEN'];
  if (!token) throw new UsageError('Let the gateway start pilots: FLASHCORE_PILOT_TOKEN has no token');
  // Hides the token from the kernels and compilers that run here.
  delete process.env['FLASHCORE_PILOT_TOKEN'];
  const logger = createLogger(serve.logLevel);
  const ended = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => ended.abort());
  const security = securityOf(own.pilot.authority);
  requireOwn(scratch);
  const unlock = await lockGpus({ scratch, environment });
  let planner: PlannerOptions | undefined;
  let devices: (() => Device[]) | undefined;
  let describeTools: () => Promise<Tool[]> = () => Promise.resolve([]);
  const owners = new Map<string, string>();
  const runner = await inFreeSlot(scratch, (dataDirectory) =>
    startRunner({
      ...serve,
      dataDirectory,
      address: { kind: 'unix', path: join(dataDirectory, SOCKET) },
      security: undefined,
      version,
      buildId,
      repositoryRoot,
      logger,
      findGroups: (folder) => findGroups({ limits: serve.boxLimits, dataDirectory: folder }),
      ownerOf: (requestId) => owners.get(requestId),
      createPlanner: (options) => {
        planner = { ...options, assigned: new AssignedBuilds(options.artifacts) };
        const made = createPlanner(planner);
        devices = () => made.devices();
        describeTools = () => made.describeTools();
        return made;
      },
    }),
  );
  try {
    const device = devices?.().find(({ state }) => state === DeviceState.READY);
    if (!planner || !device) throw new UsageError('Give pilots nodes with a GPU: this one has no device');
    await flyPilot(
      { ...planner, address: runner.address, device, tools: await describeTools(), owners },
      optionsOf(own, { security, token, logger, signal: ended.signal }),
    );
  } finally {
    runner.stop();
    runner.stop();
    await runner.ended;
    unlock();
  }
}

function optionsOf(
  { pilot, environment }: PilotProcess,
  given: Pick<PilotOptions, 'security' | 'token' | 'logger' | 'signal'>,
): PilotOptions {
  const minutes = Number(environment['FLASHCORE_PILOT_MINUTES']);
  return {
    ...given,
    gateway: pilot.gateway,
    endsAtMs: minutes > 0 ? Date.now() + minutes * 60_000 : Infinity,
    // The pilot goes on trying for a long time; until then the gateway shows these words.
    onUnreached: (problem) => void leaveLastWords(tryingWords(problem), environment),
  };
}

/** Errors: UsageError if this node can't read the authority's certificate. */
function securityOf(path: string | undefined): PilotOptions['security'] {
  if (path === undefined) return undefined;
  const refusal = (why: string): UsageError =>
    new UsageError(`Put the authority's ca.crt at tls_ca, where the node can read it: ${path} (${why})`);
  let authority: Buffer;
  try {
    authority = readForeignFile(path, HAND_WRITTEN_BYTES);
  } catch (error) {
    throw refusal(whyUnreadable(error));
  }
  try {
    void new X509Certificate(authority);
  } catch {
    throw refusal('it has no certificate');
  }
  return { authority };
}

/** Pilots on one node do not share a data folder, but a later pilot can use an earlier one's builds. */
async function inFreeSlot(scratch: string, start: (dataDirectory: string) => Promise<Runner>): Promise<Runner> {
  requireOwn(scratch);
  for (let slot = 0; slot < MOST_SLOTS; slot += 1) {
    const folder = join(scratch, String(slot));
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      return await start(folder);
    } catch (error) {
      if (!(error instanceof DirectoryInUse)) throw error;
    }
  }
  throw new UsageError(`Give pilots of this node another scratch folder: ${scratch} has ${MOST_SLOTS} in use`);
}

/** Another owner of the folder could change what pilots build and run. Errors: UsageError. */
function requireOwn(scratch: string): void {
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(scratch);
  const own = lstatSync(scratch).isDirectory() && uid === process.getuid?.() && (mode & 0o022) === 0;
  if (own) return;
  throw new UsageError(
    `Give pilots a scratch folder that is theirs alone: ${scratch} is another user's, or others may write in it`,
  );
}
