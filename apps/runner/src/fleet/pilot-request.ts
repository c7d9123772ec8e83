import { clone, create, fromBinary, toBinary, type DescMessage } from '@bufbuild/protobuf';
import {
  BenchmarkSettingsSchema,
  JobOptionsSchema,
  KernelReferenceSchema,
  KernelRunnerService,
  KernelVariantSchema,
  type AssignedRun,
  type BenchmarkSettings,
  type KernelReference,
  type KernelVariant,
  type SourceFile,
  type Variant,
} from '@flashcore/shared/contract';
import type { JobMethod, JobRequests, KeptRequest } from '../jobs/job-context.ts';
import type { KernelCatalog, ResolvedKernel } from '../kernels.ts';
import type { SourceStore } from '../store/sources.ts';

export interface PilotRequestParts {
  kernels: KernelCatalog;
  sources: SourceStore;
  /** The request's kernel, if it has one. */
  kernel: ResolvedKernel | undefined;
  /**
   * Build id of the device's champion, for the comparison. If undefined, the candidate is compared only with a champion
   * that the request names.
   */
  championBuild: string | undefined;
  /** The gateway's decisions about the run; undefined if it is not an experiment. */
  assigned: AssignedRun | undefined;
}

/** The fields of a request that may name a kernel. */
interface Named {
  kernel?: KernelReference | undefined;
  variant?: Variant | undefined;
  champion?: KernelVariant | undefined;
  settings?: BenchmarkSettings | undefined;
  benchmark?: BenchmarkSettings | undefined;
  assigned?: AssignedRun | undefined;
}

/**
 * A client's request in the binary form that a pilot gets. The gateway's kernels and builds become source trees, so
 * that any node can run the request. Options about the gateway's queue are left out. Errors: as for resolving the
 * kernels.
 */
export function pilotRequest<Method extends JobMethod>(
  method: Method,
  request: JobRequests[Method],
  { kernels, sources, kernel: own, championBuild, assigned }: PilotRequestParts,
): Uint8Array<ArrayBuffer> {
  const schema: DescMessage = KernelRunnerService.method[method].input;
  const copy = clone(schema, request as never) as unknown as Named & JobRequests[Method];
  const asTree = (asked: KernelVariant, kernel = kernels.resolve(asked.kernel!)): KernelVariant => {
    sources.keepFiles(kernel.folder, kernel.files);
    return create(KernelVariantSchema, {
      kernel: { source: { case: 'tree', value: { files: kernel.files, ...(kernel.git && { git: kernel.git }) } } },
      variant: kernel.build?.variant ?? asked.variant,
    });
  };
  if (copy.kernel) {
    const { kernel, variant } = asTree(
      create(KernelVariantSchema, { kernel: copy.kernel, variant: copy.variant }),
      own,
    );
    Object.assign(copy, { kernel, variant });
  }
  if (copy.champion) copy.champion = asTree(copy.champion);
  const measured = method === 'runExperiment' ? 'benchmark' : 'settings';
  if (championBuild !== undefined && method === 'tune') {
    copy.champion = asTree(create(KernelVariantSchema, { kernel: buildReference(championBuild) }));
  } else if (championBuild !== undefined) {
    copy.benchmark ??= create(BenchmarkSettingsSchema);
    copy.benchmark.champion = create(KernelVariantSchema, { kernel: buildReference(championBuild) });
  }
  const settings = copy[measured];
  if (settings?.champion) settings.champion = asTree(settings.champion);
  if (assigned) copy.assigned = assigned;
  // The gateway enforces the time limits and the queue, and each attempt is a new job on a pilot's runner.
  copy.options = create(JobOptionsSchema);
  return toBinary(schema, copy as never);
}

/** A pilot's request, with the files of all source trees in it. */
export interface Asked {
  request: Uint8Array;
  files: SourceFile[];
  /** The kernel to build, if the request names one. */
  kernel: KernelVariant | undefined;
  assigned: AssignedRun | undefined;
}

/** Parses a request that pilotRequest() made. */
export function readPilotRequest({ method, request }: KeptRequest): Asked {
  const schema: DescMessage = KernelRunnerService.method[method].input;
  const { kernel, variant, champion, settings, benchmark, assigned } = fromBinary(schema, request) as unknown as Named;
  const own = kernel && create(KernelVariantSchema, { kernel, ...(variant && { variant }) });
  const trees = [own, champion, settings?.champion, benchmark?.champion].map((one) => one?.kernel?.source);
  const files = trees.flatMap((source) => (source?.case === 'tree' ? source.value.files : []));
  return { request, files, kernel: own, assigned };
}

const buildReference = (buildId: string): KernelReference =>
  create(KernelReferenceSchema, { source: { case: 'buildId', value: buildId } });
