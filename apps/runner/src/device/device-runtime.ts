import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  DeviceState,
  FlashcoreError,
  LogLineSchema,
  type Device,
  type DeviceConditions,
  type Plain,
} from '@flashcore/shared/contract';
import type { ReplyByRequest, WorkerRequest } from '../../worker/messages/channel.ts';
import type { BuildTools } from '../build/build-tools.ts';
import type { BuildListener } from '../build/compile-cache.ts';
import { CompileProgress } from '../build/compile-progress.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { DeviceNotServing, DeviceWorker, describeOutcome } from '../workers/device-worker.ts';
import { boxedExecutor, boxedWorker, plainWorker, type WorkerCommand } from '../workers/worker-entry.ts';
import type { RequestOptions, WorkerOutcome } from '../workers/worker-process.ts';
import { nvmlLibrary, type HostDevice } from './devices.ts';
import type { Instruments } from './instruments.ts';

/** Whether candidates can run in a separate process; its pipes and shared memory need Linux. */
const SEPARATE = process.platform === 'linux';

interface DeviceRuntimeParts {
  tools: BuildTools;
  instruments: Instruments;
  artifactFolder: string;
}

/** A device with its worker. One job has it at a time, and compilations for the device are logged to that job. */
export class DeviceRuntime {
  readonly #device: HostDevice;
  readonly #worker: DeviceWorker;
  /** Tools that measure on the device along with the worker. */
  readonly instruments: Instruments;
  #job: JobContext | undefined;
  readonly #progress = new CompileProgress({ say: (text) => this.#log('runner', text) });
  readonly #startCommand: () => Promise<WorkerCommand>;
  #command: Promise<WorkerCommand> | undefined;

  constructor(device: HostDevice, { tools, instruments, artifactFolder }: DeviceRuntimeParts) {
    this.#device = device;
    this.instruments = instruments;
    const { description } = device;
    this.#startCommand = () =>
      description.simulated && SEPARATE
        ? // This worker runs no candidate code: executors load it, each in a separate sandbox.
          Promise.resolve(plainWorker())
        : tools
            .box()
            .then((box) =>
              boxedWorker(
                box,
                [tools.libraryFolder, artifactFolder],
                device.library === undefined
                  ? undefined
                  : { library: device.library, ordinal: device.ordinal, folder: instruments.workerFolder() },
              ),
            );
    const target = { arch: description.arch, emulated: description.simulated };
    this.#worker = new DeviceWorker({
      deviceId: description.deviceId,
      command: () => this.command(),
      open: async (signal) => {
        const listener = this.#listener(signal);
        const [library, referenceLibrary, clockStampImage, judgeImage, program] = await Promise.all([
          device.library ?? tools.libraries.emulator(listener),
          tools.libraries.reference(listener),
          tools.libraries.clockStamp(target, listener),
          tools.libraries.judge(target, listener),
          description.simulated && SEPARATE ? tools.libraries.executor(listener) : undefined,
        ]);
        return {
          ...(program !== undefined && {
            executor: await boxedExecutor(await tools.box(), {
              program,
              library,
              name: description.deviceId,
              scratch: join(instruments.dataDirectory, 'executors', description.deviceId),
            }),
          }),
          library,
          referenceLibrary,
          clockStampImage,
          judgeImage,
          deviceOrdinal: device.ordinal,
          nvmlLibrary: description.simulated ? undefined : nvmlLibrary(),
        };
      },
      canary: (signal) => tools.libraries.canary(target, this.#listener(signal)),
    });
  }

  /** The device as the host knows it; quarantined if it did not recover after a fault. */
  describe(): Device {
    const reason = this.#worker.quarantineReason;
    return reason === undefined
      ? this.#device.description
      : { ...this.#device.description, state: DeviceState.QUARANTINED, stateReason: reason };
  }

  /**
   * The command that starts a worker, sandboxed if possible; made again at each call. Errors: DEVICE_UNAVAILABLE if a
   * required sandbox is missing.
   */
  command(): Promise<WorkerCommand> {
    return (this.#command = this.#startCommand());
  }

  /** The command that was made last, or a new one if none was made yet. Errors: as command(). */
  knownCommand(): Promise<WorkerCommand> {
    return this.#command ?? this.command();
  }

  /** Sets the job whose log gets the output of the device's worker and compilers. */
  hold(job: JobContext): void {
    this.#job = job;
    // A worker that ran candidate code must not serve another owner. If each request has its own executor, no candidate
    // code runs in the worker.
    if (!(this.#device.description.simulated && SEPARATE)) this.#worker.serve(job.owner);
  }

  /** Retires the worker and ignores its remaining output; the next request starts a new one. */
  retireWorker(): void {
    this.#worker.retire();
  }

  /**
   * Starts the worker if there is none. Errors: DEVICE_UNAVAILABLE, COMPILER_MISSING, INTERNAL, the signal's reason.
   */
  async warmUp(signal: AbortSignal): Promise<void> {
    await this.#serving(() => this.#worker.warmUp({ signal }));
  }

  /** Errors: as warmUp(). A kernel's fault is an outcome, not an error. */
  request<Request extends WorkerRequest>(
    request: Request,
    options: RequestOptions,
  ): Promise<WorkerOutcome<ReplyByRequest[Request['type']]>> {
    return this.#serving(() =>
      this.#worker.request(request, { ...options, onOutput: (line) => this.#log('kernel', line) }),
    );
  }

  /** Clocks, power limit and temperature, as the worker reads them from NVML. Errors: as warmUp(). */
  async conditions(signal: AbortSignal): Promise<Plain<DeviceConditions>> {
    const outcome = await this.request({ type: 'conditions', ownProcesses: this.ownProcesses }, { signal });
    return outcome.status === 'done' ? outcome.value : { throttleReasons: [], notMeasured: describeOutcome(outcome) };
  }

  /** The runner's processes on the device other than the worker. */
  get ownProcesses(): number[] {
    return [this.instruments.sdpa?.processId].filter((id) => id !== undefined);
  }

  async close(): Promise<void> {
    await Promise.all([this.#worker.close(), this.instruments.close()]);
  }

  async #serving<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DeviceNotServing)) throw error;
      throw new FlashcoreError('DEVICE_UNAVAILABLE', { device_id: this.#device.description.deviceId }, error.message, {
        cause: error,
      });
    }
  }

  #listener(signal: AbortSignal): BuildListener {
    return { signal, onLine: (source, line) => this.#log(source, line), progress: this.#progress };
  }

  #log(source: string, text: string): void {
    this.#job?.emit({ case: 'logLine', value: create(LogLineSchema, { source, text }) });
  }
}
