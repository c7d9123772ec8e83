/** Builds a kernel on the runner and fetches everything that exports need. */
import { create } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  BuildRequestSchema,
  FlashcoreError,
  VariantSchema,
  type BuildResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import {
  DEFAULT_PROBLEM,
  inputsOf,
  isCubinSource,
  isPtxSource,
  isSpelledEntry,
  isTritonSource,
  MANIFEST_FILE,
  type Manifest,
  type ManifestArgument,
  manifestOfCompiled,
  manifestOfVariant,
  resolveVariant,
} from '@flashcore/shared/kernels';
import type { RunnerClient } from '@flashcore/shared/client';
import { entryOf, setEntry, plainLine } from '@flashcore/shared/text';
import type { Connection } from '../connection/connect.ts';
import { runToResult } from '../search/experiment.ts';
import { manifestOf, readSource, type SourceFiles, type SourcePlace } from '../search/kernel-source.ts';
import type { StartRequest } from '../session/runner-port.ts';
import { type ExportedKernel, isExported, isExportedInPython } from './exported-kernel.ts';
import type { ExportFormat } from './export-options.ts';
import { lastVerdict, measuredShapes, storedJobs } from './stored-jobs.ts';
import { operatorProblem } from './torch-operator.ts';
import { PAGED_DECODE, SIGNATURES } from './torch-signatures.ts';

/** The license of the kernels that come with a runner. */
const OWN_LICENSE = 'Apache-2.0';

/** Thrown if a kernel is not exported: it does not build, it was not built for a GPU, or it is known to be wrong. */
export class NothingToExport extends Error {}

interface CollectOptions {
  /** True to export the kernel even if the runner found it wrong. */
  readonly unverified: boolean;
  readonly formats: readonly ExportFormat[];
}

/** A kernel to export, and the request for the build to export. */
export interface Wanted {
  readonly place: SourcePlace;
  readonly request: BuildRequest;
}

/**
 * The kernel with everything that exports need; if `backward` is given, also the kernel of the backward pass. Errors:
 * NothingToExport; those of withToldForms(), of the Build RPC, of GetKernel and of ReadArtifact.
 */
export async function collectKernel(
  connection: Connection,
  forward: Wanted,
  backward: Wanted | undefined,
  { unverified, formats }: CollectOptions,
): Promise<ExportedKernel> {
  const variant = await variantOf(connection, forward);
  const { manifest, dtype } = variant;
  const problem = formats.map((format) => exportProblem(manifest, format)).find((each) => each !== undefined);
  if (problem !== undefined) throw new NothingToExport(problem);
  if (backward === undefined) return collect(connection, forward, variant, unverified);
  const second = await variantOf(connection, backward);
  const reason = formats.map((format) => pairProblem(manifest, second.manifest, format)).find(Boolean);
  if (reason !== undefined) throw new NothingToExport(reason);
  if (dtype !== second.dtype)
    throw new NothingToExport(
      `${manifest.id} can't be exported with ${second.manifest.id}: the one takes ${dtype}, the other ${second.dtype}; choose variants of one dtype with --set and --backward-set, for example BF16=1`,
    );
  const kernel = await collect(connection, forward, variant, unverified);
  return { ...kernel, backward: await collect(connection, backward, second, unverified) };
}

interface WantedVariant {
  readonly files: SourceFiles;
  readonly manifest: Manifest;
  readonly dtype: ExportedKernel['dtype'];
}

/** The kernel's files, and the manifest and the dtype of the requested variant. */
async function variantOf({ client }: Connection, { place, request }: Wanted): Promise<WantedVariant> {
  const files = await readSource(place, client);
  const written = manifestOf(files);
  const { parameters, dtype } = resolveVariant(written, request.variant);
  return { files, manifest: manifestOfVariant(written, parameters), dtype };
}

