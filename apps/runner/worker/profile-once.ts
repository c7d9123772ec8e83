/**
 * Launches a candidate a few times and exits. A profiler wraps this program.
 *   node profile-once.js job.json
 * Exit status 0: all launches ended. 3: a CUDA error, printed on standard error.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { LaunchPlan } from '@flashcore/shared/kernels';
import { ClockStamps } from './benchmark/clock-stamps.ts';
import { CudaError } from './driver/cuda-error.ts';
import { CudaDriver } from './driver/cuda-driver.ts';
import { LoadedCandidate } from './driver/loaded-candidate.ts';
import { loadReference } from './driver/reference.ts';
import { type Candidate, type DeviceImage, withScratch } from './messages/launchable.ts';
import type { ProfileOnceJob } from './messages/profiling.ts';
import { RunBuffers } from './verify/buffers.ts';
import { drawInputs, NORMAL } from './verify/inputs.ts';
import { POISONS } from './verify/verify-case.ts';

const EXIT_AFTER_FAULT = 3;
const LOOK_EVERY_MS = 2;

function run(job: ProfileOnceJob): void {
  const { library, deviceOrdinal, candidate, seed, runs, waitFor, done, warmUp } = job;
  const driver = new CudaDriver(library, deviceOrdinal);
  if (warmUp !== undefined) {
    const stamps = new ClockStamps(driver, warmUp);
    driver.profiled(() => stamps.stamp());
    stamps.close();
  }
  const buffers = new RunBuffers(driver, candidate.plan, { guarded: false });
  const drawer = job.referenceLibrary === undefined ? undefined : loadReference(job.referenceLibrary);
  buffers.upload(drawInputs(withoutDerived(candidate.plan), { seed, rule: NORMAL, evenLengths: true }, drawer));
  buffers.poison(POISONS[0]);
  const told = waitFor === undefined ? candidate : withImage(candidate, JSON.parse(toldIn(waitFor)) as DeviceImage);
  const added = told.plan.workspace.slice(candidate.plan.workspace.length);
  const more = new RunBuffers(driver, { ...told.plan, tensors: [], workspace: added }, { guarded: false });
  const loaded = new LoadedCandidate(driver, told);
  const { tensors, workspace } = buffers.addresses;
  const prepared = loaded.prepare({ tensors, workspace: new Map([...workspace, ...more.addresses.workspace]) });
  for (let i = 1; i < runs; ++i) {
    buffers.initialize();
    loaded.enqueue(prepared);
    driver.synchronize();
  }
  buffers.initialize();
  driver.profiled(() => loaded.enqueue(prepared));
  more.free();
  buffers.free();
  loaded.unload();
  if (done !== undefined) writeFileSync(done, '');
}

/** The candidate with the image that is built, and with the scratch memory that its code asks for. */
const withImage = (candidate: Candidate, image: DeviceImage): Candidate => ({
  ...candidate,
  image,
  plan: withScratch(candidate.plan, image),
});

/**
 * Draws the inputs that an oracle would otherwise compute, such as O of a backward pass, because nobody reads the
 * result of a profiled launch.
 */
const withoutDerived = (plan: LaunchPlan): LaunchPlan => ({
  ...plan,
  tensors: plan.tensors.map(({ draw, ...tensor }) => (draw && draw.kind !== 'derived' ? { ...tensor, draw } : tensor)),
});

/** Waits for a file and returns its text. The process that creates the file also ends this one when it exits. */
function toldIn(path: string): string {
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(path)) Atomics.wait(never, 0, 0, LOOK_EVERY_MS);
  return readFileSync(path, 'utf8');
}

try {
  run(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')) as ProfileOnceJob);
} catch (error) {
  if (!(error instanceof CudaError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = EXIT_AFTER_FAULT;
}
