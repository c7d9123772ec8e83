import { accessSync, constants, writeFileSync } from 'node:fs';
import { errorText } from '@flashcore/shared/text';
import { benchmark, type BenchmarkTools } from './benchmark/latency.ts';
import { compare } from './benchmark/interleaved.ts';
import { DrawnAhead } from './benchmark/judge.ts';
import { PREPARE_LIMIT_MS } from './benchmark/sampling.ts';
import { Conditions } from './benchmark/conditions.ts';
import { runCanary } from './canary.ts';
import { countLaunches } from './count-launches.ts';
import { setAttribute } from './driver/adopted-processes.ts';
import { CudaError } from './driver/cuda-error.ts';
import { CudaDriver } from './driver/cuda-driver.ts';
import { listDevices } from './driver/device-facts.ts';
import { loadReference } from './driver/reference.ts';
import type { NativeLibrary } from './driver/declarations.ts';
import { ExecutorEnded, RemoteLibrary, type ExecutorEnd } from './driver/remote-library.ts';
import type { Proceed, ReplyByRequest, SentRequest, WorkerMessage, WorkerRequest } from './messages/channel.ts';
import type { ConditionsRequest, OpenRequest } from './messages/device.ts';
import type { DrawRequest } from './messages/measuring.ts';
import type { PrepareRequest } from './messages/verifying.ts';
import { proceed, reporter, sendToParent } from './reporter.ts';
import { drawInputs } from './verify/inputs.ts';
import { ReferenceFailed } from './verify/own-reference.ts';
import { ReferenceBook } from './verify/reference-book.ts';
import { CandidateRun, POISONS, verifyCase } from './verify/verify-case.ts';

/**
 * State of the process that holds a device. It answers one request at a time and exits after a CUDA error, because the
 * context cannot be trusted after one. It knows nothing of jobs, the daemon's files or the network.
 */
interface Open extends Omit<BenchmarkTools, 'driver' | 'reporter'> {
  /** Kept across requests, or a function that opens a new library in a separate process for each request. */
  driver: CudaDriver | (() => NativeLibrary & Disposable);
  ordinal: number;
  book: ReferenceBook;
}

const EXIT_AFTER_FAULT = 3;
const OPEN_LIMIT_MS = 60_000;
const SIGKILL = 9;
const OOM_SCORE = '/proc/self/oom_score_adj';
/** oom_score_adj, up to 1000: candidates and compilers have 1000, the daemon 0. */
const WORKER_SCORE = '500';
let open: Open | undefined;

async function handle(request: WorkerRequest): Promise<ReplyByRequest[keyof ReplyByRequest]> {
  if (request.type === 'open') return openDevice(request);
  if (!open) throw new Error(`${request.type} came before open`);
  if (request.type === 'conditions') return open.conditions.read(request.ownProcesses);
  if (request.type === 'prepare') {
    open.book.prepare(request.cases);
    return null;
  }
  // Nothing may be computed while launches are timed.
  if (request.type !== 'verify') await open.book.clear();
  if (request.type === 'draw') {
    await reporter.step('drawing the inputs of timed launches', PREPARE_LIMIT_MS);
    await open.drawnAhead.draw(request.timed, { ...request, reference: open.reference });
    return null;
  }
  if (request.type !== 'benchmark') open.drawnAhead.clear();
  if (open.driver instanceof CudaDriver) return work(open.driver, { ...open, separate: false }, request);
  using library = open.driver();
  return await work(new CudaDriver(library, open.ordinal), { ...open, separate: true }, request);
}

async function work(
  driver: CudaDriver,
  { book, separate, driver: _, ...tools }: Open & { separate: boolean },
  request: Exclude<WorkerRequest, OpenRequest | PrepareRequest | DrawRequest | ConditionsRequest>,
): Promise<ReplyByRequest[keyof ReplyByRequest]> {
  const { reference } = tools;
  switch (request.type) {
    case 'canary':
      return runCanary(driver, request.image, reporter);
    case 'verify':
      return verifyCase(driver, { reference, book, separate }, request, reporter);
    case 'run-once': {
      const run = await CandidateRun.open(driver, request.candidate, reporter);
      await run.once(drawInputs(request.candidate.plan, request.input, reference), POISONS[0], request.input.seed);
      run.close();
      return null;
    }
    case 'count':
      return countLaunches(driver, request, { reporter, reference });
    case 'benchmark':
      return benchmark({ ...tools, driver, reporter }, request);
    case 'compare':
      return compare({ ...tools, driver, reporter }, request);
  }
}

