/**
 * Histories of leases, across kill -9 of the gateway: Pilots come back with their job, without their job, or too late.
 * They give a job back, repeat or skip events, and send events under another pilot's lease. Some sequential order of
 * these operations explains each job's log and each answer.
 */
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Client, Metadata, credentials, type ClientDuplexStream, type MethodDefinition } from '@grpc/grpc-js';
import {
  collect,
  kernel,
  startChildGateway,
  temporaryFolder,
  FAKE_DEVICE,
  type ChildRunner,
} from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { DeviceSchema, Outcome, WarningSchema, type JobEvent } from '@flashcore/shared/contract';
import {
  AttachRequestSchema,
  RegisterSchema,
  fleetServiceDefinition,
  type AttachRequest,
  type AttachResponse,
} from '@flashcore/shared/fleet';
import { Random } from '@flashcore/shared/statistics';
import { PATIENT_MS } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { campaign, integer, pick } from './campaign.ts';
import { orderOf, type Call, type Model } from './linearizable.ts';

const JOBS = 8;
const PILOTS = 3;
/** The most events that a job has. */
const EVENTS = 12;

/**
 * `lease` is the current lease or, if there is none, the last one. `heard` is how many events of that lease are stored.
 */
interface LeaseState {
  lease: number;
  live: boolean;
  heard: number;
  isOver: boolean;
}

type Operation =
  | { kind: 'assign'; lease: number }
  /** Stores an event of the job. `last` is true for the event that ends the job. */
  | { kind: 'store'; lease: number; sequence: number; last: boolean }
  /** The pilot that once got the lease `held` registers again. `claims`: whether it says that it still has the job. */
  | { kind: 'return'; held: number; claims: boolean };

/**
 * "" if the operation has no answer. A returning pilot is answered with "gone", or with the number of events that the
 * gateway has.
 */
type Answer = string;

const LEASES: Model<LeaseState, Operation, Answer> = {
  initial: { lease: 0, live: false, heard: 0, isOver: false },
  step: (state, operation, answer) => {
    const { lease, live, heard, isOver } = state;
    switch (operation.kind) {
      case 'assign':
        return operation.lease > lease && !isOver
          ? { lease: operation.lease, live: true, heard: 0, isOver }
          : undefined;
      case 'store':
        if (!live || isOver || operation.lease !== lease || operation.sequence !== heard + 1) return undefined;
        return { ...state, heard: operation.sequence, isOver: operation.last };
      case 'return': {
        const isCurrent = live && operation.held === lease;
        if (answer === 'gone') return isCurrent ? { ...state, live: false } : state;
        return isCurrent && operation.claims && answer === String(heard) ? state : undefined;
      }
    }
  },
};

test('the model refuses sequences that must not happen to leases', () => {
  let now = 0n;
  const call = (operation: Operation, answer: Answer = ''): Call<Operation, Answer> => ({
    operation,
    answer,
    calledAt: (now += 1n),
    answeredAt: (now += 1n),
  });
  const assign = (lease: number) => call({ kind: 'assign', lease });
  const store = (lease: number, sequence: number, last = false) => call({ kind: 'store', lease, sequence, last });
  const comes = (held: number, answer: Answer, claims = true) => call({ kind: 'return', held, claims }, answer);
  const isExplained = (...history: Call<Operation, Answer>[]) => orderOf(history, LEASES) !== undefined;
  expect(isExplained(assign(1), store(1, 1), comes(1, '1'), store(1, 2), assign(3), store(3, 1, true))).toBe(true);
  expect(isExplained(assign(2), store(2, 1), assign(1))).toBe(false);
  expect(isExplained(assign(1), assign(2), store(1, 1))).toBe(false);
  expect(isExplained(assign(1), store(1, 1), store(1, 1))).toBe(false);
  expect(isExplained(assign(1), store(1, 2))).toBe(false);
  expect(isExplained(assign(1), store(1, 1), comes(1, '0'))).toBe(false);
  expect(isExplained(assign(1), comes(1, 'gone', false), store(1, 1))).toBe(false);
  expect(isExplained(assign(1), assign(2), comes(1, '0'))).toBe(false);
  expect(isExplained(assign(1), store(1, 1, true), assign(2))).toBe(false);
});

