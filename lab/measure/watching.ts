/**
 * `npm run watching [kernel …]`: measures what the race and memory checks cost. Runs one launch plan per kernel with
 * and without them on one thread of the PTX engine, in turns, and counts CPU seconds; the least of the rounds counts.
 * Prints a line per kernel and writes lab/results/emulator-<date>/watching.json, from which `npm run ladder` makes the
 * table in docs/emulator.md. `--library NAME=PATH` measures a given build of the emulator; if it is repeated, all of
 * them in the same turns, and nothing is written. `--rounds N`: default 5. Exit code 1: a launch failed.
 *
 * Each measurement runs in a separate process (--one LIBRARY FILE), because a process can load only one library.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { CudaDriver, LoadedCandidate, NORMAL, RunBuffers, drawInputs, type Candidate } from '@flashcore/runner/testing';
import { parseManifest, parseShape, planLaunches, resolveVariant } from '@flashcore/shared/kernels';
import type { WatchingTimes } from '../tables/time-estimates.ts';
import { onDevice, type MeasuredDevice } from './device.ts';
import { repositoryRoot } from '@flashcore/test/support/repository-root';

const ROOT = repositoryRoot();

/** Cases that take at most some tenths of a second. The names with a slash are folders below examples/. */
const CASES: Record<string, string> = {
  fa_v1_baseline: '1x2x256x64',
  fa_v2_wmma: '1x4x512x64',
  fa_tc_s512: '1x8x512x64',
  flashcore_v7: '1x8x512x64',
  flashcore_v9: '1x8x512x64',
  flashcore_v10: '1x8x512x64',
  flashcore_v12: '1x8x512x64',
  'kernels/gemm_tiles': 'M=256,N=256,K=256',
  'kernels/decode_mma': 'B=8,H=32,Hkv=8,Skv=1024,D=128',
  'kernels/triton_attention': '1x8x512x64',
};
const SEED = { seed: '7761746368696e67', rule: NORMAL };
const LIMIT_MS = 600_000;

const { values: flags, positionals } = parseArgs({
  options: {
    one: { type: 'string' },
    library: { type: 'string', multiple: true },
    rounds: { type: 'string', default: '5' },
  },
  allowPositionals: true,
});

