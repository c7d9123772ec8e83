import type { Logger } from '../log.ts';
import { FleetTable, type PilotRow } from '../store/fleet-table.ts';
import type { FleetFile, PartitionSettings } from './fleet-file.ts';
import type { PilotPool } from './pilot-pool.ts';
import { SchedulerError, type Scheduler } from './scheduler.ts';

export interface ScalerOptions {
  file: FleetFile;
  pool: PilotPool;
  table: FleetTable;
  scheduler: Scheduler;
  /** The number of a partition's jobs in the gateway's queue, for which no pilot has been requested yet. */
  queued: (partition: string) => number;
  /**
   * The number of a partition's jobs that are being built. They may not need a pilot, but idle pilots are kept for
   * them.
   */
  building: (partition: string) => number;
  logger: Logger;
  nowMs?: () => number;
}

/**
 * Maximum number of pilots submitted in the first round, and in any round. The first rounds are small, so that early
 * failures are noticed before many pilots are lost.
 */
const FIRST_AT_ONCE = 16;
const MOST_AT_ONCE = 256;
/** Parallel calls of sbatch; a controller handles some hundred per second. */
const SIDE_BY_SIDE = 8;
/** For this long after a pilot was submitted, the scheduler's list may lack it although it has not ended. */
const UNSEEN_MS = 10_000;
/**
 * After this many pilots in a row have ended before they registered, new ones are submitted only every
 * AFTER_FAILURES_MS.
 */
const MOST_FAILURES = 3;
const AFTER_FAILURES_MS = 60_000;
/** A pilot that has run for this long without registering is reported; most need less. */
const SLOW_SECONDS = 15;
/** A pilot that has run for this long without registering is cancelled, because it holds a GPU for nothing. */
const MOST_SECONDS = 180;
/** The interval between two counts of the cluster's GPUs. */
const COUNT_EVERY_MS = 15_000;

/** Submits pilots as the queue grows, dismisses idle ones, and records which pilots have ended. */
export class Scaler {
  readonly #options: ScalerOptions;
  readonly #nowMs: () => number;
  readonly #registered = new Set<number>();
  /** The scheduler's ids of pilots that were told to avoid nodes. */
  readonly #apart = new Set<string>();
  #stopped = false;
  #asked = false;
  #countedMs = -Infinity;
  /** Whether the scheduler counted GPUs when it was last asked. */
  #counted = false;
  /** By partition: how many pilots could be submitted in the last round. */
  readonly #mostBefore = new Map<string, number>();
  /** By partition: how many pilots in a row ended before they registered, when the last one did, and why. */
  readonly #failures = new Map<string, { count: number; lastMs: number; why: string | undefined }>();

  constructor(options: ScalerOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
  }

