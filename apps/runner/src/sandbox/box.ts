import { execFile } from 'node:child_process';
import { existsSync, readlinkSync, lstatSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { FlashcoreError } from '@flashcore/shared';

/** What a boxed program may use; all paths keep their names within. */
export interface BoxPolicy {
  /** Its working folder, the only one besides /tmp that it can write to; undefined: none. */
  folder?: string | undefined;
  /** Read-only, besides the system's. What is not there is left out. */
  readable?: readonly string[];
  /** Device nodes that it may open, with /sys and the system's /proc beside them: what a GPU's driver asks for. */
  devices?: readonly string[];
  limits: BoxLimits;
}

export interface BoxLimits {
  /** Of one process, seconds of processor time; undefined for those that live from job to job. */
  cpuSeconds?: number;
  /** Of one file that it writes. */
  fileBytes: number;
  /** Address space; undefined for Node and CUDA, which reserve much and use little. */
  addressBytes?: number;
}

/** A program and its arguments, as they are to be spawned. */
export interface BoxedCommand {
  program: string;
  args: string[];
}

export type IsolationWanted = 'auto' | 'none' | 'required';

/** How programs that handle foreign source are run. */
export interface Box {
  readonly kind: 'bubblewrap' | 'none';
  /** What it does, or why there is none. */
  readonly detail: string;
  wrap(program: string, args: readonly string[], policy: BoxPolicy): BoxedCommand;
  /** The box itself, or none where a program does not run in it: one that lies where the box does not lead. Tried once a program, with arguments that do nothing. Errors: DEVICE_UNAVAILABLE where a box is required. */
  for(program: string, args: readonly string[], policy: BoxPolicy): Promise<Box>;
}

/** Enough for the most parallel compiler; a fork bomb ends here. Counted within the box on Linux 5.14 and later. */
const MAX_PROCESSES = 1024;
const TMP_BYTES = 1024 ** 3;
const PROBE_LIMIT_MS = 5_000;
/** Opening a GPU takes seconds on a busy host. */
const DEVICE_PROBE_LIMIT_MS = 30_000;
/** A process namespace of its own: with its first process all others end, whatever they did to leave their group. */
const ALONE = ['--unshare-all', '--proc', '/proc'];
/**
 * A driver counts the processes on its device by the system's numbers, and a container may not mount a /proc. cuInit writes below /proc/self: with all of /proc
 * read-only it fails with CUDA_ERROR_OPERATING_SYSTEM (driver 580.159.04).
 */
const WITH_DEVICES = ['--unshare-user-try', '--unshare-ipc', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try', '--bind', '/proc', '/proc', '--ro-bind-try', '/proc/sys', '/proc/sys', '--ro-bind', '/sys', '/sys'];
const SYSTEM_FOLDERS = ['/usr', '/opt', '/nix', '/etc/alternatives', '/etc/ld.so.cache', '/etc/ld.so.conf', '/etc/ld.so.conf.d'];
const SYSTEM_LINKS = ['/bin', '/sbin', '/lib', '/lib64', '/lib32', '/libx32'];

const DETAIL = 'compilers and the emulator\'s worker see the system and their own files read-only, have a /tmp of their own and no network, see no other process, end with the runner, '
  + 'and are limited in processor time, processes and file size';
const UNBOXED = 'compilers and workers run with the rights of the runner: send it only code that you trust';

/** Tries bubblewrap with all that it will be used with. Takes about 10 ms. */
export async function findBox(wanted: IsolationWanted): Promise<Box> {
  if (wanted === 'none') return noBox('switched off by --isolation none');
  const bwrap = findProgram('bwrap');
  const prlimit = findProgram('prlimit');
  if (process.platform !== 'linux') return noBox('bubblewrap is for Linux only');
  if (!bwrap) return noBox('bwrap was not found: install bubblewrap');
  if (!prlimit) return noBox('prlimit was not found: install util-linux');
  const box = bubblewrap({ bwrap, prlimit, required: wanted === 'required' });
  const problem = await tryBox(box);
  return problem === undefined ? box : noBox(`bubblewrap does not work here: ${problem}`);
}

function noBox(reason: string): Box {
  const box: Box = { kind: 'none', detail: `${reason}; ${UNBOXED}`, wrap: (program, args) => ({ program, args: [...args] }), for: () => Promise.resolve(box) };
  return box;
}

function bubblewrap({ bwrap, prlimit, required }: { bwrap: string; prlimit: string; required: boolean }): Box {
  const system = [
    ...SYSTEM_FOLDERS.flatMap((path) => ['--ro-bind-try', path, path]),
    ...SYSTEM_LINKS.flatMap(systemLink),
  ];
  const tried = new Map<string, Promise<string | undefined>>();
  const boxed: string[] = [];
  const unboxed: string[] = [];
  const box: Box = {
    kind: 'bubblewrap',
    get detail() {
      return [DETAIL, ...boxed, ...unboxed].join('; ');
    },
    wrap: (program, args, { folder, readable = [], devices = [], limits }) => ({
      program: bwrap,
      args: [
        ...(devices.length > 0 ? WITH_DEVICES : ALONE), '--die-with-parent', '--new-session',
        ...system,
        '--dev', '/dev', '--size', String(TMP_BYTES), '--tmpfs', '/tmp',
        ...devices.flatMap((path) => ['--dev-bind', path, path]),
        ...readable.flatMap((path) => ['--ro-bind-try', path, path]),
        ...(folder === undefined ? ['--chdir', '/'] : ['--bind', folder, folder, '--chdir', folder]),
        '--', prlimit, ...limitFlags(limits), '--', program, ...args,
      ],
    }),
    async for(program, args, policy) {
      const key = [program, ...(policy.devices ?? [])].join(' ');
      let problem = tried.get(key);
      if (!problem) {
        problem = tryCommand(box.wrap(program, args, policy), policy.devices ? DEVICE_PROBE_LIMIT_MS : PROBE_LIMIT_MS);
        tried.set(key, problem);
        const first = await problem;
        const what = policy.devices ? `a worker with ${policy.devices.join(', ')}` : program;
        if (first === undefined && policy.devices) boxed.push(`a GPU's worker sees the driver's nodes (${policy.devices.join(', ')}), /sys and the system's /proc besides`);
        if (first !== undefined) unboxed.push(`${what} does not run in the box (${first}) and runs with the rights of the runner`);
      }
      const found = await problem;
      if (found === undefined) return box;
      if (required) throw new FlashcoreError('DEVICE_UNAVAILABLE', { program }, `Serve without --isolation required, or use a program that runs in the box: ${program} does not (${found})`);
      return noBox('');
    },
  };
  return box;
}

function limitFlags({ cpuSeconds, fileBytes, addressBytes }: BoxLimits): string[] {
  return [
    '--core=0', `--nproc=${MAX_PROCESSES}`, `--fsize=${fileBytes}`,
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

/** What is wrong with it; undefined when a program ran in it. */
function tryBox(box: Box): Promise<string | undefined> {
  return tryCommand(box.wrap('/bin/sh', ['-c', 'test ! -e /etc/passwd && echo boxed >/tmp/probe'], { limits: { cpuSeconds: 5, fileBytes: 4096 } }));
}

function tryCommand({ program, args }: BoxedCommand, timeout = PROBE_LIMIT_MS): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(program, args, { timeout, killSignal: 'SIGKILL' }, (error, _stdout, stderr) => {
      resolve(error ? tellingLine(stderr) ?? error.message.split('\n')[0] : undefined);
    });
  });
}

/** What a program says of its failure: its first line, or that of a JavaScript error, which stands below its place. */
function tellingLine(stderr: string): string | undefined {
  const lines = stderr.split('\n').map((line) => line.trim()).filter((line) => line !== '');
  return lines.find((line) => /^\w*Error\b.*: /.test(line)) ?? lines[0];
}

function findProgram(name: string): string | undefined {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/bin', '/bin'].filter((folder) => folder.startsWith('/')).map((folder) => join(folder, name)).find((path) => existsSync(path));
}