if (flags.one !== undefined) {
  console.log(secondsOf(flags.one, positionals[0]!));
} else {
  const folder = mkdtempSync(join(tmpdir(), 'fc-watching-'));
  try {
    await measureAll(positionals.length > 0 ? positionals : Object.keys(CASES), folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A kernel's two builds, each written to a file. */
interface Prepared {
  kernel: string;
  plain: string;
  watched: string;
}

async function measureAll(kernels: readonly string[], folder: string): Promise<void> {
  const given = (flags.library ?? []).map((each) => each.split('=') as [string, string]);
  let libraries: [string, string][] = given;
  const prepared: Prepared[] = [];
  await onDevice(
    given[0]?.[1] ?? 'emulator',
    async (device) => {
      if (given.length === 0) {
        const kept = join(folder, 'libcuda_emu.so');
        writeFileSync(kept, readFileSync(device.library));
        libraries = [['this', kept]];
      }
      for (const kernel of kernels) prepared.push(await prepare(device, kernel, folder));
    },
    'ptx',
  );
  const times = prepared.map((each) => measure(each, libraries));
  if (libraries.length > 1) return;
  const results = join(ROOT, 'lab/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
  mkdirSync(results, { recursive: true });
  const processor = cpus()[0]?.model ?? 'unknown';
  const report = { command: 'npm run watching', processor, rounds: Number(flags.rounds), times };
  writeFileSync(join(results, 'watching.json'), `${JSON.stringify(report, undefined, 2)}\n`);
}

/** Compiles a kernel for both kinds of run. The images are copied, because the compiler's folder is removed. */
async function prepare({ tools, driver }: MeasuredDevice, kernel: string, folder: string): Promise<Prepared> {
  const path = join(ROOT, kernel.includes('/') ? 'examples' : 'kernels', kernel);
  const manifest = parseManifest(readFileSync(join(path, 'kernel.yaml'), 'utf8'), path);
  const { facts } = driver;
  const resolved = resolveVariant(manifest, {}, facts);
  const plan = planLaunches(manifest, resolved, parseShape(CASES[kernel]!));
  const spec = {
    kernelId: manifest.id,
    folder: path,
    source: manifest.source,
    folderDigest: '',
    resolved,
    arch: manifest.exactArch ? manifest.minArch : facts.arch,
    emulated: facts.simulated,
    entries: [...new Set(plan.launches.map(({ entry }) => entry))],
    launches: plan.launches,
  };
  const listener = { signal: AbortSignal.timeout(LIMIT_MS) };
  const plain = (await tools.kernels.build(spec, listener)).image;
  const watched = await tools.kernels.buildInstrumented(spec, listener);
  const keep = (image: typeof plain, name: string): string => {
    if (typeof image !== 'string') throw new Error(`${kernel} does not compile to one file`);
    const base = join(folder, `${manifest.id}.${name}`);
    writeFileSync(`${base}.ptx`, readFileSync(image));
    const candidate: Candidate = { image: `${base}.ptx`, plan, launchLimitMs: 0 };
    writeFileSync(base, serialize(candidate));
    return base;
  };
  return { kernel, plain: keep(plain, 'plain'), watched: keep(watched, 'watched') };
}

/** Measures all libraries in turns, so that other work on the host slows all of them equally. */
function measure({ kernel, plain, watched }: Prepared, libraries: readonly [string, string][]): WatchingTimes {
  const least = new Map<string, { plain: number; watched: number }>();
  for (let round = 0; round < Number(flags.rounds); round += 1)
    for (const [name, path] of libraries) {
      const before = least.get(name) ?? { plain: Infinity, watched: Infinity };
      least.set(name, {
        plain: Math.min(before.plain, inProcess(path, plain)),
        watched: Math.min(before.watched, inProcess(path, watched)),
      });
    }
  const first = least.get(libraries[0]![0])!;
  for (const [name, times] of least) {
    const compared = `plain ${times.plain.toFixed(3)} s, watched ${times.watched.toFixed(3)} s`;
    const ratios = `${(times.watched / times.plain).toFixed(2)} times as long`;
    const toFirst =
      least.size > 1
        ? `; of ${libraries[0]![0]}: plain ${(times.plain / first.plain).toFixed(2)}, watched ${(times.watched / first.watched).toFixed(2)}`
        : '';
    console.log(`${kernel} ${name}: ${compared}, ${ratios}${toFirst}`);
  }
  return { kernel: kernel.replace(/^.*\//, ''), shape: CASES[kernel]!, ...first };
}

function inProcess(library: string, file: string): number {
  const output = execFileSync(process.execPath, [...process.execArgv, import.meta.filename, '--one', library, file], {
    encoding: 'utf8',
    timeout: LIMIT_MS,
    env: { ...process.env, FLASHCORE_EMULATOR_THREADS: '1' },
  });
  return Number(output);
}

/** CPU seconds of the second run of a plan; the first one translates the kernel. */
function secondsOf(library: string, file: string): number {
  const candidate = deserialize(readFileSync(file)) as Candidate;
  const driver = new CudaDriver(library, 0);
  const loaded = new LoadedCandidate(driver, candidate);
  const buffers = new RunBuffers(driver, candidate.plan);
  buffers.upload(drawInputs(candidate.plan, SEED));
  const prepared = loaded.prepare(buffers.addresses);
  const run = (): number => {
    buffers.poison(0x7fff);
    const before = process.cpuUsage();
    loaded.enqueue(prepared);
    driver.synchronize();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  };
  return Math.min(run(), run());
}