  /** Runs one round. If the scheduler fails, GetHost reports the problem and the next round tries again. */
  async round(): Promise<void> {
    const { file, logger } = this.#options;
    try {
      await this.#forgetEnded();
      const refused = new Map<string, string>();
      for (const settings of file.partitions) {
        this.#dismissIdle(settings);
        await this.#submitMissing(settings).catch((error: unknown) => {
          // A problem with one partition must not leave the others without pilots.
          if (!(error instanceof SchedulerError) || !error.refused) throw error;
          refused.set(settings.partition, `partition ${settings.partition}: ${error.message}`);
          logger.warn({ partition: settings.partition, reason: error.message }, 'a pilot could not be submitted');
        });
      }
      this.#tellProblems((partition) => refused.get(partition) ?? this.#failureText(partition));
      await this.#countGpus();
    } catch (error) {
      this.#tellProblems(() => (error as Error).message);
      // The scheduler's message is the cause; a stack trace of ours would add nothing.
      const cause = error instanceof SchedulerError ? { reason: error.message } : { err: error };
      logger.warn(cause, 'the scheduler failed or refused a request');
    }
  }

  async #countGpus(): Promise<void> {
    const { scheduler, pool, logger } = this.#options;
    if (!scheduler.gpus || this.#nowMs() - this.#countedMs < COUNT_EVERY_MS) return;
    this.#countedMs = this.#nowMs();
    // The previous count may be wrong by now.
    pool.account.gpus = [];
    this.#counted = false;
    try {
      pool.account.gpus = await scheduler.gpus();
      this.#counted = true;
    } catch (error) {
      // A scheduler that refuses this query can still run pilots. One that is unreachable must be asked again.
      if (!(error instanceof SchedulerError) || !error.refused) throw error;
      logger.warn({ reason: error.message }, "the cluster's GPUs are not counted");
    }
  }

  /** Stops submitting pilots. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * Records a submitted pilot. If that fails, the pilot is cancelled, because it could not register and would only hold
   * a GPU.
   */
  async #note(row: Omit<PilotRow, 'id'>, token: string): Promise<void> {
    try {
      this.#options.table.submitted(row, token);
    } catch (error) {
      await this.#options.scheduler.cancel([row.schedulerJob]);
      throw error;
    }
  }

  async #forgetEnded(): Promise<void> {
    const { scheduler, table, pool } = this.#options;
    if (table.pilots().length === 0 && this.#asked && pool.account.schedulerProblem === undefined) return;
    const present = await scheduler.pilots();
    if (!this.#asked) await this.#cancelStuck();
    const rows = table.pilots();
    this.#asked = true;
    // These pilots can't register, because a gateway was killed before it could record them.
    const known = new Set(rows.map(({ schedulerJob }) => schedulerJob));
    const strays = [...present].filter((id) => !known.has(id));
    if (strays.length > 0) await scheduler.cancel(strays);
    // If a job number was reused, the number in the scheduler's list belongs to the younger pilot.
    const youngest = new Map(rows.map(({ id, schedulerJob }) => [schedulerJob, id]));
    for (const { id, schedulerJob, partition, submitMs, registered } of rows) {
      if (registered) this.#registered.add(id);
      if (pool.roster.isConnected(id)) {
        this.#registered.add(id);
        this.#failures.delete(partition);
      } else if (!present.has(schedulerJob) || youngest.get(schedulerJob) !== id) {
        pool.gone(id);
        const refusal = pool.account.refusals.get(id)?.text;
        const wasThere = this.#registered.delete(id);
        if (!wasThere && this.#nowMs() - submitMs <= UNSEEN_MS && !(await this.#whyEnded(schedulerJob))) continue;
        table.ended(id);
        pool.account.refusals.delete(id);
        this.#apart.delete(schedulerJob);
        if (!wasThere) await this.#failed({ partition, schedulerJob }, { refusal });
      } else if (!registered && !pool.storeFailure()) {
        if (this.#apart.has(schedulerJob) && scheduler.whyStuck?.(schedulerJob) !== undefined) {
          // No other node is left for it.
          pool.badNodes.forget(partition);
          table.ended(id);
          this.#apart.delete(schedulerJob);
          await scheduler.cancel([schedulerJob]);
          continue;
        }
        const run = scheduler.runsUnregistered?.(schedulerJob);
        if (!run || run.seconds < MOST_SECONDS) continue;
        pool.gone(id);
        table.ended(id);
        await scheduler.cancel([schedulerJob]);
        await this.#failed({ partition, schedulerJob }, { slow: run.why });
      }
    }
  }

  /**
   * Cancels the pilots of an earlier gateway that can't start, or that run and don't register. The fleet file may have
   * been corrected since, and new ones are submitted as it says now.
   */
  async #cancelStuck(): Promise<void> {
    const { scheduler, table } = this.#options;
    const stuck = table
      .pilots()
      .filter(
        ({ registered, schedulerJob }) =>
          !registered && (scheduler.whyStuck?.(schedulerJob) !== undefined || this.#slow(schedulerJob) !== undefined),
      );
    await scheduler.cancel(stuck.map(({ schedulerJob }) => schedulerJob));
    for (const { id } of stuck) table.ended(id);
  }

  /** If the scheduler does not answer, the next round reports it. */
  async #whyEnded(schedulerJob: string): Promise<string | undefined> {
    return this.#options.scheduler.whyEnded(schedulerJob).catch(() => undefined);
  }

  /** `refusal`: the gateway's; `slow`: why it was cancelled. */
  async #failed(
    { partition, schedulerJob }: Pick<PilotRow, 'partition' | 'schedulerJob'>,
    { refusal, slow }: { refusal?: string | undefined; slow?: string | undefined },
  ): Promise<void> {
    const { scheduler, logger, pool } = this.#options;
    const { count, why: before } = this.#failures.get(partition) ?? { count: 0 };
    const cause = refusal ?? slow ?? (await this.#whyEnded(schedulerJob));
    const why = cause ?? before;
    const node = cause === undefined ? undefined : scheduler.nodeOf?.(schedulerJob);
    if (node !== undefined) pool.badNodes.add(partition, node, this.#nowMs());
    this.#failures.set(partition, { count: count + 1, lastMs: this.#nowMs(), why });
    logger.warn({ pilot: schedulerJob, partition, why }, 'a pilot ended before it registered');
  }

  /** Why the pilots of a partition are refused, or end before they register. */
  #failureText(partition: string): string | undefined {
    // Refusals come first, because they are known before the scheduler reports that the pilot has ended.
    const refusals = [...this.#options.pool.account.refusals.values()];
    const refused = refusals.findLast((one) => one.partition === partition)?.text;
    const { count = 0, why } = this.#failures.get(partition) ?? {};
    const text = refused ?? why ?? this.#whyStuck(partition);
    if (text !== undefined) return `partition ${partition}: ${text}`;
    return count < MOST_FAILURES
      ? undefined
      : `Look at the pilots' logs (pilot-*.log in scratch on their nodes): in ${partition} the last ${MOST_FAILURES} ended before they registered`;
  }

  #whyStuck(partition: string): string | undefined {
    const { table, scheduler } = this.#options;
    const waiting = table.pilots().filter((row) => row.partition === partition && !row.registered);
    for (const { schedulerJob } of waiting) {
      const why = scheduler.whyStuck?.(schedulerJob);
      if (why !== undefined) return why;
      const slow = this.#slow(schedulerJob);
      if (slow !== undefined) return slow;
    }
    const nodes = this.#options.pool.account.gpus.filter((one) => one.partition === partition);
    if (waiting.length > 0 && this.#counted && nodes.length === 0)
      return 'Resume its nodes (sinfo -R says why they are down or drained): none takes jobs';
    return undefined;
  }

  /** What to check if the pilot has run too long without registering or reports why it can't; else undefined. */
  #slow(schedulerJob: string): string | undefined {
    const run = this.#options.scheduler.runsUnregistered?.(schedulerJob);
    return run && (run.failing || run.seconds >= SLOW_SECONDS) ? run.why : undefined;
  }

  /** Reports problems to GetHost and to the waiting jobs. */
  #tellProblems(textOf: (partition: string) => string | undefined): void {
    const { pool, file } = this.#options;
    const texts = new Set<string>();
    for (const { partition } of file.partitions) {
      const text = textOf(partition);
      if (text === undefined) continue;
      texts.add(text);
      pool.tellWaiting(partition, text);
    }
    pool.account.schedulerProblem = texts.size === 0 ? undefined : [...texts].join('; ');
  }

  #dismissIdle({ partition, min, idle_seconds: seconds }: PartitionSettings): void {
    const { pool, queued, building } = this.#options;
    if (building(partition) > 0 || queued(partition) > 0 || pool.waitingJobs(partition) > 0) return;
    const idle = pool.roster.idleSince(partition, this.#nowMs() - seconds * 1000);
    const mayGo = Math.max(0, pool.roster.connected(partition) - min);
    for (const id of idle.slice(0, mayGo)) pool.dismiss(id, `no job for ${seconds} s`);
  }

  async #submitMissing(settings: PartitionSettings): Promise<void> {
    const { pool, table, queued, logger } = this.#options;
    const { partition, min, max } = settings;
    // A pilot that can't be recorded would be cancelled at once, so none is submitted.
    if (pool.storeFailure()) return;
    const failures = this.#failures.get(partition);
    if (failures && failures.count >= MOST_FAILURES && this.#nowMs() - failures.lastMs < AFTER_FAILURES_MS) return;
    // Pilots that are away are not counted: they may come back, but no job should have to wait for them.
    const there = table
      .pilots()
      .filter((row) => row.partition === partition)
      .filter(({ id }) => pool.roster.stays(id) || !this.#registered.has(id)).length;
    // Pilots that are away still hold their GPUs, so they count towards the maximum.
    const room = max - table.pilots().filter((row) => row.partition === partition).length;
    const wanted = Math.min(
      max,
      Math.max(min, pool.roster.runningJobs(partition) + pool.waitingJobs(partition) + queued(partition)),
    );
    let missing = Math.min(wanted - there, room);
    if (missing > 0) missing = Math.min(missing, this.#mostNow(partition));
    else this.#mostBefore.delete(partition);
    const submitOne = async (): Promise<void> => {
      while (!this.#stopped && (missing -= 1) >= 0) {
        const token = FleetTable.secret();
        const schedulerJob = await this.#submitApart(partition, token);
        await this.#note({ schedulerJob, partition, submitMs: this.#nowMs() }, token);
        logger.info({ pilot: schedulerJob, partition }, 'a pilot was submitted');
      }
    };
    const submitting = Array.from({ length: SIDE_BY_SIDE }, () =>
      submitOne().catch((error: unknown) => {
        // The scheduler would refuse the partition's other pilots too.
        missing = 0;
        throw error;
      }),
    );
    const refused = (await Promise.allSettled(submitting)).find(({ status }) => status === 'rejected');
    if (refused?.status === 'rejected') throw refused.reason;
  }

  /** Submits a pilot to nodes on which none has failed lately, or to all nodes if no other is left. */
  async #submitApart(partition: string, token: string): Promise<string> {
    const { pool, scheduler } = this.#options;
    const avoid = pool.badNodes.of(partition, this.#nowMs());
    try {
      const schedulerJob = await scheduler.submit(partition, token, avoid);
      if (avoid.length > 0) this.#apart.add(schedulerJob);
      return schedulerJob;
    } catch (error) {
      if (avoid.length === 0 || !(error instanceof SchedulerError) || !error.refused) throw error;
      pool.badNodes.forget(partition);
      return scheduler.submit(partition, token, []);
    }
  }

  /** Twice the previous round's limit; the first round's limit if pilots have ended before they registered. */
  #mostNow(partition: string): number {
    const before = this.#failures.has(partition) ? undefined : this.#mostBefore.get(partition);
    const most = Math.min(MOST_AT_ONCE, before === undefined ? FIRST_AT_ONCE : 2 * before);
    this.#mostBefore.set(partition, most);
    return most;
  }
}
