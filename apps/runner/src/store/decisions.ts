import { create, fromBinary, toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ChampionSchema,
  DecisionKind,
  DecisionSchema,
  EvidenceSchema,
  FlashcoreError,
  JobEventSchema,
  type Champion,
  type Decision,
  type Evidence,
  type JobResult,
  type Shape,
} from '@flashcore/shared/contract';
import { formatShape, recordedDtype, recordedProblem } from '@flashcore/shared/kernels';
import type { Database } from './database.ts';
import { EventLog } from './event-log.ts';

/** A client's decision about an experiment. */
export interface NewDecision {
  kind: DecisionKind;
  job: { id: number; name: string; label: string };
  client: string;
  /** The client's role at this time, which determines who may overrule the decision. */
  role: string;
  note: string;
  /** Set for ACCEPTED: the new champion, without its decision. */
  champion?: Champion | undefined;
  /** Set for ACCEPTED: the evidence for the acceptance. */
  evidence?: Evidence | undefined;
  /** Number of the decision that is undone; 0: none. */
  undoes?: number;
}

/** Identifies a request that may be repeated; a request with an empty id may not be. */
export interface RepeatableRequest {
  id: string;
  /** The client that chose the id. */
  client: string;
  /** Digest of method and body. */
  digest: string;
}

interface StoredDecision {
  decision: Decision;
  /** Set for an acceptance: the accepted champion, with this decision. */
  champion: Champion | undefined;
}

/** The name that an acceptance uses for "no champion yet". */
export const NO_CHAMPION = 'none';

/** A place in which champions compete. */
export interface ChampionPlace {
  deviceName: string;
  problem: string;
  shape: Shape;
  dtype: string;
  protocol: string;
}

/**
 * The audit trail: every decision about an experiment, in order, never changed or removed. Champions are derived from
 * it, so a crash between two steps can't leave a champion without its decision.
 */
export class DecisionStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Runs `decide` once per request: a repeated request gets the stored answer. Errors: REQUEST_ID_REUSED. */
  once<Schema extends DescMessage>(
    request: RepeatableRequest,
    schema: Schema,
    decide: () => { number: number; response: MessageShape<Schema> },
  ): MessageShape<Schema> {
    return this.#database.transaction(() => {
      const before = request.id === '' ? undefined : this.#answered(request);
      if (before) return fromBinary(schema, before);
      const { number, response } = decide();
      if (request.id !== '')
        this.#database
          .prepare(
            'INSERT INTO decision_requests (client, request_id, request_digest, number, response) VALUES (?, ?, ?, ?, ?)',
          )
          .run(request.client, request.id, request.digest, number, toBinary(schema, response));
      return response;
    });
  }

  #answered({ id, client, digest }: RepeatableRequest): Uint8Array | undefined {
    const row = this.#database
      .prepare('SELECT request_digest, response FROM decision_requests WHERE client = ? AND request_id = ?')
      .get(client, id);
    if (!row) return undefined;
    if (row['request_digest'] === digest) return row['response'] as Uint8Array;
    throw new FlashcoreError(
      'REQUEST_ID_REUSED',
      { request_id: id },
      `The request_id ${id} was used for another decision: make a new one for a new request`,
    );
  }

  /** Adds an entry to the trail and returns it. */
  add({ kind, job, client, role, note, champion, evidence, undoes = 0 }: NewDecision): Decision {
    const time = Date.now();
    const { lastInsertRowid } = this.#database
      .prepare(
        'INSERT INTO decisions (kind, job_id, client, role, time_ms, note, undoes, champion, evidence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
      )
      .run(
        kind,
        job.id,
        client,
        role,
        time,
        note,
        undoes,
        champion ? toBinary(ChampionSchema, champion) : null,
        evidence ? toBinary(EvidenceSchema, evidence) : null,
      );
    return this.find(Number(lastInsertRowid))!.decision;
  }

  /** The result of an ended job, from its last event. Errors: DATA_DAMAGED. */
  resultOf(job: string): JobResult | undefined {
    const row = this.#database.prepare('SELECT id, last_sequence FROM jobs WHERE name = ?').get(job);
    const last = row && new EventLog(this.#database).read(Number(row['id']), Number(row['last_sequence']));
    const payload = last && fromBinary(JobEventSchema, last.event).payload;
    return payload?.case === 'finished' ? payload.value.result : undefined;
  }

  find(number: number): StoredDecision | undefined {
    const row = this.#database.prepare(`${SELECT} WHERE number = ?`).get(number);
    return row && stored(row);
  }

  /** The trail, latest entry first. */
  list({ limit }: { limit: number }): Decision[] {
    return this.#database
      .prepare(`${SELECT} ORDER BY number DESC LIMIT ?`)
      .all(limit)
      .map((row) => stored(row).decision);
  }

  /** The latest decision about a job that is still effective; notes are ignored. */
  latestOf(jobId: number): Decision | undefined {
    const all = this.#database.prepare(`${SELECT} WHERE job_id = ? ORDER BY number`).all(jobId).map(stored);
    const standing = standingOf(all).filter(({ decision }) => decision.kind !== DecisionKind.NOTED);
    return standing.at(-1)?.decision;
  }

  /** The last decision about a job, even if it was undone or undid another; notes are ignored. */
  lastAbout(jobId: number): Decision | undefined {
    const row = this.#database
      .prepare(`${SELECT} WHERE job_id = ? AND decisions.kind <> ${DecisionKind.NOTED} ORDER BY number DESC LIMIT 1`)
      .get(jobId);
    return row && stored(row).decision;
  }

  /**
   * The champions, latest first. A champion is the result of the last acceptance that is still effective for a kernel,
   * device, protocol, dtype and shape. A champion that was replaced on some shapes keeps the others. `best` marks the
   * fastest champion for a device, protocol, dtype and first shape.
   */
  champions(): Champion[] {
    const all = this.#database.prepare(`${SELECT} ORDER BY number`).all().map(stored);
    const taken = new Set<string>();
    const champions = standingOf(all)
      .toReversed()
      .flatMap(({ champion }) => {
        const shapes = champion?.shapes.filter((shape) => !taken.has(placeKey(champion, shape))) ?? [];
        if (!champion || shapes.length === 0) return [];
        for (const shape of shapes) taken.add(placeKey(champion, shape));
        return [create(ChampionSchema, { ...champion, shapes })];
      });
    for (const champion of champions) champion.best = isBest(champion, champions);
    return champions;
  }
}

