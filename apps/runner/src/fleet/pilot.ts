import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, fromBinary, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { Client, Metadata, status, type ClientDuplexStream, type MethodDefinition } from '@grpc/grpc-js';
import {
  channelCredentials,
  CLIENT_CHANNEL_OPTIONS,
  tlsChannelOptions,
  type ClientSecurity,
  type JobRpcName,
  type RpcRequestInit,
  RunnerClient,
} from '@flashcore/shared/client';
import {
  KernelRunnerService,
  JobFinishedSchema,
  JobOptionsSchema,
  Outcome,
  asFlashcoreError,
  type Artifact,
  type FlashcoreError,
  type Device,
  type JobEvent,
  type Tool,
} from '@flashcore/shared/contract';
import {
  AttachRequestSchema,
  fleetServiceDefinition,
  MAX_FILE_BYTES,
  ReadSourceRequestSchema,
  StoreArtifactRequestSchema,
  type Assignment,
  type AttachRequest,
  type AttachResponse,
  type ReadSourceResponse,
  type StoreArtifactResponse,
} from '@flashcore/shared/fleet';
import type { Logger } from '../log.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { SourceStore } from '../store/sources.ts';

/** What a pilot needs of the runner in its own process. */
export interface PilotRunner {
  /** Of the runner, in a folder of this user alone. */
  address: string;
  buildId: string;
  device: Device;
  tools: readonly Tool[];
  sources: SourceStore;
  artifacts: ArtifactStore;
}

export interface PilotOptions {
  /** "host:port" of the gateway. */
  gateway: string;
  security: ClientSecurity | undefined;
  /** The one-time token. */
  token: string;
  /** When the scheduler ends it; Infinity: never. */
  endsAtMs: number;
  logger: Logger;
  /** Aborted by TERM: the job is given back, and the pilot ends. */
  signal: AbortSignal;
}

type Link = ClientDuplexStream<AttachRequest, AttachResponse>;

const BEAT_MS = 4_000;
/** A gateway that was started again is back by then. */
const RECONNECT_MS = 60_000;
const RECONNECT_EVERY_MS = 500;
const CALL_LIMIT_MS = 120_000;
/** Faults of a request, whichever node looks at it. */
const OF_THE_REQUEST: readonly FlashcoreError['reason'][] = [
  'INVALID_REQUEST',
  'INVALID_MANIFEST',
  'INVALID_VARIANT',
  'SHAPE_UNSUPPORTED',
  'KERNEL_NOT_FOUND',
  'NOT_IMPLEMENTED',
];
/** The gateway keeps the time of jobs and of their queue. */
const NO_LIMITS = { maxRunSeconds: 604_800, maxQueueSeconds: 604_800 };

