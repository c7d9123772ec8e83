/** `fa-tui host install`: installs the bundle on a host behind ssh, either completely or not at all. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { FlashcoreError } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';
import { runOnHost, type HostAnswer } from './run-on-host.ts';
import { lastLines } from './ssh-problem.ts';
import type { SshHost } from './ssh-command.ts';
import { asCommand, BUNDLES } from './ssh-address.ts';

const PROBE_LIMIT_MS = 120_000;
const COPY_LIMIT_MS = 30 * 60_000;
/** Space that the host needs for the bundle, packed and unpacked. */
const NEEDED_KIB = 400 * 1024;
const VERSION_DIGITS = 16;

/** Facts about a host, as its shell reports them. */
export interface HostFacts {
  /** Platform in Node's form: linux-x64. */
  readonly platform: string;
  readonly folder: string;
  /** Version of the installed bundle; empty if there is none. */
  readonly current: string;
  readonly freeKib: number;
  /** Paths of the programs found on the host, by name. */
  readonly programs: Readonly<Record<string, string>>;
  /** One line per GPU, such as "NVIDIA H100, 550.54"; empty without a driver. */
  readonly gpus: readonly string[];
}

const PROGRAMS = ['tar', 'xz', 'sha256sum', 'nvcc', 'g++', 'bwrap', 'prlimit', 'ncu', 'python3'] as const;

const PROBE = asCommand(
  [
    'export PATH="$PATH:/usr/local/cuda/bin"',
    `bundles="${BUNDLES}"`,
    'echo "system $(uname -s) $(uname -m)"',
    'echo "folder $bundles"',
    'echo "current $(readlink "$bundles/current")"',
    'echo "free $(df -Pk "$HOME" | tail -n 1)"',
    `for program in ${PROGRAMS.join(' ')}; do echo "program $program $(command -v "$program")"; done`,
    'nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 16 | while read -r gpu; do echo "gpu $gpu"; done',
    'true',
  ].join('; '),
);

/** Reads the facts from the host. Errors: SshError; INVALID_REQUEST for a system without a bundle. */
export async function hostFacts(host: SshHost, environment: NodeJS.ProcessEnv, mayAsk: boolean): Promise<HostFacts> {
  const { stdout } = await runOnHost(host, { command: PROBE, limitMs: PROBE_LIMIT_MS, mayAsk }, environment);
  const said = (key: string): string[] =>
    [...stdout.matchAll(new RegExp(`^${key} (.*)$`, 'gm'))].map(([, value]) => plainLine(value!).trim());
  const [system = ''] = said('system');
  const programs = said('program').flatMap((line) => {
    const [name, path] = line.split(' ');
    return path ? [[name!, path] as const] : [];
  });
  return {
    platform: platformOf(system),
    folder: said('folder')[0] ?? '',
    current: said('current')[0] ?? '',
    freeKib: Number(/(\d+)\s+\d+%\s/.exec(said('free')[0] ?? '')?.[1] ?? Infinity),
    programs: Object.fromEntries(programs),
    gpus: said('gpu'),
  };
}

function platformOf(system: string): string {
  const [name = '', machine = ''] = system.split(' ');
  const architecture = { x86_64: 'x64', amd64: 'x64', aarch64: 'arm64', arm64: 'arm64' }[machine];
  if (name !== 'Linux' || architecture === undefined)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { system },
      `No bundle is for this host: it must run Linux on x86-64 or arm64, and says ${lastLines(system) || 'nothing of itself (does its shell run sh?)'}`,
    );
  return `linux-${architecture}`;
}

/** The first requirement for the installation that the host does not meet, with the package to install. */
export function missingForInstall({ programs, freeKib, folder }: HostFacts): string | undefined {
  const missing = (['tar', 'xz', 'sha256sum'] as const).filter((name) => !programs[name]);
  if (missing.length > 0) return `no ${missing.join(', ')} there: install the packages tar, xz-utils, coreutils`;
  if (freeKib < NEEDED_KIB)
    return `${Math.floor(freeKib / 1024)} MiB are free for ${folder}, ${NEEDED_KIB / 1024} are needed: make room there`;
  return undefined;
}

