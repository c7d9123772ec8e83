import { timestampDate } from '@bufbuild/protobuf/wkt';
import { DeviceState, type Device, type Host, type Tool } from '@flashcore/shared/contract';
import { entryOf } from '@flashcore/shared/text';
import packageJson from '../../package.json' with { type: 'json' };
import { heading, notice, tableOf, type Block } from '../present/blocks.ts';
import { formatBytes, formatNumber } from '../present/numbers.ts';
import { marked, piece, type Role } from '../present/roles.ts';
import { toolText } from '../present/sections/host.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from '../exit-code.ts';

/** "limited": kernels run, but something does not work. "failed": the first experiment of a new user would not run. */
type State = 'ok' | 'limited' | 'failed';

export interface Check {
  readonly name: string;
  readonly state: State;
  /** The result of the check. */
  readonly found: string;
  /** The limitation or risk; empty if the state is "ok". */
  readonly why: string;
  /** A command, or an instruction if there is no command; empty if the state is "ok". */
  readonly fix: string;
}

/** The runner's description of its host, and the client's clock at that time. */
interface Examined {
  readonly host: Host;
  /** Milliseconds since 1970: before the request, and after the answer. */
  readonly askedMs: number;
  readonly answeredMs: number;
}

/** Enough space for a build, its artifacts and the emulator's libraries. */
const LEAST_FREE_BYTES = 2 * 1024 ** 3;
/**
 * Largest clock difference in milliseconds. Tokens and certificates expire, and the times of job events are compared
 * with the client's.
 */
const MOST_CLOCK_MS = 2000;
const MARKS: Record<State, readonly [mark: string, role: Role]> = {
  ok: ['✓', 'good'],
  limited: ['⚠', 'warn'],
  failed: ['✗', 'bad'],
};
/** The package is in NVIDIA's repository; developer.nvidia.com/cuda-downloads says how to add the repository. */
const TOOLKIT = 'apt-get install cuda-toolkit, then put /usr/local/cuda/bin on PATH';
/** Install commands by tool: for Debian and its derivatives and, if it differs, for macOS. */
const INSTALLS: Readonly<Record<string, readonly [debian: string, mac?: string]>> = {
  'g++': ['apt-get install g++', 'xcode-select --install'],
  'clang++': ['apt-get install clang-19', 'brew install llvm'],
  emulator: ['apt-get install g++ clang-19', 'brew install llvm'],
  bwrap: ['apt-get install bubblewrap'],
  nvcc: [TOOLKIT],
  ncu: [TOOLKIT],
  'compute-sanitizer': [TOOLKIT],
  cuobjdump: [TOOLKIT],
  libcuda: ['nvidia-smi, which says why the driver does not answer; then start the runner again'],
};

/**
 * `fa-tui doctor`: checks what a first experiment needs, and lists features that do not work here. Exit code 1 if no
 * experiment would run.
 */
export async function doctor(context: CommandContext): Promise<ExitCode> {
  const checks = await checksOf(context);
  if (context.options.json) context.document({ checks });
  else context.show(doctorBlocks(checks));
  return checks.some(({ state }) => state === 'failed') ? ExitCode.FAILED : ExitCode.PASSED;
}

async function checksOf(context: CommandContext): Promise<Check[]> {
  const client = ok('client', `fa-tui ${packageJson.version}, Node ${process.versions.node}, ${process.platform}`);
  try {
    return [
      client,
      ...(await context.withRunner(async (connection) => runnerChecks(await examine(connection.client)))),
    ];
  } catch (error) {
    const reason = (error as Error).message;
    const fix = 'do what the error says; fa-tui without --runner and FLASHCORE_RUNNER starts a runner of its own';
    return [client, { name: 'runner', state: 'failed', found: reason, why: 'no job runs without a runner', fix }];
  }
}

async function examine(client: {
  getHost(request: Record<string, never>): Promise<{ host?: Host }>;
}): Promise<Examined> {
  const askedMs = Date.now();
  const { host } = await client.getHost({});
  if (!host) throw new Error('the runner says nothing about its host: bring it to the version of this client');
  return { host, askedMs, answeredMs: Date.now() };
}

/** Checks of the runner and its host, the most important first. */
export function runnerChecks(examined: Examined): Check[] {
  const { host } = examined;
  return [
    versionCheck(host),
    ok('host', `${host.hostName}, ${host.platform}`),
    ...host.devices.map(deviceCheck),
    ...(host.devices.length === 0 ? [noDevice] : []),
    ...host.tools.map((tool) => toolCheck(tool, host)),
    isolationCheck(host),
    diskCheck(host),
    clockCheck(examined),
  ];
}

const ok = (name: string, found: string): Check => ({ name, state: 'ok', found, why: '', fix: '' });

const versionCheck = ({ runnerVersion, apiVersion }: Host): Check =>
  runnerVersion === packageJson.version
    ? ok('runner', `flashcore-runner ${runnerVersion}, API ${apiVersion}`)
    : {
        name: 'runner',
        state: 'limited',
        found: `flashcore-runner ${runnerVersion}, API ${apiVersion}; this client is ${packageJson.version}`,
        why: 'what only one of them has is not shown, or refused',
        fix: 'bring both to one version: fa-tui host install ssh://HOST brings this one to a host behind ssh',
      };