async function collect(
  connection: Connection,
  { place, request }: Wanted,
  { files, manifest }: Omit<WantedVariant, 'dtype'>,
  unverified: boolean,
): Promise<ExportedKernel> {
  const { client } = connection;
  const asked = isForGpu(client.host.devices, request) ? request : withDefaults(request, manifest);
  const { job, result } = await runToResult(connection, { method: 'build', request: asked });
  const variant = result?.variants.find(({ fallback }) => !fallback);
  const build = variant?.build;
  if (!variant || !build?.succeeded)
    throw new NothingToExport(`${place.kind === 'folder' ? place.folder : place.id} does not build: ${job.summary}`);
  const cubins = build.artifacts.filter(({ kind }) => kind === ArtifactKind.CUBIN);
  const nvcc = build.runs.find(({ compiler }) => compiler === 'nvcc');
  if (cubins.length === 0 || !nvcc)
    throw new NothingToExport(
      "There is no machine code to export: the runner's host has no nvcc; install the CUDA toolkit there",
    );
  const parameters = parametersOf(variant);
  const sourceDigest = result?.provenance?.sourceDigest ?? '';
  const jobs = await storedJobs(client, manifest.id);
  const verdict = lastVerdict(jobs, { manifest, buildId: build.buildId, sourceDigest, parameters });
  if (verdict && !verdict.right && !unverified)
    throw new NothingToExport(
      `${manifest.id} can't be exported: it was ${verdict.outcome} when it was last judged (${verdict.job}); correct it and run fa-tui verify, or export it with --unverified, which every file then says`,
    );
  return withToldForms({
    ...(await launchedAs(files, { manifest, parameters, build, client })),
    dtype: inputsOf(manifest, parameters),
    arch: build.arch,
    cubins: await Promise.all(
      cubins.map(async ({ entries, sha256 }) => ({ entries, bytes: await client.readArtifact(sha256) })),
    ),
    sources: await sourcesOf(build, (sha256) => client.readArtifact(sha256)),
    flags: nvcc.arguments.filter(
      (each) =>
        /^-(std|O|D|arch|-use_fast_math|maxrregcount|lineinfo)/.test(each) || manifest.compile.flags.includes(each),
    ),
    origin: {
      buildId: build.buildId,
      job: job.name,
      label: variant.label,
      compiler: `nvcc ${nvcc.version}`,
      runner: client.host.runnerVersion,
      sourceDigest,
    },
    measured: measuredShapes(jobs, build.buildId),
    verdict,
    license: place.kind === 'folder' ? undefined : OWN_LICENSE,
  });
}

/** The manifest that describes a build's launches. For a kernel in Python, it is made from Triton's PTX. */
async function launchedAs(
  files: SourceFiles,
  { manifest, parameters, build, client }: LaunchedBuild,
): Promise<Pick<ExportedKernel, 'manifest' | 'parameters'>> {
  const made = build.artifacts.find(({ kind }) => kind === ArtifactKind.PTX);
  if (!isTritonSource(manifest.source) || made === undefined) return { manifest, parameters };
  const ptx = Buffer.from(await client.readArtifact(made.sha256)).toString('utf8');
  const options = { id: manifest.id, source: 'kernel.ptx', ptx, resolved: { parameters } };
  const yaml = manifestOfCompiled(entryOf(files, MANIFEST_FILE)!, options);
  return { manifest: manifestOf({ ...files, [MANIFEST_FILE]: yaml }), parameters: {} };
}

interface LaunchedBuild {
  readonly manifest: Manifest;
  readonly parameters: Readonly<Record<string, number>>;
  readonly build: BuildResult;
  readonly client: RunnerClient;
}

type BuildRequest = Extract<StartRequest, { method: 'build' }>['request'];

/** True if the build is for a GPU: its device is the requested one, or else the runner's first. */
const isForGpu = (devices: RunnerClient['host']['devices'], { options }: BuildRequest): boolean =>
  (devices.find(({ deviceId }) => deviceId === options?.deviceId) ?? devices[0])?.simulated === false;

/**
 * Sets device-dependent parameters to the manifest's defaults, because the emulator's number of multiprocessors says
 * nothing about the GPU that the export is for.
 */
function withDefaults(request: BuildRequest, manifest: Manifest): BuildRequest {
  const asked = create(BuildRequestSchema, request);
  const variant = asked.variant ?? create(VariantSchema);
  const chosen = entryOf(manifest.configs, variant.config) ?? {};
  for (const [name, { ofDevice, default: value }] of Object.entries(manifest.parameters))
    if (ofDevice !== undefined && !Object.hasOwn(chosen, name) && entryOf(variant.parameters, name) === undefined)
      setEntry(variant.parameters, name, BigInt(value));
  return create(BuildRequestSchema, { ...asked, variant });
}

