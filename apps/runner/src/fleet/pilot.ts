import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Client, Metadata, status, type MethodDefinition } from '@grpc/grpc-js';
import {
  channelCredentials,
  CLIENT_CHANNEL_OPTIONS,
  tlsChannelOptions,
  type ClientSecurity,
  RunnerClient,
} from '@flashcore/shared/client';
import { errorFromStatus, type Device, type Tool } from '@flashcore/shared/contract';
import { fleetServiceDefinition, RegisterSchema, type Register } from '@flashcore/shared/fleet';
import { entryOf } from '@flashcore/shared/text';
import type { Logger } from '../log.ts';
import { LeasedJob, type LeasedJobOptions } from './leased-job.ts';
import { PilotConnection, type ConnectionEnd, GatewayUnreachable } from './pilot-connection.ts';

/** The parts of the runner in its process that a pilot uses. */
export interface PilotRunner extends Pick<LeasedJobOptions, 'sources' | 'artifacts' | 'owners' | 'assigned'> {
  /** Address of the runner, in a folder that is private to this user. */
  address: string;
  buildId: string;
  device: Device;
  tools: readonly Tool[];
}

export interface PilotOptions {
  /** Address of the gateway, "host:port". */
  gateway: string;
  security: ClientSecurity | undefined;
  /** The pilot's one-time token. */
  token: string;
  /** When the scheduler will end the pilot; Infinity: never. */
  endsAtMs: number;
  logger: Logger;
  /** Aborted by SIGTERM; the pilot then gives its job back and ends. */
  signal: AbortSignal;
  /** Time limit for the first registration; default 10 s. */
  firstReachMs?: number;
  /** Called if the gateway has not been reached within two seconds; the pilot goes on trying. */
  onUnreached?: (problem: GatewayUnreachable) => void;
}

/** The pilot's own runner is in this process, so only a busy node can delay its answer. */
const OWN_RUNNER_MS = 30_000;
/** A pilot that has not registered within this time ends, because it holds a GPU for nothing. */
const FIRST_REACH_MS = 10_000;
/** After this time without an answer a pilot says so. */
const TELL_AFTER_MS = 2_000;
/** How long a pilot waits for a restarted gateway, while its job continues. */
const AWAY_MS = 300_000;
/** Pauses between attempts to connect; the last one repeats. */
const AGAIN_AFTER_MS = [200, 400, 800, 1_600, 3_200];
/** Pause between calls to a gateway that is unreachable or can't store anything. */
const CALL_AGAIN_MS = 500;
const CALL_LIMIT_MS = 120_000;

/**
 * Runs a pilot: registers, and takes jobs until the gateway dismisses it or the signal aborts. Errors: the gateway's,
 * GatewayUnreachable.
 */
export async function flyPilot(runner: PilotRunner, options: PilotOptions): Promise<void> {
  const { gateway, security, signal } = options;
  const channel = new Client(gateway, channelCredentials(gateway, security), {
    ...CLIENT_CHANNEL_OPTIONS,
    ...tlsChannelOptions(gateway, security),
  });
  const local = await RunnerClient.connect({ address: runner.address, signal, timeoutMs: OWN_RUNNER_MS });
  try {
    await new Flight({ channel, runner, local, options }).fly();
  } finally {
    local.close();
    channel.close();
  }
}

interface FlightParts {
  channel: Client;
  runner: PilotRunner;
  local: RunnerClient;
  options: PilotOptions;
}

/** A pilot across all its connections. Its job continues while the gateway is unreachable. */
class Flight {
  readonly #parts: FlightParts;
  /** Sent with the token. The two together identify this pilot. */
  readonly #session = randomBytes(32).toString('base64url');
  #job: LeasedJob | undefined;
  /** Runs until the gateway was reached, or its silence was reported. */
  #unreached: NodeJS.Timeout | undefined;

  constructor(parts: FlightParts) {
    this.#parts = parts;
  }

