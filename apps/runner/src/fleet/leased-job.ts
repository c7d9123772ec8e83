import { randomUUID } from 'node:crypto';
import { create, fromBinary, type DescMessage } from '@bufbuild/protobuf';
import type { JobRpcName, RpcRequestInit, RunnerClient } from '@flashcore/shared/client';
import {
  JobFinishedSchema,
  JobOptionsSchema,
  KernelRunnerService,
  Outcome,
  FlashcoreError,
  asFlashcoreError,
  parseSha256,
  sha256Of,
  type Artifact,
  type JobEvent,
} from '@flashcore/shared/contract';
import {
  MAX_FILE_BYTES,
  ReadBuildRequestSchema,
  ReadSourceRequestSchema,
  StoreArtifactRequestSchema,
  type Assignment,
  type Compilation,
  type ReadBuildResponse,
  type ReadSourceResponse,
  type StoreArtifactResponse,
} from '@flashcore/shared/fleet';
import { entryOf } from '@flashcore/shared/text';
import type { AssignedBuild, AssignedBuilds } from '../build/assigned-builds.ts';
import type { OutputKind } from '../build/compile-unit.ts';
import type { Logger } from '../log.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { SourceStore } from '../store/sources.ts';
import type { Say } from './pilot-connection.ts';

/** The parts of its pilot that a leased job uses. */
export interface LeasedJobOptions {
  /** Client of the pilot's own runner. */
  local: RunnerClient;
  sources: SourceStore;
  artifacts: ArtifactStore;
  /** The owner of each request by its request_id, for the runner to look up. */
  owners: Map<string, string>;
  /** The gateway's compilations, for the runner to look up; undefined if the runner compiles everything itself. */
  assigned?: AssignedBuilds | undefined;
  /** Calls the gateway, and tries again while it is unreachable. Errors: the gateway's, the signal's. */
  call: <Response>(name: string, request: unknown, signal: AbortSignal) => Promise<Response>;
  logger: Logger;
}

/** Errors that the request itself causes, so that every node would report them. */
const OF_THE_REQUEST: readonly FlashcoreError['reason'][] = [
  'INVALID_REQUEST',
  'INVALID_MANIFEST',
  'INVALID_VARIANT',
  'SHAPE_UNSUPPORTED',
  'KERNEL_NOT_FOUND',
  'NOT_IMPLEMENTED',
];
/**
 * Errors of the node, and their remedies. The job ends with the error although another node might run it: a pilot that
 * gave the job back would get no further jobs.
 */
const OF_THE_NODE: Readonly<Record<string, string>> = {
  DISK_FULL: "Free space on the disk of the node's scratch folder, or lower scratch_gib",
  STORE_UNAVAILABLE: "Look at the disk of the node's scratch folder",
  DEVICE_UNAVAILABLE: "Look at the node's GPU",
};
/** The gateway enforces the time limits of jobs and of their queue, so the pilot's runner gets very long limits. */
const NO_LIMITS = { maxRunSeconds: 604_800, maxQueueSeconds: 604_800 };

/**
 * A job that a pilot has. It runs on the pilot's own runner, whose log keeps its events. If the connection to the
 * gateway breaks, events can be sent again from any number on.
 */
export class LeasedJob {
  readonly lease: bigint;
  readonly #options: LeasedJobOptions;
  /** Aborted when the pilot loses the job; nothing more is sent about it. */
  readonly #dropped = new AbortController();
  /** Name of the job on the pilot's own runner. */
  readonly #name: Promise<string>;
  #stopped = false;

