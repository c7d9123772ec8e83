import { create, fromBinary } from '@bufbuild/protobuf';
import {
  DecisionKind,
  GeometricMeanSchema,
  LeaderboardEntrySchema,
  LeaderboardPlaceSchema,
  type CaseSet,
  type GeometricMean,
  type LeaderboardEntry,
  type LeaderboardPlace,
  type TimingMode,
} from '@flashcore/shared/contract';
import { FEWEST_SAMPLES, formatShape, parseShape } from '@flashcore/shared/kernels';
import { isSdpa } from '@flashcore/shared/rivals';
import type { Database } from './database.ts';
import type { ChampionPlace } from './decisions.ts';
import { readLabels } from './job-table.ts';

/** The first step of the ladder: speedups of all kernels refer to it. */
export const BASELINE_KERNEL = 'fa_v1_baseline';

/** A place whose figures are comparable. Another protocol gives other figures for the same kernel. */
export interface RankedPlace extends ChampionPlace {
  mode: TimingMode;
}

/** A place whose geometric means over the shapes of a case set are comparable. */
export interface RankedSet extends Omit<RankedPlace, 'shape'> {
  set: CaseSet;
}

/** Valid measurements left out of a ranking because another measuring protocol made them. */
export interface LeftOut {
  /** Empty if unknown. */
  protocol: string;
  count: number;
}

const MAX_PLACES = 200;
const MEASURED = 'valid = 1 AND simulated = 0';
/** Whether the latest decision about the job that was not undone rejects its result. */
const REJECTED = `(SELECT kind FROM decisions WHERE decisions.job_id = measurements.job_id
  AND kind IN (${DecisionKind.ACCEPTED}, ${DecisionKind.REJECTED})
  AND NOT EXISTS (SELECT 1 FROM decisions AS undo WHERE undo.undoes = decisions.number)
  ORDER BY number DESC LIMIT 1) IS ${DecisionKind.REJECTED}`;
/**
 * Only results of ranked runs appear: in other runs, including those from before ranked runs existed, the submitter
 * chose the rules.
 */
const COUNTS = `${MEASURED} AND ranked = 1 AND NOT ${REJECTED}`;

interface LeaderboardOptions {
  protocol: string;
  /** Digest of the sources of the runner's own kernel with an id; undefined if the runner has no such kernel. */
  sourcesOf: (kernelId: string) => string | undefined;
}

/** Ranks the measurements of experiments; never a time of the emulator. */
export class Leaderboard {
  readonly #database: Database;
  readonly #sourcesOf: LeaderboardOptions['sourcesOf'];
  /** Version of this runner's measuring protocol, as results name it. */
  readonly protocol: string;

  constructor(database: Database, { protocol, sourcesOf }: LeaderboardOptions) {
    this.#database = database;
    this.#sourcesOf = sourcesOf;
    this.protocol = protocol;
  }

