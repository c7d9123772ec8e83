/** The source of a report's results: a runner, or files with fa-tui's JSON output. */
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fromJson, type DescMessage, type JsonObject, type JsonValue, type MessageShape } from '@bufbuild/protobuf';
import {
  GetJobResponseSchema,
  JobKind,
  JobState,
  ListChampionsResponseSchema,
  Outcome,
  plainMessage,
  withCurrentNames,
  type Champion,
  type Decision,
  type GetJobResponse,
  type Job,
  type Kernel,
  type JobEvent,
} from '@flashcore/shared/contract';
import { listedJobs, type RunnerClient } from '@flashcore/shared/client';
import { readForeignText } from '@flashcore/shared/files';
import { errorText } from '@flashcore/shared/text';
import { jobSpans } from '@flashcore/shared/trace';
import { secondsOf } from '../present/numbers.ts';
import { UsageError } from '../exit-code.ts';

interface JobFilter {
  readonly kernelId?: string;
  /** Seconds since 1970; jobs that ended earlier are left out. */
  readonly since?: number;
  readonly most: number;
}

export interface ResultSource {
  /**
   * The newest `most` ended jobs that match the filter, oldest first, without passed builds. `leftOut` says whether
   * older jobs matched too, if this is known.
   */
  list(filter: JobFilter): Promise<{ jobs: GetJobResponse[]; leftOut: boolean }>;
  /** The champions and decisions of one kernel or of all kernels. */
  trail(kernelId: string): Promise<{ champions: Champion[]; decisions: Decision[] }>;
  kernel(kernelId: string): Promise<Kernel | undefined>;
}

const PAGE_SIZE = 200;
/** From a job's submission to its end, at most. */
const LONGEST_JOB_SECONDS = 7 * 86_400;

/** False for a passed build, which does not judge anything; every export creates one. */
const triedSomething = (job: Job | undefined): boolean => job?.kind !== JobKind.BUILD || job.outcome !== Outcome.PASSED;

export class RunnerSource implements ResultSource {
  readonly #client: RunnerClient;

  constructor(client: RunnerClient) {
    this.#client = client;
  }

