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
  /** The kernel of the request, where it has one. */
  kernel: ResolvedKernel | undefined;
  /** Build of the device's champion, to compare an experiment with; undefined: with none but the request's. */
  championBuild: string | undefined;
  /** What the gateway decided about the run; undefined: it is no experiment. */
  assigned: AssignedRun | undefined;
}

/** What a request may have of a kernel to build. */
interface Named {
  kernel?: KernelReference | undefined;
  variant?: Variant | undefined;
  champion?: KernelVariant | undefined;
  settings?: BenchmarkSettings | undefined;
  benchmark?: BenchmarkSettings | undefined;
  assigned?: AssignedRun | undefined;
}

/**
 * A client's request as a pilot gets it, in protobuf's binary form: kernels and builds of the gateway are source trees,
 * so that any node can carry it out, and what is about this gateway's queue is left out. Errors: as for the kernels.
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
  if (championBuild !== undefined) {
    copy.benchmark ??= create(BenchmarkSettingsSchema);
    copy.benchmark.champion = create(KernelVariantSchema, { kernel: buildReference(championBuild) });
  }
  const settings = copy[measured];
  if (settings?.champion) settings.champion = asTree(settings.champion);
  if (assigned) copy.assigned = assigned;
  // The gateway keeps the time and the queue, and each attempt is a job of its own there.
  copy.options = create(JobOptionsSchema);
  return toBinary(schema, copy as never);
}

/** What a pilot is asked to do: its request, and the files of all its source trees. */
export interface Asked {
  request: Uint8Array;
  files: SourceFile[];
  /** What it builds, where it names a kernel. */
  kernel: KernelVariant | undefined;
  assigned: AssignedRun | undefined;
}

/** Reads a request that pilotRequest() made. */
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
