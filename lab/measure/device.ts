import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  BuildTools,
  CudaDriver,
  DrawnAhead,
  Judge,
  LoadedCandidate,
  OutputLedger,
  loadReference,
  type Candidate,
  type TimedBuild,
  type VectorsWanted,
} from '@flashcore/runner/testing';
import { type Shape } from '@flashcore/shared/contract';
import { parseManifest, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

export interface MeasuredDevice {
  root: string;
  tools: BuildTools;
  driver: CudaDriver;
  /** Path of the driver library. */
  library: string;
}

/**
 * Calls `use` with device 0 of a driver library and a compiler for it. The library "emulator" is flashcore's emulator
 * with the given engine. The compiler's folder is removed afterwards.
 */
export async function onDevice(
  driverName: string,
  work: (device: MeasuredDevice) => Promise<void>,
  engine: 'fibres' | 'ptx' = 'fibres',
): Promise<void> {
  const root = repositoryRoot();
  const folder = mkdtempSync(join(tmpdir(), 'fc-measure-'));
  try {
    const tools = new BuildTools({
      repositoryRoot: root,
      dataDirectory: folder,
      libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'],
      buildCache: process.env['FLASHCORE_BUILD_CACHE'],
      engine,
      vectors: (process.env['FLASHCORE_EMULATOR_VECTORS'] || undefined) as VectorsWanted | undefined,
    });
    const library =
      driverName === 'emulator' ? await tools.libraries.emulator({ signal: AbortSignal.timeout(300_000) }) : driverName;
    await work({ root, tools, driver: new CudaDriver(library, 0), library });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Compiles a kernel folder for the driver's device and prepares it for one shape. */
export async function compile(
  tools: BuildTools,
  driver: CudaDriver,
  path: string,
  shape: Shape,
): Promise<{ id: string; candidate: Candidate }> {
  const manifest = parseManifest(readFileSync(join(path, 'kernel.yaml'), 'utf8'), path);
  const { facts } = driver;
  const resolved = resolveVariant(manifest, {}, facts);
  const plan = planLaunches(manifest, resolved, shape);
  const arch = manifest.exactArch ? manifest.minArch : facts.arch;
  const { image, result } = await tools.kernels.build(
    {
      kernelId: manifest.id,
      folder: path,
      source: manifest.source,
      folderDigest: '',
      resolved,
      arch,
      emulated: facts.simulated,
      entries: [...new Set(plan.launches.map(({ entry }) => entry))],
      launches: plan.launches,
    },
    { signal: AbortSignal.timeout(300_000) },
  );
  if (!image)
    throw new Error(`${manifest.id} does not compile: ${result.diagnostics.map(({ message }) => message).join('; ')}`);
  return {
    id: manifest.id,
    candidate: {
      image,
      plan,
      launchLimitMs: 0,
    },
  };
}

const SEED = '666c617368';

/** A kernel timed as the runner times it: on pools of inputs that the judge's kernels make and check. */
export interface TimedKernel {
  judge: Judge;
  loaded: LoadedCandidate;
  /** Launches in a hot sample. */
  launchesPerSample: number;
  /** `single` times one launch, `several` times launchesPerSample launches. */
  single: TimedBuild;
  several: TimedBuild;
}

/** Compiles the kernel with this id and prepares it for samples. */
export async function timedKernel(
  { root, tools, driver }: MeasuredDevice,
  kernelId: string,
  shape: Shape,
): Promise<TimedKernel> {
  const { candidate } = await compile(tools, driver, join(root, 'kernels', kernelId), shape);
  const listener = { signal: AbortSignal.timeout(300_000) };
  const { arch, simulated } = driver.facts;
  const judge = await Judge.open(
    {
      driver,
      reference: loadReference(await tools.libraries.reference(listener)),
      drawnAhead: new DrawnAhead(),
      judgeImage: await tools.libraries.judge({ arch, emulated: simulated }, listener),
    },
    {
      builds: [candidate],
      seed: SEED,
      tolerance: { absolute: 1e-2, relative: 1e-2 },
      ownTolerances: {},
      judgeRounding: true,
      trials: [],
    },
  );
  const loaded = new LoadedCandidate(driver, candidate);
  const ledger = new OutputLedger(candidate.plan);
  const several = judge.pool(simulated ? 1 : judge.hotLaunches(loaded, ledger));
  return {
    judge,
    loaded,
    launchesPerSample: several.launches,
    single: judge.pool(1).build(loaded, ledger),
    several: several.build(loaded, ledger),
  };
}
