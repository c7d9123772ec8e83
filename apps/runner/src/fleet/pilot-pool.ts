import {
  FlashcoreError,
  JobEventSchema,
  plainMessage,
  type Device,
  type Fleet,
  type FleetBuilds,
  type JobEvent,
} from '@flashcore/shared/contract';
import type { Assignment, Register } from '@flashcore/shared/fleet';
import { plainLine, plainText } from '@flashcore/shared/text';
import type { ClientLoad } from '../jobs/job-context.ts';
import type { Logger } from '../log.ts';
import type { LeaseRow, PilotRow } from '../store/fleet-table.ts';
import { FleetAccount } from './fleet-account.ts';
import { arrivedPilot, awayPilot, hasTime, nodeOf, type LivePilot } from './live-pilot.ts';
import { contradictionIn } from './pilot-claims.ts';
import { NO_WANTS, type NodeWants } from './node-wants.ts';
import { PartitionDevices } from './partition-devices.ts';
import { letIn, type AdmissionRules } from './pilot-admission.ts';
import { LeaseLost, type Lease, type PilotLink, type PilotSession } from './pilot-link.ts';
import { PilotRoster } from './pilot-roster.ts';
import { PilotWork } from './pilot-work.ts';
import { WaitingJobs, type WaitingJob } from './waiting-jobs.ts';

/** How long a node gets no pilots after one failed on it. */
const AVOID_MS = 600_000;
/** A pilot reports its node's name itself. */
const NODE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

interface TakeOptions {
  signal: AbortSignal;
  /** Returns the tools that the job wants on a node; called only if some node lacks tools. Default: none. */
  wants?: () => NodeWants;
  /** Called in every round in which the job still waits, with the reason why no pilot comes. */
  onProblem?: (problem: string) => void;
}

/** The jobs that have not reached the pool yet, and the clients of all jobs, by partition. */
export interface QueueState {
  queued: (partition: string) => number;
  clients: (partition: string) => ClientLoad[];
  /** undefined if pilots build the kernels. */
  builds?: FleetBuilds | undefined;
}

export interface PoolOptions extends AdmissionRules {
  logger: Logger;
  nowMs?: () => number;
  /** How long a pilot whose link broke may take to come back; default 30 s. */
  awayMs?: number;
}

const AWAY_MS = 30_000;
/** Maximum characters of a pilot's reason that a job keeps, and of each text in a pilot's events. */
const MOST_REASON = 500;
const MOST_TEXT = 16_384;

/**
 * The pilots of a gateway: which of them may register, which job each of them has, and what happens to a job whose
 * pilot is lost.
 */
