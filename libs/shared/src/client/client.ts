/**
 * The typed client of a runner: unary calls, jobs as event streams that survive dropped connections, source upload,
 * artifacts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { Client, status, type ServiceError } from '@grpc/grpc-js';
import { artifactBytes, type ArtifactOptions } from './artifact-bytes.ts';
import { callStreaming, callUnary, callUpload } from './calls.ts';
import { channelCredentials, endOfCertificate, tlsChannelOptions, type ClientSecurity } from './client-security.ts';
import { connectionError, connectionLost, isCut, versionMismatch, type Attempt } from './connection-error.ts';
import { errorFromStatus, hasErrorDetails } from '../contract/error-status.ts';
import { invalidRequest } from '../contract/errors.ts';
import type { Host } from '../generated/flashcore/runner/v1/capabilities_pb.js';
import type { Job } from '../generated/flashcore/runner/v1/job_pb.js';
import { type KernelReference, KernelReferenceSchema } from '../generated/flashcore/runner/v1/kernel_pb.js';
import {
  type Caller,
  KernelRunnerService,
  UploadSourcesRequestSchema,
} from '../generated/flashcore/runner/v1/service_pb.js';
import {
  API_VERSION,
  CLIENT_CHANNEL_OPTIONS,
  type JobRpcName,
  type RpcRequestInit,
  type RpcResponse,
  UNARY_RPCS,
  type UnaryRpcName,
  unaryRequest,
  withRequestId,
} from './grpc.ts';
import { jobEvents, type JobEvents, type Link, type WatchOptions } from './job-events.ts';
import { isServiceError, ResumePolicy, type ResumeOptions } from './resume.ts';
import { gitState } from '../files/git-state.ts';
import { readSourceTree } from '../kernels/source-tree.ts';

/**
 * How long a runner may take to answer first. A Unix socket without a runner refuses at once, so a silent socket
 * belongs to a busy runner. A host on the network may drop what it is sent, unless it has already spoken HTTP/2.
 */
const GREETING_TIMEOUT_MS = { busy: 10_000, network: 2_500 };
/** In the details of a call that was sent: the peer has spoken HTTP/2. */
const SENT = /remote_addr=/;
const UNARY_TIMEOUT_MS = 30_000;
const UPLOAD_TIMEOUT_MS = 300_000;
/** Pauses before each retry of a cut call. */
const AGAIN_AFTER_MS = [50, 200, 500];

export interface ConnectOptions {
  /** "host:port" or "unix:/path". */
  address: string;
  signal?: AbortSignal | undefined;
  /** Set for a runner that serves TLS; undefined: plain text. */
  security?: ClientSecurity | undefined;
  /** The runner's name in texts; default: the address. */
  name?: string | undefined;
  /** How long to wait for the greeting; default: 2.5 s, on a Unix socket 10 s. */
  timeoutMs?: number | undefined;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Time limit of the call; default 30 s. */
  timeoutMs?: number | undefined;
  /** If set, the call waits for a lost runner, as a job's stream does; by default it gives up within a second. */
  resume?: ResumeOptions | undefined;
}

/** Requests that may be left out, because all their fields have defaults. */
type AskedWithoutRequest = Extract<UnaryRpcName, `list${string}` | 'getHost' | 'getLeaderboard'>;

/** A method for each unary RPC. */
type UnaryCalls = {
  readonly [Name in UnaryRpcName]: (
    ...given: Name extends AskedWithoutRequest
      ? [request?: RpcRequestInit<Name>, options?: CallOptions]
      : [request: RpcRequestInit<Name>, options?: CallOptions]
  ) => Promise<RpcResponse<Name>>;
};

/** Declares the methods that the constructor makes from the service's descriptor. */
const WithUnaryCalls = class {} as new () => UnaryCalls;

/**
 * A connection to one runner. All methods throw FlashcoreError with the runner's reason, or with RUNNER_UNREACHABLE if
 * the runner is lost. An aborted call throws the signal's reason.
 */
export class RunnerClient extends WithUnaryCalls {
  /** The runner's name in texts. */
  readonly address: string;
  readonly #link: Link;
  readonly #attempt: Attempt;
  #greeting: Greeting | undefined;

