import { create } from '@bufbuild/protobuf';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, JobOptionsSchema, type Champion, type Device } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import { formatShortInstant } from '../present/numbers.ts';
import { shortName } from '../present/words.ts';
import { runToResult } from '../search/experiment.ts';
import { jobRequest } from '../session/job-request.ts';
import { placeOf, sourcesOf, type SavedChampion } from './champions-folder.ts';

/** What became of a saved champion on this runner. */
export interface LoadedChampion {
  readonly saved: SavedChampion;
  readonly state: 'accepted' | 'champion already' | 'not accepted' | 'no such device';
  /** Of the run here; empty where none was needed. */
  readonly job: string;
  /** Why it is not accepted. */
  readonly reason: string;
  /** The champion here. */
  readonly champion?: Champion | undefined;
}

/**
 * Makes saved champions champions of a runner: each is run again there, by its plan, and accepted where that run may
 * be. A file alone makes nobody champion, and its figures, of another machine and day, judge nothing.
 */
export async function* loadChampions(
  folder: string,
  champions: readonly SavedChampion[],
  connection: Connection,
): AsyncGenerator<LoadedChampion> {
  const { client } = connection;
  for (const saved of champions) {
    const device = client.host.devices.find(({ name }) => name === saved.champion.deviceName);
    if (!device) {
      yield { saved, state: 'no such device', job: '', reason: `this runner has ${deviceNames(client.host.devices)}` };
      continue;
    }
    const held = await heldBy(saved, client);
    if (held) yield { saved, state: 'champion already', job: held.job, reason: '', champion: held };
    else yield await acceptAnew(folder, saved, device, connection);
  }
}

const deviceNames = (devices: readonly Device[]): string => devices.map(({ name }) => name).join(', ') || 'no device';

/** The champion here, where it is of the same sources and the same variant. */
async function heldBy({ champion, digest }: SavedChampion, client: RunnerClient): Promise<Champion | undefined> {
  const { deviceName } = champion;
  // Not by kernel id: the runner may never have seen that kernel, and that is no error here.
  for (const other of (await client.listChampions({ deviceName })).champions) {
    if (placeOf(other) !== placeOf(champion) || other.label !== champion.label) continue;
    const { kernel } = await client.getKernel({ buildId: other.buildId });
    if (kernel?.sourceDigest === digest) return other;
  }
  return undefined;
}

async function acceptAnew(
  folder: string,
  saved: SavedChampion,
  device: Device,
  connection: Connection,
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

/** Where the champion is from. */
const noteOf = ({ decision, job }: Champion): string =>
  [
    `saved champion, accepted ${formatShortInstant(decision?.time)} by ${decision?.client ?? 'nobody known'} as ${shortName(job)}`,
    decision?.note ?? '',
  ]
    .filter((part) => part !== '')
    .join(': ')
    .slice(0, 4096);