const noDevice: Check = {
  name: 'device',
  state: 'failed',
  found: 'none, not even the emulator',
  why: 'no kernel can run',
  fix: INSTALLS['emulator']![0],
};

function deviceCheck({ deviceId, name, arch, simulated, state, stateReason }: Device): Check {
  const found = `${name}, ${arch}${simulated ? ', simulated: its times are not GPU times' : ''}`;
  const check = `device ${deviceId}`;
  if (state !== DeviceState.QUARANTINED) return ok(check, found);
  return {
    name: check,
    state: 'limited',
    found: `${found}, quarantined: ${stateReason ?? 'the runner does not say why'}`,
    why: 'it takes no jobs',
    fix: 'look at nvidia-smi on the host, then start the runner again',
  };
}

/** Checks a tool. g++ is needed on every device, because it compiles the reference. */
function toolCheck(tool: Tool, host: Host): Check {
  if (tool.version) return ok(tool.name, toolText(tool));
  const onlyEmulator = host.devices.every(({ simulated }) => simulated);
  const needed = tool.name === 'g++' || (tool.name === 'emulator' && onlyEmulator);
  const install = entryOf(INSTALLS, tool.name);
  const [debian, mac = debian] = install ?? ['see docs/hosting.md'];
  const why = tool.missing ?? 'the runner does not say what it is for';
  return {
    name: tool.name,
    state: needed ? 'failed' : 'limited',
    found: 'missing',
    // After the colon the runner says how to get the tool, which `fix` does more precisely.
    why: install === undefined ? why : why.replace(/: .*$/s, ''),
    fix: host.platform.startsWith('darwin') ? mac : debian,
  };
}

function isolationCheck({ isolation }: Host): Check {
  if (isolation && isolation.kind !== 'none') return ok('sandbox', isolation.kind);
  return {
    name: 'sandbox',
    state: 'limited',
    found: isolation?.detail ?? 'unknown',
    why: 'compilers and kernels of others run with the rights of the runner; beyond loopback it does not start so',
    fix: INSTALLS['bwrap']![0],
  };
}

function diskCheck({ freeDiskBytes, dataDirectory }: Host): Check {
  if (freeDiskBytes === undefined)
    return {
      name: 'disk',
      state: 'limited',
      found: 'unknown: the runner does not say how much is free',
      why: 'a full disk ends jobs',
      fix: 'df -h on the host',
    };
  const found = `${formatBytes(Number(freeDiskBytes))} free${dataDirectory ? ` at ${dataDirectory}` : ''}`;
  if (freeDiskBytes >= BigInt(LEAST_FREE_BYTES)) return ok('disk', found);
  return {
    name: 'disk',
    state: 'limited',
    found,
    why: `jobs, artifacts and libraries need about ${formatBytes(LEAST_FREE_BYTES)}; a full disk ends jobs`,
    fix: 'free space there, or start the runner with --data on another disk',
  };
}

function clockCheck({ host, askedMs, answeredMs }: Examined): Check {
  if (!host.time)
    return {
      name: 'clock',
      state: 'limited',
      found: 'unknown: the runner does not tell its time',
      why: 'tokens and certificates are valid for a time',
      fix: 'date on both machines',
    };
  const theirsMs = timestampDate(host.time).getTime();
  const aheadMs = theirsMs < askedMs ? theirsMs - askedMs : Math.max(0, theirsMs - answeredMs);
  if (Math.abs(aheadMs) <= MOST_CLOCK_MS) return ok('clock', 'as the client has it');
  return {
    name: 'clock',
    state: 'limited',
    found: `${formatNumber(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the client's`,
    why: 'tokens and certificates are valid for a time, and jobs are shown as older or younger than they are',
    fix: 'timedatectl set-ntp true, on the machine whose clock is wrong',
  };
}

function doctorBlocks(checks: readonly Check[]): Block[] {
  const counts = (state: State): number => checks.filter((check) => check.state === state).length;
  const columns = [
    { title: 'check', cell: ({ name, state }: Check) => marked(MARKS[state][0], name, MARKS[state][1]) },
    { title: 'found', shrinkTo: 20, cell: ({ found }: Check) => found },
  ];
  const noteOf = ({ why, fix }: Check) => (fix === '' ? undefined : piece(`${why}. Fix: ${fix}`, 'dim'));
  const [failed, limited] = [counts('failed'), counts('limited')];
  return [
    heading('Doctor', 'what a first experiment needs, and what is not possible without more'),
    tableOf(columns, checks, noteOf),
    failed > 0
      ? notice(`${failed} of ${checks.length} checks failed: a first experiment does not run`, 'bad')
      : notice(
          limited > 0
            ? `experiments run; ${limited} of ${checks.length} checks found limits`
            : `all ${checks.length} checks passed`,
          'good',
        ),
  ];
}