/** Tools that a runner on the host will lack, each with what it is needed for. */
export const lacking = ({ programs, gpus }: HostFacts): string[] => [
  ...(gpus.length === 0 ? ['no GPU and driver (nvidia-smi says none): jobs run on the emulator'] : []),
  ...(programs['nvcc'] ? [] : ['no nvcc: nothing can be built for a GPU (install the CUDA toolkit)']),
  ...(programs['g++'] ? [] : ['no g++: the CPU reference and the emulator are compiled with it']),
  ...(programs['bwrap'] && programs['prlimit']
    ? []
    : [
        'no bubblewrap and prlimit: kernels are compiled with the rights of the runner (packages bubblewrap, util-linux)',
      ]),
];

/** SHA-256 of a file. */
export async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/** Name of a bundle's folder. */
export const versionOf = (digest: string): string => digest.slice(0, VERSION_DIGITS);

const DIGEST_DIFFERS = 10;
const DOES_NOT_RUN = 11;

// The new folder is moved into place only once it is complete and runs. The link is replaced atomically.
const receive = (digest: string): string =>
  asCommand(
    [
      'set -eu',
      'umask 077',
      `bundles="${BUNDLES}"`,
      'mkdir -p "$bundles"',
      'new="$bundles/.new-$$"',
      'mkdir "$new"',
      'trap "rm -rf \\"$new\\"" EXIT',
      'trap "exit 1" HUP INT TERM',
      'cat > "$new/bundle.tar.xz"',
      'found=$(sha256sum "$new/bundle.tar.xz" | cut -d " " -f 1)',
      `[ "$found" = ${digest} ] || exit ${DIGEST_DIFFERS}`,
      'tar -C "$new" -xJf "$new/bundle.tar.xz"',
      `"$new/flashcore/flashcore-runner" --version || exit ${DOES_NOT_RUN}`,
      `[ -d "$bundles/${versionOf(digest)}" ] || mv "$new/flashcore" "$bundles/${versionOf(digest)}"`,
      `ln -s ${versionOf(digest)} "$new/current"`,
      'mv -Tf "$new/current" "$bundles/current"',
    ].join('; '),
  );

interface Bundle {
  readonly file: string;
  readonly digest: string;
}

/**
 * Copies a bundle to the host, checks its digest there, unpacks it, tries it, and makes it the current one. Returns the
 * version that the bundle prints. Errors: SshError, DIGEST_MISMATCH; RUNNER_UNREACHABLE if the host failed.
 */
export async function install(
  host: SshHost,
  { file, digest }: Bundle,
  { environment, mayAsk }: { readonly environment: NodeJS.ProcessEnv; readonly mayAsk: boolean },
): Promise<string> {
  const command = { command: receive(digest), input: createReadStream(file), limitMs: COPY_LIMIT_MS, mayAsk };
  const answer = await runOnHost(host, command, environment);
  if (answer.exitCode !== 0) throw installError(host, answer);
  return lastLines(answer.stdout);
}

function installError({ address }: SshHost, { exitCode, stderr }: HostAnswer): FlashcoreError {
  const said = lastLines(stderr);
  const about = { address: address.text };
  if (exitCode === DIGEST_DIFFERS)
    return new FlashcoreError(
      'DIGEST_MISMATCH',
      about,
      `What came to ${address.host} is not what was sent (the digests differ), and was removed there: try again`,
    );
  return new FlashcoreError(
    'RUNNER_UNREACHABLE',
    about,
    exitCode === DOES_NOT_RUN
      ? `The bundle does not run on ${address.host}, and what was installed before stays: make one with Node inside for its system (npx nx bundle runner); it said: ${said}`
      : `${address.host} could not install the bundle, and what was installed before stays; it said: ${said}`,
  );
}