const SELECT =
  'SELECT decisions.*, jobs.name AS job_name, jobs.label AS job_label FROM decisions JOIN jobs ON jobs.id = decisions.job_id';

function stored(row: Record<string, unknown>): StoredDecision {
  const decision = create(DecisionSchema, {
    number: BigInt(row['number'] as number),
    kind: Number(row['kind']) as DecisionKind,
    job: String(row['job_name']),
    label: String(row['job_label']),
    client: String(row['client']),
    time: timestampFromMs(Number(row['time_ms'])),
    note: String(row['note']),
    undoes: BigInt(row['undoes'] as number),
    role: String(row['role']),
    ...(row['evidence'] !== null && { evidence: fromBinary(EvidenceSchema, row['evidence'] as Uint8Array) }),
  });
  const bytes = row['champion'] as Uint8Array | null;
  const kept = bytes ? fromBinary(ChampionSchema, bytes) : undefined;
  const champion =
    kept &&
    create(ChampionSchema, {
      ...kept,
      dtype: recordedDtype(kept.dtype),
      problem: recordedProblem(kept.problem),
      decision,
    });
  return { decision, champion };
}

/** Decisions that were not undone, without acceptances that a later rejection of the same job ended. */
function standingOf(all: readonly StoredDecision[]): StoredDecision[] {
  const undone = new Set(all.map(({ decision }) => decision.undoes).filter((number) => number > 0n));
  const left = all.filter(({ decision: { number, kind } }) => !undone.has(number) && kind !== DecisionKind.UNDONE);
  const rejected = new Map<string, bigint>();
  for (const { decision } of left)
    if (decision.kind === DecisionKind.REJECTED) rejected.set(decision.job, decision.number);
  return left.filter(
    ({ decision: { kind, job, number } }) => kind !== DecisionKind.ACCEPTED || (rejected.get(job) ?? -1n) < number,
  );
}

const placeKey = ({ kernelId, deviceName, protocol, problem, dtype }: Champion, shape: Shape): string =>
  JSON.stringify([kernelId, deviceName, protocol, problem, dtype, formatShape(shape)]);

/**
 * Whether a champion is the fastest on its first shape; among champions without a time, as on the emulator, whether it
 * was accepted last.
 */
function isBest(champion: Champion, all: readonly Champion[]): boolean {
  const time = ({ latency }: Champion): number => latency?.p50Us ?? Infinity;
  const alike = all.filter(
    (other) =>
      other.deviceName === champion.deviceName &&
      other.protocol === champion.protocol &&
      other.problem === champion.problem &&
      other.dtype === champion.dtype &&
      formatShape(other.shapes[0]!) === formatShape(champion.shapes[0]!),
  );
  return alike.reduce((best, other) => (time(other) < time(best) ? other : best)) === champion;
}

/** The champion to compare an experiment with: of the kernel itself, of its nearest ancestor, or the device's best. */
export function championFor(
  champions: readonly Champion[],
  { lineage, place }: { lineage: () => readonly string[]; place: ChampionPlace },
): Champion | undefined {
  const here = champions.filter(
    ({ deviceName, protocol, problem, dtype, shapes }) =>
      deviceName === place.deviceName &&
      protocol === place.protocol &&
      problem === place.problem &&
      dtype === place.dtype &&
      shapes.some((shape) => formatShape(shape) === formatShape(place.shape)),
  );
  if (here.length === 0) return undefined;
  const own = lineage().flatMap((kernelId) => here.find((champion) => champion.kernelId === kernelId) ?? [])[0];
  if (own) return own;
  const time = ({ latency }: Champion): number => latency?.p50Us ?? Infinity;
  return here.reduce<Champion | undefined>((best, each) => (!best || time(each) < time(best) ? each : best), undefined);
}
