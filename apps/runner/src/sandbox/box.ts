import { readlinkSync, lstatSync, readFileSync, rmSync, closeSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { FlashcoreError } from '@flashcore/shared/contract';
import type { BoxedCommand } from './child.ts';
import { type BoxedKind, CALL_FILTERS } from './call-filters.ts';
import type { ProcessGroup } from './groups.ts';
import { compileFilter } from './bpf.ts';
import { isFilteredArch } from './syscall-numbers.ts';

/** The resources that a boxed program gets. Paths are the same inside and outside the box. */
export interface BoxPolicy {
  /** Selects the filter of system calls. */
  kind: BoxedKind;
  /** The working folder, which is writable like /tmp; undefined: only /tmp is writable. */
  folder?: string | undefined;
  /** Read-only paths, in addition to the system's. Missing ones are left out. */
  readable?: readonly string[];
  /** Device nodes to open, along with /sys and the system's /proc: a GPU's driver needs these. */
  devices?: readonly string[];
  limits: BoxLimits;
  /** A file outside the box to which bubblewrap writes how the program ended; see endedInBox(). */
  status?: string;
}

export interface BoxLimits {
  /** CPU seconds of one process; undefined for processes that live from job to job. */
  cpuSeconds?: number;
  /** Size limit of each file that the program writes. */
  fileBytes: number;
  /** Address space; undefined for Node and CUDA, which reserve much and use little. */
  addressBytes?: number;
}

/** Runs programs that handle foreign source, in a sandbox if there is one. */
export interface Box {
  readonly kind: 'bubblewrap' | 'none';
  /** Describes the box, or says why there is none. */
  readonly detail: string;
  wrap(program: string, args: readonly string[], policy: BoxPolicy): BoxedCommand;
  /** The process group with a name, for the processes of this box, or for unboxed ones if there is no box. */
  group(name: string): ProcessGroup;
  /**
   * This box, or an unboxed one if the program does not run in this box, for example because the box can't reach it.
   * The program is tried with `args`, which make it do nothing; success is cached, failure is checked again. Errors:
   * DEVICE_UNAVAILABLE if a box is required.
   */
  for(program: string, args: readonly string[], policy: BoxPolicy): Promise<Box>;
}

/** Enough for the most parallel compiler, but stops a fork bomb. Counted in the box on Linux 5.14 and later. */
const MAX_PROCESSES = 1024;
const TMP_BYTES = 1024 ** 3;
const SHM_BYTES = 64 * 1024 ** 2;
/**
 * Host files that a root runner's box could write to: core_pattern, for example, makes the kernel run a program as
 * root.
 */
const PROC_READ_ONLY = ['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus'].flatMap((path) => [
  '--ro-bind-try',
  path,
  path,
]);
/** User in the box, so that a root runner's box can't write as root. */
const NOBODY = ['--unshare-user', '--uid', '65534', '--gid', '65534'];
/**
 * A separate process namespace: when its first process ends, all others end too, even those that left their group.
 * While bwrap sets up a box, --die-with-parent is not in effect yet, so a box whose outer process is killed would
 * continue. The box is therefore spawned in its own process group, which is killed as a whole; --new-session would take
 * the box out of that group.
 */
const ALONE = ['--unshare-all', ...['--proc', '/proc'], ...PROC_READ_ONLY];
/**
 * Shares the host's process namespace and /proc: a driver counts the processes on its device by the host's process ids,
 * and a container may not mount a /proc. /proc is writable except for PROC_READ_ONLY, because cuInit writes below
 * /proc/self and fails with CUDA_ERROR_OPERATING_SYSTEM otherwise (driver 580.159.04).
 */
const WITH_DEVICES = [
  '--unshare-ipc',
  '--unshare-net',
  '--unshare-uts',
  '--unshare-cgroup-try',
  '--bind',
  '/proc',
  '/proc',
  ...PROC_READ_ONLY,
  '--ro-bind',
  '/sys',
  '/sys',
];
const SYSTEM_FOLDERS = [
  '/usr',
  '/opt',
  '/nix',
  '/etc/alternatives',
  '/etc/ld.so.cache',
  '/etc/ld.so.conf',
  '/etc/ld.so.conf.d',
];
const SYSTEM_LINKS = ['/bin', '/sbin', '/lib', '/lib64', '/lib32', '/libx32'];

interface BubblewrapOptions {
  bwrap: string;
  prlimit: string;
  /** Whether bwrap leaves nested user namespaces possible, because it lacks --disable-userns. Default: true. */
  nestedNamespaces?: boolean;
}

/** The descriptors for bubblewrap's filter and its report on the program's end; bubblewrap closes both in the box. */
const FILTER = 8;
const STATUS = 9;
const WITH_FILTER = `filter=$1; shift; exec "$@" ${FILTER}<"$filter"`;
const WITH_FILTER_AND_STATUS = `filter=$1 status=$2; shift 2; exec "$@" ${FILTER}<"$filter" ${STATUS}>"$status"`;

/**
 * The bubblewrap command line around a program: a view of the system, a filter of system calls, and limits set by
 * prlimit in the box.
 */
export function bubblewrapCommand({ bwrap, prlimit, nestedNamespaces = true }: BubblewrapOptions): Box['wrap'] {
  const system = [
    ...SYSTEM_FOLDERS.flatMap((path) => ['--ro-bind-try', path, path]),
    ...SYSTEM_LINKS.flatMap(systemLink),
  ];
  return (program, args, { kind, folder, readable = [], devices = [], limits, status }) => ({
    program: '/bin/sh',
    args: [
      ...(status === undefined
        ? ['-c', WITH_FILTER, 'sh', filterFile(kind), bwrap]
        : ['-c', WITH_FILTER_AND_STATUS, 'sh', filterFile(kind), status, bwrap, '--json-status-fd', String(STATUS)]),
      ...['--seccomp', String(FILTER)],
      ...NOBODY,
      ...(devices.length > 0 ? WITH_DEVICES : [...ALONE, ...(nestedNamespaces ? [] : ['--disable-userns'])]),
      ...['--cap-drop', 'ALL'],
      '--die-with-parent',
      ...system,
      '--dev',
      '/dev',
      '--size',
      String(SHM_BYTES),
      '--tmpfs',
      '/dev/shm',
      '--size',
      String(TMP_BYTES),
      '--tmpfs',
      '/tmp',
      ...devices.flatMap((path) => ['--dev-bind', path, path]),
      '--remount-ro',
      '/dev',
      ...readable.flatMap((path) => ['--ro-bind-try', path, path]),
      ...(folder === undefined ? ['--chdir', '/'] : ['--bind', folder, folder, '--chdir', folder]),
      '--',
      prlimit,
      ...limitFlags(limits),
      '--',
      program,
      ...args,
    ],
  });
}

function limitFlags({ cpuSeconds, fileBytes, addressBytes }: BoxLimits): string[] {
  return [
    '--core=0',
    `--nproc=${MAX_PROCESSES}`,
    `--fsize=${fileBytes}`,
    ...(cpuSeconds === undefined ? [] : [`--cpu=${cpuSeconds}`]),
    ...(addressBytes === undefined ? [] : [`--as=${addressBytes}`]),
  ];
}

/** /bin is a link to usr/bin on most systems, and a folder on some. */
function systemLink(path: string): string[] {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return [];
  return found.isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path];
}