  constructor(assignment: Assignment, options: LeasedJobOptions) {
    this.lease = assignment.lease;
    this.#options = options;
    options.logger.info(
      { job: assignment.job, lease: String(assignment.lease), attempt: assignment.attempt },
      'a job was assigned',
    );
    this.#name = this.#begin(assignment);
    // The error reaches the gateway through tell(), which awaits the name.
    this.#name.catch((thrown: unknown) => {
      options.logger.warn({ job: assignment.job, err: thrown }, 'a job could not be carried out');
    });
  }

  get dropped(): boolean {
    return this.#dropped.signal.aborted;
  }

  /** Sends the events after `afterSequence` until the job ends or the link is over. May be called again. */
  async tell(afterSequence: bigint, { say, over }: { say: Say; over: AbortSignal }): Promise<void> {
    const signal = AbortSignal.any([over, this.#dropped.signal]);
    try {
      for await (const event of this.#options.local.watch(await this.#name, { afterSequence, signal })) {
        const fault = faultOfNode(event);
        if (fault !== undefined) return await say({ case: 'giveBack', value: { lease: this.lease, reason: fault } });
        await this.#storeArtifacts(event, signal);
        if (signal.aborted) return;
        await say({ case: 'event', value: { lease: this.lease, event } });
      }
    } catch (thrown) {
      if (signal.aborted) return;
      await this.#sayFailed(asFlashcoreError(thrown), say);
    }
  }

  /** Cancels the job. Its last event reports that it was cancelled. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    const { local, logger } = this.#options;
    try {
      await local.cancelJob({ name: await this.#name });
    } catch (error) {
      logger.warn({ err: error, lease: String(this.lease) }, 'a job could not be stopped');
    }
  }

  /** Cancels the job, and sends nothing more about it. */
  drop(): void {
    this.#dropped.abort();
    void this.stop();
  }

  async #begin(assignment: Assignment): Promise<string> {
    await Promise.all([this.#fetchSources(assignment), this.#fetchBuilds(assignment)]);
    const method = assignment.method as JobRpcName;
    const request = fromBinary(KernelRunnerService.method[method].input as DescMessage, assignment.request);
    const requestId = randomUUID();
    const own = {
      ...request,
      options: create(JobOptionsSchema, { requestId, ...NO_LIMITS }),
    } as unknown as RpcRequestInit<JobRpcName>;
    const { local, owners } = this.#options;
    owners.set(requestId, assignment.owner);
    try {
      const events = local.start(method, own);
      const { value: created } = (await events.next()) as { value: JobEvent };
      // Ends this stream, not the job, which tell() will watch.
      await events.return(undefined);
      return created.job;
    } finally {
      owners.delete(requestId);
    }
  }

  /**
   * Reports an error. If the request caused it, the job ends, because every node would report the same. Otherwise the
   * job is given back, because another node may succeed.
   */
  async #sayFailed({ reason, message }: FlashcoreError, say: Say): Promise<void> {
    const { lease } = this;
    if (!OF_THE_REQUEST.includes(reason)) return say({ case: 'giveBack', value: { lease, reason: message } });
    const end = create(JobFinishedSchema, { outcome: Outcome.ERROR, summary: message, error: { reason, message } });
    await say({ case: 'event', value: { lease, event: { payload: { case: 'finished', value: end } } } });
  }

  async #fetchSources({ files }: Assignment): Promise<void> {
    const { sources, call } = this.#options;
    for (const sha256 of sources.findMissing(files)) {
      const request = create(ReadSourceRequestSchema, { sha256 });
      const { data } = await call<ReadSourceResponse>('readSource', request, this.#dropped.signal);
      const writer = sources.openUpload();
      writer.write(data);
      const found = writer.digest();
      if (found === sha256) writer.keep(sha256);
      else {
        writer.close();
        throw new FlashcoreError('DIGEST_MISMATCH', { sha256, found }, `The gateway sent ${found} for ${sha256}`);
      }
    }
  }

  /** Fetches the gateway's compilations. A unit whose compilation can't be fetched is compiled here. */
  async #fetchBuilds({ compilations }: Assignment): Promise<void> {
    const { assigned, artifacts, call, logger } = this.#options;
    if (!assigned) return;
    for (const sha256 of compilations.flatMap(({ files }) => files.map((file) => parseSha256(file.sha256)))) {
      if (artifacts.has(sha256)) continue;
      const request = create(ReadBuildRequestSchema, { sha256 });
      try {
        const { data } = await call<ReadBuildResponse>('readBuild', request, this.#dropped.signal);
        const found = sha256Of(data);
        if (found === sha256) artifacts.put(data);
        else logger.warn({ sha256, found }, 'a compiled file came damaged');
      } catch (error) {
        if (!(error instanceof FlashcoreError) || error.reason !== 'ARTIFACT_NOT_FOUND') throw error;
        logger.warn({ sha256 }, 'the gateway does not have a compiled file any more');
      }
    }
    assigned.replace(compilations.map(assignedBuild));
  }

  /** Stores an event's artifacts at the gateway, before the event is sent. */
  async #storeArtifacts(event: JobEvent, signal: AbortSignal): Promise<void> {
    const { artifacts, call } = this.#options;
    for (const { sha256: name, sizeBytes } of artifactsIn(event)) {
      if (sizeBytes > MAX_FILE_BYTES) continue;
      const sha256 = parseSha256(name);
      const asked = create(StoreArtifactRequestSchema, { sha256 });
      const { kept } = await call<StoreArtifactResponse>('storeArtifact', asked, signal);
      if (kept) continue;
      const data = new Uint8Array(artifacts.get(sha256));
      await call('storeArtifact', create(StoreArtifactRequestSchema, { sha256, data }), signal);
    }
  }
}

/** The problem with this node, if it ended the job; otherwise undefined. */
function faultOfNode({ payload }: JobEvent): string | undefined {
  if (payload.case !== 'finished' || payload.value.outcome !== Outcome.ERROR) return undefined;
  const { reason = '', message = '' } = payload.value.error ?? {};
  const remedy = entryOf(OF_THE_NODE, reason);
  return remedy === undefined ? undefined : `${remedy}: ${message || payload.value.summary}`;
}

const assignedBuild = (compilation: Compilation): AssignedBuild => {
  const { compiler, version, key, host, seconds, exitCode, timedOut, lines, files } = compilation;
  const outputs = files.map(({ sha256, fileName, kind, sizeBytes }) => ({
    sha256: parseSha256(sha256),
    fileName,
    kind: kind as OutputKind,
    sizeBytes: Number(sizeBytes),
  }));
  return { compiler, version, record: { key, host, seconds, exitCode, timedOut, lines, outputs } };
};

/** All artifacts anywhere inside a message. */
function artifactsIn(message: unknown): Artifact[] {
  if (message === null || typeof message !== 'object' || message instanceof Uint8Array) return [];
  if ((message as Artifact).$typeName === 'flashcore.runner.v1.Artifact') return [message as Artifact];
  return Object.values(message).flatMap(artifactsIn);
}
