/**
 * `npm run estimates [-- LIBRARY]`: measures how far the time estimates of the emulator's PTX engine are from the times
 * on an H200. Traces a few CTAs of every build for which lab/results has hot medians, walks the traces
 * (worker/timing), and estimates each kernel with a scale fitted to the other kernels. For comparison it also estimates
 * the time of the busiest unit from instruction counts. Prints a line per build and writes
 * lab/results/emulator-<date>/estimates.json, from which the runner's constants are copied. Needs nvcc.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  HOPPER,
  LoadedCandidate,
  RunBuffers,
  blocksToTrace,
  kernelCycles,
  operationsOf,
  readTrace,
  type CudaDriver,
  type Filling,
  type Operation,
  type TracedLaunch,
} from '@flashcore/runner/testing';
import { findDataSheet, parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import { launchUs, measuredTimes, type EstimateErrors, type EstimateReport } from '../tables/time-estimates.ts';
import { median } from '@flashcore/shared/statistics';
import { onDevice, type MeasuredDevice } from './device.ts';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

const ROOT = repositoryRoot();
const { device: DEVICE, arch: ARCH, clockMhz } = HOPPER;
const LIMIT_MS = 300_000;
/**
 * Two builds whose measured times differ by less than this fraction are left out when the order of builds is judged.
 */
const APART = 0.05;

/** A build on a shape: its measured time, and the cycles that each model gives. */
interface Row {
  kernel: string;
  label: string;
  shape: string;
  us: number;
  cycles: Record<Model, number>;
  /** Digest of the machine code and of the launch. */
  identity: string;
}

const SHARED_UNITS = new Set<Operation['unit']>(['shared', 'sharedStore', 'matrix']);
const GLOBAL_UNITS = new Set<Operation['unit']>(['global', 'globalStore', 'async']);

const MODELS = ['walked', 'counted'] as const;
type Model = (typeof MODELS)[number];
const TITLES: Readonly<Record<Model, string>> = {
  walked: 'CTAs walked step by step',
  counted: 'the busiest unit by counts alone',
};

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const rounded = (value: number): number => Number(value.toFixed(4));
const estimate = (model: Model, scale: number, cycles: Row['cycles']): number =>
  launchUs() + (scale * cycles[model]) / clockMhz;

const sheet = findDataSheet(DEVICE)!;
const ladder = new Set(readdirSync(join(ROOT, 'kernels')));
let rows: Row[] = [];
await onDevice(
  process.argv[2] ?? 'emulator',
  async (device) => {
    for (const build of buildsOf(device.driver)) rows.push(await rowOf(device, build));
  },
  'ptx',
);
// Builds that differ only in parameters they do not use have the same code, and become one row.
rows = [...Map.groupBy(rows, ({ identity }) => identity).values()].map((same) => ({
  ...same[0]!,
  us: median(same.map(({ us }) => us)),
}));
writeReport();

interface Build {
  kernel: string;
  label: string;
  parameters: Record<string, number>;
  shape: string;
  us: number;
}

/** Every build on every shape once, with the median of all its measurements. */
function buildsOf(driver: CudaDriver): Build[] {
  const builds = measuredTimes(ladder).flatMap(({ kernel, parameters, shape, us }): Build[] => {
    const manifest = manifestOf(kernel);
    const given = Object.entries(parameters)
      .filter(([name]) => name in manifest.parameters)
      .map(([name, value]) => [name, Number(value)] as const);
    const resolved = resolveVariant(manifest, { parameters: Object.fromEntries(given) }, driver.facts);
    return [{ kernel, label: resolved.label, parameters: resolved.parameters, shape, us }];
  });
  const groups = Map.groupBy(builds, ({ kernel, label, shape }) => `${kernel} ${label} ${shape}`);
  return [...groups.values()].map((same) => ({ ...same[0]!, us: median(same.map(({ us }) => us)) }));
}

function manifestOf(kernel: string) {
  const path = join(ROOT, 'kernels', kernel, 'kernel.yaml');
  return parseManifest(readFileSync(path, 'utf8'), path);
}

async function rowOf({ tools, driver }: MeasuredDevice, build: Build): Promise<Row> {
  const { kernel, parameters } = build;
  const manifest = manifestOf(kernel);
  const resolved = resolveVariant(manifest, { parameters }, driver.facts);
  const shape = parseShape(build.shape);
  const plan = planLaunches(manifest, resolved, shape);
  const { image, result } = await tools.kernels.build(
    {
      kernelId: manifest.id,
      folder: join(ROOT, 'kernels', kernel),
      source: manifest.source,
      folderDigest: '',
      resolved,
      arch: ARCH,
      emulated: true,
      entries: [...new Set(plan.launches.map(({ entry }) => entry))],
      launches: plan.launches,
    },
    { signal: AbortSignal.timeout(LIMIT_MS) },
  );
  const [launch] = plan.launches;
  const resources = result.entries.find(({ entry }) => entry === launch?.entry);
  if (!image || !launch || !resources) throw new Error(`${kernel} ${build.label} was not built`);
  const ctas = launch.grid[0] * launch.grid[1] * launch.grid[2];
  const loaded = new LoadedCandidate(driver, { image, plan, launchLimitMs: 0 });
  const buffers = new RunBuffers(driver, plan);
  driver.traceLaunches(blocksToTrace(ctas, shape.causal));
  loaded.enqueue(loaded.prepare(buffers.addresses));
  driver.synchronize();
  const trace = readTrace(driver.tracedLaunches(Infinity)!);
  buffers.free();
  loaded.unload();
  const filling: Filling = {
    ctas,
    multiprocessors: sheet.multiprocessors,
    residents: resources.ctasPerSm,
    registers: resources.registersPerThread,
  };
  const cycles = { walked: kernelCycles(trace, HOPPER, filling), counted: countedCycles(trace, filling) };
  console.log(
    [kernel, build.label, build.shape, build.us.toFixed(2), (cycles.walked / clockMhz).toFixed(2)].join('  '),
  );
  const identity = createHash('sha256')
    .update(JSON.stringify([kernel, build.shape, launch, trace.statements]))
    .digest('hex');
  return { kernel, label: build.label, shape: build.shape, us: build.us, cycles, identity };
}

