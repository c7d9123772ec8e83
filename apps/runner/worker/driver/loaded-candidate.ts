import type { PlannedLaunch } from '@flashcore/shared/kernels';
import type { Candidate } from '../messages.ts';
import type { BufferAddresses } from './arguments.ts';
import { prepareLaunches, type PreparedLaunches } from './arguments.ts';
import type { CudaDriver, Handle } from './cuda-driver.ts';

/** A candidate's module on the device, with the entries that its plan launches. */
export class LoadedCandidate {
  readonly candidate: Candidate;
  readonly #driver: CudaDriver;
  readonly #module: Handle;
  readonly #functions: ReadonlyMap<PlannedLaunch, Handle>;

  constructor(driver: CudaDriver, candidate: Candidate) {
    this.candidate = candidate;
    this.#driver = driver;
    this.#module = driver.loadModule(candidate.image);
    this.#functions = new Map(
      candidate.plan.launches.map((launch) => [
        launch,
        driver.function(this.#module, launch.entry, {
          sharedBytes: launch.sharedBytes,
          cluster: launch.cluster !== undefined && driver.facts.clusters,
        }),
      ]),
    );
  }

  /** Arguments packed for these buffers; keep the result as long as it is launched. */
  prepare(addresses: BufferAddresses): PreparedLaunches {
    const { plan, shape } = this.candidate;
    return prepareLaunches(this.#driver, {
      plan,
      functions: this.#functions,
      addresses,
      extent: { ...shape, dtype: plan.dtype },
    });
  }

  /** Enqueues all launches of the plan, in order. */
  enqueue(prepared: PreparedLaunches): void {
    for (const spec of prepared.specs) this.#driver.launch(spec);
  }

  unload(): void {
    if (this.candidate.plan.launches.some((launch) => launch.l2Persist.length > 0)) {
      // The next candidate has all of L2 again.
      this.#driver.resetPersistingL2();
      this.#driver.allowPersistingL2(0);
    }
    this.#driver.unloadModule(this.#module);
  }
}
