/**
 * Measures how much of a launch's time overlaps the previous launch, from the time per launch in graphs of 1, 2, 5, 10,
 * 50 and 200 launches, and in a graph with an empty kernel after each launch. docs/measuring.md uses the figures to
 * explain why ncu's gpu__time_duration is above the hot figure.
 *   node launch-overlap.js --library libcuda.so.1 --kernels ID,… [--shape 2x8x512x64] [--rounds 60] --jobs DIR
 * Prints one JSON object. Writes DIR/<kernel>.json, which profile-once.js launches for ncu.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  EventPair,
  LoadedCandidate,
  NORMAL,
  RunBuffers,
  drawInputs,
  type Candidate,
  type CudaDriver,
  type Handle,
  type ProfileOnceJob,
} from '@flashcore/runner/testing';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import { describe } from '@flashcore/shared/statistics';
import { compile, onDevice, type MeasuredDevice } from './device.ts';

const LAUNCHES = [1, 2, 5, 10, 50, 200];
const SEPARATED_LAUNCHES = 50;
const SEED = { seed: '666c617368', rule: NORMAL };
/** How often a profiled process launches the kernel. The first launches warm up. */
const PROFILED_RUNS = 12;

/** A captured graph, and the number of launches to divide its time by. */
interface Subject {
  kernel: string;
  name: string;
  graph: Handle;
  launches: number;
  samplesUs: number[];
}

interface Loaded {
  kernel: string;
  enqueue: () => void;
}

const { values: options } = parseArgs({
  options: {
    library: { type: 'string', default: 'libcuda.so.1' },
    kernels: { type: 'string', default: 'flashcore_v6' },
    shape: { type: 'string', default: '2x8x512x64' },
    rounds: { type: 'string', default: '60' },
    jobs: { type: 'string' },
  },
});
await onDevice(options.library, main);

async function main({ root, tools, driver, library }: MeasuredDevice): Promise<void> {
  const shape = parseShape(options.shape);
  const folders = [
    join(root, 'lab/measure/empty'),
    ...options.kernels.split(',').map((id) => join(root, 'kernels', id)),
  ];
  const kernels: Loaded[] = [];
  for (const path of folders) {
    const { id, candidate } = await compile(tools, driver, path, shape);
    if (options.jobs)
      writeJob(options.jobs, id, { library, deviceOrdinal: 0, candidate, seed: SEED.seed, runs: PROFILED_RUNS });
    kernels.push({ kernel: id, enqueue: load(driver, candidate) });
  }
  const [empty] = kernels;
  const subjects = kernels.flatMap((each) => subjectsOf(driver, each, empty!));
  measure(driver, subjects);
  const rows = subjects.map(({ kernel, name, launches, samplesUs }) => ({
    kernel,
    name,
    launches,
    usPerLaunch: describe(samplesUs).p50Us,
    low: describe(samplesUs).p50LowUs,
    high: describe(samplesUs).p50HighUs,
    samples: samplesUs.length,
  }));
  console.log(JSON.stringify({ device: driver.facts, shape: formatShape(shape), rows }, null, 1));
}

/** Stores the image with the job, because the build's artifacts are removed when this process ends. */
function writeJob(jobs: string, id: string, job: ProfileOnceJob): void {
  mkdirSync(jobs, { recursive: true });
  const image = join(jobs, `${id}.cubin`);
  // A job for one shape has one image, which is the path of a file.
  writeFileSync(image, readFileSync(job.candidate.image as string));
  writeFileSync(join(jobs, `${id}.json`), JSON.stringify({ ...job, candidate: { ...job.candidate, image } }));
}

function load(driver: CudaDriver, candidate: Candidate): () => void {
  const loaded = new LoadedCandidate(driver, candidate);
  const buffers = new RunBuffers(driver, candidate.plan);
  buffers.upload(drawInputs(candidate.plan, SEED));
  const prepared = loaded.prepare(buffers.addresses);
  return () => loaded.enqueue(prepared);
}

function subjectsOf(driver: CudaDriver, { kernel, enqueue }: Loaded, empty: Loaded): Subject[] {
  const subject = (name: string, launches: number, record: () => void): Subject => ({
    kernel,
    name,
    launches,
    samplesUs: [],
    graph: driver.captureGraph(() => {
      for (let i = 0; i < launches; ++i) record();
    }),
  });
  const chains = LAUNCHES.map((launches) => subject(`graph of ${launches}`, launches, enqueue));
  if (kernel === empty.kernel) return chains;
  return [
    ...chains,
    subject('an empty kernel after each', SEPARATED_LAUNCHES, () => {
      enqueue();
      empty.enqueue();
    }),
  ];
}

/**
 * Measures the subjects in turns, so that all see the same state of the device. The first replay of a turn keeps the
 * stream busy while the timed replay is enqueued.
 */
function measure(driver: CudaDriver, subjects: readonly Subject[]): void {
  const events = new EventPair(driver);
  for (let round = -3; round < Number(options.rounds); ++round) {
    for (const { graph, launches, samplesUs } of subjects) {
      driver.launchGraph(graph);
      const us = events.time(() => driver.launchGraph(graph)) / launches;
      if (round >= 0) samplesUs.push(us);
    }
  }
  events.close();
}