async function openDevice(request: OpenRequest): Promise<ReplyByRequest['open']> {
  await reporter.step('opening the device', OPEN_LIMIT_MS);
  const { executor, library, deviceOrdinal: ordinal } = request;
  const start = executor && (() => new RemoteLibrary(executor, library));
  using first = start?.();
  const driver = new CudaDriver(first ?? library, ordinal);
  const reference = loadReference(request.referenceLibrary);
  open = {
    driver: start ?? driver,
    ordinal,
    reference,
    book: new ReferenceBook(reference),
    drawnAhead: new DrawnAhead(),
    conditions: new Conditions(request.nvmlLibrary, driver),
    clockStampImage: request.clockStampImage,
    judgeImage: request.judgeImage,
  };
  return driver.facts;
}

/**
 * The message about an executor's end. If a box did not start or was killed from outside, nothing is known about its
 * candidate.
 */
function whatEnded({ answered, fromOutside, exitCode, signalName, problem }: ExecutorEnd): WorkerMessage {
  if (answered && !fromOutside) return { type: 'crashed', exitCode, signalName, problem };
  const how = problem ?? (signalName === null ? `exit status ${exitCode}` : signalName);
  const message = answered
    ? `the box of the kernel's code was ended from outside (${how}): look at the host's memory, and try again`
    : `the process for the kernel's code did not start (${how}): look at its box`;
  return { type: 'failed', message };
}

async function answer({ outputEnd, ...request }: SentRequest): Promise<void> {
  // The leading newline ends a line that a kernel left unfinished.
  const endOutput = (): void => [process.stdout, process.stderr].forEach((to) => to.write(`\n${outputEnd}\n`));
  try {
    const value = await handle(request);
    endOutput();
    await sendToParent({ type: 'done', value });
  } catch (error) {
    if (error instanceof CudaError) {
      endOutput();
      await sendToParent({ type: 'fault', fault: error.fault });
      process.exit(EXIT_AFTER_FAULT);
    }
    if (error instanceof ExecutorEnded) {
      await sendToParent(whatEnded(await error.end));
      process.exit(EXIT_AFTER_FAULT);
    }
    await sendToParent({
      type: 'failed',
      message: errorText(error),
      wrongDefinition: error instanceof ReferenceFailed,
    });
  }
}

if (process.argv[2] === 'open-device') {
  // Checks whether this process, or the box it is in, can use a device; throws an error with the reason if not.
  const driver = new CudaDriver(process.argv[3] ?? '', Number(process.argv[4]));
  driver.free(driver.allocate(4096));
  process.exit(0);
}
if (process.argv[2] === 'list-devices') {
  // Prints one line of JSON for the daemon, which itself loads no driver.
  process.stdout.write(`${JSON.stringify(listDevices(process.argv[3] ?? ''))}\n`);
  process.exit(0);
}

/**
 * Asks Linux to kill this process when its parent dies, however that happens. A process in a hung native call
 * would not notice that the channel is closed. Linux only; elsewhere a hung worker outlives a killed daemon.
 */
function dieWithParent(): void {
  if (process.platform !== 'linux') return;
  setAttribute('PR_SET_PDEATHSIG', SIGKILL);
  dieBeforeDaemon();
}

/** If memory runs out, Linux kills this process before the daemon, which holds all jobs. */
function dieBeforeDaemon(): void {
  if (isWritable(OOM_SCORE)) writeFileSync(OOM_SCORE, WORKER_SCORE);
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false; // A container may mount /proc read-only.
  }
}

dieWithParent();
process.on('message', (request: SentRequest | Proceed) => {
  if (request.type === 'proceed') return proceed();
  answer(request).catch((error: unknown) => {
    process.stderr.write(`worker: no answer could be sent: ${String(error)}\n`);
    process.exit(1);
  });
});
// The parent is gone, so nobody needs an answer.
process.on('disconnect', () => process.exit(0));
// Ctrl-C in a terminal goes to the whole group; the parent decides when this process ends.
process.on('SIGINT', () => undefined);
