import type { Logger } from '../log.ts';
import { FleetTable, type PilotRow } from '../store/fleet-table.ts';
import type { FleetFile, PartitionSettings } from './fleet-file.ts';
import type { PilotPool } from './pilot-pool.ts';
import { SchedulerError, type Scheduler } from './slurm.ts';

export interface ScalerOptions {
  file: FleetFile;
  pool: PilotPool;
  table: FleetTable;
  scheduler: Scheduler;
  /** Jobs of a partition that no pilot was asked for yet: they wait in the gateway's queue. */
  queued: (partition: string) => number;
  /** Jobs of a partition that are being built: they may not need a pilot, but keep those that are there. */
  building: (partition: string) => number;
  logger: Logger;
  nowMs?: () => number;
}

/** Pilots submitted in a first round, and at most: where they end early, that is known before many are lost. */
const FIRST_AT_ONCE = 16;
const MOST_AT_ONCE = 256;
/** Calls of sbatch; a controller takes some hundred a second. */
const SIDE_BY_SIDE = 8;
/** A pilot that was not seen in the scheduler's list may not be in it yet. */
const UNSEEN_MS = 10_000;
/** After so many pilots that ended before they registered, others are submitted only now and then. */
const MOST_FAILURES = 3;
const AFTER_FAILURES_MS = 60_000;
/** Between two looks at the cluster's GPUs. */
const COUNT_EVERY_MS = 15_000;

/** Submits pilots as the queue grows, lets idle ones go, and notes which have ended. */
export class Scaler {
  readonly #options: ScalerOptions;
  readonly #nowMs: () => number;
  readonly #registered = new Set<number>();
  #stopped = false;
  #asked = false;
  #countedMs = -Infinity;
  /** By partition: pilots that were to be submitted in the last round at most. */
  readonly #mostBefore = new Map<string, number>();
  /** By partition: pilots in a row that ended before they registered. */
  readonly #failures = new Map<string, { count: number; lastMs: number; why: string | undefined }>();

  constructor(options: ScalerOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
  }

  /** One round. What the scheduler can't do now is tried in the next, and GetHost says so meanwhile. */
  async round(): Promise<void> {
    const { file, logger } = this.#options;
    try {
      await this.#forgetEnded();
      const refused = new Map<string, string>();
      for (const settings of file.partitions) {
        this.#dismissIdle(settings);
        await this.#submitMissing(settings).catch((error: unknown) => {
          // What is wrong with one partition is no reason to leave the others without pilots.
          if (!(error instanceof SchedulerError) || !error.refused) throw error;
          refused.set(settings.partition, `partition ${settings.partition}: ${error.message}`);
          logger.warn({ partition: settings.partition, reason: error.message }, 'a pilot could not be submitted');
        });
      }
      this.#tellProblems((partition) => refused.get(partition) ?? this.#failureText(partition));
      await this.#countGpus();
    } catch (error) {
      this.#tellProblems(() => (error as Error).message);
      // What the scheduler says is the cause; where in our code it was heard says nothing.
      const cause = error instanceof SchedulerError ? { reason: error.message } : { err: error };
      logger.warn(cause, 'the scheduler does not do what it is asked');
    }
  }

  async #countGpus(): Promise<void> {
    const { scheduler, file, pool, logger } = this.#options;
    if (!scheduler.gpus || this.#nowMs() - this.#countedMs < COUNT_EVERY_MS) return;
    this.#countedMs = this.#nowMs();
    // What was said before may be wrong by now.
    pool.account.gpus = [];
    try {
      pool.account.gpus = await scheduler.gpus(file.partitions);
    } catch (error) {
      // A scheduler that does not know the question runs pilots all the same; one that is away is asked again.
      if (!(error instanceof SchedulerError) || !error.refused) throw error;
      logger.warn({ reason: error.message }, "the cluster's GPUs are not counted");
    }
  }

  /** Submits nothing more. */
  stop(): void {
    this.#stopped = true;
  }

  /** Where it can't be stored the pilot could not register: it would only hold a GPU. */
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
    const rows = table.pilots();
    if (rows.length === 0 && this.#asked && pool.account.schedulerProblem === undefined) return;
    const present = await scheduler.pilots();
    this.#asked = true;
    // The gateway was killed before it could note them: they can't register.
    const strays = [...present].filter((id) => !rows.some(({ schedulerJob }) => schedulerJob === id));
    if (strays.length > 0) await scheduler.cancel(strays);
    // Of a number that was given twice the job in the list is the younger one.
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
        if (!wasThere && this.#nowMs() - submitMs <= UNSEEN_MS) continue;
        table.ended(id);
        pool.account.refusals.delete(id);
        if (!wasThere) await this.#failed(partition, schedulerJob, refusal);
      }
    }
  }

  async #failed(partition: string, schedulerJob: string, refusal: string | undefined): Promise<void> {
    const { scheduler, logger } = this.#options;
    const { count, why: before } = this.#failures.get(partition) ?? { count: 0 };
    // Where the scheduler does not answer, the next round reports that.
    const why = refusal ?? (await scheduler.whyEnded(schedulerJob).catch(() => undefined)) ?? before;
    this.#failures.set(partition, { count: count + 1, lastMs: this.#nowMs(), why });
    logger.warn({ pilot: schedulerJob, partition, why }, 'a pilot ended before it registered');
  }

  /** Why the pilots of a partition are refused, or end before they register. */
  #failureText(partition: string): string | undefined {
    // It is told before the pilot has ended, and its end been seen.
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
    }
    return undefined;
  }

  /** For GetHost and for the jobs that wait. */
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
    const { pool, table, scheduler, queued, logger } = this.#options;
    const { partition, min, max } = settings;
    // A pilot that can't be noted would be cancelled at once.
    if (pool.storeFailure()) return;
    const failures = this.#failures.get(partition);
    if (failures && failures.count >= MOST_FAILURES && this.#nowMs() - failures.lastMs < AFTER_FAILURES_MS) return;
    // One that was there and is gone may come back, but no job waits for it.
    const there = table
      .pilots()
      .filter((row) => row.partition === partition)
      .filter(({ id }) => pool.roster.stays(id) || !this.#registered.has(id)).length;
    // Those that are gone for the moment still have their GPUs.
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
        const schedulerJob = await scheduler.submit(settings, token);
        await this.#note({ schedulerJob, partition, submitMs: this.#nowMs() }, token);
        logger.info({ pilot: schedulerJob, partition }, 'a pilot was submitted');
      }
    };
    const submitting = Array.from({ length: SIDE_BY_SIDE }, () =>
      submitOne().catch((error: unknown) => {
        // What one is refused the others would be.
        missing = 0;
        throw error;
      }),
    );
    const refused = (await Promise.allSettled(submitting)).find(({ status }) => status === 'rejected');
    if (refused?.status === 'rejected') throw refused.reason;
  }

  /** Twice as many as in the round before, while none ends early. */
  #mostNow(partition: string): number {
    const before = this.#failures.has(partition) ? undefined : this.#mostBefore.get(partition);
    const most = Math.min(MOST_AT_ONCE, before === undefined ? FIRST_AT_ONCE : 2 * before);
    this.#mostBefore.set(partition, most);
    return most;
  }
}