/** Whether the program in the box ended by itself; otherwise the box did not start, or failed. Removes the file. */
export function endedInBox(status: string): boolean {
  try {
    return /"exit-code"/.test(readFileSync(status, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  } finally {
    rmSync(status, { force: true });
  }
}

/**
 * The size of a file that a boxed program should have made, checked before the runner reads it: a link in its place
 * would be followed with the runner's rights, and reading a pipe might never end. Errors: INTERNAL.
 */
export function sizeOfMade(path: string): number {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isFile()) return found.size;
  throw new FlashcoreError(
    'INTERNAL',
    {},
    `A tool said that it was done and left ${found ? 'no file' : 'nothing'} where its result was to be: look at the tool's own messages`,
  );
}

/** In memory if the system has /dev/shm, because a full disk must not prevent the box. */
const FOLDERS = ['/dev/shm', tmpdir()];

const files = new Map<BoxedKind, string>();

/**
 * The path through which a process of the runner's user opens the compiled filter of a kind during the runner's life.
 * The file has no name, so no other process can change it and no cleanup removes it. Errors: the system's.
 */
function filterFile(kind: BoxedKind): string {
  let path = files.get(kind);
  if (path === undefined) files.set(kind, (path = namelessFile(compiled(kind))));
  return path;
}

function compiled(kind: BoxedKind): Buffer {
  const { arch } = process;
  if (!isFilteredArch(arch)) throw new Error(`There is a filter for x64 and arm64 only, and this is ${arch}`);
  return compileFilter(CALL_FILTERS[kind], arch);
}

function namelessFile(bytes: Buffer): string {
  const problems: unknown[] = [];
  for (const folder of FOLDERS) {
    const path = join(folder, `flashcore-${randomUUID()}`);
    let descriptor: number | undefined;
    try {
      descriptor = openSync(path, 'wx+', 0o600);
      unlinkSync(path);
      writeSync(descriptor, bytes);
      return `/proc/${process.pid}/fd/${descriptor}`;
    } catch (error) {
      problems.push(error);
      if (descriptor !== undefined) closeSync(descriptor);
    }
  }
  throw new AggregateError(
    problems,
    `Can't keep a filter of system calls in ${FOLDERS.join(' or ')}: ${problems.join(', ')}`,
  );
}
