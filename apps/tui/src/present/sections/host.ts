/** The runner's tools and abilities. A missing tool is listed with the work that is not possible without it. */
import { DeviceState, type Device, type GetHostResponse, type Host, type Tool } from '@flashcore/shared/contract';
import { fact, facts, heading, type Block, type Fact } from '../blocks.ts';
import { counted, formatBytes, formatInstant, formatNumber } from '../numbers.ts';
import { withShortNames } from '../words.ts';
import { caseSetsBlocks, plansBlocks, tolerancesBlocks } from './gate-plan.ts';

export const STATE_WORDS: Record<DeviceState, string> = {
  [DeviceState.UNSPECIFIED]: '-',
  [DeviceState.READY]: 'ready',
  [DeviceState.BUSY]: 'busy',
  [DeviceState.QUARANTINED]: 'quarantined',
};

/** The emulator has the limits of a GPU, but the memory of its host. */
export const memoryLabel = ({ simulated }: Pick<Device, 'simulated'>): string =>
  simulated ? "host's memory" : 'memory';

export const deviceFacts = (device: Device): Fact[] =>
  facts(
    fact('name', `${device.name}, ${device.arch}`),
    fact('state', stateText(device), device.state === DeviceState.QUARANTINED ? 'bad' : undefined),
    fact('SMs', String(device.multiprocessors)),
    // The memory of a partition is unknown until a pilot has run there.
    device.memoryBytes > 0n ? fact(memoryLabel(device), formatBytes(Number(device.memoryBytes))) : undefined,
    fact('L2', formatBytes(Number(device.l2Bytes))),
    fact('SMEM/CTA', `${formatBytes(device.smemOptinBytes)} by opt-in`),
    fact('SMEM/SM', formatBytes(device.smemPerMultiprocessorBytes)),
    fact('registers/SM', formatNumber(device.registersPerMultiprocessor)),
    fact('launches', launchText(device)),
    fact('CUDA', device.driverVersion),
    fact('driver', device.kernelDriverVersion ?? ''),
    device.roofline &&
      fact(
        'ceilings',
        `${formatNumber(device.roofline.fp16TensorTflops)} TFLOP/s fp16 tensor, ${formatNumber(device.roofline.memoryGbPerSecond)} GB/s (${device.roofline.source})`,
      ),
  ).facts.slice();

const stateText = ({ state, stateReason }: Device): string =>
  !stateReason ? STATE_WORDS[state] : withShortNames(`${STATE_WORDS[state]}: ${stateReason}`);

// The device properties that a manifest's `cluster` and `l2_persist` need.
const launchText = ({ clusters, persistingL2Bytes }: Device): string =>
  [
    clusters ? 'clusters' : '',
    persistingL2Bytes > 0n ? `L2 windows of up to ${formatBytes(Number(persistingL2Bytes))}` : '',
  ]
    .filter((part) => part !== '')
    .join(', ');

/** A tool's version, or the work that is not possible without it. */
export const toolText = ({ version, missing, archs }: Tool): string => {
  if (!version) return `missing: ${missing ?? 'reason unknown'}`;
  return archs.length > 0 ? `${version} for ${archs.join(' ')}` : version;
};

/** The plans and cases of the runner, and the caller. */
export type HostAnswer = Partial<
  Pick<GetHostResponse, 'caller' | 'plans' | 'caseSets' | 'tolerances' | 'heldOutShapes'>
>;

export function hostBlocks(
  host: Host,
  { caller, plans = [], caseSets = [], tolerances = [], heldOutShapes = 0 }: HostAnswer = {},
): Block[] {
  const kind = host.embedded ? 'embedded, exits when idle' : 'serves until it is stopped';
  return [
    heading(`flashcore-runner ${host.runnerVersion}`, `API ${host.apiVersion}, build ${host.buildId.slice(0, 12)}`),
    facts(
      fact('host', `${host.hostName}, ${host.platform}`),
      fact('process', `${host.processId} since ${formatInstant(host.startTime)}, ${kind}`),
      fact('jobs', `${host.activeJobs} waiting or running`),
      host.dataDirectory ? fact('data', host.dataDirectory) : undefined,
      fact('isolation', host.isolation ? `${host.isolation.kind}: ${host.isolation.detail}` : 'unknown'),
      caller && caller.name !== 'local' ? fact('you', `${caller.name}, ${caller.role}`) : undefined,
      heldOutShapes > 0 ? fact('held-out', `${counted(heldOutShapes, 'shape')} that no client sees`) : undefined,
    ),
    ...host.devices.flatMap((device): Block[] => [
      heading(`Device ${device.deviceId}`, device.simulated ? 'simulated: its times are not GPU times' : ''),
      { kind: 'facts', facts: deviceFacts(device) },
    ]),
    ...plansBlocks(plans),
    ...caseSetsBlocks(caseSets),
    ...tolerancesBlocks(tolerances),
    heading('Tools'),
    facts(...host.tools.map((tool) => fact(tool.name, toolText(tool), tool.version ? undefined : 'dim'))),
  ];
}
