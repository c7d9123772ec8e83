import { statfs } from 'node:fs/promises';
import { arch, hostname, platform } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { API_VERSION } from '@flashcore/shared/client';
import {
  HostSchema,
  plainMessage,
  type CleanText,
  type Device,
  type Fleet,
  type Host,
  type Tool,
} from '@flashcore/shared/contract';
import type { Logger } from './log.ts';

export interface HostOptions {
  version: string;
  buildId: string;
  dataDirectory: string;
  embedded: boolean;
  /** Lists compilers and tools; may take seconds. */
  describeTools: () => Promise<Tool[]>;
  isolation: () => Promise<{ kind: string; detail: string }>;
  /** Adds the current readings to the devices. */
  withReadings: (devices: readonly Device[]) => Device[];
  /** US dollars per hour; undefined if unknown. */
  usdPerHour: (device: Device) => number | undefined;
  /** The cluster behind a gateway; undefined if this is not a gateway. */
  fleet?: () => Fleet | undefined;
  /** Removes the data folder from texts for clients on other machines. */
  cleanText: CleanText;
  logger: Logger;
}

interface HostQuestion {
  devices: Device[];
  activeJobs: number;
  trusted: boolean;
  /** Whether to include current readings of the devices. */
  readings: boolean;
}

const ARCHITECTURES: Record<string, string> = { x64: 'x86-64', arm64: 'aarch64' };

/**
 * Describes what the host has and can do. Tools are queried in the background at the start and their answers kept, so
 * that GetHost answers in about a millisecond.
 */
export class HostDescriber {
  readonly #options: HostOptions;
  readonly #startTime = new Date();

  constructor(options: HostOptions) {
    this.#options = options;
    void this.#tools();
  }

  /** `trusted`: the caller is the runner's own user, who may know where its files are. */
  async describe({ devices, activeJobs, trusted, readings }: HostQuestion): Promise<Host> {
    const { version, buildId, dataDirectory, embedded, isolation, cleanText } = this.#options;
    const described = readings ? this.#options.withReadings(devices) : devices;
    const freeDiskBytes = await this.#freeDiskBytes();
    const host = create(HostSchema, {
      runnerVersion: version,
      apiVersion: API_VERSION,
      buildId,
      hostName: hostname(),
      platform: `${platform()} ${ARCHITECTURES[arch()] ?? arch()}`,
      startTime: timestampFromDate(this.#startTime),
      devices: described.map((device) => withRate(device, this.#options.usdPerHour(device))),
      tools: await this.#tools(),
      isolation: await isolation(),
      ...(trusted && { dataDirectory }),
      embedded,
      activeJobs,
      processId: process.pid,
      fleet: this.#options.fleet?.(),
      time: timestampFromDate(new Date()),
      ...(freeDiskBytes !== undefined && { freeDiskBytes }),
    });
    return trusted ? host : plainMessage(HostSchema, host, cleanText);
  }

  async #freeDiskBytes(): Promise<bigint | undefined> {
    try {
      const { bavail, bsize } = await statfs(this.#options.dataDirectory, { bigint: true });
      return bavail * bsize;
    } catch (error) {
      this.#options.logger.error({ err: error }, 'the free space of the data folder could not be asked for');
      return undefined;
    }
  }

  async #tools(): Promise<Tool[]> {
    try {
      return await this.#options.describeTools();
    } catch (error) {
      this.#options.logger.error({ err: error }, 'compilers and tools could not be asked for');
      return [];
    }
  }
}

const withRate = (device: Device, usdPerHour: number | undefined): Device =>
  usdPerHour === undefined ? device : { ...device, usdPerHour };
