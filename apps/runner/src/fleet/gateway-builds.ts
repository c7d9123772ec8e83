import { availableParallelism, hostname } from 'node:os';
import { create } from '@bufbuild/protobuf';
import pLimit from 'p-limit';
import { FleetBuildsSchema, FlashcoreError, type Device, type FleetBuilds } from '@flashcore/shared/contract';
import { CompilationSchema, type Compilation } from '@flashcore/shared/fleet';
import { untilAborted } from '../async.ts';
import { BuildTools } from '../build/build-tools.ts';
import type { Compilation as Compiled, BuildListener } from '../build/compile-cache.ts';
import type { CompileUnit } from '../build/compile-unit.ts';
import type { Compiler } from '../build/compilers.ts';
import { NoDevice } from '../device/no-device.ts';
import type { KernelSettings } from '../experiment/kernel-settings.ts';
import type { PlannerOptions } from '../experiment/planner.ts';
import { runAhead, type RanAhead } from '../experiment/run-ahead.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { emitLog } from '../phases/job-services.ts';
import { BoxFinder } from '../sandbox/find-box.ts';
import { noGroups } from '../sandbox/groups.ts';
import type { JobSpec } from '../spec/job-spec.ts';

/** The part of a job that the gateway ran before a GPU was taken for the job. */
export interface BuiltAhead extends RanAhead {
  /** Compilations that the pilot can reuse. */
  compilations: Compilation[];
}

interface GatewayBuildsOptions {
  planner: PlannerOptions;
  settings: KernelSettings;
  /** Number of jobs built at once; default: one less than the processors, to leave one for the gateway itself. */
  atOnce?: number | undefined;
}

/** Errors that mean that the gateway lacks something that pilots may have; the pilot then builds the job. */
const PILOTS_MAY_HAVE: readonly FlashcoreError['reason'][] = ['COMPILER_MISSING', 'DEVICE_UNAVAILABLE'];

/** Builds jobs on the gateway's own processors, in a sandbox as on any runner, so that no GPU waits for a compiler. */
export class GatewayBuilds {
  readonly #planner: PlannerOptions;
  readonly #settings: KernelSettings;
  readonly #boxes: BoxFinder;
  readonly #tools: BuildTools;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #atOnce: number;
  readonly #running = new Map<string, number>();
  #endedWithoutGpu = 0;
  #ms = 0;
  /** Why this gateway builds nothing; undefined if it builds. */
  #problem: string | undefined;