  private constructor({ address, security, name = address }: ConnectOptions) {
    super();
    for (const rpc of UNARY_RPCS) {
      const call = (request?: RpcRequestInit<typeof rpc>, options?: CallOptions) => this.#unary(rpc, request, options);
      Object.defineProperty(this, rpc, { value: call, enumerable: true });
    }
    this.address = name;
    this.#attempt = {
      address: name,
      secured: security !== undefined,
      withCertificate: security?.certificate !== undefined,
      certificateEnds: security?.certificate && endOfCertificate(security.certificate),
    };
    const channel = new Client(address, channelCredentials(address, security), {
      ...CLIENT_CHANNEL_OPTIONS,
      ...tlsChannelOptions(address, security),
    });
    this.#link = { channel, address: name };
  }

  /**
   * Connects to a runner and checks that it speaks this API. Errors, soon after the time limit: RUNNER_UNREACHABLE,
   * UNAUTHENTICATED, VERSION_MISMATCH; INVALID_REQUEST for an invalid address.
   */
  static async connect(options: ConnectOptions): Promise<RunnerClient> {
    requireAddress(options.address);
    const client = new RunnerClient(options);
    try {
      client.#greeting = await client.#greet(options);
      return client;
    } catch (error) {
      client.close();
      throw error;
    }
  }

  /** GetHost's answer when the connection was made. */
  get host(): Host {
    return this.#greeting!.host;
  }

  /** The runner's view of who this client is; undefined if the runner is older than roles. */
  get caller(): Caller | undefined {
    return this.#greeting!.caller;
  }

  /**
   * Digest of the rules by which the runner judged when the connection was made; empty if the runner is older than the
   * digest.
   */
  get judgingDigest(): string {
    return this.#greeting!.judgingDigest;
  }

  /**
   * Starts a job and yields its events until `finished`. A dropped stream is resumed through WatchJob. The request
   * carries a UUID (the caller's or a new one), so a stream that drops before its first event does not start a second
   * job. Errors: those of the RPC before the first event; afterwards RUNNER_UNREACHABLE.
   */
  start<Name extends JobRpcName>(method: Name, request: RpcRequestInit<Name>, options: ResumeOptions = {}): JobEvents {
    const identified = withRequestId(method, request);
    const begin = (onHeaders: () => void) =>
      callStreaming(this.#link.channel, method, identified, { signal: options.signal, onHeaders });
    return jobEvents(this.#link, { begin, name: undefined, afterSequence: 0n }, options);
  }

  /**
   * Yields a job's events after a given one until `finished`; a dropped stream is resumed. Errors: JOB_NOT_FOUND,
   * EVENTS_EXPIRED (unless `onExpired` is set: the stream then starts at the first event still kept),
   * RUNNER_UNREACHABLE.
   */
  watch(job: string, { afterSequence = 0n, ...options }: WatchOptions = {}): JobEvents {
    return jobEvents(this.#link, { begin: undefined, name: job, afterSequence: BigInt(afterSequence) }, options);
  }

  /**
   * Uploads those files of a kernel folder that the runner does not have yet. Errors: INVALID_MANIFEST, INVALID_REQUEST
   * (too large), DISK_FULL.
   */
  async uploadFolder(path: string, options: CallOptions = {}): Promise<KernelReference> {
    const [{ tree, contents }, git] = await Promise.all([readSourceTree(path), gitState(path)]);
    if (git) tree.git = git;
    const { missingSha256 } = await this.findMissingSources({ files: tree.files }, options);
    if (missingSha256.length > 0) {
      await callUpload(this.#link.channel, uploadPieces(missingSha256, contents), {
        timeoutMs: UPLOAD_TIMEOUT_MS,
        ...options,
      }).catch(this.#explain);
    }
    return create(KernelReferenceSchema, { source: { case: 'tree', value: tree } });
  }

  /**
   * Reads an artifact and checks its digest. A dropped stream is resumed where it ended. Errors: ARTIFACT_NOT_FOUND,
   * DIGEST_MISMATCH, RUNNER_UNREACHABLE.
   */
  readArtifact(sha256: string, options: ArtifactOptions = {}): Promise<Buffer> {
    return artifactBytes(this.#link, sha256, options);
  }

  /** Closes the connection, so it no longer keeps the process alive. Running calls end with an error; jobs continue. */
  close(): void {
    this.#link.channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #unary<Name extends UnaryRpcName>(
    name: Name,
    init?: RpcRequestInit<Name>,
    options: CallOptions = {},
  ): Promise<RpcResponse<Name>> {
    const request = unaryRequest(name, init);
    const call = () => callUnary(this.#link.channel, name, request, { timeoutMs: UNARY_TIMEOUT_MS, ...options });
    // Every unary call is safe to repeat: it only reads, repeats a cancellation, or has a request_id. The channel
    // reconnects by itself.
    return (options.resume ? this.#resumed(call, name, options.resume) : this.#again(call)).catch(this.#explain);
  }

  /** Repeats a call until the runner is back, or gives up if it was away for too long. */
  async #resumed<Response>(call: () => Promise<Response>, name: string, options: ResumeOptions): Promise<Response> {
    const policy = new ResumePolicy(this.#link.channel, this.address, options);
    for (;;) {
      try {
        const response = await call();
        policy.progress();
        return response;
      } catch (cause) {
        // The runner is reachable but did not answer before the deadline: do not call it again.
        if (isServiceError(cause) && cause.code === status.DEADLINE_EXCEEDED) throw cause;
        await policy.waitAfter(cause, name);
      }
    }
  }

  /** Repeats a call a few times if its connection was cut. */
  async #again<Response>(
    call: () => Promise<Response>,
    mayPass: (error: ServiceError) => boolean = ({ code }) => code === status.UNAVAILABLE,
  ): Promise<Response> {
    for (const delayMs of AGAIN_AFTER_MS) {
      try {
        return await call();
      } catch (error) {
        if (!isServiceError(error) || hasErrorDetails(error) || !mayPass(error)) throw error;
      }
      await sleep(delayMs);
    }
    return call();
  }

  /** Turns a failed call's error into a FlashcoreError; pass it to catch(). */
  readonly #explain = (error: unknown): never => {
    if (!isServiceError(error)) throw error;
    const lost =
      !hasErrorDetails(error) && (error.code === status.UNAVAILABLE || error.code === status.DEADLINE_EXCEEDED);
    throw lost ? connectionLost(this.address, error) : errorFromStatus(error);
  };

  async #greet({ address, signal, timeoutMs }: ConnectOptions): Promise<Greeting> {
    const request = create(KernelRunnerService.method.getHost.input);
    const startMs = Date.now();
    let limitMs = timeoutMs ?? GREETING_TIMEOUT_MS[address.startsWith('unix:') ? 'busy' : 'network'];
    const call = () =>
      callUnary(this.#link.channel, 'getHost', request, {
        signal,
        timeoutMs: Math.max(1, startMs + limitMs - Date.now()),
      });
    // The greeting does not wait for a runner that never answered. It is repeated after a cut, because a refused
    // certificate first looks like a cut.
    const mayPass = (error: ServiceError): boolean => {
      const isBusy = error.code === status.DEADLINE_EXCEEDED && SENT.test(error.details);
      if (!isBusy || timeoutMs !== undefined || limitMs === GREETING_TIMEOUT_MS.busy) return isCut(error);
      limitMs = GREETING_TIMEOUT_MS.busy;
      return true;
    };
    const { host, caller, judgingDigest } = await this.#again(call, mayPass).catch((error: unknown) => {
      if (!isServiceError(error)) throw error;
      if (hasErrorDetails(error)) throw errorFromStatus(error);
      throw error.code === status.UNIMPLEMENTED
        ? versionMismatch(this.address, 'another service')
        : connectionError(this.#attempt, error);
    });
    if (host?.apiVersion !== API_VERSION) throw versionMismatch(this.address, host?.apiVersion || 'no version');
    return { host, caller, judgingDigest };
  }
}

