import { setTimeout } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import {
  JobKind,
  FlashcoreError,
  JobResultSchema,
  Outcome,
  ToolSchema,
  WarningSchema,
  invalidRequest,
  type BenchmarkRequest,
  type Shape,
  type Tool,
} from '@flashcore/shared/contract';
import { codeDigest, type Cases } from '@flashcore/shared/kernels';
import { BuildTools, DEFAULT_HOST, type HostSettings, type BuildToolsOptions } from '../build/build-tools.ts';
import type { FoundTool } from '../build/toolchain.ts';
import { BoxFinder, type IsolationWanted } from '../sandbox/find-box.ts';
import { noGroups, type ProcessGroups } from '../sandbox/groups.ts';
import {
  JOB_KINDS,
  keptRequest,
  requestAgain,
  type PlannedJob,
  type DeviceDescription,
  type DeviceLoad,
  type JobBody,
  type JobOutcome,
  type JobPlanner,
  type JobMethod,
  type JobRequests,
  type QueuedBefore,
} from '../jobs/job-context.ts';
import type { KernelCatalog } from '../kernels.ts';
import type { Logger } from '../log.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import { championFor, type DecisionStore } from '../store/decisions.ts';
import type { FleetTable } from '../store/fleet-table.ts';
import type { MeasuredSteps } from '../store/measured-steps.ts';
import type { SourceStore } from '../store/sources.ts';
import { costOf, type DeviceRates } from './cost.ts';
import { ENGINE_NAMES, type EngineWanted } from '../build/host-libraries.ts';
import { DeviceRuntime } from '../device/device-runtime.ts';
import { findDevices, type HostDevice } from '../device/devices.ts';
import { Instruments } from '../device/instruments.ts';
import { runJob, runTuneJob } from './experiment.ts';
import { JudgingDigest, type JudgedWith } from './judging-digest.ts';
import { KernelSettings } from './kernel-settings.ts';
import { compileAhead } from './run-ahead.ts';
import { runSdpaJob } from './sdpa-job.ts';
import { planSdpa, type SdpaSpec } from '../spec/sdpa-spec.ts';
import { labelOf, type JobSpec } from '../spec/job-spec.ts';
import { planSpec } from '../spec/plan-spec.ts';

export interface PlannerOptions extends Pick<
  BuildToolsOptions,
  'repositoryRoot' | 'dataDirectory' | 'headers' | 'assigned'
> {
  artifacts: ArtifactStore;
  version: string;
  /** Digest of the runner's own code. */
  buildId: string;
  /** kernels/, with shared headers, cases.yaml, gates.yaml and the reference. */
  kernelsDirectory: string;
  /** Default: one emulator, with its compiled code in the data directory. */
  host?: HostSettings;
  /** Whether foreign code runs in a sandbox: if possible (the default), never, or in every case. */
  isolation?: IsolationWanted;
  /** Makes a group for the processes of each sandbox; default: no groups. */
  groups?: ProcessGroups;
  /** The emulator's engine; default: auto. */
  emulatorEngine?: EngineWanted;
  /** Whether the emulator is served along with the GPUs; default: yes. */
  emulator?: boolean;
  sources: SourceStore;
  kernels: KernelCatalog;
  decisions: DecisionStore;
  /** The pilots and leases of a gateway. */
  fleet?: FleetTable;
  /** The stored measurements of searches over variants. */
  steps: MeasuredSteps;
  logger: Logger;
  /** Held-out shapes; default: none. */
  heldOut?: readonly Shape[];
  /** US dollars per hour, by the device's name; default: the known prices. */
  rates?: DeviceRates;
}

/**
 * How long the first answer to a client waits for the choice of the emulator's engine. A connecting client waits only
 * 2.5 s for it. If the choice takes longer, later answers report it.
 */
const PREPARED_WITHIN_MS = 1_000;

/**
 * Turns requests into job bodies, and owns what they run on: devices with their workers, compilers and the build cache.
 */
