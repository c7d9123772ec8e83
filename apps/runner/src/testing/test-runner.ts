import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { RunnerClient, type ClientSecurity } from '@flashcore/shared/client';
import { type JobEvent, type JobFinished } from '@flashcore/shared/contract';
import { PATIENT_MS, temporaryFolder } from '@flashcore/shared/testing';
import { createLogger } from '../log.ts';
import { KEEP_ALL } from '../operation/retention.ts';
import { startRunner, type Runner } from '../runner.ts';
import type { RunnerOptions } from '../serve-options.ts';
import { fakePlanner } from './fake-planner.ts';
import { TEST_HOST } from './test-host.ts';

export const REPOSITORY_ROOT = fileURLToPath(new URL('../../../..', import.meta.url)).replace(/\/$/, '');

export { temporaryFolder };

export interface TestRunner extends AsyncDisposable {
  runner: Runner;
  client: RunnerClient;
  dataDirectory: string;
}

/**
 * Starts a real runner on a Unix socket in its own folder, with the fake planner unless another is given, and connects
 * to it.
 */
export async function startTestRunner(
  options: Partial<RunnerOptions> = {},
  security?: ClientSecurity,
): Promise<TestRunner> {
  const folder = temporaryFolder();
  const dataDirectory = options.dataDirectory ?? join(folder.path, 'data');
  const runner = await startRunner({
    address: { kind: 'unix', path: join(folder.path, 's') },
    dataDirectory,
    kernelsDirectory: join(REPOSITORY_ROOT, 'kernels'),
    embedded: false,
    idleExitSeconds: 30,
    graceSeconds: 1,
    maxQueued: 64,
    maxStreamsPerClient: 256,
    // The fake planner has no box; tests of boxes request one.
    isolation: options.createPlanner ? 'auto' : 'none',
    boxLimits: { memoryBytes: 1024 ** 3, processes: 64 },
    emulator: true,
    emulatorEngine: 'auto',
    headers: [],
    allowRoot: true,
    security: undefined,
    reflection: true,
    quotas: { jobs: 16, callsPerSecond: 50, uploadMibPerHour: 256, deviceHoursPerDay: 24 },
    rates: new Map(),
    heldOut: undefined,
    metrics: undefined,
    retention: KEEP_ALL,
    logLevel: 'silent',
    host: TEST_HOST,
    version: '0.0.0',
    buildId: 'test',
    repositoryRoot: REPOSITORY_ROOT,
    logger: createLogger('silent'),
    createPlanner: ({ decisions }) => fakePlanner({ decisions }),
    ...options,
  }).catch((error: unknown) => {
    folder[Symbol.dispose]();
    throw error;
  });
  const end = async (): Promise<void> => {
    runner.stop();
    runner.stop();
    await runner.ended;
    folder[Symbol.dispose]();
  };
  const client = await RunnerClient.connect({ address: runner.address, security, timeoutMs: PATIENT_MS }).catch(
    async (error: unknown) => {
      await end();
      throw error;
    },
  );
  return {
    runner,
    client,
    dataDirectory,
    async [Symbol.asyncDispose]() {
      client.close();
      await end();
    },
  };
}

/** All events of a stream. */
export async function collect(stream: AsyncIterable<JobEvent>): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** The first event of a stream; the rest is dropped. */
export async function firstEvent(stream: AsyncIterable<JobEvent>): Promise<JobEvent> {
  for await (const event of stream) return event;
  throw new Error('the stream has no event');
}

/** The end of a job, from its last event. */
export function finished(events: readonly JobEvent[]): JobFinished {
  const payload = events.at(-1)?.payload;
  if (payload?.case !== 'finished') throw new Error(`the last event is ${String(payload?.case)}`);
  return payload.value;
}

/** A request for a kernel of the fake planner. */
export const kernel = (kernelId: string) => ({ kernel: { source: { case: 'kernelId' as const, value: kernelId } } });

/** Replaces the parity cases and the probes' shapes by cases that the emulator computes in a second. */
const SMALL_CASES: readonly (readonly [RegExp, string])[] = [
  [
    /(?<=\n {2}parity:\n)(?: {4}-.*\n)+/,
    '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n    - { B: 2, H: 2, S: 64, D: 64, causal: true }\n',
  ],
  [/(?<=\n {2}emulated:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
  [/(?<=\n {2}canonical:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
  [/(?<=\nprobes:\n {2}shapes:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
];

/** A copy of kernels/ in `folder`, as a runner's owner could have it: with small cases and gates of the owner. */
export function ownersKernels(folder: string): string {
  const kernels = join(folder, 'kernels');
  cpSync(join(REPOSITORY_ROOT, 'kernels'), kernels, { recursive: true });
  const file = join(kernels, 'cases.yaml');
  const before = readFileSync(file, 'utf8');
  const after = SMALL_CASES.reduce((text, [place, cases]) => {
    if (!place.test(text)) throw new Error(`cases.yaml has no ${String(place)}`);
    return text.replace(place, cases);
  }, before);
  writeFileSync(file, after);
  return kernels;
}
