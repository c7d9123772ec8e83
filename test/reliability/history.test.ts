/**
 * Histories of concurrent clients, across kill -9 of the daemon: some sequential order of the calls explains all
 * answers. A request that was cut off is repeated with its request_id until it is answered, so each takes effect once.
 */
import { setTimeout } from 'node:timers/promises';
import { collect, kernel, startChildRunner, temporaryFolder, type ChildRunner } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError, JobState, Outcome } from '@flashcore/shared/contract';
import { Random } from '@flashcore/shared/statistics';
import { until } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { campaign, integer, pick, seededUuid } from './campaign.ts';
import { orderOf, type Call, type Model } from './linearizable.ts';
import { flags } from './told-jobs.ts';

const CLIENTS = 4;
const CALLS = 20;
const JOBS = 3;
const NO_CHAMPION = 'none';

type Decision = { kind: 'accept' | 'undo'; job: string } | { kind: 'read' };

/**
 * The model of decisions about results that had no champion to compare with. One can be accepted only while there is no
 * champion.
 */
const CHAMPION: Model<string, Decision, string> = {
  initial: NO_CHAMPION,
  step: (champion, operation, answer) => {
    if (operation.kind === 'read') return answer === champion ? champion : undefined;
    const wanted = operation.kind === 'accept' ? NO_CHAMPION : operation.job;
    const after = operation.kind === 'accept' ? operation.job : NO_CHAMPION;
    if (answer === 'done') return champion === wanted ? after : undefined;
    return answer === 'NOT_ACCEPTABLE' && champion !== wanted ? champion : undefined;
  },
};

type JobCall = { kind: 'cancel' | 'read' };

/** The model of a job: it ends at some moment, and from then on its outcome stays the same. */
const JOB: Model<string, JobCall, string> = {
  initial: 'live',
  step: (state, { kind }, answer) => {
    if (kind === 'cancel') return answer === 'done' ? state : undefined;
    if (state === 'live') return answer;
    return answer === state ? state : undefined;
  },
};

test('orderOf() finds an order if and only if the history has one', () => {
  const accept = (job: string, calledAt: bigint, answeredAt: bigint): Call<Decision, string> => ({
    operation: { kind: 'accept', job },
    answer: 'done',
    calledAt,
    answeredAt,
  });
  const read = (answer: string, calledAt: bigint, answeredAt: bigint): Call<Decision, string> => ({
    operation: { kind: 'read' },
    answer,
    calledAt,
    answeredAt,
  });
  // Possible, because the calls are concurrent: the later read saw the earlier state.
  expect(orderOf([accept('a', 1n, 9n), read('a', 2n, 3n), read(NO_CHAMPION, 1n, 8n)], CHAMPION)).toBeDefined();
  // A stale read: another read had seen the champion before this read was called.
  expect(orderOf([accept('a', 1n, 9n), read('a', 2n, 3n), read(NO_CHAMPION, 4n, 5n)], CHAMPION)).toBeUndefined();
  // Two acceptances, each of which expects that there is no champion.
  expect(orderOf([accept('a', 1n, 9n), accept('b', 1n, 9n)], CHAMPION)).toBeUndefined();
  // An acceptance that a later read does not see.
  expect(orderOf([accept('a', 1n, 2n), read(NO_CHAMPION, 3n, 4n)], CHAMPION)).toBeUndefined();
});

campaign(
  'accept and undo of concurrent clients have an order, across kill -9',
  { promise: 'histories', rounds: { ci: 2, soak: 25 } },
  async ({ random, rounds, figure }) => {
    const counts = { calls: 0, done: 0, kills: 0 };
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      await using runner = new Killed(folder.path, random);
      await runner.start();
      const jobs: string[] = [];
      for (let index = 0; index < JOBS; index += 1) {
        const events = await collect(runner.client.start('build', kernel('champion_10')));
        jobs.push(events[0]!.job);
      }
      const history = await concurrently(random, (own) => {
        const kind = pick(own, ['accept', 'accept', 'undo', 'undo', 'read'] as const);
        const operation: Decision = kind === 'read' ? { kind } : { kind, job: pick(own, jobs) };
        return recorded(operation, () => decide(runner, operation, seededUuid(own)));
      });
      counts.kills += runner.kills;
      counts.calls += history.length;
      counts.done += history.filter(({ answer }) => answer === 'done').length;
      expect(orderOf(history, CHAMPION), shown(history)).toBeDefined();
    }
    expect(counts.done).toBeGreaterThan(0);
    figure(
      'histories of accept, undo and list by 4 clients, under kill -9',
      `${rounds} histories, ${counts.calls} calls of which ${counts.done} changed the champion, ${counts.kills} kills; each has an order that explains every answer`,
    );
  },
);