/** The property of the manifest that the format cannot express; undefined if the format can express the kernel. */
export function exportProblem(manifest: Manifest, format: ExportFormat): string | undefined {
  // FlashInfer-Bench's solutions of paged decoding are PyTorch files.
  const inPython = IN_PYTHON.has(format) || (format === 'flashinfer' && manifest.problem.id === PAGED_DECODE);
  const reason = inPython ? (launchProblem(manifest) ?? pythonProblem(manifest)) : sourceProblem(manifest);
  return reason && `${manifest.id} can't be exported: ${reason}`;
}

/**
 * The reason why the format cannot contain a backward pass, or why `backward` is not the backward pass of `forward`;
 * undefined if the two can be exported together. The problem of the backward pass names its tensors after the forward
 * pass's: dO is the gradient of O.
 */
export function pairProblem(forward: Manifest, backward: Manifest, format: ExportFormat): string | undefined {
  const wanted = IN_PYTHON.has(format) ? entryOf(SIGNATURES, forward.problem.id)?.backward : undefined;
  if (wanted === undefined)
    return `${forward.id} can't be exported with a backward pass: only --torch and --wheel have one, for ${withBackward.join(', ')}`;
  const reason =
    backward.problem.id === wanted
      ? launchProblem(backward)
      : `it computes ${backward.problem.id}; choose a kernel of ${wanted}`;
  if (reason !== undefined) return `${backward.id} can't be exported as the backward pass of ${forward.id}: ${reason}`;
  const passed = passedTensors(forward);
  const missing = backward.problem.tensors.find(
    ({ name, direction }) => direction === 'in' && !passed.has(name.replace(/^d(?=[A-Z])/, '')),
  );
  if (missing)
    return `${forward.id} can't be exported with ${backward.id}, which reads ${missing.name}: choose a variant of ${forward.id} that writes it, for example with --set WRITE_${missing.name}=1`;
  const ordersOf = ({ layouts }: Manifest): ReadonlyMap<string, string> =>
    new Map(layouts.map(({ tensor, order }) => [tensor, order.join()]));
  const [of, ofGradients] = [ordersOf(forward), ordersOf(backward)];
  const other = backward.problem.tensors.find(
    ({ name }) => of.get(name.replace(/^d(?=[A-Z])/, '')) !== ofGradients.get(name),
  );
  return (
    other &&
    `${forward.id} can't be exported with ${backward.id}: ${other.name} has a different order in memory than in ${forward.id}; choose variants of the same layout with --set and --backward-set`
  );
}

const withBackward = Object.entries(SIGNATURES).flatMap(([id, { backward }]) => (backward === undefined ? [] : [id]));

/** Formats that launch machine code from Python. The other formats export CUDA C++ with a launch plan in C++. */
const IN_PYTHON: ReadonlySet<ExportFormat> = new Set(['torch', 'wheel']);

/** Why no exported program can launch the kernel. */
function launchProblem(
  { source, problem, launches }: Manifest,
  isPassed: (argument: ManifestArgument) => boolean = isExportedInPython,
): string | undefined {
  if (isCubinSource(source)) return 'its source is machine code; export it from the PTX that it was assembled from';
  // The PTX that Triton makes has a name for each entry, by which the export launches it.
  const spelled = isTritonSource(source) ? undefined : launches.find(({ entry }) => isSpelledEntry(entry));
  if (spelled)
    return `callers load entries by the names in the machine code, and kernel.yaml spells ${spelled.entry} in C++; give the name that cuobjdump --dump-resource-usage lists`;
  const cooperative = launches.find((launch) => launch.cooperative);
  if (cooperative) return `${cooperative.entry} is launched cooperatively, which exports do not do`;
  const unknown = launches.flatMap((launch) => launch.arguments).find((each) => !isPassed(each));
  if (unknown)
    return `its launches pass ${unknown.kind}, and exports pass tensors, workspaces, int32, float32 and tensor maps`;
  const mapped = new Set(
    launches.flatMap((launch) => launch.arguments.flatMap((each) => (each.kind === 'tensorMap' ? [each.tensor] : []))),
  );
  const foreign = problem.tensors.find(
    ({ name, ownDtype, otherDtypes }) =>
      (ownDtype !== undefined || Object.keys(otherDtypes).length > 0) && mapped.has(name),
  );
  return foreign && `it has a tensor map of ${foreign.name}, and exports have maps of the kernel's dtype`;
}

const pythonProblem = (manifest: Manifest): string | undefined =>
  entryOf(SIGNATURES, manifest.problem.id) ? undefined : operatorProblem(manifest);