/** A pilot's life: registers, takes jobs until the gateway dismisses it or the signal aborts. Errors: the gateway's. */
export async function flyPilot(runner: PilotRunner, options: PilotOptions): Promise<void> {
  const { gateway, security, logger, signal } = options;
  const channel = new Client(gateway, channelCredentials(gateway, security), {
    ...CLIENT_CHANNEL_OPTIONS,
    ...tlsChannelOptions(gateway, security),
  });
  const local = await RunnerClient.connect({ address: runner.address, signal });
  try {
    let secret = options.token;
    for (let silentSinceMs = Date.now(); !signal.aborted;) {
      const session = new Session(channel, { runner, local, options, secret });
      const end = await session.run();
      if (end.dismissed !== undefined) {
        logger.info({ reason: end.dismissed }, 'dismissed');
        return;
      }
      if (end.refused) throw end.refused;
      if (end.session !== undefined) {
        secret = end.session;
        silentSinceMs = Date.now();
      }
      if (Date.now() - silentSinceMs > RECONNECT_MS) throw new Error(`the gateway ${gateway} does not answer`);
      await sleep(RECONNECT_EVERY_MS, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    local.close();
    channel.close();
  }
}

interface SessionParts {
  runner: PilotRunner;
  local: RunnerClient;
  options: PilotOptions;
  secret: string;
}

interface SessionEnd {
  /** The gateway does not need the pilot any more. */
  dismissed?: string;
  /** The gateway does not let it in. */
  refused?: Error;
  /** For the next connection. */
  session?: string;
}

/** A job that this pilot runs. */
interface Running {
  lease: bigint;
  /** Name of the job at the pilot's own runner, once it is known. */
  job: string | undefined;
  /** It was to be stopped, perhaps before its name was known. */
  stopped: boolean;
  /** It is another pilot's now: nothing more is said of it. */
  givenBack: boolean;
}

/** One connection to the gateway. */
class Session {
  readonly #channel: Client;
  readonly #parts: SessionParts;
  readonly #link: Link;
  #session: string | undefined;
  #dismissed: string | undefined;
  #running: Running | undefined;

  constructor(channel: Client, parts: SessionParts) {
    this.#channel = channel;
    this.#parts = parts;
    const { path, requestSerialize, responseDeserialize } = methodOf<AttachRequest, AttachResponse>('attach');
    this.#link = channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
  }

  async run(): Promise<SessionEnd> {
    const { options } = this.#parts;
    const over = Promise.withResolvers<Error | undefined>();
    this.#link.on('data', (response: AttachResponse) => this.#hear(response));
    this.#link.on('end', () => over.resolve(undefined));
    this.#link.on('error', (error) => over.resolve(error));
    const giveBack = (): void => void this.#leave('the scheduler ends the pilot').then(() => over.resolve(undefined));
    options.signal.addEventListener('abort', giveBack, { once: true });
    const beat = setInterval(
      () => void this.#say({ case: 'heartbeat', value: { secondsLeft: secondsLeft(options) } }),
      BEAT_MS,
    );
    try {
      void this.#register();
      const error = await over.promise;
      const refused = error && isRefusal(error) ? asFlashcoreError(error) : undefined;
      return {
        ...(this.#dismissed !== undefined && { dismissed: this.#dismissed }),
        ...(refused && { refused }),
        ...(this.#session !== undefined && { session: this.#session }),
      };
    } finally {
      clearInterval(beat);
      options.signal.removeEventListener('abort', giveBack);
      await this.#stopRunning();
      this.#link.end();
    }
  }

  async #register(): Promise<void> {
    const { runner, options, secret } = this.#parts;
    const { device, tools, buildId } = runner;
    await this.#say({
      case: 'register',
      value: {
        token: secret,
        buildId,
        node: process.env['SLURMD_NODENAME'] ?? hostname(),
        device,
        tools: [...tools],
        clockMs: BigInt(Date.now()),
        secondsLeft: secondsLeft(options),
      },
    });
  }

  #hear({ message }: AttachResponse): void {
    switch (message.case) {
      case 'registered':
        this.#session = message.value.session;
        return;
      case 'assignment':
        void this.#carryOut(message.value);
        return;
      case 'stop':
        if (this.#running?.lease === message.value.lease) void this.#stopRunning();
        return;
      case 'dismissed':
        this.#dismissed = message.value.reason;
        return;
      case undefined:
    }
  }

  /** Waits where the connection has no room. */
  async #say(message: MessageInitShape<typeof AttachRequestSchema>['message']): Promise<void> {
    if (this.#link.destroyed || this.#link.writableEnded) return;
    if (!this.#link.write(create(AttachRequestSchema, { message })))
      await Promise.race([once(this.#link, 'drain'), once(this.#link, 'close')]).catch(() => undefined);
  }

  async #carryOut(assignment: Assignment): Promise<void> {
    const { local, options } = this.#parts;
    const { lease, job, attempt } = assignment;
    const running: Running = {
      lease,
      job: undefined,
      stopped: false,
      givenBack: false,
    };
    this.#running = running;
    options.logger.info({ job, lease: String(lease), attempt }, 'a job was assigned');
    try {
      await this.#fetchSources(assignment);
      const method = assignment.method as JobRpcName;
      const request = fromBinary(
        KernelRunnerService.method[method].input as DescMessage,
        assignment.request,
      ) as RpcRequestInit<JobRpcName>;
      const own = {
        ...request,
        options: create(JobOptionsSchema, { requestId: randomUUID(), ...NO_LIMITS }),
      } as RpcRequestInit<JobRpcName>;
      for await (const event of local.start(method, own)) {
        running.job = event.job;
        if (running.stopped) await this.#cancel(event.job);
        if (running.givenBack) continue;
        await this.#storeArtifacts(event);
        if (!running.givenBack) await this.#say({ case: 'event', value: { lease, event } });
      }
    } catch (thrown) {
      options.logger.warn({ job, err: thrown }, 'a job could not be carried out');
      await this.#stopRunning();
      if (!running.givenBack) await this.#sayFailed(lease, asFlashcoreError(thrown));
    } finally {
      if (this.#running === running) this.#running = undefined;
    }
  }

  /** What is wrong with the request is wrong on every node; with anything else another may fare better. */
  async #sayFailed(lease: bigint, { reason, message }: FlashcoreError): Promise<void> {
    if (!OF_THE_REQUEST.includes(reason)) return this.#say({ case: 'giveBack', value: { lease, reason: message } });
    const end = create(JobFinishedSchema, { outcome: Outcome.ERROR, summary: message, error: { reason, message } });
    await this.#say({ case: 'event', value: { lease, event: { payload: { case: 'finished', value: end } } } });
  }

  async #fetchSources({ files }: Assignment): Promise<void> {
    const { sources } = this.#parts.runner;
    for (const sha256 of sources.findMissing(files)) {
      const { data } = await this.#call<ReadSourceResponse>('readSource', create(ReadSourceRequestSchema, { sha256 }));
      const writer = sources.openUpload();
      writer.write(data);
      writer.keep(sha256);
    }
  }

  /** What an event names is at the gateway before the event is. */
  async #storeArtifacts(event: JobEvent): Promise<void> {
    const { artifacts } = this.#parts.runner;
    for (const { sha256, sizeBytes } of artifactsIn(event)) {
      if (sizeBytes > MAX_FILE_BYTES) continue;
      const { kept } = await this.#call<StoreArtifactResponse>(
        'storeArtifact',
        create(StoreArtifactRequestSchema, { sha256 }),
      );
      if (kept) continue;
      const data = new Uint8Array(artifacts.get(sha256));
      await this.#call('storeArtifact', create(StoreArtifactRequestSchema, { sha256, data }));
    }
  }

  #call<Response>(name: string, request: unknown): Promise<Response> {
    const { path, requestSerialize, responseDeserialize } = methodOf<unknown, Response>(name);
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${this.#session}`);
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.#channel.makeUnaryRequest(
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

  /** Gives the job back at once; nobody knows how long is left. */
  async #leave(reason: string): Promise<void> {
    // First, or the gateway would give it the next job.
    await this.#say({ case: 'leaving', value: { reason } });
    const running = this.#running;
    if (!running) return;
    running.givenBack = true;
    await this.#say({ case: 'giveBack', value: { lease: running.lease, reason } });
  }

  async #stopRunning(): Promise<void> {
    const running = this.#running;
    if (!running || running.stopped) return;
    running.stopped = true;
    if (running.job !== undefined) await this.#cancel(running.job);
  }

  async #cancel(job: string): Promise<void> {
    await this.#parts.local.cancelJob({ name: job }).catch((error: unknown) => {
      this.#parts.options.logger.warn({ err: error, job }, 'a job could not be stopped');
    });
  }
}

const methodOf = <Request, Response>(name: string): MethodDefinition<Request, Response> =>
  fleetServiceDefinition[name] as MethodDefinition<Request, Response>;

const secondsLeft = ({ endsAtMs }: PilotOptions): bigint =>
  endsAtMs === Infinity ? 0n : BigInt(Math.max(1, Math.round((endsAtMs - Date.now()) / 1000)));

/** Only the gateway's own word ends a pilot; a network or a gateway that is away may come back. */
const isRefusal = (error: Error): boolean =>
  [status.INVALID_ARGUMENT, status.FAILED_PRECONDITION, status.UNAUTHENTICATED].includes(
    (error as { code?: number }).code ?? status.UNKNOWN,
  );

/** The artifacts that a message names, wherever they stand in it. */
export function artifactsIn(message: unknown): Artifact[] {
  if (message === null || typeof message !== 'object' || message instanceof Uint8Array) return [];
  if ((message as Artifact).$typeName === 'flashcore.runner.v1.Artifact') return [message as Artifact];
  return Object.values(message).flatMap(artifactsIn);
}