export function createPlanner(options: PlannerOptions): JobPlanner {
  const host = options.host ?? DEFAULT_HOST;
  const groups = options.groups ?? noGroups('none were asked for');
  const boxes = new BoxFinder({ wanted: options.isolation ?? 'auto', groups, logger: options.logger });
  const tools = new BuildTools({
    box: () => boxes.find(),
    repositoryRoot: options.repositoryRoot,
    dataDirectory: options.dataDirectory,
    kernelsFolder: options.kernelsDirectory,
    artifacts: options.artifacts,
    ...host,
    engine: options.emulatorEngine,
    assigned: options.assigned,
    headers: options.headers,
  });
  const { artifacts, repositoryRoot, dataDirectory } = options;
  const runtimeOf = (device: HostDevice): DeviceRuntime =>
    new DeviceRuntime(device, {
      tools,
      artifactFolder: artifacts.folder,
      instruments: new Instruments(device, {
        toolchain: tools.toolchain,
        artifacts,
        repositoryRoot,
        dataDirectory,
        python: host.python,
        rivals: host.rivals,
      }),
    });
  const emulatedDevices = options.emulator === false ? 0 : host.emulatedDevices;
  const { devices: found, silentDriver } = findDevices({ emulatedDevices });
  if (silentDriver)
    options.logger.error(silentDriver, 'the NVIDIA driver does not list its devices: no GPU of this host is served');
  const runtimes = new Map(found.map((device) => [device.description.deviceId, runtimeOf(device)]));
  const settings = new KernelSettings(options.kernelsDirectory);
  const judgingDigest = new JudgingDigest(dataDirectory);
  // Without an emulator, no trial kernel is compiled to choose an engine.
  const prepare = (): Promise<void> => (emulatedDevices > 0 ? tools.prepare() : tools.toolchain.askCompilers());
  const devices = (): DeviceDescription[] => [...runtimes.values()].map((runtime) => runtime.describe());
  return {
    devices,
    isolation: async () => {
      // Whether a GPU worker can be sandboxed is known only after a trial. If a required sandbox is missing, the job
      // reports it.
      await Promise.allSettled(
        [...runtimes.values()]
          .filter((runtime) => !runtime.describe().simulated)
          .map((runtime) => runtime.knownCommand()),
      );
      const { kind, detail } = await boxes.find();
      return { kind, detail: `${detail}; ${groups.detail}` };
    },
    describeTools: async () => {
      const prepared = Promise.race([prepare(), setTimeout(PREPARED_WITHIN_MS, undefined, { ref: false })]);
      await Promise.all([prepared, tools.toolchain.askAll()]);
      const driver = silentDriver ? [driverTool(silentDriver)] : [];
      const emulator = emulatedDevices > 0 ? [emulatorTool(tools)] : [];
      return [...driver, ...emulator, ...tools.toolchain.describe()].map((tool): Tool => create(ToolSchema, tool));
    },
    rankedCases: (problem) => settings.rankedCases(problem),
    rulesDigest: (plan, problem) => settings.rulesDigest(plan, problem),
    prepare: () => prepare(),
    planJob: (method, request, load) => {
      if (method === 'benchmark' && !request.kernel)
        return {
          ...plannedSdpa(planSdpa(request as BenchmarkRequest, { devices: devices(), cases: settings.cases(), load }), {
            options,
            runtimes,
          }),
          again: keptRequest(method, request),
        };
      const spec = planSpec(method, request, {
        devices: devices(),
        kernels: options.kernels,
        // If another host compiled the sources, no compiler is needed here.
        toolchain: options.assigned?.isEmpty === false ? undefined : tools.toolchain,
        emulation: () => tools.emulation(),
        cases: (problem) => settings.cases(problem),
        gates: () => settings.gates(),
        championFor: (lineage, place) => championFor(options.decisions.champions(), { lineage, place }),
        load,
        heldOut: options.heldOut ?? [],
      });
      if (spec.tune && spec.tune.maxUsd > 0) requireRate(spec.device, options.rates ?? new Map());
      const cases = settings.cases(spec.kernel.manifest.problem);
      return { ...plannedJob(spec, { options, tools, runtimes, cases }), again: keptRequest(method, request) };
    },
    bodyAgain(kept, queued) {
      return async (job) => {
        // A gateway has given the job to another pilot by now.
        if (options.assigned) return interrupted('The pilot ended while the job was queued');
        await prepare();
        const planned = this.planJob(kept.method, requestAgain(kept, queued.deviceId), () => 0);
        return codeChanged(planned, queued) ?? planned.body(job);
      };
    },
    judging: () => {
      const { heldOut = [], logger } = options;
      const digest = (judgedWith: Pick<JudgedWith, 'cases' | 'gates'>): string =>
        judgingDigest.of({
          ...judgedWith,
          emulation: emulatedDevices > 0 ? () => tools.emulation() : undefined,
          heldOut,
        });
      return settings.judging({ heldOutShapes: heldOut.length, digest, logger });
    },
    cacheUse: () => tools.cacheUse(),
    async close() {
      await Promise.all([...runtimes.values()].map((runtime) => runtime.close()));
    },
  } satisfies {
    planJob: <Method extends JobMethod>(
      method: Method,
      request: JobRequests[Method],
      load: DeviceLoad,
    ) => PlannedJob & { body: JobBody };
  } & Omit<JobPlanner, 'planJob'>;
}

