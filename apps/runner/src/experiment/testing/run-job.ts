import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  BenchmarkRequestSchema,
  BuildRequestSchema,
  KernelReferenceSchema,
  ProfileRequestSchema,
  RunExperimentRequestSchema,
  TuneRequestSchema,
  VerifyRequestSchema,
  type JobResult,
} from '@flashcore/shared/contract';
import { createLogger } from '../../log.ts';
import { KernelCatalog } from '../../kernels.ts';
import type { JobMethod, JobOutcome, JobPayload, JobPlanner, JobRequests } from '../../jobs/job-context.ts';
import { ArtifactStore } from '../../store/artifacts.ts';
import { BuildStore, SourceStore } from '../../store/sources.ts';
import { openDatabase } from '../../store/database.ts';
import { DecisionStore } from '../../store/decisions.ts';
import { MeasuredSteps } from '../../store/measured-steps.ts';
import { TEST_HOST } from '../../testing/test-host.ts';
import { createPlanner, type PlannerOptions } from '../planner.ts';

const SCHEMAS = {
  build: BuildRequestSchema,
  verify: VerifyRequestSchema,
  benchmark: BenchmarkRequestSchema,
  profile: ProfileRequestSchema,
  runExperiment: RunExperimentRequestSchema,
  tune: TuneRequestSchema,
} as const;

const repositoryRoot = fileURLToPath(new URL('../../../../../', import.meta.url));

export interface RunOptions {
  signal?: AbortSignal;
  onEvent?: (payload: JobPayload) => void;
  /** Receives the partial result of a body that throws. */
  onKept?: (found: JobResult) => void;
  /** Receives the outcome of a job that is decided before its body ends. */
  onDecided?: (end: JobOutcome) => void;
}

export interface TestPlanner {
  planner: JobPlanner;
  artifacts: ArtifactStore;
  builds: BuildStore;
  dataDirectory: string;
  run<Method extends JobMethod>(
    method: Method,
    request: MessageInitShape<(typeof SCHEMAS)[Method]>,
    options?: RunOptions,
  ): Promise<{ outcome: JobOutcome; events: JobPayload[] }>;
  /** Uploads a kernel folder, as a client would. */
  upload(files: Record<string, string>): KernelInit;
  close(): Promise<void>;
}

type KernelInit = MessageInitShape<typeof KernelReferenceSchema>;

/**
 * A planner for the repository's kernels, without a job queue or a server. With `dataDirectory`, a test can use an
 * earlier planner's cache.
 */
export function openTestPlanner(
  keptDirectory?: string,
  {
    isolation = 'auto',
    host = TEST_HOST,
    heldOut = [],
    emulatorEngine = 'auto',
    headers = [],
  }: Pick<PlannerOptions, 'isolation' | 'host' | 'heldOut' | 'emulatorEngine' | 'headers'> = {},
): TestPlanner {
  const dataDirectory = keptDirectory ?? mkdtempSync(join(tmpdir(), 'flashcore-planner-'));
  const database = openDatabase(join(dataDirectory, 'flashcore.db'));
  const sources = new SourceStore(join(dataDirectory, 'sources'));
  const builds = new BuildStore(database);
  const artifacts = new ArtifactStore(join(dataDirectory, 'artifacts'));
  const kernelsDirectory = join(repositoryRoot, 'kernels');
  const planner = createPlanner({
    host,
    isolation,
    heldOut,
    emulatorEngine,
    headers,
    version: '0.0.0',
    buildId: 'test',
    repositoryRoot,
    kernelsDirectory,
    dataDirectory,
    artifacts,
    sources,
    steps: new MeasuredSteps(database),
    kernels: new KernelCatalog(kernelsDirectory, sources, builds),
    decisions: new DecisionStore(database),
    logger: createLogger('silent'),
  });
  return {
    planner,
    artifacts,
    builds,
    dataDirectory,
    async run(method, request, { signal = new AbortController().signal, onEvent, onKept, onDecided } = {}) {
      await planner.prepare();
      const planned = planner.planJob(
        method,
        create(SCHEMAS[method], request as never) as unknown as JobRequests[typeof method],
        () => 0,
      );
      const events: JobPayload[] = [];
      const device = planner.devices().find(({ deviceId }) => deviceId === planned.deviceId)!;
      const emit = (payload: JobPayload): void => {
        events.push(payload);
        onEvent?.(payload);
      };
      const outcome = await planned.body!({
        name: 'jobs/test',
        owner: 'local',
        signal,
        device,
        emit,
        hasDevice: () => undefined,
        keep: (found) => onKept?.(found),
        decide: (end) => onDecided?.(end),
      });
      return { outcome, events };
    },
    upload(files) {
      const described = Object.entries(files).map(([path, text]) => {
        const writer = sources.openUpload();
        writer.write(Buffer.from(text));
        const sha256 = writer.digest();
        writer.keep(sha256);
        return { path, sha256, sizeBytes: BigInt(Buffer.byteLength(text)) };
      });
      return { source: { case: 'tree', value: { files: described } } };
    },
    async close() {
      await planner.close();
      database.close();
      if (!keptDirectory) rmSync(dataDirectory, { recursive: true, force: true });
    },
  };
}

/** The events without the warning that each job gets on a host without a sandbox. */
export const withoutBoxWarning = (events: readonly JobPayload[]): JobPayload[] =>
  events.filter((event) => event.case !== 'warning' || !event.value.message.startsWith('No box: '));

interface RowKernel {
  /** Source text before the kernel. */
  readonly before?: string;
  /** More keys of the manifest, a line each. */
  readonly keys?: string;
  /** The body of ROW_KERNEL (kernels/faulty/attend_row.cuh). */
  readonly body: string;
}

/** The files of a kernel with one thread per row of O, for head dimension 64. */
export const rowKernel = <Id extends string>(id: Id, { before = '', keys = '', body }: RowKernel) =>
  ({
    'kernel.yaml': `id: ${id}
title: "${id}"
lesson: "a fixture of a test"
source: ${id}.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
${keys}
launches:
  - { entry: ${id}, grid: ["ceil(S / 64)", "B * H", 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, scale, causal] }
`,
    [`${id}.cu`]: `#include "faulty/attend_row.cuh"
${before}
ROW_KERNEL(${id}) {
  ${body}
}
`,
  }) as Record<'kernel.yaml' | `${Id}.cu`, string>;
