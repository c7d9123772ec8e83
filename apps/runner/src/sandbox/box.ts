import { readlinkSync, lstatSync } from 'node:fs';
import type { BoxedCommand } from './boxed-command.ts';
import type { BoxedKind } from './call-filters.ts';
import { filterFile } from './filter-file.ts';
import type { ProcessGroup } from './groups.ts';

/** What a boxed program may use; all paths keep their names within. */
export interface BoxPolicy {
  /** Which system calls it may make. */
  kind: BoxedKind;
  /** Its working folder, the only one besides /tmp that it can write to; undefined: none. */
  folder?: string | undefined;
  /** Read-only, besides the system's. What is not there is left out. */
  readable?: readonly string[];
  /** Device nodes that it may open, with /sys and the system's /proc beside them: what a GPU's driver asks for. */
  devices?: readonly string[];
  limits: BoxLimits;
  /** A file out of the box's reach for bubblewrap's own account of how the program ended: endedInBox() reads it. */
  status?: string;
}

export interface BoxLimits {
  /** Of one process, seconds of processor time; undefined for those that live from job to job. */
  cpuSeconds?: number;
  /** Of one file that it writes. */
  fileBytes: number;
  /** Address space; undefined for Node and CUDA, which reserve much and use little. */
  addressBytes?: number;
}

/** How programs that handle foreign source are run. */
export interface Box {
  readonly kind: 'bubblewrap' | 'none';
  /** What it does, or why there is none. */
  readonly detail: string;
  wrap(program: string, args: readonly string[], policy: BoxPolicy): BoxedCommand;
  /** What the box's processes are kept together by, with a box and without; one a name. */
  group(name: string): ProcessGroup;
  /**
   * The box itself, or none where a program does not run in it: one that lies where the box does not lead. Tried with
   * arguments that do nothing; that it works is kept, that it does not is looked at again. Errors: DEVICE_UNAVAILABLE
   * where a box is required.
   */
  for(program: string, args: readonly string[], policy: BoxPolicy): Promise<Box>;
}

/** Enough for the most parallel compiler; a fork bomb ends here. Counted within the box on Linux 5.14 and later. */
const MAX_PROCESSES = 1024;
const TMP_BYTES = 1024 ** 3;
const SHM_BYTES = 64 * 1024 ** 2;
/** The host's, which a box of a root runner could write to: core_pattern runs a program as root. */
const PROC_READ_ONLY = ['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus'].flatMap((path) => [
  '--ro-bind-try',
  path,
  path,
]);
/** Within, whoever the runner is: what a root runner's box could write to as root it can't. */
const NOBODY = ['--unshare-user', '--uid', '65534', '--gid', '65534'];
/**
 * A process namespace of its own: with its first process all others end, whatever they did to leave their group. While
 * bwrap sets a box up, --die-with-parent is not in effect yet, and a box whose
 * outer process is killed would run on: it is spawned in a group of its own, which is killed as one, and which
 * --new-session would make it leave.
 */
const ALONE = ['--unshare-all', ...['--proc', '/proc'], ...PROC_READ_ONLY];
/**
 * A driver counts the processes on its device by the system's numbers, and a container may not mount a /proc. cuInit
 * writes below /proc/self: with all of /proc
 * read-only it fails with CUDA_ERROR_OPERATING_SYSTEM (driver 580.159.04).
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
  /** False: bwrap can keep what runs in the box from making user namespaces of its own (--disable-userns). */
  nestedNamespaces?: boolean;
}

/** The descriptors on which bubblewrap reads the filter and tells how the program ended: it closes both within. */
const FILTER = 8;
const STATUS = 9;
const WITH_FILTER = `filter=$1; shift; exec "$@" ${FILTER}<"$filter"`;
const WITH_FILTER_AND_STATUS = `filter=$1 status=$2; shift 2; exec "$@" ${FILTER}<"$filter" ${STATUS}>"$status"`;

/**
 * The command line of bubblewrap around a program: a view of the system, a filter of system calls, and limits by
 * prlimit within.
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
