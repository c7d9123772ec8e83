/**
 * `npm run engines [kernel …]`: measures the CPU seconds that each of the emulator's engines needs on one thread for
 * the launches of the seven parity cases with one seed. The engines take turns for two rounds, and each engine's
 * smaller time counts. Prints a line per kernel and writes lab/results/emulator-<date>/engines.json, from which `npm
 * run ladder` makes the table in docs/emulator.md. Exit code 1: an output differs between the engines by more than the
 * tolerance of the parity cases.
 *
 * Each measurement runs in a separate process (--one ENGINE KERNEL), because the engines are two builds of one library.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { LoadedCandidate, NORMAL, RunBuffers, drawInputs } from '@flashcore/runner/testing';
import { formatShape, parseCases } from '@flashcore/shared/kernels';
import type { EngineTimes } from '../tables/time-estimates.ts';
import { compile, onDevice } from './device.ts';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

const ROOT = repositoryRoot();

type Engine = 'fibres' | 'ptx';

/** CPU seconds and some elements of the output, by case. */
interface Sweep {
  seconds: Record<string, number>;
  samples: Record<string, number[]>;
}

const ENGINES: readonly Engine[] = ['fibres', 'ptx'];
const KERNELS = ['fa_v1_baseline', 'flashcore_v6', 'flashcore_v9', 'flashcore_v10', 'faulty/bank_conflict_32way'];
const ROUNDS = 2;
const SAMPLES = 64;
const TOLERANCE = 1e-2;
const LIMIT_MS = 600_000;
const SEED = { seed: '656e67696e6573', rule: NORMAL };

const [mode, engine, kernel] = process.argv.slice(2);
if (mode === '--one') {
  console.log(JSON.stringify(await sweep(engine as Engine, kernel!)));
} else {
  const builds = mkdtempSync(join(tmpdir(), 'fc-engines-'));
  try {
    compareAll(process.argv.length > 2 ? process.argv.slice(2) : KERNELS, builds);
  } finally {
    rmSync(builds, { recursive: true });
  }
}

/** Compares the engines on these kernels. `builds` is a folder for compiled files. */
function compareAll(kernels: readonly string[], builds: string): void {
  const times: EngineTimes[] = kernels.map((path) => {
    const sweeps: Record<Engine, Sweep[]> = { fibres: [], ptx: [] };
    for (let round = 0; round < ROUNDS; round += 1)
      for (const each of ENGINES) sweeps[each].push(inProcess(each, path, builds));
    const [fibres, ptx] = [leastOf(sweeps.fibres), leastOf(sweeps.ptx)];
    const apart = furthest(sweeps.fibres[0]!, sweeps.ptx[0]!);
    if (!(apart <= TOLERANCE)) process.exitCode = 1;
    console.log(`${path}: fibres ${fibres.toFixed(2)} s, ptx ${ptx.toFixed(2)} s, ${(fibres / ptx).toFixed(2)}x`);
    return { kernel: path.replace(/^.*\//, ''), fibres, ptx, furthestApart: apart };
  });
  const folder = join(ROOT, 'lab/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
  mkdirSync(folder, { recursive: true });
  const report = { command: 'npm run engines', processor: cpus()[0]?.model ?? 'unknown', rounds: ROUNDS, times };
  writeFileSync(join(folder, 'engines.json'), `${JSON.stringify(report, undefined, 2)}\n`);
}

/** Takes the minimum over all rounds for each case, and adds these minima. */
function leastOf(sweeps: readonly Sweep[]): number {
  return Object.keys(sweeps[0]!.seconds).reduce(
    (sum, shape) => sum + Math.min(...sweeps.map(({ seconds }) => seconds[shape]!)),
    0,
  );
}

function furthest(a: Sweep, b: Sweep): number {
  return Math.max(
    ...Object.entries(a.samples).flatMap(([shape, values]) =>
      values.map((value, index) => Math.abs(value - b.samples[shape]![index]!)),
    ),
  );
}

function inProcess(wanted: Engine, path: string, builds: string): Sweep {
  const output = execFileSync(process.execPath, [...process.execArgv, import.meta.filename, '--one', wanted, path], {
    encoding: 'utf8',
    timeout: LIMIT_MS,
    env: { ...process.env, FLASHCORE_EMULATOR_THREADS: '1', FLASHCORE_BUILD_CACHE: builds },
  });
  return JSON.parse(output) as Sweep;
}

async function sweep(wanted: Engine, path: string): Promise<Sweep> {
  const file = join(ROOT, 'kernels/cases.yaml');
  const shapes = parseCases(readFileSync(file, 'utf8'), file).sets['parity'];
  const result: Sweep = { seconds: {}, samples: {} };
  await onDevice(
    'emulator',
    async ({ tools, driver }) => {
      for (const shape of shapes) {
        const { candidate } = await compile(tools, driver, join(ROOT, 'kernels', path), shape);
        const loaded = new LoadedCandidate(driver, candidate);
        const buffers = new RunBuffers(driver, candidate.plan);
        buffers.upload(drawInputs(candidate.plan, SEED));
        const prepared = loaded.prepare(buffers.addresses);
        const before = process.cpuUsage();
        loaded.enqueue(prepared);
        driver.synchronize();
        const { user, system } = process.cpuUsage(before);
        result.seconds[formatShape(shape)] = (user + system) / 1e6;
        result.samples[formatShape(shape)] = sampled(new Float16Array(buffers.outputs()['O']!.buffer));
        buffers.free();
        loaded.unload();
      }
    },
    wanted,
  );
  return result;
}

function sampled(values: Float16Array): number[] {
  return Array.from({ length: SAMPLES }, (_, n) => values[Math.floor((n * values.length) / SAMPLES)]!);
}
