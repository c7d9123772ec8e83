import { spawnSync } from 'node:child_process';

/**
 * Programs that some tests need on this machine: the package, and a command that succeeds if the program is installed.
 */
const HOST_PROGRAMS = {
  bubblewrap: ['bwrap', '--ro-bind', '/', '/', 'true'],
  openssl: ['openssl', 'version'],
  python3: ['python3', '--version'],
  'python3-grpcio': ['/usr/bin/python3', '-c', 'from grpc import insecure_channel; import google.protobuf'],
  'python3-pip': ['python3', '-m', 'pip', '--version'],
  'python3-torch': ['/usr/bin/python3', '-c', 'import torch'],
  // A clang that can compile for Hopper, under any of its names. Apple's clang produces no PTX.
  clang: [
    'sh',
    '-c',
    'for c in clang++ clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 clang++-16; do $c --target=nvptx64-nvidia-cuda --print-supported-cpus 2>&1 | grep -q sm_90 && exit; done; exit 1',
  ],
  // Checked with the Python that the runner uses.
  triton: ['sh', '-c', '"${FLASHCORE_PYTHON:-python3}" -I -c "import triton"'],
  fish: ['fish', '--version'],
  'kubernetes-client': ['kubectl', 'version', '--client'],
  micro: ['micro', '-version'],
  nano: ['nano', '--version'],
  nvcc: ['sh', '-c', 'nvcc --version || /usr/local/cuda/bin/nvcc --version'],
  // A Slurm cluster with its own daemons needs root.
  'slurm-wlm': ['sh', '-c', 'command -v slurmctld slurmd sbatch munged && test "$(id -u)" = 0'],
  tmux: ['tmux', '-V'],
  sshd: ['sh', '-c', 'test -x /usr/sbin/sshd && command -v ssh ssh-keygen pgrep'],
  vim: ['vim', '--version'],
  'xz-utils': ['xz', '--version'],
  zsh: ['zsh', '--version'],
  systemd: ['systemd-analyze', '--version'],
} as const satisfies Record<string, readonly [string, ...string[]]>;

export type HostProgram = keyof typeof HOST_PROGRAMS;

const known = new Map<HostProgram, boolean>();

/**
 * Whether a test must be skipped because a program is not installed: `test.skipIf(missing('openssl'))`. The test run
 * ends with a list of the tests that were skipped for this reason.
 */
export function missing(name: HostProgram): boolean {
  const [program, ...args] = HOST_PROGRAMS[name];
  if (!known.has(name)) known.set(name, spawnSync(program, args, { stdio: 'ignore' }).status !== 0);
  return known.get(name)!;
}

/** The programs that a test file names and that this machine lacks. */
export const missingIn = (source: string): HostProgram[] =>
  (Object.keys(HOST_PROGRAMS) as HostProgram[]).filter(
    (name) => source.includes(`missing('${name}')`) && missing(name),
  );

/** Whether this run is `npm run test:all`. */
export const ALL_TESTS = process.env['FLASHCORE_TESTS'] === 'all';

/** The cases of a test: all of them in `npm run test:all`, and those that `inShort` picks in `npm test`. */
export const inFull = <Each>(all: readonly Each[], inShort: (each: Each) => boolean): Each[] =>
  ALL_TESTS ? [...all] : all.filter(inShort);