  /**
   * The best valid measurement of each person and kernel in ranked runs, and the best of every backend and version of
   * SDPA, fastest first, with their speedups over the baseline and over SDPA.
   */
  at(place: RankedPlace): LeaderboardEntry[] {
    const baseline = this.#baseline({ ...place, shape: formatShape(place.shape) }).map(({ row }) => entryOf(row));
    return ranked(this.#kernels(place), this.#sdpa(place), fastest(baseline));
  }

  /**
   * Ranks as at() does, by the weighted geometric mean over a case set: for each person and kernel, the best build that
   * one ranked run measured on all of its shapes; for SDPA, the best job that measured all shapes.
   */
  over({ set, ...where }: RankedSet): LeaderboardEntry[] {
    const measured = set.shapes.map((shape) => ({ ...where, shape: formatShape(shape) }));
    const kernels = measured.map((place) => this.#measured(KERNEL_ROWS, place));
    const sdpa = measured.map((place) => this.#measured(SDPA_ROWS, place));
    const baseline = measured.map((place) => this.#baseline(place));
    return ranked(bestMeans(kernels, set), bestMeans(sdpa, set), fastest(bestMeans(baseline, set)));
  }

  /** The baseline's own measurements: an upload with its id does not change everybody's speedup. */
  #baseline(place: Omit<RankedPlace, 'shape'> & { shape: string }): MeasuredRow[] {
    const sources = this.#sourcesOf(BASELINE_KERNEL);
    return this.#measured(`${KERNEL_ROWS} AND measurements.kernel_id = '${BASELINE_KERNEL}'`, place).filter(
      ({ row }) => entryOf(row).sourceDigest === sources,
    );
  }

  /** Results that a place's leaderboard leaves out because of their protocol. */
  leftOut({ deviceName, problem, shape, dtype, mode, protocol }: RankedPlace): LeftOut[] {
    return this.#database
      .prepare(
        `SELECT protocol, COUNT(*) AS count FROM measurements
         WHERE device_name = ? AND problem = ? AND shape = ? AND dtype = ? AND mode = ? AND protocol <> ? AND ${MEASURED} GROUP BY protocol ORDER BY protocol DESC`,
      )
      .all(deviceName, problem, formatShape(shape), dtype, mode, protocol)
      .map((row) => ({ protocol: String(row['protocol']), count: Number(row['count']) }));
  }

  /**
   * Numbers of valid results of a place that are left out: results of unranked runs, and rejected results of ranked
   * runs.
   */
  notCounted({ deviceName, problem, shape, dtype, mode, protocol }: RankedPlace): {
    notRanked: number;
    rejected: number;
  } {
    const row = this.#database
      .prepare(
        `SELECT COUNT(*) FILTER (WHERE ranked = 0) AS not_ranked, COUNT(*) FILTER (WHERE ranked = 1 AND ${REJECTED}) AS rejected
         FROM measurements WHERE ${AT_PLACE} AND ${MEASURED}`,
      )
      .get(deviceName, problem, formatShape(shape), dtype, mode, protocol);
    return { notRanked: Number(row!['not_ranked']), rejected: Number(row!['rejected']) };
  }

  /** Places with valid results, most results first. */
  places(): LeaderboardPlace[] {
    return this.#database
      .prepare(
        `SELECT device_name, problem, shape, dtype, mode, protocol, COUNT(*) AS count FROM measurements WHERE ${COUNTS}
         GROUP BY device_name, problem, shape, dtype, mode, protocol
         ORDER BY count DESC, device_name, problem, shape, dtype DESC, mode, protocol LIMIT ${MAX_PLACES}`,
      )
      .all()
      .map((row) =>
        create(LeaderboardPlaceSchema, {
          deviceName: String(row['device_name']),
          problem: String(row['problem']),
          shape: parseShape(String(row['shape'])),
          dtype: String(row['dtype']),
          mode: Number(row['mode']) as TimingMode,
          protocol: String(row['protocol']),
          results: Number(row['count']),
        }),
      );
  }

  /** Whether the emulator has results for a case, which can explain an empty leaderboard. */
  hasSimulated({ problem, shape }: Pick<RankedPlace, 'problem' | 'shape'>): boolean {
    return (
      this.#database
        .prepare('SELECT 1 FROM measurements WHERE problem = ? AND shape = ? AND simulated = 1 LIMIT 1')
        .get(problem, formatShape(shape)) !== undefined
    );
  }

  #kernels({ deviceName, problem, shape, dtype, mode, protocol }: RankedPlace): LeaderboardEntry[] {
    // With a single MIN(), SQLite takes the other columns from the row that has the minimum.
    return this.#database
      .prepare(
        `SELECT entry, MIN(p50_us), owner, labels FROM measurements JOIN jobs ON jobs.id = job_id
         WHERE device_name = ? AND problem = ? AND shape = ? AND dtype = ? AND mode = ? AND protocol = ? AND ${COUNTS} GROUP BY owner, measurements.kernel_id`,
      )
      .all(deviceName, problem, formatShape(shape), dtype, mode, protocol)
      .map(entryOf);
  }

  #measured(
    query: string,
    { deviceName, problem, shape, dtype, mode, protocol }: Omit<RankedPlace, 'shape'> & { shape: string },
  ): MeasuredRow[] {
    return this.#database
      .prepare(query)
      .all(deviceName, problem, shape, dtype, mode, protocol)
      .map((row) => ({ whose: String(row['whose']), build: String(row['build']), row }));
  }

  #sdpa({ deviceName, problem, shape, dtype, mode, protocol }: RankedPlace): LeaderboardEntry[] {
    return this.#database
      .prepare(
        `SELECT entry, MIN(p50_us), owner, '{}' AS labels FROM sdpa_measurements JOIN jobs ON jobs.id = job_id
         WHERE device_name = ? AND problem = ? AND shape = ? AND dtype = ? AND mode = ? AND protocol = ? GROUP BY backend, version`,
      )
      .all(deviceName, problem, formatShape(shape), dtype, mode, protocol)
      .map(entryOf);
  }
}

function entryOf(row: Record<string, unknown>): LeaderboardEntry {
  const entry = fromBinary(LeaderboardEntrySchema, row['entry'] as Uint8Array);
  if (row['owner'] !== '') entry.owner = String(row['owner']);
  entry.labels = readLabels(String(row['labels']));
  return entry;
}

const AT_PLACE = 'device_name = ? AND problem = ? AND shape = ? AND dtype = ? AND mode = ? AND protocol = ?';
/**
 * `whose` identifies a row of the table, `build` a build measured by one job: a mean uses only figures of one build.
 */
const KERNEL_ROWS = `SELECT entry, owner, labels, json_array(owner, measurements.kernel_id) AS whose, json_array(job_id, measurements.label) AS build
  FROM measurements JOIN jobs ON jobs.id = job_id WHERE ${AT_PLACE} AND ${COUNTS}`;
const SDPA_ROWS = `SELECT entry, owner, '{}' AS labels, json_array(backend, version) AS whose, json_array(job_id, backend, version) AS build
  FROM sdpa_measurements JOIN jobs ON jobs.id = job_id WHERE ${AT_PLACE}`;