interface Greeting {
  readonly host: Host;
  readonly caller: Caller | undefined;
  readonly judgingDigest: string;
}

/** Checks the address, because grpc-js accepts nearly any text and uses port 443 if none is given. */
function requireAddress(address: string): void {
  const port = /^(?:\[[0-9a-fA-F:.]+\]|[^\s:/]+):(\d{1,5})$/.exec(address)?.[1];
  if (
    address.startsWith('unix:')
      ? address.length > 'unix:'.length
      : port !== undefined && Number(port) >= 1 && Number(port) <= 65_535
  )
    return;
  throw invalidRequest({ field: 'address', description: `must be host:port or unix:/path, got "${address}"` });
}

const UPLOAD_PIECE_BYTES = 64 * 1024;

/** The upload messages for the files with these digests. */
function* uploadPieces(digests: readonly string[], contents: ReadonlyMap<string, Uint8Array>) {
  for (const sha256 of digests) {
    const bytes = contents.get(sha256);
    // The runner asked for a digest that was never announced, and that no file of this folder has.
    if (bytes === undefined) continue;
    let offset = 0;
    do {
      const data = bytes.subarray(offset, offset + UPLOAD_PIECE_BYTES);
      offset += data.length;
      yield create(UploadSourcesRequestSchema, { sha256, data, finish: offset === bytes.length });
    } while (offset < bytes.length);
  }
}

/**
 * Lists matching jobs, newest first, one page at a time. A page without jobs, or one that names itself as the next
 * page, is treated as the last. Errors: those of ListJobs.
 */
export async function* listedJobs(
  client: Pick<RunnerClient, 'listJobs'>,
  request: Omit<RpcRequestInit<'listJobs'>, '$typeName' | 'pageToken'>,
): AsyncGenerator<Job, void, undefined> {
  for (let pageToken = ''; ;) {
    const { jobs, nextPageToken } = await client.listJobs({ ...request, pageToken });
    yield* jobs;
    if (jobs.length === 0 || nextPageToken === '' || nextPageToken === pageToken) return;
    pageToken = nextPageToken;
  }
}