  async fly(): Promise<void> {
    const { gateway, logger, signal, firstReachMs = FIRST_REACH_MS, onUnreached } = this.#parts.options;
    let everReached = false;
    let why: string | undefined;
    const unreached = (afterMs: number): GatewayUnreachable =>
      new GatewayUnreachable(gateway, { seconds: Math.round(afterMs / 1000), why });
    this.#unreached = setTimeout(() => onUnreached?.(unreached(TELL_AFTER_MS)), TELL_AFTER_MS);
    let silentSinceMs = performance.now();
    let failures = 0;
    try {
      while (!signal.aborted) {
        const leftMs = everReached ? undefined : firstReachMs - (performance.now() - silentSinceMs);
        const { dismissed, refused, registered, failure, answered } = await this.#connect(leftMs);
        if (dismissed !== undefined) return logger.info({ reason: dismissed }, 'dismissed');
        if (refused) throw refused;
        why = failure?.message ?? why;
        // A gateway that answers is reachable, even if it refuses the pilot because its disk is full.
        if (answered || registered) {
          everReached = true;
          clearTimeout(this.#unreached);
        }
        if (registered) {
          silentSinceMs = performance.now();
          failures = 0;
        }
        if (!everReached && !signal.aborted && performance.now() - silentSinceMs >= firstReachMs)
          throw unreached(firstReachMs);
        if (performance.now() - silentSinceMs > AWAY_MS)
          throw new Error(`the gateway ${gateway} does not answer, or lets no pilot in (${why ?? 'no answer came'})`);
        const pauseMs = AGAIN_AFTER_MS[Math.min(failures, AGAIN_AFTER_MS.length - 1)]!;
        failures += 1;
        // A random pause, so that the pilots of a cluster do not all try at the same moment.
        await sleep(pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined);
      }
    } finally {
      clearTimeout(this.#unreached);
      this.#job?.drop();
    }
  }

  /** `withinMs`: time limit for the registration; undefined: only the channel's own limits. */
  async #connect(withinMs: number | undefined): Promise<ConnectionEnd> {
    const { channel, options } = this.#parts;
    const connection: PilotConnection = new PilotConnection(channel, {
      registered: ({ lease, afterSequence }) => {
        clearTimeout(late);
        clearTimeout(this.#unreached);
        const job = this.#job;
        if (job && job.lease === lease) void job.tell(afterSequence, connection);
        else this.#drop();
      },
      assigned: (assignment) => {
        this.#drop();
        this.#job = new LeasedJob(assignment, {
          ...this.#parts.runner,
          local: this.#parts.local,
          call: this.#call,
          logger: options.logger,
        });
        void this.#job.tell(0n, connection);
      },
      stop: (lease) => {
        if (this.#job?.lease === lease) void this.#job.stop();
      },
    });
    const late = withinMs === undefined ? undefined : setTimeout(() => connection.close(), Math.max(0, withinMs));
    const leave = (): void => void this.#leave(connection).finally(() => connection.close());
    options.signal.addEventListener('abort', leave, { once: true });
    try {
      return await connection.run(this.#register(), () => secondsLeft(options));
    } finally {
      clearTimeout(late);
      options.signal.removeEventListener('abort', leave);
    }
  }

  #register(): Register {
    const { runner, options } = this.#parts;
    const { device, tools, buildId } = runner;
    return create(RegisterSchema, {
      token: options.token,
      session: this.#session,
      lease: this.#job?.lease ?? 0n,
      buildId,
      node: process.env['SLURMD_NODENAME'] ?? hostname(),
      device,
      tools: [...tools],
      clockMs: BigInt(Date.now()),
      secondsLeft: secondsLeft(options),
    });
  }

  #drop(): void {
    this.#job?.drop();
    this.#job = undefined;
  }

  /** Gives the job back at once, because nobody knows how much time is left. */
  async #leave({ say }: PilotConnection): Promise<void> {
    const reason = 'the scheduler ends the pilot';
    // Sent first, so that the gateway assigns no other job.
    await say({ case: 'leaving', value: { reason } });
    const job = this.#job;
    if (!job) return;
    this.#drop();
    await say({ case: 'giveBack', value: { lease: job.lease, reason } });
  }

  /** Calls the gateway, and calls again while it is unreachable or its disk is full. */
  readonly #call = async <Response>(name: string, request: unknown, signal: AbortSignal): Promise<Response> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.#callOnce<Response>(name, request);
      } catch (error) {
        const { code } = error as { code?: status };
        if (code !== status.UNAVAILABLE && code !== status.RESOURCE_EXHAUSTED) throw errorFromStatus(error as never);
      }
      await sleep(CALL_AGAIN_MS, undefined, { signal });
    }
  };

  #callOnce<Response>(name: string, request: unknown): Promise<Response> {
    const { path, requestSerialize, responseDeserialize } = entryOf(fleetServiceDefinition, name) as MethodDefinition<
      unknown,
      Response
    >;
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${this.#session}`);
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.#parts.channel.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      request,
      metadata,
      { deadline: Date.now() + CALL_LIMIT_MS },
      (error, response) => (error ? reject(error) : resolve(response!)),
    );
    return promise;
  }
}

const secondsLeft = ({ endsAtMs }: PilotOptions): bigint =>
  endsAtMs === Infinity ? 0n : BigInt(Math.max(1, Math.round((endsAtMs - Date.now()) / 1000)));
