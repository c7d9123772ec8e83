import type { BuildTools } from '../build/build-tools.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import type { DeviceDescription } from '../jobs/job-context.ts';
import { DeviceRuntime } from './device-runtime.ts';
import { Instruments } from './instruments.ts';

/** Thrown when a job reaches the point at which it needs its device. */
export class DeviceNeeded extends Error {
  override readonly name = 'DeviceNeeded';
}

interface NoDeviceParts {
  tools: BuildTools;
  artifacts: ArtifactStore;
  repositoryRoot: string;
  dataDirectory: string;
}

/** Replaces a device that another host has; starting it or sending it a request throws DeviceNeeded. */
export class NoDevice extends DeviceRuntime {
  constructor(description: DeviceDescription, { tools, artifacts, repositoryRoot, dataDirectory }: NoDeviceParts) {
    const device = { description, library: undefined, ordinal: 0 };
    super(device, {
      tools,
      artifactFolder: artifacts.folder,
      // Marked as simulated, so that it has no instruments.
      instruments: new Instruments(
        { ...device, description: { ...description, simulated: true } },
        { toolchain: tools.toolchain, artifacts, repositoryRoot, dataDirectory, python: '' },
      ),
    });
  }

  override warmUp(): Promise<void> {
    return Promise.reject(new DeviceNeeded());
  }

  override request(): Promise<never> {
    return Promise.reject(new DeviceNeeded());
  }
}