export class PilotPool {
  readonly #options: PoolOptions;
  readonly #nowMs: () => number;
  readonly #roster = new PilotRoster();
  readonly #waiting = new WaitingJobs();
  readonly devices: PartitionDevices;
  readonly account = new FleetAccount();
  readonly badNodes = new BadNodes();

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    this.devices = new PartitionDevices(options.partitions);
  }

  /** The pilots that have not ended. */
  get roster(): Pick<PilotRoster, 'connected' | 'runningJobs' | 'isConnected' | 'stays' | 'idleSince'> {
    return this.#roster;
  }

  /** Called when a pilot becomes free or is gone. */
  onChange: () => void = () => undefined;

  /**
   * Why nothing can be stored; undefined if the store works. While the store fails, pilots that are away cannot come
   * back.
   */
  storeFailure: () => FlashcoreError | undefined = () => undefined;

  /** The number of a partition's jobs that wait for a pilot. */
  waitingJobs(partition: string): number {
    return this.#waiting.count(partition);
  }

  /** Tells the waiting jobs why no pilot comes. */
  tellWaiting(partition: string, problem: string): void {
    this.#waiting.tell(partition, problem);
  }

  /** Dismisses a pilot that has no job. */
  dismiss(id: number, reason: string): void {
    const pilot = this.#roster.get(id);
    if (!pilot?.link || pilot.work) return;
    pilot.leaving = true;
    pilot.link.dismiss(reason);
  }

  /** Waits for the pilots that an earlier gateway registered. */
  expect(rows: readonly PilotRow[]): void {
    for (const row of rows.filter(({ registered }) => registered)) this.#expected(row, '');
  }

  /** Called when the scheduler says that a pilot has ended. Ignored while the pilot is connected. */
  gone(id: number): void {
    if (!this.#roster.isConnected(id)) this.#lost(id, 'its pilot has ended');
  }

  /**
   * Registers a pilot, the first time by its one-time token, later also by its session. If the pilot comes back with a
   * job whose lease it still holds, the job continues. Errors: UNAUTHENTICATED, INVALID_REQUEST, VERSION_MISMATCH,
   * DEVICE_UNAVAILABLE, which end the pilot; DISK_FULL, STORE_UNAVAILABLE, after which the pilot may try again.
   */
  register(asked: Register, link: PilotLink): PilotSession {
    const { logger } = this.#options;
    const failure = this.storeFailure();
    if (failure) throw failure;
    const { row, device } = this.#welcome(asked);
    const { id, schedulerJob, partition } = row;
    const before = this.#roster.get(id);
    // The pilot's previous connection may be half open, so the new connection replaces it.
    before?.link?.cut('the same pilot has registered again');
    const work = this.#workThatGoesOn(id, Number(asked.lease));
    const pilot = arrivedPilot(row, {
      asked,
      link,
      device: this.devices.found(partition, device),
      work,
      startMs: before?.startMs,
      nowMs: this.#nowMs(),
    });
    this.#roster.enter(pilot);
    this.account.refusals.delete(id);
    logger.info({ pilot: schedulerJob, node: pilot.node, partition, lease: work?.lease }, 'a pilot has registered');
    link.registered({ lease: work?.lease ?? 0, afterSequence: work?.heard ?? 0 });
    if (work?.stopping) link.stop(work.lease);
    this.#serveWaiting(partition);
    this.onChange();
    return this.#sessionOf(pilot);
  }

  /** The job of the pilot with this session. Errors: PERMISSION_DENIED if it has none. */
  workOf(session: string): PilotWork {
    const id = this.#options.table.pilotOf(session);
    const work = id === undefined ? undefined : this.#roster.get(id)?.work;
    if (work) return work;
    throw new FlashcoreError('PERMISSION_DENIED', {}, 'This pilot has no job, so it may not read or store files');
  }

  /** Errors: as register(). */
  #welcome(asked: Register): { row: PilotRow; device: Device } {
    try {
      return letIn(asked, this.#options);
    } catch (error) {
      if (asked.lease > 0n) this.#refuse(undefined, Number(asked.lease));
      this.#noteRefusal(asked, error as Error);
      throw error;
    }
  }

  /**
   * Notes a refusal for GetHost and the waiting jobs. A refused caller without a pilot's token appears only in the log.
   */
  #noteRefusal(asked: Register, { message }: Error): void {
    const row = this.#options.table.admit(asked);
    if (typeof row !== 'object') return;
    const { id, schedulerJob, partition } = row;
    const text = plainLine(`pilot ${schedulerJob} on ${nodeOf(asked)} was refused: ${message}`);
    this.account.refusals.set(id, { partition, text });
    this.badNodes.add(partition, nodeOf(asked), this.#nowMs());
  }

  /** The work that a returning pilot still holds. Refuses a lease that the pilot names but no longer holds. */
  #workThatGoesOn(id: number, lease: number): PilotWork | undefined {
    const pilot = this.#roster.get(id);
    clearTimeout(pilot?.givenUp);
    if (pilot?.work?.lease === lease && !pilot.work.isOver) return pilot.work;
    if (lease > 0) this.#refuse(id, lease);
    this.#lost(id, 'its pilot came back without it');
    return undefined;
  }

  #refuse(id: number | undefined, lease: number): void {
    const pilot = id === undefined ? undefined : this.#roster.get(id);
    this.account.refusedEvents += 1;
    this.#options.logger.warn(
      { pilot: pilot?.schedulerJob, lease, current: pilot?.work?.lease },
      'what a pilot said under a lease that has ended was refused',
    );
  }

  #sessionOf(pilot: LivePilot): PilotSession {
    const current = (lease: number): PilotWork | undefined => {
      if (pilot.link && pilot.work?.lease === lease) return pilot.work;
      this.#refuse(pilot.id, lease);
      return undefined;
    };
    return {
      event: (lease, event) => {
        const work = current(lease);
        if (work) this.#hear(pilot, work, event);
      },
      giveBack: (lease, reason) => {
        const work = current(lease);
        if (!work) return;
        // A pilot that is leaving returns its job although nothing is wrong with its node.
        if (!pilot.leaving) this.badNodes.add(pilot.partition, pilot.node, this.#nowMs());
        this.#takeBack(pilot, work, reason);
      },
      alive: (secondsLeft) => {
        pilot.secondsLeft = secondsLeft || undefined;
        this.#dismissExpiring(pilot);
      },
      leaving: () => {
        pilot.leaving = true;
      },
      lost: (reason) => {
        if (this.#roster.has(pilot)) this.#linkBroke(pilot, reason);
      },
    };
  }

  #hear(pilot: LivePilot, work: PilotWork, event: JobEvent): void {
    const place = work.placeOf(event);
    if (place === 'after a gap') {
      const reason = `event ${event.sequence} of lease ${work.lease} came after ${work.heard}`;
      pilot.link?.cut(reason);
      this.#linkBroke(pilot, reason);
    }
    if (place !== 'next') return;
    plainMessage(JobEventSchema, event, (text) => plainText(text.slice(0, MOST_TEXT)));
    const known = { device: pilot.device, buildId: this.#options.buildId };
    const wrong = contradictionIn(event, known) ?? work.tooMuch(event);
    if (wrong !== undefined) return this.#takeBack(pilot, work, wrong);
    work.hear(event);
    if (event.payload.case !== 'finished') return this.#relay(pilot, work, event);
    const result = event.payload.value;
    this.#free(pilot, () => work.finish(result));
  }

  /**
   * Takes a job from its pilot. The pilot may not register again, because its next job would probably fail the same
   * way.
   */
  #takeBack(pilot: LivePilot, work: PilotWork, words: string): void {
    const reason = plainLine(words).slice(0, MOST_REASON);
    this.#options.logger.warn(
      { pilot: pilot.schedulerJob, node: pilot.node, reason },
      'a job was taken from its pilot',
    );
    pilot.leaving = true;
    this.#free(pilot, () => work.fail(new LeaseLost(reason)));
    pilot.link?.dismiss(reason);
    this.#options.table.endSession(pilot.id);
  }

  /** Passes an event on. If the event can't be stored, the job ends but its pilot stays. */
  #relay(pilot: LivePilot, work: PilotWork, event: JobEvent): void {
    try {
      work.relay(event);
    } catch (error) {
      pilot.link?.stop(work.lease);
      this.#free(pilot, () => work.fail(error));
    }
  }

  /** Dismisses a pilot whose time is nearly over. It would take no further job, so its GPU should become free. */
  #dismissExpiring(pilot: LivePilot): void {
    if (!hasTime(pilot)) this.dismiss(pilot.id, 'its time is nearly over');
  }

  /** Takes a pilot for a job, after waiting for a free one. Errors: COMPILER_MISSING, the signal's reason. */
  async take(
    partition: string,
    job: string,
    { signal, wants = () => NO_WANTS, onProblem }: TakeOptions,
  ): Promise<Lease> {
    signal.throwIfAborted();
    return (
      this.#leaseFor({ partition, job, wants }) ?? this.#waiting.wait({ partition, job, wants, onProblem }, signal)
    );
  }

  /** A lease for the job; undefined if no pilot is free for it. Errors: COMPILER_MISSING. */
  #leaseFor({ partition, job, wants }: WaitingJob): Lease | undefined {
    const pilot = this.#roster.freeFor(partition, wants);
    return pilot && this.#leaseOf(pilot, { number: this.#options.table.lease(job, pilot), job, heard: 0 });
  }

  /**
   * The lease that a job had when an earlier gateway ended; its pilot gets some time to come back. undefined if the
   * pilot has ended or has other work.
   */
  leaseBefore(row: LeaseRow): Lease | undefined {
    const submitted = this.#options.table.pilots().find(({ id }) => id === row.pilot);
    const pilot = submitted && this.#expected(submitted, row.node);
    if (!pilot || (pilot.work && !pilot.work.isOver)) return undefined;
    return this.#leaseOf(pilot, row);
  }

  /** Waits some time for a pilot that an earlier gateway registered. */
  #expected(row: PilotRow, node: string): LivePilot | undefined {
    const device = this.devices.of(row.partition);
    const before = this.#roster.get(row.id);
    if (!device || before) return before;
    const pilot = awayPilot(row, { node, device, nowMs: this.#nowMs() });
    this.#roster.enter(pilot);
    this.#waitFor(pilot, 'its pilot did not come back to the gateway, which was started again');
    return pilot;
  }

  #waitFor(pilot: LivePilot, reason: string): void {
    pilot.givenUp = setTimeout(() => {
      if (!this.#roster.has(pilot)) return;
      // The pilot can't register while nothing can be stored.
      if (this.storeFailure()) this.#waitFor(pilot, reason);
      else this.#lost(pilot.id, reason);
    }, this.#options.awayMs ?? AWAY_MS).unref();
  }

  /** Disconnects all pilots, which keep their jobs for the restarted gateway. */
  leave(): void {
    const pilots = this.#roster.all();
    // Clears the roster first, so that nothing that happens from here on reaches a pilot.
    this.#roster.clear();
    for (const { link, givenUp } of pilots) {
      clearTimeout(givenUp);
      link?.cut('the gateway is started again');
    }
  }

  /** The cluster for GetHost. `submitted`: all pilots that have not ended. */
  describe(submitted: readonly PilotRow[], { queued, clients, builds }: QueueState): Fleet {
    return this.account.describe({
      partitions: this.#options.partitions,
      device: (partition) => this.devices.of(partition),
      live: this.#roster.all().map((pilot) => ({ ...pilot, away: !pilot.link })),
      submitted,
      waitingJobs: (partition) => this.waitingJobs(partition) + queued(partition),
      clients,
      builds,
      nowMs: this.#nowMs(),
    });
  }

  #leaseOf(pilot: LivePilot, row: Pick<LeaseRow, 'number' | 'job' | 'heard'>): Lease {
    const { number } = row;
    const isNew = pilot.link !== undefined;
    const work = new PilotWork(row, {
      nowMs: this.#nowMs,
      note: (heard) => this.#options.table.heard(number, heard),
    });
    pilot.work = work;
    // The pilot's current object, because a pilot that comes back gets a new one.
    const holder = (): LivePilot | undefined => {
      const one = this.#roster.get(pilot.id);
      return one?.work === work ? one : undefined;
    };
    return {
      number,
      node: pilot.node,
      schedulerJob: pilot.schedulerJob,
      device: pilot.device,
      run: (assignment, options) => {
        work.assigned(assignment);
        return work.run(options, {
          link: () => holder()?.link,
          onUnstopped: () => this.#giveUp(holder()),
          assignment: isNew ? ({ ...assignment, lease: BigInt(number) } as Assignment) : undefined,
        });
      },
    };
  }

  /** Gives up a pilot that does not end a stopped job in time. */
  #giveUp(pilot: LivePilot | undefined): void {
    if (!pilot) return;
    pilot.link?.dismiss('it did not stop its job');
    this.#lost(pilot.id, 'it did not stop its job');
  }

  #free(pilot: LivePilot, tell: () => void): void {
    const now = this.#nowMs();
    if (pilot.work) this.account.spend(pilot.partition, { usedMs: pilot.work.usedMs(now) });
    pilot.work = undefined;
    pilot.idleSinceMs = now;
    tell();
    this.#dismissExpiring(pilot);
    this.#serveWaiting(pilot.partition);
    this.onChange();
  }

  #serveWaiting(partition: string): void {
    this.#waiting.serve(partition, {
      isOpen: () => this.#roster.hasIdle(partition),
      leaseFor: (waiting) => this.#leaseFor(waiting),
    });
  }

  /**
   * A pilot that has a job gets some time to come back with it. A pilot without a job is lost at once, because any
   * other pilot can replace it.
   */
  #linkBroke(pilot: LivePilot, reason: string): void {
    if (!pilot.link) return;
    if (!pilot.work || pilot.leaving) return this.#lost(pilot.id, reason);
    this.#options.logger.warn({ pilot: pilot.schedulerJob, lease: pilot.work.lease, reason }, 'a pilot is away');
    pilot.link = undefined;
    this.#waitFor(pilot, reason);
    this.onChange();
  }

  #lost(id: number, reason: string): void {
    const pilot = this.#roster.get(id);
    if (!pilot) return;
    clearTimeout(pilot.givenUp);
    this.#roster.remove(id);
    const now = this.#nowMs();
    this.account.spend(pilot.partition, { heldMs: now - pilot.startMs });
    const { work } = pilot;
    // A job that waited for this node's tools may no longer have to wait.
    queueMicrotask(() => this.#serveWaiting(pilot.partition));
    if (!work) return;
    this.account.spend(pilot.partition, { usedMs: work.usedMs(now) });
    pilot.work = undefined;
    this.account.lostLeases += 1;
    this.#options.logger.warn(
      { pilot: pilot.schedulerJob, job: work.job, lease: work.lease, reason },
      'a lease was lost',
    );
    work.fail(new LeaseLost(reason));
  }
}

/**
 * Nodes on which a partition's pilots failed. A broken node is always idle, so a scheduler would give it every pilot,
 * and jobs would fail although other nodes are fine.
 */
class BadNodes {
  /** By partition and node: until when the node is avoided. */
  readonly #untilMs = new Map<string, Map<string, number>>();

  add(partition: string, node: string, nowMs: number): void {
    if (!NODE.test(node)) return;
    const nodes = this.#untilMs.get(partition) ?? new Map<string, number>();
    this.#untilMs.set(partition, nodes.set(node, nowMs + AVOID_MS));
  }

  of(partition: string, nowMs: number): string[] {
    return [...(this.#untilMs.get(partition) ?? [])].flatMap(([node, untilMs]) => (untilMs > nowMs ? [node] : []));
  }

  /** Called when no other node is left. */
  forget(partition: string): void {
    this.#untilMs.delete(partition);
  }
}
