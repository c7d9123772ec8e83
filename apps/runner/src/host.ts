import { arch, hostname, platform } from 'node:os';
import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { API_VERSION } from '@flashcore/shared/client';
import { HostSchema, type Device, type Host, type Tool } from '@flashcore/shared/contract';
import type { Logger } from './log.ts';

export interface HostOptions {
  version: string;
  buildId: string;
  dataDirectory: string;
  embedded: boolean;
  /** Asks for compilers and tools; may take seconds. */
  describeTools: () => Promise<Tool[]>;
  isolation: () => Promise<{ kind: string; detail: string }>;
  logger: Logger;
}

const ARCHITECTURES: Record<string, string> = { x64: 'x86-64', arm64: 'aarch64' };

/**
 * Says what the host has and can do. Tools are asked at the start, in the background, and keep their answers, so that
 * GetHost answers in about a millisecond.
 */
export class HostDescriber {
  readonly #options: HostOptions;
  readonly #startTime = new Date();

  constructor(options: HostOptions) {
    this.#options = options;
    void this.#tools();
  }

  async describe({ devices, activeJobs }: { devices: Device[]; activeJobs: number }): Promise<Host> {
    const { version, buildId, dataDirectory, embedded, isolation } = this.#options;
    return create(HostSchema, {
      runnerVersion: version,
      apiVersion: API_VERSION,
      buildId,
      hostName: hostname(),
      platform: `${platform()} ${ARCHITECTURES[arch()] ?? arch()}`,
      startTime: timestampFromDate(this.#startTime),
      devices,
      tools: await this.#tools(),
      isolation: await isolation(),
      dataDirectory,
      embedded,
      activeJobs,
      processId: process.pid,
    });
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
