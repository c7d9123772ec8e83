import { existsSync, mkdirSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { FlashcoreError } from '@flashcore/shared/contract';
import { installedFile } from '@flashcore/shared/kernels';
import type { DeviceFacts, Executor } from '../../worker/messages/device.ts';
import type { Box, BoxLimits } from '../sandbox/box.ts';
import { tellingLine } from '../sandbox/probe.ts';
import { runSync, type SyncEnd } from '../sandbox/run-sync.ts';
import { workerProgram } from '../sandbox/child.ts';

const workerEntry = (): string => workerProgram('worker', 'main.ts');

/** The command that starts a worker process. */
export interface WorkerCommand {
  program: string;
  args: string[];
  env: NodeJS.ProcessEnv;
}

export function plainWorker(): WorkerCommand {
  return { program: process.execPath, args: [workerEntry()], env: workerEnvironment() };
}

// The largest file that an executor writes is a temporary copy of a module.
const MAX_FILE_BYTES = 1024 ** 3;
/** A worker also writes drawn inputs with their right outputs, for rivals. */
const MAX_WORKER_FILE_BYTES = 16 * 1024 ** 3;

/** The GPU of a worker, which needs the driver's nodes and library. */
export interface WorkerGpu {
  library: string;
  ordinal: number;
  /** The only folder besides /tmp that the worker may write to. */
  folder: string;
}

/**
 * A worker in a box with the runner's code and these folders, read-only, and, for a GPU, the driver's nodes. If it does
 * not run in the box, it runs without one, and the box's detail says so.
 */
export async function boxedWorker(box: Box, readable: readonly string[], gpu?: WorkerGpu): Promise<WorkerCommand> {
  if (box.kind === 'none') return plainWorker();
  const entry = workerEntry();
  const { resolve } = createRequire(entry);
  const koffi = realpathSync(resolve('koffi'));
  const packages = koffi.slice(0, koffi.lastIndexOf('/node_modules/') + '/node_modules'.length);
  // A worker that runs from source also needs the source of the shared library.
  const shared = entry.endsWith('.ts')
    ? [join(dirname(realpathSync(resolve('@flashcore/shared/contract'))), '../..')]
    : [];
  const code = [
    dirname(dirname(entry)),
    packages,
    // Plain attention's heads are drawn by the definition of its problem.
    installedFile('problems'),
    ...shared,
    dirname(realpathSync(process.execPath)),
    dirname(process.execPath),
  ];
  // Shows both the given and the real folder. If the given path is a link inside a folder that the box already shows,
  // nothing can be mounted over the link, so the real folder must be there too.
  const library = gpu ? [dirname(gpu.library), dirname(realpathSync(gpu.library))] : [];
  const policy = {
    kind: 'gpu-worker' as const,
    readable: [
      ...new Set([
        ...code,
        ...library,
        ...readable.filter((path) => existsSync(path)).map((path) => realpathSync(path)),
      ]),
    ],
    ...(gpu && { devices: gpuNodes(), folder: gpu.folder }),
    limits: { fileBytes: MAX_WORKER_FILE_BYTES },
  };
  // Without a channel to a parent the worker loads everything it needs, and ends.
  const usable = await box.for(
    process.execPath,
    [entry, ...(gpu ? ['open-device', gpu.library, String(gpu.ordinal)] : [])],
    policy,
  );
  if (usable.kind === 'none') return plainWorker();
  return { ...box.wrap(process.execPath, [entry], policy), env: { ...workerEnvironment(), TMPDIR: '/tmp' } };
}

export interface ExecutorFiles {
  program: string;
  /** The driver library to load. */
  library: string;
  /** Name of its process group: the device's. */
  name: string;
  /**
   * TMPDIR of a worker without a box. It is emptied first, because a worker that its candidate ended may have left
   * files there.
   */
  scratch: string;
}

/**
 * The process that runs the code of candidates, in a box if there is one: it sees the system and, read-only, the
 * folders of its program and of its driver library. A worker starts one for each request.
 */
export const boxedExecutor = (box: Box, { program, library, name, scratch }: ExecutorFiles): Promise<Executor> =>
  boxedProcess(box, {
    kind: 'executor',
    program,
    // Without a channel the program loads the library and ends.
    trial: [library],
    readable: [...new Set([dirname(program), dirname(library)])],
    limits: { fileBytes: MAX_FILE_BYTES },
    group: `executor-${name}`,
    scratch,
  });

export interface ReferenceProcess
  extends
    Pick<ExecutorFiles, 'name' | 'scratch'>,
    Required<Pick<BoxedProcess, 'program' | 'args' | 'trial' | 'readable'>> {
  onlyBoxed?: boolean;
}

/** The process that runs a problem's own reference: it sees the system and the paths in `readable`. */
export const boxedReference = async (box: Box, { name, ...reference }: ReferenceProcess): Promise<Executor> => ({
  ...(await boxedProcess(box, {
    ...reference,
    kind: 'reference',
    limits: { fileBytes: MAX_FILE_BYTES, cpuSeconds: REFERENCE_CPU_SECONDS },
    group: `reference-${name}`,
  })),
  // Only Python must be in a box.
  startsSlowly: reference.onlyBoxed === true,
});

interface BoxedProcess {
  kind: 'executor' | 'reference';
  program: string;
  args?: readonly string[];
  /** Arguments that make the program do nothing, to test whether it runs in the box. */
  trial: readonly string[];
  readable: readonly string[];
  limits: BoxLimits;
  /** Name of the group of processes that end together. */
  group: string;
  /** Folder for temporary files if there is no box; emptied here. */
  scratch: string;
  /** Whether the process may never run without a box; default: false. */
  onlyBoxed?: boolean;
}

/** Errors: DEVICE_UNAVAILABLE if a box is required but missing or unable to run the program. */
async function boxedProcess(
  box: Box,
  { kind, program, args = [], trial, readable, limits, group: name, scratch, onlyBoxed = false }: BoxedProcess,
): Promise<Executor> {
  const policy = { kind, readable, limits };
  const usable = await box.for(program, trial, policy);
  const { path, enter } = box.group(name);
  const group = path === undefined ? {} : { group: path };
  if (usable.kind !== 'none')
    return { ...enter(box.wrap(program, args, policy)), env: { ...candidateEnvironment(), TMPDIR: '/tmp' }, ...group };
  if (onlyBoxed)
    throw new FlashcoreError(
      'DEVICE_UNAVAILABLE',
      { program },
      `A reference in Python runs only in a sandbox (${usable.detail}): install bubblewrap on the runner's host, and serve without --isolation none`,
    );
  const id = randomUUID();
  rmSync(scratch, { recursive: true, force: true });
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  return {
    ...enter({ program, args: [...args] }),
    env: { ...candidateEnvironment(), TMPDIR: scratch, [MARK]: id },
    mark: `${MARK}=${id}`,
    ...group,
  };
}

const REFERENCE_CPU_SECONDS = 600;
const MARK = 'FLASHCORE_EXECUTOR';

/** A minimal environment: no HOME, no credentials, no library paths. */
const candidateEnvironment = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      /^(PATH|LANG|FLASHCORE_EMULATOR_.*)$/.test(name) && value !== undefined ? [[name, value]] : [],
    ),
  );