function sourceProblem(manifest: Manifest): string | undefined {
  const { problem, initialOutput, layouts, workspace, source } = manifest;
  if (isPtxSource(source) || isTritonSource(source))
    return `its source is ${source}, and this format hands on CUDA C++: --torch and --wheel export machine code`;
  const inLaunches = launchProblem(manifest, isExported);
  if (inLaunches !== undefined) return inLaunches;
  if (problem.id !== DEFAULT_PROBLEM)
    return `it computes ${problem.id}, and this format is for ${DEFAULT_PROBLEM}: --torch and --wheel export any problem`;
  if (layouts.length > 0)
    return `${layouts.map(({ tensor }) => tensor).join(', ')} have their own order in memory, and callers of this format use the problem's order: --torch and --wheel export any layout; or choose a variant without layouts`;
  const initialized = [
    ...(initialOutput === undefined ? [] : ['O']),
    ...workspace.filter(({ initial }) => initial).map(({ name }) => name),
  ];
  if (initialized.length > 0)
    return `${initialized.join(', ')} must have initial values before each launch, which exports do not write; set them in the kernel`;
  return optionalOutputs(manifest);
}

const passedTensors = ({ launches }: Pick<Manifest, 'launches'>): Set<string> =>
  new Set(launches.flatMap((launch) => launch.arguments.flatMap((each) => ('tensor' in each ? [each.tensor] : []))));

function optionalOutputs({ problem, launches }: Pick<Manifest, 'problem' | 'launches'>): string | undefined {
  const passed = passedTensors({ launches });
  const optional = problem.tensors.filter(({ name, optional: isOptional }) => isOptional && passed.has(name));
  return optional.length > 0
    ? `it writes ${optional.map(({ name }) => name).join(', ')}, which the callers of exports do not pass`
    : undefined;
}

const parametersOf = ({ parameters }: VariantResult): Record<string, number> =>
  Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, Number(value)]));

async function sourcesOf(
  { artifacts }: BuildResult,
  read: (sha256: string) => Promise<Uint8Array>,
): Promise<ExportedKernel['sources']> {
  const sources = artifacts.filter(({ kind }) => kind === ArtifactKind.SOURCE);
  if (sources.length === 0)
    throw new FlashcoreError(
      'ARTIFACT_NOT_FOUND',
      {},
      'The runner kept no sources of the build: build the kernel again',
    );
  return Promise.all(
    sources.map(async ({ fileName, sha256 }) => ({
      path: fileName,
      text: Buffer.from(await read(sha256)).toString('utf8'),
    })),
  );
}

const ARCH = /^sm_\d{2,3}[af]?$/;
const DIGEST = /^[0-9a-f]{64}$/;
const FLAG = /^(?:-std=c\+\+\d\d|-O\d|--use_fast_math|-lineinfo|-maxrregcount=\d+|-arch=sm_\w+|-D\w+(?:=[\w.+-]+)?)$/;

/**
 * Checks the parts that the runner sent and returns the kernel, with line ends removed from the texts of its origin.
 * Errors: INTERNAL, which names a part without the expected form.
 */
export function withToldForms(kernel: ExportedKernel): ExportedKernel {
  const { arch, flags, parameters, manifest, origin } = kernel;
  const names = Object.keys(parameters);
  const wrong = [
    ...(ARCH.test(arch) ? [] : [`the architecture ${arch}`]),
    ...(DIGEST.test(origin.buildId) ? [] : [`the build_id ${origin.buildId}`]),
    ...flags
      .filter((flag) => !FLAG.test(flag) && !manifest.compile.flags.includes(flag))
      .map((flag) => `the flag ${flag}`),
    ...names.filter((name) => !Object.hasOwn(manifest.parameters, name)).map((name) => `the parameter ${name}`),
  ][0];
  if (wrong !== undefined)
    throw new FlashcoreError(
      'INTERNAL',
      { kernel: manifest.id },
      `Nothing is exported of ${manifest.id}: the runner sent ${plainLine(wrong).slice(0, 120)}, which no build has; update the runner, or use another`,
    );
  const { label, compiler, runner, job, sourceDigest } = origin;
  const told = { label, compiler, runner, job, sourceDigest };
  const lines = Object.entries(told).map(([name, text]) => [name, plainLine(text)]);
  return { ...kernel, origin: { ...origin, ...(Object.fromEntries(lines) as typeof told) } };
}
