import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, JobOptionsSchema, type Champion, type Device } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import type { Connection } from '../connection/connect.ts';
import { formatInstant } from '../present/numbers.ts';
import { shortName } from '../present/words.ts';
import { runToResult } from '../search/experiment.ts';
import { hasShape, placeOf, sourcesOf, type SavedChampion } from './champions-folder.ts';
import { jobRequest } from '../session/runner-port.ts';
import { UsageError } from '../exit-code.ts';

/** The result of loading a saved champion on this runner. */
export interface LoadedChampion {
  readonly saved: SavedChampion;
  readonly state: 'accepted' | 'champion already' | 'not accepted' | 'no such device';
  /** The job in which this runner ran it; empty if it was not run. */
  readonly job: string;
  /** The reason why the champion was not accepted; empty if it was. */
  readonly reason: string;
  /** The champion as this runner lists it. */
  readonly champion?: Champion | undefined;
}

/**
 * Makes saved champions champions of a runner. Each champion is run again there, under the plan with which it was
 * accepted, and accepted if the result allows it. The file's figures decide nothing, because they come from another
 * machine. A failure does not prevent loading the others. Errors: RUNNER_UNREACHABLE.
 */
export async function* loadChampions(
  folder: string,
  champions: readonly SavedChampion[],
  connection: Connection,
): AsyncGenerator<LoadedChampion> {
  const { devices } = connection.client.host;
  for (const saved of champions) {
    const device = devices.find(({ name }) => name === saved.champion.deviceName);
    if (device) yield await loadOne(folder, saved, { device, connection });
    else yield { saved, state: 'no such device', job: '', reason: `this runner has ${deviceNames(devices)}` };
  }
}

const deviceNames = (devices: readonly Device[]): string => devices.map(({ name }) => name).join(', ') || 'no device';

interface LoadingOn {
  readonly device: Device;
  readonly connection: Connection;
}

async function loadOne(folder: string, saved: SavedChampion, on: LoadingOn): Promise<LoadedChampion> {
  try {
    const held = await heldBy(saved, on.connection.client);
    if (held) return { saved, state: 'champion already', job: held.job, reason: '', champion: held };
    return await acceptAnew(folder, saved, on);
  } catch (error) {
    const isOfThisOne = error instanceof UsageError || error instanceof FlashcoreError;
    if (!isOfThisOne || (error instanceof FlashcoreError && error.reason === 'RUNNER_UNREACHABLE')) throw error;
    return { saved, state: 'not accepted', job: '', reason: error.message };
  }
}

/** The runner's champion with the same sources and variant on all of the saved champion's shapes, if there is one. */
async function heldBy({ champion, digest }: SavedChampion, client: RunnerClient): Promise<Champion | undefined> {
  const { deviceName } = champion;
  // The search is not by kernel id: the runner may not know that kernel, which would be an error.
  for (const other of (await client.listChampions({ deviceName })).champions) {
    if (placeOf(other) !== placeOf(champion) || other.label !== champion.label) continue;
    if (!champion.shapes.every((shape) => hasShape(other, formatShape(shape)))) continue;
    if ((await sourceDigestOf(other, client)) === digest) return other;
  }
  return undefined;
}

/** Undefined if the runner no longer has the sources. */
async function sourceDigestOf({ buildId }: Champion, client: RunnerClient): Promise<string | undefined> {
  try {
    return (await client.getKernel({ buildId })).kernel?.sourceDigest;
  } catch (error) {
    if (error instanceof FlashcoreError && ['SOURCES_MISSING', 'BUILD_NOT_FOUND'].includes(error.reason))
      return undefined;
    throw error;
  }
}

async function acceptAnew(
  folder: string,
  saved: SavedChampion,
  { device, connection }: LoadingOn,
): Promise<LoadedChampion> {
  const { champion, variant } = saved;
  const { client } = connection;
  const kernel = await client.uploadFolder(await sourcesOf(folder, saved));
  const request = jobRequest('run', {
    common: {
      options: create(JobOptionsSchema, { requestId: crypto.randomUUID(), deviceId: device.deviceId }),
      kernel,
      variant,
    },
    benchmark: { dtype: champion.dtype },
    experiment: { plan: champion.plan },
  });
  const { job, result } = await runToResult(connection, request);
  const { possible = false, reason = 'the run has no result', over = '' } = result?.acceptability ?? {};
  if (!possible) return { saved, state: 'not accepted', job: job.name, reason };
  try {
    const accepted = await client.accept({ job: job.name, over, note: noteOf(champion) });
    return { saved, state: 'accepted', job: job.name, reason: '', champion: accepted.champion };
  } catch (error) {
    if (!(error instanceof FlashcoreError) || !['NOT_ACCEPTABLE', 'PERMISSION_DENIED'].includes(error.reason))
      throw error;
    return { saved, state: 'not accepted', job: job.name, reason: error.message };
  }
}

const LOADED = 'saved champion, accepted ';

/** The note that says where the champion comes from. A champion that was loaded before keeps its earlier note. */
function noteOf({ decision, job }: Champion): string {
  const before = plainLine(decision?.note ?? '');
  if (before.startsWith(LOADED)) return before;
  const by = plainLine(decision?.client || 'nobody known');
  const text = `${LOADED}${formatInstant(decision?.time)} by ${by} as ${plainLine(shortName(job))}`;
  return [...(before === '' ? text : `${text}: ${before}`)].slice(0, 2_000).join('');
}