/** Cycles of the busiest unit, assuming that it never waits. */
function countedCycles(launch: TracedLaunch, { ctas, multiprocessors }: Filling): number {
  const operations = operationsOf(launch, HOPPER);
  const most = launch.blocks.map((warps) => {
    const busy = new Map<string, number>();
    const add = (unit: string, cycles: number): void => void busy.set(unit, (busy.get(unit) ?? 0) + cycles);
    const schedulers = Math.min(4, warps.length);
    for (const { statements: steps, passes } of warps)
      steps.forEach((step, n) => {
        const operation = operations[step]!;
        add('slots', operation.slots / schedulers);
        add(operation.unit, operation.interval / schedulers);
        if (SHARED_UNITS.has(operation.unit)) add('pipe', passes[n]!);
        if (GLOBAL_UNITS.has(operation.unit)) add('L2', passes[n]! / HOPPER.sectors);
      });
    return Math.max(...busy.values());
  });
  return (Math.ceil(ctas / multiprocessors) * most.reduce((sum, cycles) => sum + cycles, 0)) / most.length;
}

function writeReport(): void {
  const report: EstimateReport = {
    command: 'npm run estimates',
    device: DEVICE,
    clockMhz,
    launchUs: launchUs(),
    errors: MODELS.map(errorsOf),
    rows: rows.map(({ kernel, label, shape, us, cycles }) => ({
      kernel,
      label,
      shape,
      us: rounded(us),
      cycles: Math.round(cycles.walked),
      estimateUs: rounded(
        estimate(
          'walked',
          scaleOf(
            'walked',
            rows.filter((row) => row.kernel !== kernel),
          ),
          cycles,
        ),
      ),
    })),
  };
  const folder = join(ROOT, 'lab/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'estimates.json'), `${JSON.stringify(report, undefined, 2)}\n`);
  for (const each of report.errors) console.log(JSON.stringify(each));
}

/**
 * The scale that minimizes the sum of the squared relative errors. Every kernel has the same weight, however many
 * builds it has.
 */
function scaleOf(model: Model, fitted: readonly Row[]): number {
  const builds = Map.groupBy(fitted, ({ kernel }) => kernel);
  let [wanted, square] = [0, 0];
  for (const { kernel, us, cycles } of fitted) {
    const share = cycles[model] / clockMhz / us;
    const weight = 1 / builds.get(kernel)!.length;
    wanted += weight * share * (1 - launchUs() / us);
    square += weight * share * share;
  }
  return wanted / square;
}

function errorsOf(model: Model): EstimateErrors {
  const kernels = [...new Set(rows.map(({ kernel }) => kernel))];
  const estimates = new Map(
    kernels.flatMap((kernel) => {
      const scale = scaleOf(
        model,
        rows.filter((row) => row.kernel !== kernel),
      );
      return rows
        .filter((row) => row.kernel === kernel)
        .map((row) => [row, estimate(model, scale, row.cycles)] as const);
    }),
  );
  const errorOf = (row: Row): number => Math.abs(estimates.get(row)! / row.us - 1);
  const pairs = rows.flatMap((a, n) =>
    rows
      .slice(n + 1)
      .filter(({ shape }) => shape === a.shape)
      .map((b) => {
        const [measured, estimated] = [a.us / b.us, estimates.get(a)! / estimates.get(b)!];
        return {
          kernel: a.kernel === b.kernel ? a.kernel : undefined,
          error: Math.abs(estimated / measured - 1),
          isApart: Math.abs(Math.log(measured)) > APART,
          isWrong: measured > 1 !== estimated > 1,
        };
      }),
  );
  const own = pairs.filter(({ kernel }) => kernel !== undefined);
  const apart = own.filter(({ isApart }) => isApart);
  const meanOf = (each: readonly { error: number }[]): number => mean(each.map(({ error }) => error));
  return {
    model: TITLES[model],
    scale: rounded(scaleOf(model, rows)),
    builds: rounded(mean(rows.map(errorOf))),
    kernels: rounded(mean(kernels.map((kernel) => mean(rows.filter((row) => row.kernel === kernel).map(errorOf))))),
    worst: rounded(Math.max(...rows.map(errorOf))),
    pairs: rounded(meanOf(own)),
    pairKernels: rounded(mean([...Map.groupBy(own, ({ kernel }) => kernel).values()].map(meanOf))),
    apart: apart.length,
    wrongWay: apart.filter(({ isWrong }) => isWrong).length,
    otherKernels: rounded(meanOf(pairs.filter(({ kernel }) => kernel === undefined))),
  };
}
