import { create, fromBinary } from '@bufbuild/protobuf';
import {
  LeaderboardEntrySchema,
  LeaderboardPlaceSchema,
  type LeaderboardEntry,
  type LeaderboardPlace,
  type Shape,
  type TimingMode,
} from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import type { Database } from './database.ts';
import { readLabels } from './labels.ts';

/** The first step of the ladder: what every kernel is a speedup over. */
export const BASELINE_KERNEL = 'fa_v1_baseline';

/** Where figures compare with each other. A changed protocol changes figures of the same kernel. */
export interface RankedPlace {
  deviceName: string;
  shape: Shape;
  mode: TimingMode;
  protocol: string;
}

/** Valid measurements that a ranking does not take, because they were made by another measuring protocol. */
export interface LeftOut {
  /** Empty: unknown. */
  protocol: string;
  count: number;
}

const MAX_PLACES = 200;
const COUNTS = 'valid = 1 AND simulated = 0';

/** What experiments measured, ranked; never a time of the emulator. */
export class Leaderboard {
  readonly #database: Database;
  /** Version of the measuring protocol of this runner, as results name it. */
  readonly protocol: string;

  constructor(database: Database, { protocol }: { protocol: string }) {
    this.#database = database;
    this.protocol = protocol;
  }

  /**
   * The best valid measurement of every kernel variant and the best of every backend and version of SDPA, fastest
   * first, with their speedups over the baseline and over SDPA.
   */
  at(place: RankedPlace): LeaderboardEntry[] {
    const [kernels, sdpa] = [this.#kernels(place), this.#sdpa(place)];
    const baseline = fastest(kernels.filter(({ kernelId }) => kernelId === BASELINE_KERNEL));
    const fastestSdpa = fastest(sdpa);
    for (const entry of kernels) {
      const p50Us = entry.latency!.p50Us;
      if (baseline !== undefined) entry.speedupOverBaseline = baseline / p50Us;
      // Measured in turns is the better figure: it stands where there is one.
      if (entry.speedup === undefined && fastestSdpa !== undefined) entry.speedup = fastestSdpa / p50Us;
    }
    return [...kernels, ...sdpa].toSorted((a, b) => a.latency!.p50Us - b.latency!.p50Us);
  }

  /** What the leaderboard of a place does not have because of its protocol. */
  leftOut({ deviceName, shape, mode, protocol }: RankedPlace): LeftOut[] {
    return this.#database
      .prepare(
        `SELECT protocol, COUNT(*) AS count FROM measurements
         WHERE device_name = ? AND shape = ? AND mode = ? AND protocol <> ? AND ${COUNTS} GROUP BY protocol ORDER BY protocol DESC`,
      )
      .all(deviceName, formatShape(shape), mode, protocol)
      .map((row) => ({ protocol: String(row['protocol']), count: Number(row['count']) }));
  }

  /** Where there are valid results, most first. */
  places(): LeaderboardPlace[] {
    return this.#database
      .prepare(
        `SELECT device_name, shape, mode, protocol, COUNT(*) AS count FROM measurements WHERE ${COUNTS}
         GROUP BY device_name, shape, mode, protocol ORDER BY count DESC, device_name, shape, mode, protocol LIMIT ${MAX_PLACES}`,
      )
      .all()
      .map((row) =>
        create(LeaderboardPlaceSchema, {
          deviceName: String(row['device_name']),
          shape: parseShape(String(row['shape'])),
          mode: Number(row['mode']) as TimingMode,
          protocol: String(row['protocol']),
          results: Number(row['count']),
        }),
      );
  }

  /** Whether the emulator has results for a shape, which is why a leaderboard may be empty. */
  hasSimulated(shape: Shape): boolean {
    return (
      this.#database
        .prepare('SELECT 1 FROM measurements WHERE shape = ? AND simulated = 1 LIMIT 1')
        .get(formatShape(shape)) !== undefined
    );
  }

  #kernels({ deviceName, shape, mode, protocol }: RankedPlace): LeaderboardEntry[] {
    // SQLite takes the columns beside a lone MIN() from the row that has the minimum.
    return this.#database
      .prepare(
        `SELECT entry, MIN(p50_us), owner, labels FROM measurements JOIN jobs ON jobs.id = job_id
         WHERE device_name = ? AND shape = ? AND mode = ? AND protocol = ? AND ${COUNTS} GROUP BY measurements.kernel_id, measurements.label`,
      )
      .all(deviceName, formatShape(shape), mode, protocol)
      .map(entryOf);
  }

  #sdpa({ deviceName, shape, mode, protocol }: RankedPlace): LeaderboardEntry[] {
    return this.#database
      .prepare(
        `SELECT entry, MIN(p50_us), owner, '{}' AS labels FROM sdpa_measurements JOIN jobs ON jobs.id = job_id
         WHERE device_name = ? AND shape = ? AND mode = ? AND protocol = ? GROUP BY backend, version`,
      )
      .all(deviceName, formatShape(shape), mode, protocol)
      .map(entryOf);
  }
}

function entryOf(row: Record<string, unknown>): LeaderboardEntry {
  const entry = fromBinary(LeaderboardEntrySchema, row['entry'] as Uint8Array);
  if (row['owner'] !== '') entry.owner = String(row['owner']);
  entry.labels = readLabels(String(row['labels']));
  return entry;
}

/** The least median; undefined where there is none. */
const fastest = (entries: readonly LeaderboardEntry[]): number | undefined =>
  entries.length === 0 ? undefined : Math.min(...entries.map(({ latency }) => latency!.p50Us));