/** The end of a job that waited for an earlier runner, if its kernel, one of the host's, was edited since. */
function codeChanged(
  { codeDigest: now = '', kernelId }: PlannedJob,
  { codeDigest }: QueuedBefore,
): JobOutcome | undefined {
  if (now === codeDigest) return undefined;
  return interrupted(`The runner ended while the job was queued, and ${kernelId} was edited before it started again`);
}

const interrupted = (summary: string): JobOutcome => ({
  outcome: Outcome.INTERRUPTED,
  summary,
  result: create(JobResultSchema),
});

/** Refuses a budget in dollars if the device's cost is unknown. Errors: INVALID_REQUEST. */
function requireRate(device: DeviceDescription, rates: DeviceRates): void {
  const { costMissing } = costOf(device, 1, rates);
  if (costMissing === undefined) return;
  throw invalidRequest({
    field: 'max_usd',
    description: `must be 0 on ${device.deviceId}, give seconds or variants: ${costMissing}`,
  });
}

/**
 * The driver that does not list its devices. It is the first tool, because without the driver the emulator becomes the
 * default device of a host with GPUs.
 */
function driverTool({ library, problem }: { library: string; problem: string }): FoundTool {
  return {
    name: 'libcuda',
    archs: [],
    missing: `no GPU of this host is served: ${library} does not list its devices (${problem}); look at nvidia-smi, then start the runner again`,
  };
}

/** The emulator's engine and why it was chosen. */
function emulatorTool(tools: BuildTools): FoundTool {
  try {
    const { engine, because } = tools.emulation();
    return { name: 'emulator', archs: [], version: `${ENGINE_NAMES[engine]} (${because})` };
  } catch (error) {
    if (error instanceof FlashcoreError) return { name: 'emulator', archs: [], missing: error.message };
    throw error;
  }
}

interface PlannedJobParts {
  options: PlannerOptions;
  tools: BuildTools;
  runtimes: ReadonlyMap<string, DeviceRuntime>;
  cases: Cases;
}

function plannedJob(spec: JobSpec, parts: PlannedJobParts): PlannedJob & { body: JobBody } {
  const { options, tools, runtimes, cases } = parts;
  const { kernel, device } = spec;
  const { artifacts, kernels, decisions } = options;
  const planned = { spec, tools, artifacts, kernels, decisions, cases };
  return {
    kind: JOB_KINDS[spec.method],
    label: labelOf(spec),
    kernelId: kernel.kernelId,
    codeDigest: codeDigest(kernel),
    deviceId: device.deviceId,
    // A search over variants is not compiled ahead, because it compiles on all cores as soon as it begins.
    compileAhead: spec.tune ? undefined : (signal) => compileAhead(planned, signal),
    body: async (job) => {
      const runtime = runtimes.get(device.deviceId);
      if (!runtime)
        throw new FlashcoreError(
          'DEVICE_UNAVAILABLE',
          { device_id: device.deviceId },
          `Device ${device.deviceId} is no longer there`,
        );
      runtime.hold(job);
      const box = await tools.box();
      if (box.kind === 'none')
        job.emit({ case: 'warning', value: create(WarningSchema, { message: `No box: ${box.detail}` }) });
      const services = { ...planned, job, runtime };
      const runner = { version: options.version, buildId: options.buildId, rates: options.rates ?? new Map() };
      return spec.tune ? runTuneJob(services, options.steps, runner) : runJob(services, runner);
    },
  };
}

/** A job that measures SDPA without a kernel, on a device whose host has PyTorch. */
function plannedSdpa(spec: SdpaSpec, { options, runtimes }: SdpaParts): PlannedJob & { body: JobBody } {
  const { deviceId } = spec.device;
  return {
    kind: JobKind.BENCHMARK,
    label: 'SDPA',
    kernelId: '',
    deviceId,
    body: async (job) => {
      const runtime = runtimes.get(deviceId);
      const sdpa = runtime?.instruments.sdpa;
      if (!runtime || !sdpa)
        throw new FlashcoreError(
          'DEVICE_UNAVAILABLE',
          { device_id: deviceId },
          `Device ${deviceId} is no longer there`,
        );
      runtime.hold(job);
      const runner = { version: options.version, buildId: options.buildId, rates: options.rates ?? new Map() };
      return runSdpaJob({ job, spec, sdpa, runner, conditions: () => runtime.conditions(job.signal) });
    },
  };
}

interface SdpaParts {
  options: PlannerOptions;
  runtimes: ReadonlyMap<string, DeviceRuntime>;
}