campaign(
  'a job that several clients cancel and read ends once, across kill -9',
  { promise: 'histories', rounds: { ci: 2, soak: 25 } },
  async ({ random, rounds, figure }) => {
    const counts = { calls: 0, jobs: 0, kills: 0 };
    for (let round = 0; round < rounds; round += 1) {
      using folder = temporaryFolder();
      await using runner = new Killed(folder.path, random);
      await runner.start();
      const jobs = await Promise.all(
        ['sleep_40', 'hang', 'hang'].map(async (kernelId) => {
          for await (const { job } of runner.client.start('build', kernel(kernelId))) return job;
          throw new Error('a job has events');
        }),
      );
      const history = await concurrently(random, async (own) => {
        const job = pick(own, jobs);
        const operation: JobCall = { kind: pick(own, ['cancel', 'read', 'read'] as const) };
        return { job, ...(await recorded(operation, () => look(runner, operation, job))) };
      });
      counts.kills += runner.kills;
      counts.calls += history.length;
      counts.jobs += jobs.length;
      for (const job of jobs) {
        const ofJob = history.filter((call) => call.job === job);
        expect(orderOf(ofJob, JOB), shown(ofJob)).toBeDefined();
      }
    }
    figure(
      'histories of cancel and read by 4 clients, under kill -9',
      `${rounds} histories, ${counts.calls} calls about ${counts.jobs} jobs, ${counts.kills} kills; each has an order that explains every answer`,
    );
  },
);

/** A daemon that is killed and restarted at random, and its client. */
class Killed implements AsyncDisposable {
  readonly #folder: string;
  readonly #random: Random;
  #daemon: ChildRunner | undefined;
  #client: RunnerClient | undefined;
  #killing: Promise<void> = Promise.resolve();
  #ended = false;
  #answers = 0;
  kills = 0;

  constructor(folder: string, random: Random) {
    this.#folder = folder;
    this.#random = random;
  }

  get client(): RunnerClient {
    return this.#client!;
  }

  async start(): Promise<void> {
    await this.#again();
    this.#killing = this.#killNowAndThen();
  }

  /** Repeats the call until a daemon answers. */
  async answer<Result>(call: (client: RunnerClient) => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        const result = await call(this.client);
        this.#answers += 1;
        return result;
      } catch (error) {
        if (!(error instanceof FlashcoreError && ['RUNNER_UNREACHABLE', 'DRAINING'].includes(error.reason)))
          throw error;
        // eslint-disable-next-line flashcore/no-fixed-wait -- until a daemon is running again
        await setTimeout(5);
      }
    }
  }

  async #killNowAndThen(): Promise<void> {
    while (!this.#ended) {
      const killAt = this.#answers + integer(this.#random, 5, 15);
      await until(() => this.#ended || this.#answers >= killAt);
      if (this.#ended) return;
      // eslint-disable-next-line flashcore/no-fixed-wait -- the kill comes at any moment of the calls after it
      await setTimeout(integer(this.#random, 0, 10));
      await this.#daemon!.end('SIGKILL');
      this.kills += 1;
      await this.#again();
    }
  }

  async #again(): Promise<void> {
    this.#daemon = await startChildRunner(...flags(this.#folder));
    // The address stays the same.
    this.#client ??= await RunnerClient.connect({ address: this.#daemon.address });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    await this.#killing;
    this.#client?.close();
    await this.#daemon?.[Symbol.asyncDispose]();
  }
}

/** Every client makes its calls one after another. The clients run concurrently. */
async function concurrently<Made>(random: Random, call: (own: Random) => Promise<Made>): Promise<Made[]> {
  const all = await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const own = new Random(integer(random, 0, 2 ** 31));
      const made: Made[] = [];
      for (let index = 0; index < CALLS; index += 1) {
        made.push(await call(own));
        // eslint-disable-next-line flashcore/no-fixed-wait -- so that kills come between calls too
        await setTimeout(integer(own, 0, 30));
      }
      return made;
    }),
  );
  return all.flat();
}

async function recorded<Operation, Answer>(
  operation: Operation,
  call: () => Promise<Answer>,
): Promise<Call<Operation, Answer>> {
  const calledAt = process.hrtime.bigint();
  const answer = await call();
  return { operation, answer, calledAt, answeredAt: process.hrtime.bigint() };
}

const decide = (runner: Killed, operation: Decision, requestId: string): Promise<string> =>
  runner.answer(async (client) => {
    if (operation.kind === 'read') return (await client.listChampions()).champions[0]?.job ?? NO_CHAMPION;
    const { kind, job } = operation;
    const request =
      kind === 'accept' ? client.accept({ job, over: NO_CHAMPION, requestId }) : client.undo({ job, requestId });
    return request.then(
      () => 'done',
      (error: unknown) => {
        if (error instanceof FlashcoreError && error.reason === 'NOT_ACCEPTABLE') return error.reason;
        throw error;
      },
    );
  });

const look = (runner: Killed, { kind }: JobCall, name: string): Promise<string> =>
  runner.answer(async (client) => {
    if (kind === 'read') {
      const { job } = await client.getJob({ name });
      return job!.state === JobState.ENDED ? Outcome[job!.outcome] : 'live';
    }
    await client.cancelJob({ name });
    return 'done';
  });

const shown = (history: readonly Call<unknown, unknown>[]): string =>
  history
    .map(({ calledAt, answeredAt, operation, answer }) =>
      [calledAt, answeredAt, JSON.stringify(operation), answer].join(' '),
    )
    .join('\n');
