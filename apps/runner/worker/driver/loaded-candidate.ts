import type { PlannedLaunch } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Candidate } from '../messages/launchable.ts';
import { type BufferAddresses, prepareLaunches, type PreparedLaunches } from './arguments.ts';
import type { CudaDriver, Handle } from './cuda-driver.ts';

/** A candidate's modules on the device, with the entries that its plan launches. */
export class LoadedCandidate {
  readonly candidate: Candidate;
  readonly #driver: CudaDriver;
  readonly #modules = new Map<string, Handle>();
  readonly #functions: ReadonlyMap<PlannedLaunch, Handle>;

  constructor(driver: CudaDriver, given: Candidate) {
    const candidate = withShared(given);
    this.candidate = candidate;
    this.#driver = driver;
    this.#functions = new Map(
      candidate.plan.launches.map((launch) => [
        launch,
        this.#function(launch.entry, {
          sharedBytes: launch.sharedBytes,
          cluster: launch.cluster !== undefined && driver.facts.clusters,
          ...(launch.cooperative && { cooperative: launch }),
        }),
      ]),
    );
  }

  /** Arguments packed for these buffers; keep the result as long as it is launched. */
  prepare(addresses: BufferAddresses): PreparedLaunches {
    const { plan } = this.candidate;
    return prepareLaunches(this.#driver, { plan, functions: this.#functions, addresses });
  }

  /** Enqueues all launches of the plan, in order. */
  enqueue(prepared: PreparedLaunches): void {
    for (const spec of prepared.specs) this.#driver.launch(spec);
  }

  unload(): void {
    if (this.candidate.plan.launches.some((launch) => launch.l2Persist.length > 0)) {
      // Give the next candidate all of L2 again.
      this.#driver.resetPersistingL2();
      this.#driver.allowPersistingL2(0);
    }
    for (const module of this.#modules.values()) this.#driver.unloadModule(module);
  }

  #function(entry: string, options: Parameters<CudaDriver['function']>[2]): Handle {
    const { image } = this.candidate;
    const found = typeof image === 'string' ? image : entryOf(image, entry);
    const { path, symbol } = typeof found === 'object' ? found : { path: found, symbol: entry };
    if (path === undefined) throw new Error(`No part of the build has ${entry}`);
    const loaded = this.#modules.get(path) ?? this.#driver.loadModule(path);
    this.#modules.set(path, loaded);
    return this.#driver.function(loaded, symbol, options);
  }
}

/** The plan's launches with the shared memory that the compiled code asks for. */
function withShared(candidate: Candidate): Candidate {
  const { image, plan } = candidate;
  if (typeof image === 'string') return candidate;
  const launches = plan.launches.map((launch) => {
    const found = entryOf(image, launch.entry);
    const least = typeof found === 'object' ? (found.sharedBytes ?? 0) : 0;
    return { ...launch, sharedBytes: Math.max(launch.sharedBytes, least) };
  });
  return { ...candidate, plan: { ...plan, launches } };
}