campaign(
  'leases of pilots that come, go and contradict have an order, across kill -9 of the gateway',
  { promise: 'histories', rounds: { ci: 2, soak: 25 } },
  async ({ random, rounds, figure }) => {
    const counts = { calls: 0, leases: 0, returns: 0, kills: 0, passed: 0 };
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      await using cluster = new Cluster(folder.path, random);
      await cluster.start();
      const jobs = await Promise.all(
        Array.from({ length: JOBS }, async () => cluster.watched(await cluster.collect())),
      );
      await cluster.stop();
      for (const { name, history, stored, attempts, passed } of jobs) {
        const leases = history.flatMap(({ operation }) => (operation.kind === 'assign' ? [operation.lease] : []));
        expect(orderOf(history, LEASES), `${name}\n${shown(history)}`).toBeDefined();
        expect(stored.filter((tag) => /stray/.test(tag))).toEqual([]);
        expect(leases.length).toBeLessThanOrEqual(attempts);
        counts.calls += history.length;
        counts.leases += leases.length;
        counts.returns += history.filter(({ operation }) => operation.kind === 'return').length;
        counts.passed += passed ? 1 : 0;
      }
      counts.kills += cluster.kills;
    }
    expect(counts.passed).toBeGreaterThan(0);
    expect(counts.leases).toBeGreaterThan(counts.passed);
    figure(
      'histories of leases by 3 pilots, under kill -9 of the gateway',
      `${rounds * JOBS} jobs under ${counts.leases} leases, ${counts.calls} assignments, events and returns (${counts.returns}), ${counts.kills} kills; each has an order that explains every answer and the log`,
    );
  },
);

/** A job's events, with the time when each was seen. */
interface Seen {
  events: JobEvent[];
  at: bigint[];
}

/** A gateway that is killed and restarted at random, with one pilot per submission. */
class Cluster implements AsyncDisposable {
  readonly #folder: string;
  readonly #random: Random;
  readonly #ended = new AbortController();
  readonly #pilots = new Map<string, Promise<void>>();
  #gateway: ChildRunner | undefined;
  #client: RunnerClient | undefined;
  #loops: Promise<void>[] = [];
  /** The operations of all pilots, by job. */
  readonly calls = new Map<string, Call<Operation, Answer>[]>();
  /** The time when each event was first sent, by the event's tag. */
  readonly sentAt = new Map<string, bigint>();
  /** Number of events that clients have seen. */
  seen = 0;
  kills = 0;

  constructor(folder: string, random: Random) {
    this.#folder = folder;
    this.#random = random;
  }

  get client(): RunnerClient {
    return this.#client!;
  }