  constructor({ planner, settings, atOnce = Math.max(1, availableParallelism() - 1) }: GatewayBuildsOptions) {
    const { isolation = 'auto', groups = noGroups('none were asked for'), logger, host } = planner;
    this.#planner = planner;
    this.#settings = settings;
    this.#atOnce = atOnce;
    this.#limit = pLimit(atOnce);
    this.#boxes = new BoxFinder({ wanted: isolation, groups, logger });
    this.#tools = new BuildTools({
      box: () => this.#boxes.find(),
      repositoryRoot: planner.repositoryRoot,
      dataDirectory: planner.dataDirectory,
      kernelsFolder: planner.kernelsDirectory,
      artifacts: planner.artifacts,
      libraryCache: host?.libraryCache,
      buildCache: host?.buildCache,
      engine: planner.emulatorEngine,
    });
  }

  /** Tests the compilers and the sandbox. Must be awaited before the first build. Never rejects. */
  async prepare(): Promise<void> {
    await this.#tools.prepare();
    const box = await this.#boxes.find();
    const lacks = this.#planner.isolation === 'required' && box.kind === 'none' ? box.detail : undefined;
    this.#problem = lacks ?? (this.#compilers().length > 0 ? undefined : 'there is no nvcc and no g++');
  }

  /** The sandbox for compilations on this host. */
  async isolation(): ReturnType<BoxFinder['find']> {
    return this.#boxes.find();
  }

  /** The number of jobs that can be built at once, as far as is known; 0 if the gateway can't build. */
  get atOnce(): number {
    return this.#problem === undefined ? this.#atOnce : 0;
  }

  /** The number of a device's jobs that are being built. */
  running(deviceId: string): number {
    return this.#running.get(deviceId) ?? 0;
  }

  describe(): FleetBuilds {
    const found = this.#compilers().map(({ name, version }) => `${name} ${version}`);
    const problem = this.#problem ?? (found.some((name) => name.startsWith('nvcc')) ? undefined : 'there is no nvcc');
    return create(FleetBuildsSchema, {
      place:
        found.length === 0 || this.#problem !== undefined
          ? "on the pilots' nodes"
          : `on ${hostname()} (${found.join(', ')}), ${this.#atOnce} at once`,
      ...(problem !== undefined && {
        problem: `${hostname()}: ${problem}: what it can't build is built on a GPU's node`,
      }),
      running: [...this.#running.values()].reduce((sum, count) => sum + count, 0),
      endedWithoutGpu: BigInt(this.#endedWithoutGpu),
      seconds: this.#ms / 1000,
    });
  }

  /** Builds a job; undefined if its pilot should build it instead. Errors: the job's own, the signal's reason. */
  async build(job: JobContext, spec: JobSpec): Promise<BuiltAhead | undefined> {
    // A search decides which variants to build only while it measures.
    if (spec.method === 'tune') return undefined;
    await this.prepare();
    if (this.#problem !== undefined || !this.#canBuild(spec)) return undefined;
    const { deviceId } = spec.device;
    this.#running.set(deviceId, this.running(deviceId) + 1);
    try {
      return await untilAborted(
        this.#limit(() => this.#build(job, spec)),
        job.signal,
      );
    } catch (error) {
      if (!(error instanceof FlashcoreError) || !PILOTS_MAY_HAVE.includes(error.reason)) throw error;
      this.#planner.logger.warn({ err: error, job: job.name }, 'a job is built by its pilot');
      return undefined;
    } finally {
      this.#running.set(deviceId, this.running(deviceId) - 1);
    }
  }

  async #build(job: JobContext, spec: JobSpec): Promise<BuiltAhead> {
    job.signal.throwIfAborted();
    const { artifacts, kernels, decisions, version, buildId, rates = new Map<string, number>() } = this.#planner;
    const tools = this.#tools;
    const compilations: Compilation[] = [];
    let told = false;
    const compiling = {
      onStart: () => {
        if (!told) emitLog(job, 'runner', `building on ${hostname()}, before a device is taken`);
        told = true;
      },
      onCompiled: (unit: CompileUnit, compiled: Compiled) => void compilations.push(compilationOf(unit, compiled)),
    };
    const started = performance.now();
    try {
      const services = {
        job,
        spec,
        runtime: new NoDevice(spec.device, { ...this.#planner, tools }),
        tools,
        artifacts,
        kernels,
        decisions,
        cases: this.#settings.cases(spec.kernel.manifest.problem),
        compiling,
      };
      const ahead = await runAhead(services, { version, buildId, rates });
      if (ahead.ended) this.#endedWithoutGpu += 1;
      else if (!spec.device.simulated) await this.#buildOwn(spec.device, { signal: job.signal, ...compiling });
      return { ...ahead, compilations };
    } finally {
      this.#ms += performance.now() - started;
    }
  }

  /** Builds the runner's own GPU programs for the pilot. */
  async #buildOwn({ arch }: Device, listener: BuildListener): Promise<void> {
    const target = { arch, emulated: false };
    for (const path of [
      await this.#tools.libraries.canary(target, listener),
      await this.#tools.libraries.clockStamp(target, listener),
    ])
      this.#planner.artifacts.putFile(path);
  }

  #canBuild({ arch, device, kernel }: JobSpec): boolean {
    const emulated = device.simulated && kernel.manifest.emulated !== false;
    const [nvcc, cxx] = [this.#nvcc(), this.#found(() => this.#tools.toolchain.cxx())];
    if (!emulated) return nvcc?.archs.includes(arch) ?? false;
    const emulation = this.#found(() => this.#tools.emulation());
    if (cxx === undefined || !emulation) return false;
    if (nvcc && emulation.nvccProblem === undefined) return nvcc.archs.includes(arch);
    return emulation.engine === 'fibres' || emulation.frontEnd !== undefined;
  }

  #nvcc(): ReturnType<BuildTools['toolchain']['nvcc']> {
    return this.#found(() => this.#tools.toolchain.nvcc());
  }

  #compilers(): Compiler[] {
    return [this.#nvcc(), this.#found(() => this.#tools.toolchain.cxx())].filter((one) => one !== undefined);
  }

  /** The compiler that `find` returns; undefined if it does not answer. */
  #found<Found>(find: () => Found | undefined): Found | undefined {
    try {
      return find();
    } catch (error) {
      if (error instanceof FlashcoreError && error.reason === 'COMPILER_MISSING') return undefined;
      throw error;
    }
  }
}

const compilationOf = ({ compiler }: CompileUnit, compiled: Compiled): Compilation =>
  create(CompilationSchema, {
    key: compiled.key,
    compiler: compiler.name,
    version: compiler.version,
    host: compiled.host ?? '',
    seconds: compiled.seconds,
    exitCode: compiled.exitCode,
    timedOut: compiled.timedOut,
    lines: compiled.lines,
    files: compiled.outputs.map(({ sha256, fileName, kind, sizeBytes }) => ({
      sha256,
      fileName,
      kind,
      sizeBytes: BigInt(sizeBytes),
    })),
  });
