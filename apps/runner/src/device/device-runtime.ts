import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  DeviceState,
  FlashcoreError,
  LogLineSchema,
  type Device,
  type DeviceConditions,
} from '@flashcore/shared/contract';
import type { ReplyByRequest, WorkerRequest } from '../../worker/messages/channel.ts';
import type { Plain } from '../../worker/messages/plain.ts';
import type { BuildTools } from '../build/build-tools.ts';
import type { BuildListener } from '../build/build-listener.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { DeviceNotServing, DeviceWorker, describeOutcome } from '../workers/device-worker.ts';
import { boxedExecutor, boxedWorker, plainWorker, type WorkerCommand } from '../workers/worker-entry.ts';
import type { RequestOptions, WorkerOutcome } from '../workers/worker-process.ts';
import { nvmlLibrary, type HostDevice } from './devices.ts';
import type { Instruments } from './instruments.ts';

/** Where the code of candidates can be kept in a process of its own: pipes and memory are Linux's. */
const SEPARATE = process.platform === 'linux';

interface DeviceRuntimeParts {
  tools: BuildTools;
  instruments: Instruments;
  artifactFolder: string;
}

/** A device with its worker. One job has it at a time; what is compiled for it on the way goes to that job's log. */
export class DeviceRuntime {
  readonly #device: HostDevice;
  readonly #worker: DeviceWorker;
  /** What measures on the device beside the worker. */
  readonly instruments: Instruments;
  #job: JobContext | undefined;
  readonly #startCommand: () => Promise<WorkerCommand>;
  #command: Promise<WorkerCommand> | undefined;

  constructor(device: HostDevice, { tools, instruments, artifactFolder }: DeviceRuntimeParts) {
    this.#device = device;
    this.instruments = instruments;
    const { description } = device;
    this.#startCommand = () =>
      description.simulated && SEPARATE
        ? // It runs no foreign code: what candidates bring is loaded by executors, each in a box of its own.
          Promise.resolve(plainWorker())
        : tools
            .box()
            .then((box) =>
              boxedWorker(
                box,
                [tools.libraryFolder, artifactFolder],
                device.library === undefined ? undefined : { library: device.library, ordinal: device.ordinal },
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

  /** As the host knows it; quarantined when it did not come back after a fault. */
  describe(): Device {
    const reason = this.#worker.quarantineReason;
    return reason === undefined
      ? this.#device.description
      : { ...this.#device.description, state: DeviceState.QUARANTINED, stateReason: reason };
  }

  /** How a worker of it is started now, boxed where that works. Errors: DEVICE_UNAVAILABLE where a box is required. */
  command(): Promise<WorkerCommand> {
    return (this.#command = this.#startCommand());
  }

  /** How its last worker was started, without waiting for another try. Errors: as above. */
  knownCommand(): Promise<WorkerCommand> {
    return this.#command ?? this.command();
  }

  /** Takes the job whose log gets what the device's worker and its compilers say. */
  hold(job: JobContext): void {
    this.#job = job;
    // Where each request has an executor of its own, nothing of a candidate is ever kept.
    if (!(this.#device.description.simulated && SEPARATE)) this.#worker.serve(job.owner);
  }

  /** Nothing that the device's worker still has to say is heard; the next request has a new one. */
  retireWorker(): void {
    this.#worker.retire();
  }

  /**
   * Starts the worker, if none is there. Errors: DEVICE_UNAVAILABLE, COMPILER_MISSING, INTERNAL, the signal's reason.
   */
  async warmUp(signal: AbortSignal): Promise<void> {
    await this.#serving(() => this.#worker.warmUp({ signal }));
  }

  /** Errors: as warmUp(). What a kernel does wrong is an outcome. */
  request<Request extends WorkerRequest>(
    request: Request,
    options: RequestOptions,
  ): Promise<WorkerOutcome<ReplyByRequest[Request['type']]>> {
    return this.#serving(() =>
      this.#worker.request(request, { ...options, onOutput: (line) => this.#log('kernel', line) }),
    );
  }

  /** Clocks, power limit, temperature, as the worker reads them from NVML. Errors: as warmUp(). */
  async conditions(signal: AbortSignal): Promise<Plain<DeviceConditions>> {
    const outcome = await this.request({ type: 'conditions', ownProcesses: this.ownProcesses }, { signal });
    return outcome.status === 'done' ? outcome.value : { throttleReasons: [], notMeasured: describeOutcome(outcome) };
  }

  /** Processes on the device that are no strangers, beside the worker itself. */
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
    return { signal, onLine: (source, line) => this.#log(source, line) };
  }

  #log(source: string, text: string): void {
    this.#job?.emit({ case: 'logLine', value: create(LogLineSchema, { source, text }) });
  }
}