  get queue(): string {
    return join(this.#folder, 'q');
  }

  get address(): string {
    return `unix:${this.#folder}/p`;
  }

  async start(): Promise<void> {
    writeFileSync(
      join(this.#folder, 'fleet.yaml'),
      `listen: ${this.address}\nreach: ${this.address}\nbundle: /opt/flashcore\nbuilds: { at: pilots }\npartitions: [{ partition: gpu, device: NVIDIA L4, min: ${PILOTS}, max: ${PILOTS}, idle_seconds: 86400 }]\n`,
    );
    mkdirSync(this.queue);
    await this.#again();
    this.#client = await RunnerClient.connect({ address: this.#gateway!.address, timeoutMs: PATIENT_MS });
    this.#loops = [this.#killNowAndThen(), this.#startPilots()];
  }

  /** Starts a job and collects its events until it ends. */
  async collect(): Promise<Seen> {
    const seen: Seen = { events: [], at: [] };
    for await (const event of this.client.start('verify', kernel('fa_v1_baseline'))) {
      seen.events.push(event);
      seen.at.push(process.hrtime.bigint());
      this.seen += 1;
    }
    // A later watch from the beginning must return the same log.
    expect(await collect(this.client.watch(seen.events[0]!.job))).toEqual(seen.events);
    return seen;
  }

  /** The history of a job: its pilots' operations, and its log. */
  watched({ events, at }: Seen) {
    const name = events[0]!.job;
    const tags = events.map(({ payload }) => {
      if (payload.case === 'warning') return payload.value.message;
      return payload.case === 'finished' ? payload.value.summary : '';
    });
    const stored = tags.flatMap((tag, index): Call<Operation, Answer>[] => {
      const found = /^lease (\d+) event (\d+)( last)?$/.exec(tag);
      if (!found) return [];
      const [lease, sequence, last] = [Number(found[1]), Number(found[2]), found[3] !== undefined];
      const operation: Operation = { kind: 'store', lease, sequence, last };
      return [{ operation, answer: '', calledAt: this.sentAt.get(tag)!, answeredAt: at[index]! }];
    });
    const end = events.at(-1)!.payload;
    return {
      name,
      history: [...(this.calls.get(name) ?? []), ...stored],
      stored: tags,
      attempts: events.filter(({ payload }) => payload.case === 'attemptStarted').length,
      passed: end.case === 'finished' && end.value.outcome === Outcome.PASSED,
    };
  }

  noteCall(job: string, operation: Operation, { answer = '', calledAt }: { answer?: Answer; calledAt: bigint }): void {
    const calls = this.calls.get(job) ?? [];
    this.calls.set(job, calls);
    calls.push({ operation, answer, calledAt, answeredAt: process.hrtime.bigint() });
  }

  async #killNowAndThen(): Promise<void> {
    while (!this.#ended.signal.aborted) {
      // The next kill waits until clients have seen new events, because a client gives up if the gateway is away for
      // too long.
      const killAt = this.seen + integer(this.#random, 5, 25);
      while (this.seen < killAt && !this.#ended.signal.aborted) await someTime(5);
      if (this.#ended.signal.aborted) return;
      await this.#gateway!.end('SIGKILL');
      this.kills += 1;
      await this.#again();
    }
  }

  async #again(): Promise<void> {
    this.#gateway = await startChildGateway(
      join(this.#folder, 'fleet.yaml'),
      this.queue,
      '--data',
      join(this.#folder, 'data'),
      '--address',
      `unix:${this.#folder}/s`,
    );
  }

  /** Starts each submitted pilot once, as Slurm does, and removes its job from the queue when the pilot has ended. */
  async #startPilots(): Promise<void> {
    while (!this.#ended.signal.aborted) {
      for (const id of readdirSync(this.queue)) {
        if (this.#pilots.has(id)) continue;
        const token = readFileSync(join(this.queue, id), 'utf8');
        // The gateway was killed before it had written the token.
        if (token === '') continue;
        const pilot = new Pilot(this, { id, token, random: new Random(integer(this.#random, 0, 2 ** 31)) });
        this.#pilots.set(
          id,
          pilot.fly(this.#ended.signal).finally(() => rmSync(join(this.queue, id), { force: true })),
        );
      }
      await someTime(10);
    }
  }

  async stop(): Promise<void> {
    this.#ended.abort();
    await Promise.all(this.#loops);
    await Promise.all(this.#pilots.values());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    this.#client?.close();
    await this.#gateway?.[Symbol.asyncDispose]();
  }
}

/** A random pause, because pilots act and gateways are killed at any moment. */
const someTime = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    // eslint-disable-next-line flashcore/no-fixed-wait -- see above
    setTimeout(resolve, ms);
  });

type Told = AttachResponse['message'];

interface LeasedJob {
  name: string;
  lease: number;
  /** Number of the job's last event. */
  events: number;
}

interface Return {
  claims: boolean;
  calledAt: bigint;
  answer: Answer;
}

interface PilotParts {
  id: string;
  token: string;
  random: Random;
}

/** A pilot that makes every mistake that the protocol allows. */
class Pilot {
  readonly #cluster: Cluster;
  readonly #id: string;
  readonly #token: string;
  readonly #random: Random;
  readonly #session: string;
  /** The job that the pilot has, or the last one it had. */
  #job: LeasedJob | undefined;

  constructor(cluster: Cluster, { id, token, random }: PilotParts) {
    this.#cluster = cluster;
    this.#id = id;
    this.#token = token;
    this.#random = random;
    this.#session = Array.from({ length: 43 }, () => pick(random, [...'abcdefghij0123456789'])).join('');
  }

  async fly(ended: AbortSignal): Promise<void> {
    const channel = new Client(this.#cluster.address, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_reconnect_backoff_ms': 100,
      'grpc.initial_reconnect_backoff_ms': 50,
    });
    try {
      while (!ended.aborted && (await this.#fliesOn(new Link(channel), ended)))
        await someTime(integer(this.#random, 0, 30));
    } finally {
      channel.close();
    }
  }

  /** Uses one connection until it ends. Returns false if the pilot may not come back. */
  async #fliesOn(link: Link, ended: AbortSignal): Promise<boolean> {
    const held = this.#job;
    const claims = held !== undefined && this.#random.uniform() < 0.85;
    const calledAt = process.hrtime.bigint();
    link.say({ case: 'register', value: this.#registration(claims ? held.lease : 0) });
    const answer = await link.next(ended);
    if (answer?.case !== 'registered') {
      // A refused pilot may not come back. Without an answer, nobody knows what the gateway did, and the pilot may try
      // again.
      if (link.isRefused && held) this.#returned(held, { claims, calledAt, answer: 'gone' });
      link.leave();
      return !link.isRefused && !ended.aborted;
    }
    const { lease, afterSequence } = answer.value;
    if (held) {
      const goesOn = Number(lease) === held.lease;
      this.#returned(held, { claims, calledAt, answer: goesOn ? String(afterSequence) : 'gone' });
      this.#job = goesOn ? held : undefined;
      if (goesOn && !(await this.#tells(link, Number(afterSequence), ended))) return false;
    }
    for (;;) {
      const told = await link.next(ended);
      if (told?.case === 'dismissed') return false;
      if (told === undefined) return !ended.aborted;
      if (told.case !== 'assignment') continue;
      const job = { name: told.value.job, lease: Number(told.value.lease), events: integer(this.#random, 1, EVENTS) };
      this.#job = job;
      this.#cluster.noteCall(job.name, { kind: 'assign', lease: job.lease }, { calledAt });
      if (!(await this.#tells(link, 0, ended))) return false;
    }
  }

  #returned({ name, lease }: LeasedJob, { claims, calledAt, answer }: Return): void {
    this.#cluster.noteCall(name, { kind: 'return', held: lease, claims }, { answer, calledAt });
  }

  /** Sends the events after this number, with some mistakes. Returns false if the pilot may not come back. */
  async #tells(link: Link, after: number, ended: AbortSignal): Promise<boolean> {
    const { lease, events } = this.#job!;
    for (let sequence = after + 1; sequence <= events && !link.isOver && !ended.aborted; sequence += 1) {
      const way = this.#random.uniform();
      if (way < 0.06) {
        link.leave();
        return true;
      }
      if (way < 0.08) return this.#isAwayTooLong(link);
      if (way < 0.1) {
        link.say({ case: 'giveBack', value: { lease: BigInt(lease), reason: 'a test' } });
        while ((await link.next(ended)) !== undefined);
        return false;
      }
      if (way < 0.2) this.#strays(link, lease + pick(this.#random, [-2, -1, 1, 2]), sequence);
      if (way < 0.14) this.#strays(link, lease, sequence + integer(this.#random, 1, 3));
      if (way > 0.9 && sequence > 1) this.#event(link, sequence - 1);
      this.#event(link, sequence);
      await someTime(integer(this.#random, 0, 40));
    }
    return true;
  }

  /**
   * Breaks the link for so long that the scheduler ends the pilot's Slurm job and another pilot gets the lease. Then
   * this pilot comes back.
   */
  async #isAwayTooLong(link: Link): Promise<boolean> {
    link.leave();
    rmSync(join(this.#cluster.queue, this.#id), { force: true });
    await someTime(integer(this.#random, 0, 400));
    return true;
  }

  /** Sends an event that the gateway must not store, because it is under another lease or follows a gap. */
  #strays(link: Link, lease: number, sequence: number): void {
    link.say({ case: 'event', value: { lease: BigInt(lease), event: warning(`stray ${lease}`, sequence) } });
  }

  #event(link: Link, sequence: number): void {
    const { lease, events } = this.#job!;
    const last = sequence === events;
    const tag = `lease ${lease} event ${sequence}${last ? ' last' : ''}`;
    const { sentAt } = this.#cluster;
    if (!sentAt.has(tag)) sentAt.set(tag, process.hrtime.bigint());
    const end = { sequence: BigInt(sequence), payload: { case: 'finished' as const, value: passed(tag) } };
    link.say({ case: 'event', value: { lease: BigInt(lease), event: last ? end : warning(tag, sequence) } });
  }

  #registration(lease: number) {
    return create(RegisterSchema, {
      token: this.#token,
      session: this.#session,
      lease: BigInt(lease),
      buildId: 'test',
      node: `node-${this.#id}`,
      device: create(DeviceSchema, { ...FAKE_DEVICE, name: 'NVIDIA L4' }),
      clockMs: BigInt(Date.now()),
    });
  }
}

const passed = (summary: string) => ({ outcome: Outcome.PASSED, summary, result: {} });
const warning = (message: string, sequence: number) => ({
  sequence: BigInt(sequence),
  payload: { case: 'warning' as const, value: create(WarningSchema, { message }) },
});

/** One connection of a pilot. */
class Link {
  readonly #call: ClientDuplexStream<AttachRequest, AttachResponse>;
  readonly #told: Told[] = [];
  isOver = false;
  /** Whether the gateway itself refused the pilot, rather than the connection failing. */
  isRefused = false;

  constructor(channel: Client) {
    const { path, requestSerialize, responseDeserialize } = fleetServiceDefinition['attach'] as MethodDefinition<
      AttachRequest,
      AttachResponse
    >;
    this.#call = channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, new Metadata(), {
      deadline: Date.now() + PATIENT_MS,
    });
    this.#call.on('data', ({ message }: AttachResponse) => this.#told.push(message));
    this.#call.on('end', () => (this.isOver = true));
    this.#call.on('error', ({ details }: Error & { details?: string }) => {
      this.isOver = true;
      this.isRefused = /it gave out no such token|a job was taken from this pilot/.test(details ?? '');
    });
  }

  say(message: MessageInitShape<typeof AttachRequestSchema>['message']): void {
    if (!this.isOver) this.#call.write(create(AttachRequestSchema, { message }));
  }

  /** The gateway's next message; undefined if the connection is over or the signal aborted. */
  async next(ended: AbortSignal): Promise<Told | undefined> {
    while (this.#told.length === 0 && !this.isOver && !ended.aborted) await someTime(2);
    return this.#told.shift();
  }

  leave(): void {
    this.isOver = true;
    this.#call.cancel();
  }
}

const shown = (history: readonly Call<Operation, Answer>[]): string =>
  history
    .toSorted((a, b) => (a.calledAt < b.calledAt ? -1 : 1))
    .map(({ calledAt, answeredAt, operation, answer }) =>
      [calledAt, answeredAt, JSON.stringify(operation), answer].join(' '),
    )
    .join('\n');
