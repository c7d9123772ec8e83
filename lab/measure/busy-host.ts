/**
 * Measures whether compilers that run on the host change the measured times. Takes hot and cold samples on the same
 * inputs while nvcc is stopped (A) and while it runs (B), in blocks A B B A.
 *   node busy-host.js --library libcuda.so.1 --kernel ID [--shape 2x8x512x64] [--blocks 40] [--processes 8]
 *     [--niceness 19] [--flags=--split-compile=0]
 * Prints one JSON object.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ColdSampler, HotSampler, type Sampler } from '@flashcore/runner/testing';
import { formatShape, loadManifest, parseShape, resolveVariant } from '@flashcore/shared/kernels';
import { blockRatioInterval, describe } from '@flashcore/shared/statistics';
import { onDevice, timedKernel, type MeasuredDevice } from './device.ts';

type State = 'still' | 'busy';

const BLOCK: readonly State[] = ['still', 'busy', 'busy', 'still'];
/** Samples per turn. The first sample after each switch between A and B is dropped. */
const SAMPLES = { hot: 6, cold: 16 } as const;

const { values: options } = parseArgs({
  options: {
    library: { type: 'string', default: 'libcuda.so.1' },
    kernel: { type: 'string', default: 'flashcore_v12' },
    shape: { type: 'string', default: '2x8x512x64' },
    blocks: { type: 'string', default: '40' },
    processes: { type: 'string', default: '8' },
    niceness: { type: 'string', default: '19' },
    flags: { type: 'string', default: '' },
  },
});
async function main(device: MeasuredDevice): Promise<void> {
  const { root, driver } = device;
  const shape = parseShape(options.shape);
  const { judge, single, several, launchesPerSample } = await timedKernel(device, options.kernel, shape);
  const manifest = await loadManifest(join(root, 'kernels', options.kernel));
  const { defines } = resolveVariant(manifest, {}, driver.facts);
  const source = `kernels/${options.kernel}/${manifest.source}`;
  const flags = `-cubin -arch=sm_90a -std=c++17 -O3 -lineinfo ${options.flags} -I kernels`;
  const host = new Compilers(`nvcc ${flags} ${defines.join(' ')} ${source}`, {
    cwd: root,
    count: Number(options.processes),
    niceness: options.niceness,
  });
  try {
    const modes = {
      hot: measure(new HotSampler(driver, { build: several, judge: judge.kernels }), SAMPLES.hot, host),
      cold: measure(new ColdSampler(driver, single), SAMPLES.cold, host),
    };
    const of = { device: driver.facts, ...options, shape: formatShape(shape), launchesPerSample };
    const load = {
      processors: availableParallelism(),
      usedPercent: { still: host.usedPercent('still'), busy: host.usedPercent('busy') },
    };
    console.log(JSON.stringify({ ...of, ...load, modes }, null, 1));
  } finally {
    host.end();
  }
}

/** Takes samples while the host is idle and while it is busy. */
function measure(sampler: Sampler, samples: number, host: Compilers): object {
  const us: Record<State, number[]> = { still: [], busy: [] };
  for (let warmUp = 0; warmUp < 20; ++warmUp) sampler.sample();
  for (let block = 0; block < Number(options.blocks); ++block)
    for (const state of BLOCK) {
      host.be(state);
      sampler.sample();
      for (let sample = 0; sample < samples; ++sample) us[state].push(sampler.sample());
    }
  host.be('still');
  const { ratio, low, high } = blockRatioInterval(us.busy, us.still, { perBlock: 2 * samples });
  return {
    stillUs: describe(us.still).p50Us,
    busyUs: describe(us.busy).p50Us,
    busyOverStill: { ratio, low, high },
    samplesOfEach: us.still.length,
  };
}

interface Load {
  cwd: string;
  /** How many compilers run at the same time. */
  count: number;
  niceness: string;
}

/** Runs nvcc in loops, in process groups that can be stopped and continued. */
class Compilers {
  readonly #folder = mkdtempSync(join(tmpdir(), 'fc-busy-'));
  readonly #loops: ChildProcess[];
  #state: State = 'still';
  #last = processorTimes();
  readonly #times: Record<State, { used: number; all: number }> = {
    still: { used: 0, all: 0 },
    busy: { used: 0, all: 0 },
  };

  constructor(command: string, { cwd, count, niceness }: Load) {
    const loop = `while :; do ${command} -o ${this.#folder}/$$.cubin >/dev/null 2>&1; done`;
    this.#loops = Array.from({ length: count }, () =>
      spawn('nice', ['-n', niceness, 'sh', '-c', loop], { cwd, detached: true, stdio: 'ignore' }),
    );
    this.#signal('SIGSTOP');
  }

  be(state: State): void {
    const now = processorTimes();
    this.#times[this.#state].used += now.used - this.#last.used;
    this.#times[this.#state].all += now.all - this.#last.all;
    this.#last = now;
    if (state !== this.#state) this.#signal(state === 'busy' ? 'SIGCONT' : 'SIGSTOP');
    this.#state = state;
  }

  /** Percent of the host's processors in use. */
  usedPercent(state: State): number {
    const { used, all } = this.#times[state];
    return (100 * used) / all;
  }

  end(): void {
    this.#signal('SIGKILL');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #signal(name: NodeJS.Signals): void {
    for (const { pid } of this.#loops) if (pid !== undefined) process.kill(-pid, name);
  }
}

function processorTimes(): { used: number; all: number } {
  const times = cpus().map(({ times: { idle, ...used } }) => ({ idle, used: Object.values(used).reduce(add) }));
  const used = times.map((each) => each.used).reduce(add);
  return { used, all: used + times.map(({ idle }) => idle).reduce(add) };
}

function add(a: number, b: number): number {
  return a + b;
}

await onDevice(options.library, main);
