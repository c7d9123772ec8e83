/**
 * `npx nx fleet-sim lab`: runs a gateway on a simulated cluster, with jobs recorded on an H200. Measures the points of
 * the table in docs/fleet.md, writes lab/results/fleet-…/simulated.json, and makes the table and the plot from it.
 * With --nodes and --jobs it measures one point and only prints it.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { simulateCluster } from '@flashcore/runner/testing-daemon';
import { Random } from '@flashcore/shared/statistics';
import { repositoryRoot } from '@flashcore/test/support/repository-root';
import { SIMULATED, type SimulatedPoint, writePage } from './page.ts';
import { recordedExperiments, terse } from './recorded-experiments.ts';

const GPUS_PER_NODE = 8;
/** The longest time that a runner and its worker took to start on the H200's host. */
const START_SECONDS = 3;
const USERS = 20;
/**
 * A job's events cost as much as all its other work. Most points therefore leave the events out, and one point measures
 * their cost.
 */
const POINTS: readonly Point[] = [
  { nodes: 200, jobs: 1_000, whole: false },
  { nodes: 20, jobs: 1_000, whole: true },
  { nodes: 2, jobs: 10_000, whole: false },
  { nodes: 20, jobs: 10_000, whole: false },
  { nodes: 200, jobs: 10_000, whole: false },
  { nodes: 200, jobs: 100_000, whole: false },
];

interface Point {
  nodes: number;
  jobs: number;
  /** Whether jobs send all their events and their results of 55 KB. */
  whole: boolean;
}

const { values } = parseArgs({
  options: {
    nodes: { type: 'string' },
    jobs: { type: 'string', default: '1000' },
    whole: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
  },
});
const seed = numberOf('seed', values.seed);
if (values.nodes === undefined) runAll();
else {
  const point = { nodes: numberOf('nodes', values.nodes), jobs: numberOf('jobs', values.jobs), whole: values.whole };
  process.stdout.write(`${JSON.stringify(await simulate(point))}\n`);
  // Timers of ended jobs would keep the process alive.
  process.exit(0);
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} ${text}: must be a whole number above 0`);
  return value;
}

/** Each point runs in a separate process, so that the measured memory is only that point's. */
function runAll(): void {
  const points: SimulatedPoint[] = [];
  const path = join(repositoryRoot(), SIMULATED);
  mkdirSync(dirname(path), { recursive: true });
  for (const { nodes, jobs, whole } of POINTS) {
    const options = [`--nodes=${nodes}`, `--jobs=${jobs}`, `--seed=${seed}`, ...(whole ? ['--whole'] : [])];
    const output = execFileSync(process.execPath, [...process.execArgv, import.meta.filename, ...options], {
      encoding: 'utf8',
    });
    process.stdout.write(output);
    points.push(JSON.parse(output) as SimulatedPoint);
    const machine = `${cpus().length} processors (${cpus()[0]?.model.trim() ?? 'unknown'}), Node ${process.versions.node}`;
    writeFileSync(path, `${JSON.stringify({ machine, seed, points }, null, 2)}\n`);
  }
  writePage();
}

async function simulate({ nodes, jobs: count, whole }: Point): Promise<SimulatedPoint> {
  const recorded = recordedExperiments().map((experiment) => (whole ? experiment : terse(experiment)));
  const random = new Random(seed);
  const jobs = Array.from({ length: count }, () => recorded[Math.floor(random.uniform() * recorded.length)]!);
  const simulation = await simulateCluster({
    nodes,
    gpusPerNode: GPUS_PER_NODE,
    jobs,
    startSeconds: START_SECONDS,
    users: USERS,
  });
  const listSeconds = listSchedule(
    jobs.map(({ seconds }) => seconds),
    nodes * GPUS_PER_NODE,
  );
  return { nodes, gpus: nodes * GPUS_PER_NODE, jobs: count, whole, listSeconds, ...simulation };
}

/**
 * Seconds that jobs of the given lengths take on `gpus` GPUs if they start in order, each on the first free GPU, and
 * scheduling takes no time.
 */
function listSchedule(seconds: readonly number[], gpus: number): number {
  // Times at which the GPUs become free, as a binary heap.
  const free = Array.from({ length: gpus }, () => 0);
  let end = 0;
  for (const job of seconds) {
    const at = free[0]! + job;
    end = Math.max(end, at);
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child + 1 < gpus && free[child + 1]! < free[child]!) child += 1;
      if (child >= gpus || free[child]! >= at) break;
      free[index] = free[child]!;
      index = child;
    }
    free[index] = at;
  }
  return end;
}