  async list({ kernelId = '', since = 0, most }: JobFilter): Promise<{ jobs: GetJobResponse[]; leftOut: boolean }> {
    const { found, leftOut } = await this.#names(kernelId, since, most);
    const jobs: GetJobResponse[] = [];
    for (const { name } of found.toReversed()) jobs.push(await this.#client.getJob({ name }));
    return { jobs, leftOut };
  }

  async #names(kernelId: string, since: number, most: number): Promise<{ found: Job[]; leftOut: boolean }> {
    const found: Job[] = [];
    for await (const job of listedJobs(this.#client, { pageSize: PAGE_SIZE, kernelId, state: JobState.ENDED })) {
      // Jobs are in the order in which they were submitted, the newest first. One that waited or ran over the night was
      // submitted before it.
      if (secondsOf(job.createTime) < since - LONGEST_JOB_SECONDS) return { found, leftOut: false };
      if (!triedSomething(job) || secondsOf(job.endTime) < since) continue;
      if (found.length === most) return { found, leftOut: true };
      found.push(job);
    }
    return { found, leftOut: false };
  }

  async trail(kernelId: string): Promise<{ champions: Champion[]; decisions: Decision[] }> {
    return this.#client.listChampions({ kernelId, includeDecisions: true });
  }

  async kernel(kernelId: string): Promise<Kernel | undefined> {
    return (await this.#client.getKernel({ kernelId })).kernel;
  }
}

/**
 * Reads the JSON that --json prints about ended jobs and for `fa-tui champions --trail`. In a folder, subfolders and
 * other JSON are skipped. A file that the user names must contain one of these documents.
 */
export class FileSource implements ResultSource {
  readonly jobs: readonly GetJobResponse[];
  readonly #champions: Champion[] = [];
  readonly #decisions: Decision[] = [];

  constructor(places: readonly string[]) {
    const jobs: GetJobResponse[] = [];
    for (const { file, named } of places.flatMap(filesOf)) {
      const json = readJson(file);
      if (isJob(json)) jobs.push(messageOf(GetJobResponseSchema, json));
      else if (isTrail(json)) this.#add(json);
      else if (named)
        throw new UsageError(`${file}: must be what --json prints of an ended job or of champions --trail`);
    }
    this.jobs = jobs
      .filter(({ job }) => job?.state === JobState.ENDED)
      .toSorted((a, b) => secondsOf(a.job?.createTime) - secondsOf(b.job?.createTime));
    if (this.jobs.length === 0) throw new UsageError(`--from ${places.join(' ')}: there is no ended job's JSON`);
  }

  #add(json: JsonValue): void {
    const { champions, decisions } = messageOf(ListChampionsResponseSchema, json);
    this.#champions.push(...champions);
    this.#decisions.push(...decisions);
  }

  list({ kernelId = '', since = 0, most }: JobFilter): Promise<{ jobs: GetJobResponse[]; leftOut: boolean }> {
    const fitting = this.jobs.filter(
      ({ job }) =>
        (kernelId === '' || job?.kernelId === kernelId) && secondsOf(job?.endTime) >= since && triedSomething(job),
    );
    return Promise.resolve({ jobs: fitting.slice(-most), leftOut: fitting.length > most });
  }

  trail(kernelId: string): Promise<{ champions: Champion[]; decisions: Decision[] }> {
    const names = new Set(this.jobs.filter(({ job }) => job?.kernelId === kernelId).map(({ job }) => job?.name));
    return Promise.resolve({
      champions: this.#champions.filter((each) => kernelId === '' || each.kernelId === kernelId),
      decisions: this.#decisions.filter(({ job }) => kernelId === '' || names.has(job)),
    });
  }

  kernel(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
}

/** Cleans the texts, as the texts from a runner are cleaned, because files can come from anywhere. */
const messageOf = <Schema extends DescMessage>(schema: Schema, json: JsonValue): MessageShape<Schema> =>
  plainMessage(schema, fromJson(schema, json, { ignoreUnknownFields: true }));

function filesOf(place: string): { file: string; named: boolean }[] {
  try {
    if (!statSync(place).isDirectory()) return [{ file: place, named: true }];
    return readdirSync(place)
      .filter((name) => name.endsWith('.json'))
      .sort()
      .map((name) => ({ file: path.join(place, name), named: false }));
  } catch (error) {
    throw new UsageError(`--from ${place}: cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

function readJson(file: string): JsonValue {
  try {
    return withCurrentNames(JSON.parse(readForeignText(file, MAX_RESULT_BYTES))) as JsonValue;
  } catch (error) {
    throw new UsageError(`${file}: is not JSON (${errorText(error)})`);
  }
}

/** A job's result with all its cases takes about 100 KiB. */
const MAX_RESULT_BYTES = 64 * 2 ** 20;

const isObject = (json: JsonValue): json is JsonObject =>
  typeof json === 'object' && json !== null && !Array.isArray(json);
const isJob = (json: JsonValue): boolean => isObject(json) && isObject(json['job'] ?? null) && 'result' in json;
const isTrail = (json: JsonValue): boolean =>
  isObject(json) && (Array.isArray(json['champions']) || Array.isArray(json['decisions']));

const PROCESS = 1;

/** A job's spans as trace events for Perfetto and chrome://tracing, with tracks for queue, device and compilers. */
export function traceOf(events: readonly JobEvent[]): unknown {
  const spans = jobSpans(events);
  const tracks = [...new Set(spans.map(({ track }) => track))];
  return {
    displayTimeUnit: 'ms',
    traceEvents: [
      named('process_name', 0, 'flashcore runner'),
      ...tracks.map((track, index) => named('thread_name', index + 1, track)),
      ...spans.map(({ kind, name, fromUs, untilUs, track, attributes }) => ({
        ph: 'X',
        name,
        cat: kind,
        ts: fromUs,
        dur: untilUs - fromUs,
        pid: PROCESS,
        tid: tracks.indexOf(track) + 1,
        args: attributes,
      })),
    ],
  };
}

const named = (kind: string, track: number, name: string): unknown => ({
  ph: 'M',
  name: kind,
  pid: PROCESS,
  tid: track,
  args: { name },
});
