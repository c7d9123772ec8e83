import type { PreparedLaunches } from '../driver/arguments.ts';
import type { CudaDriver, Handle } from '../driver/cuda-driver.ts';
import type { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { Arrangement, CheckedTensor, LaunchPool } from './launch-pool.ts';
import type { OutputLedger } from './output-ledger.ts';
import { regionOf, type Regions } from './pool-memory.ts';

interface TimedBuildParts {
  loaded: LoadedCandidate;
  pool: LaunchPool;
  ledger: OutputLedger;
  /** The build's outputs with their tolerances. */
  outputs: readonly CheckedTensor[];
}

/** The launches of a build in one arrangement of a pool's buffers. */
interface Arranged {
  arrangement: Arrangement;
  prepared: readonly PreparedLaunches[];
  graph: Handle | undefined;
}

/**
 * A build on a pool of inputs and outputs. Every sample differs from the one before in its inputs, in the noise that
 * fills outputs and workspaces, and in each launch's buffers.
 */
export class TimedBuild {
  readonly launches: number;
  readonly #driver: CudaDriver;
  readonly #loaded: LoadedCandidate;
  readonly #pool: LaunchPool;
  readonly #ledger: OutputLedger;
  readonly #outputs: TimedBuildParts['outputs'];
  readonly #workspaces: readonly { name: string; regions: Regions }[];
  readonly #arranged: Arranged[];
  #next = 0;

  constructor(driver: CudaDriver, { loaded, pool, ledger, outputs }: TimedBuildParts) {
    this.#driver = driver;
    this.#loaded = loaded;
    this.#pool = pool;
    this.#ledger = ledger;
    this.#outputs = outputs;
    this.launches = pool.launches;
    this.#workspaces = loaded.candidate.plan.workspace.map(({ name, bytes, initial }) => ({
      name,
      regions: { ...pool.allocateRegions(pool.regions, bytes), initial },
    }));
    this.#arranged = pool.arrangements.map((arrangement) => ({
      arrangement,
      prepared: arrangement.places.map((place) =>
        loaded.prepare({
          tensors: pool.tensorsAt(place),
          workspace: new Map(this.#workspaces.map(({ name, regions }) => [name, regionOf(regions, place.region)])),
        }),
      ),
      graph: undefined,
    }));
  }

  /** Selects the drawn values for the inputs of later samples: 0 for the usual ones, N(0, 1), or a trial's number. */
  use(drawn: number): void {
    this.#pool.use(drawn);
  }

  /** Prepares new inputs, noise and buffers for the launches of the next sample. */
  renew(): void {
    this.#next = (this.#next + 1) % this.#arranged.length;
    this.#pool.renew(this.#loaded.candidate.plan.initialOutputs, this.#own());
  }

  /** Writes initial values into outputs and workspaces that have one, and new noise into the others. */
  initialize(): void {
    this.#pool.renewOwn(this.#loaded.candidate.plan.initialOutputs, this.#own());
  }

  /** Enqueues the launches of a sample, one after another. */
  enqueue(): void {
    for (const prepared of this.#now().prepared) this.#loaded.enqueue(prepared);
  }

  /** Enqueues the launches of a sample as a graph. */
  enqueueGraph(): void {
    const now = this.#now();
    if (now.graph === undefined) throw new Error('captureGraphs() comes before a graph is launched');
    this.#driver.launchGraph(now.graph);
  }

  /** Captures all graphs, before time is measured. */
  captureGraphs(): void {
    for (const each of this.#arranged)
      each.graph ??= this.#driver.captureGraph(() => {
        for (const prepared of each.prepared) this.#loaded.enqueue(prepared);
      });
  }

  /** Checks everything the launches of the sample wrote. */
  check(): void {
    const found = this.#pool.check(this.#now().arrangement, this.#outputs, this.#own());
    this.#ledger.add(found, { launches: this.launches, inputNames: this.#pool.inputNames });
  }

  close(): void {
    for (const { graph } of this.#arranged) if (graph !== undefined) this.#driver.destroyGraph(graph);
  }

  #now(): Arranged {
    return this.#arranged[this.#next]!;
  }

  #own(): Regions[] {
    return this.#workspaces.map(({ regions }) => regions);
  }
}