interface MeasuredRow {
  whose: string;
  build: string;
  row: Record<string, unknown>;
}

/** The smallest mean for each row of the table. `shapes`: measurements by shape, in the order of the set. */
function bestMeans(shapes: readonly (readonly MeasuredRow[])[], set: CaseSet): LeaderboardEntry[] {
  const builds = shapes.map((rows) => new Map(rows.map((row) => [row.build, row])));
  const best = new Map<string, LeaderboardEntry>();
  for (const [build, { whose }] of builds[0] ?? []) {
    const rows = builds.flatMap((each) => each.get(build) ?? []);
    if (rows.length < set.shapes.length) continue;
    const entry = meanEntry(
      rows.map(({ row }) => entryOf(row)),
      set,
    );
    const known = best.get(whose);
    if (known === undefined || entry.mean!.us < known.mean!.us) best.set(whose, entry);
  }
  return [...best.values()];
}

/** Combines the figures of one build, shape by shape, into one entry. */
function meanEntry(entries: readonly LeaderboardEntry[], set: CaseSet): LeaderboardEntry {
  const [first] = entries;
  const speedups = entries.flatMap(({ speedup }) => speedup ?? []);
  const registers = entries.flatMap((entry) => entry.registers ?? []);
  const merged = create(LeaderboardEntrySchema, {
    ...first!,
    mean: meanOf(entries, set),
    ...(registers.length > 0 && { registers: Math.max(...registers) }),
  });
  delete merged.latency;
  delete merged.tflops;
  delete merged.rooflinePercent;
  delete merged.rooflineUnits;
  delete merged.speedup;
  merged.sdpaInTurns = speedups.length === entries.length;
  if (merged.sdpaInTurns) merged.speedup = Math.exp(weighted(speedups.map(Math.log), set));
  return merged;
}

const weighted = (values: readonly number[], { weights }: CaseSet): number => {
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return values.reduce((sum, value, index) => sum + (weights[index]! / all) * value, 0);
};

/** The logarithms of the medians are independent, so their half-widths add as squares. */
function meanOf(entries: readonly LeaderboardEntry[], set: CaseSet): GeometricMean {
  const all = set.weights.reduce((sum, weight) => sum + weight, 0);
  const middle = weighted(
    entries.map(({ latency }) => Math.log(latency!.p50Us)),
    set,
  );
  const width = (end: (entry: LeaderboardEntry) => number): number =>
    Math.hypot(...entries.map((entry, index) => (set.weights[index]! / all) * Math.log(end(entry) / medianOf(entry))));
  return create(GeometricMeanSchema, {
    us: Math.exp(middle),
    lowUs: Math.exp(middle - width((entry) => intervalOf(entry).low)),
    highUs: Math.exp(middle + width((entry) => intervalOf(entry).high)),
    cases: entries.map((entry, index) => ({
      shape: set.shapes[index]!,
      weight: set.weights[index]!,
      p50Us: medianOf(entry),
    })),
  });
}

/** The ranked figure of an entry, microseconds. */
const medianOf = ({ latency, mean }: LeaderboardEntry): number => mean?.us ?? latency!.p50Us;

/** Interval of the ranked figure; a point if there are too few samples or the interval is unknown. */
function intervalOf({ latency, mean }: LeaderboardEntry): { low: number; high: number } {
  if (mean) return { low: mean.lowUs, high: mean.highUs };
  const { samples, p50Us, p50LowUs, p50HighUs } = latency!;
  const unknown = samples < FEWEST_SAMPLES.interval || p50LowUs === 0;
  return unknown ? { low: p50Us, high: p50Us } : { low: p50LowUs, high: p50HighUs };
}

/** Sorts entries, fastest first, with ranks and speedups over the baseline's median and over SDPA. */
function ranked(
  kernels: LeaderboardEntry[],
  sdpa: LeaderboardEntry[],
  baseline: number | undefined,
): LeaderboardEntry[] {
  const fastestSdpa = fastest(sdpa.filter(({ label }) => isSdpa({ name: label })));
  for (const entry of kernels) {
    if (baseline !== undefined) entry.speedupOverBaseline = baseline / medianOf(entry);
    // A speedup measured in turns is more accurate, so it is kept.
    if (entry.speedup === undefined && fastestSdpa !== undefined) entry.speedup = fastestSdpa / medianOf(entry);
  }
  const sorted = [...kernels, ...sdpa].toSorted((a, b) => medianOf(a) - medianOf(b));
  let leader = 0;
  for (const [index, entry] of sorted.entries()) {
    if (intervalOf(entry).low > intervalOf(sorted[leader]!).high) leader = index;
    entry.rank = leader + 1;
  }
  return sorted;
}

/** The smallest figure; undefined if there is none. */
const fastest = (entries: readonly LeaderboardEntry[]): number | undefined =>
  entries.length === 0 ? undefined : Math.min(...entries.map(medianOf));
