import { RunnerClient } from '@flashcore/shared/client';
import { isRunning, withoutCredentials } from '@flashcore/shared/files';
import { RunnerProfiles } from '@flashcore/shared/logins';
import { FlashcoreError, JobState, type Job } from '@flashcore/shared/contract';
import { addProjectProblems, installedProblem, installedProblems } from '@flashcore/shared/kernels';
import { dataDirectory, readRunnerRecord } from '../connection/data-directory.ts';
import { resolveTarget, type Target } from '../connection/target.ts';
import { isSshAddress } from '../remote/ssh-address.ts';
import { toleranceRule } from '../present/sections/cases.ts';
import { shortName } from '../present/words.ts';
import { searchIds } from '../search/search-store.ts';
import { OwnKernels } from '../settings/own-kernels.ts';
import { configuredRunner, findProject } from '../settings/project.ts';
import { readSettings } from '../settings/settings.ts';
import type { Candidate, NameKind, Names } from './complete-line.ts';
import { installedNames } from './installed-names.ts';
import { UsageError } from '../exit-code.ts';

/** Time limit after which nothing is offered, because the user no longer waits after pressing Tab. */
const LIMIT_MS = 2000;
const MAX_JOBS = 50;

/**
 * Names from the user's files and from a runner that is already running; a runner is neither started nor waited for. If
 * the embedded runner is not running, its names come from its files.
 */
export const knownNames =
  (environment: NodeJS.ProcessEnv, asked: string | undefined): Names =>
  async (kind, kernel) => {
    if (kind === 'runner') return knownRunners(environment);
    if (kind === 'search') return searchIds(environment).map((word) => ({ word, about: '' }));
    try {
      if (kind === 'problem') return problemNames();
      const target = targetOf(environment, asked);
      const own = kind === 'kernel' ? await ownKernels(environment) : [];
      if (target === undefined) return [...(await installedNames(kind, kernel)), ...own];
      return [...(await fromRunner(target, (client, signal) => NAMES[kind](client, signal, kernel))), ...own];
    } catch (error) {
      // No runner answered in time, so nothing can be offered; and a completion cannot show a message.
      if (error instanceof FlashcoreError || error instanceof UsageError || isTimeout(error)) return [];
      throw error;
    }
  };

/** Kernel folders that were sent to a runner from this machine. */
const ownKernels = async (environment: NodeJS.ProcessEnv): Promise<Candidate[]> =>
  (await new OwnKernels(environment).list()).kernels.map(({ kernelId, title }) => ({ word: kernelId, about: title }));

/** Problems of flashcore and of the repository. */
function problemNames(): Candidate[] {
  const folder = findProject(process.cwd())?.problems;
  if (folder !== undefined) addProjectProblems(folder);
  return installedProblems().map((word) => ({ word, about: installedProblem(word).title }));
}

/** Runners with a login, and runners with hooks in the settings. */
function knownRunners(environment: NodeJS.ProcessEnv): Candidate[] {
  const logins = Object.entries(new RunnerProfiles(environment).list());
  const hosts = Object.keys(readSettings(environment).hooks ?? {});
  return [
    ...logins.map(([word, { address = '' }]) => ({ word, about: address })),
    ...hosts.filter((word) => !logins.some(([name]) => name === word)).map((word) => ({ word, about: 'has hooks' })),
  ];
}

const isTimeout = (error: unknown): boolean =>
  error instanceof DOMException && ['TimeoutError', 'AbortError'].includes(error.name);

type Lookup = (client: RunnerClient, signal: AbortSignal, kernel: string) => Promise<Candidate[]>;

const NAMES: Readonly<Record<Exclude<NameKind, 'runner' | 'search' | 'problem'>, Lookup>> = {
  kernel: async (client, signal) =>
    (await client.listKernels({ includeFaulty: true }, { signal })).kernels.map(({ kernelId, title }) => ({
      word: kernelId,
      about: title,
    })),
  job: async (client, signal) => (await jobsOf(client, signal)).map(jobCandidate),
  'open job': async (client, signal) =>
    (await jobsOf(client, signal)).filter(({ state }) => state !== JobState.ENDED).map(jobCandidate),
  device: (client) =>
    Promise.resolve(client.host.devices.map(({ deviceId, name }) => ({ word: deviceId, about: name }))),
  plan: async (client, signal) =>
    (await client.getHost({}, { signal })).plans.map(({ name, title }) => ({ word: name, about: title })),
  'case set': async (client, signal) =>
    (await client.getHost({}, { signal })).caseSets.map(({ name, shapes }) => ({
      word: name,
      about: `${shapes.length} shapes`,
    })),
  tolerance: async (client, signal) =>
    (await client.getHost({}, { signal })).tolerances.map((tolerance) => ({
      word: tolerance.profile ?? '',
      about: toleranceRule(tolerance),
    })),
  parameter: async (client, signal, kernel) =>
    (await client.listKernels({ includeFaulty: true }, { signal })).kernels
      .filter(({ kernelId }) => kernelId === kernel)
      .flatMap(({ parameters }) => parameters)
      .map(({ name, about }) => ({ word: `${name}=`, about })),
};

const jobsOf = async (client: RunnerClient, signal: AbortSignal): Promise<Job[]> =>
  (await client.listJobs({ pageSize: MAX_JOBS }, { signal })).jobs;

const jobCandidate = ({ name, label }: Job): Candidate => ({ word: shortName(name), about: label });

async function fromRunner(
  target: TargetAddress,
  look: (client: RunnerClient, signal: AbortSignal) => Promise<Candidate[]>,
): Promise<Candidate[]> {
  // A user who presses Tab neither waits for ssh nor answers its questions.
  if (isSshAddress(target.address)) return [];
  const signal = AbortSignal.timeout(LIMIT_MS);
  const client = await RunnerClient.connect({ address: target.address, security: target.security, signal });
  try {
    return await look(client, signal);
  } finally {
    client.close();
  }
}

type TargetAddress = Pick<Target, 'address' | 'security'>;

/** The runner that the command would use; undefined if that is the embedded runner and it is not running. */
function targetOf(environment: NodeJS.ProcessEnv, asked: string | undefined): TargetAddress | undefined {
  if (asked) return resolveTarget(asked, {}, environment);
  const configured = configuredRunner(environment);
  if (configured)
    return resolveTarget(configured.name, {}, configured.byProject ? withoutCredentials(environment) : environment);
  const record = readRunnerRecord(dataDirectory(environment));
  return record !== undefined && isRunning(record.pid) ? { address: record.address, security: undefined } : undefined;
}