/** The NVIDIA driver's nodes: one per GPU, control node, unified memory, capabilities; or the node of WSL. */
export function gpuNodes(folder = '/dev'): string[] {
  return readdirSync(folder)
    .filter((name) => /^(nvidia.*|dxg)$/.test(name))
    .sort()
    .map((name) => join(folder, name));
}

const PASSED_ON = /^(PATH|HOME|TMPDIR|LANG|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*|FLASHCORE_EMULATOR_.*)$/;

/** A worker gets only the environment that it needs. */
export function workerEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name)));
}

const LIST_LIMIT_MS = 20_000;

/** A driver's answer about its devices. */
export interface DriverAnswer {
  devices: DeviceFacts[];
  /** Why the driver did not answer; undefined if it did, even without devices. */
  problem: string | undefined;
}

/**
 * The devices of a driver library, queried in a separate process, because a driver that hangs or crashes must not
 * affect the daemon. Synchronous: called once, before the daemon serves.
 */
export function listDevicesOf(library: string, limitMs = LIST_LIMIT_MS): DriverAnswer {
  const end = runSync(process.execPath, [workerEntry(), 'list-devices', library], {
    limitMs,
    environment: workerEnvironment(),
  });
  return end.exitCode === 0
    ? { devices: JSON.parse(end.stdout) as DeviceFacts[], problem: undefined }
    : { devices: [], problem: listFailure(end, limitMs) };
}

function listFailure({ timedOut, startError, stderr, signalName, exitCode }: SyncEnd, limitMs: number): string {
  if (timedOut) return `it did not answer within ${limitMs / 1000} s`;
  if (startError) return startError.message;
  const ended = signalName === undefined ? `with exit status ${exitCode}` : `by ${signalName}`;
  return tellingLine(stderr) ?? `the process that asked it ended ${ended}`;
}
