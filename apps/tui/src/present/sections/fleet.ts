/** The cluster behind a gateway: partitions, pilots, and the jobs that lost their pilot. */
import {
  PilotState,
  type Device,
  type Fleet,
  type FleetBuilds,
  type Gpus,
  type Partition,
  type PartitionClient,
  type Pilot,
} from '@flashcore/shared/contract';
import { fact, facts, heading, notice, tableOf, type Block, type Column, type Fact } from '../blocks.ts';
import {
  formatElapsed,
  formatCost,
  formatCount,
  formatPercent,
  formatSeconds,
  formatShortInstant,
} from '../numbers.ts';
import { piece } from '../roles.ts';
import { shortName } from '../words.ts';

const STATE_WORDS: Record<PilotState, string> = {
  [PilotState.UNSPECIFIED]: '-',
  [PilotState.PENDING]: 'pending',
  [PilotState.IDLE]: 'idle',
  [PilotState.BUSY]: 'busy',
  [PilotState.LEAVING]: 'leaving',
  [PilotState.AWAY]: 'away',
};

/** Data for the page that the gateway's fleet message does not contain. */
export interface AboutFleet {
  /** The gateway's devices, with the price per hour if known. */
  devices: readonly Device[];
  /** The kernel and parameters of a job; undefined if they are not known here. */
  titleOf: (job: string) => string | undefined;
}

export function fleetBlocks(fleet: Fleet, { devices, titleOf }: AboutFleet): Block[] {
  return [
    ...(fleet.schedulerProblem === undefined ? [] : [notice(fleet.schedulerProblem, 'bad')]),
    heading('Partitions', gpusText(fleet.gpus)),
    tableOf(partitionColumns(fleet, devices), fleet.partitions),
    ...queueBlocks(fleet),
    ...nodeBlocks(fleet),
    heading('Pilots'),
    fleet.pilots.length === 0 ? notice('none: the next job brings one') : tableOf(pilotColumns(titleOf), fleet.pilots),
    heading('Since the gateway started'),
    facts(
      ...buildFacts(fleet.builds),
      fact('requeued', `${formatCount(fleet.requeues)} jobs, after their pilot was lost or gave them back`),
      fact('lost leases', formatCount(fleet.lostLeases)),
      fact('refused events', `${formatCount(fleet.refusedEvents)}, under leases that had ended`),
    ),
  ];
}

const partitionColumns = ({ pilots }: Fleet, devices: readonly Device[]): Column<Partition>[] => {
  const count = (partition: string, state: PilotState): string =>
    String(pilots.filter((pilot) => pilot.partition === partition && pilot.state === state).length);
  return [
    { title: 'partition', cell: ({ name }) => name },
    { title: 'device', shrinkTo: 12, cell: ({ deviceName }) => deviceName },
    { title: 'busy', align: 'right', cell: ({ name }) => count(name, PilotState.BUSY) },
    { title: 'idle', align: 'right', cell: ({ freePilots }) => String(freePilots) },
    { title: 'pending', align: 'right', drop: 2, cell: ({ name }) => count(name, PilotState.PENDING) },
    { title: 'most', align: 'right', drop: 1, cell: ({ maxPilots }) => String(maxPilots) },
    { title: 'waiting', align: 'right', cell: ({ waitingJobs }) => String(waitingJobs) },
    { title: 'GPUs free', align: 'right', drop: 3, cell: ({ gpus }) => (gpus ? `${gpus.free} of ${gpus.total}` : '-') },
    { title: 'GPU held', align: 'right', cell: ({ heldSeconds }) => formatElapsed(heldSeconds) },
    { title: 'in use', align: 'right', cell: inUseText },
    { title: 'cost', align: 'right', cell: (partition) => costText(partition, devices) },
  ];
};

/** Free and total GPUs of the whole cluster, which jobs of other users occupy too. */
const gpusText = (gpus: Gpus | undefined): string =>
  gpus ? `${formatCount(gpus.free)} of ${formatCount(gpus.total)} GPUs free` : '';

/** Empty for an older gateway, which does not report builds. */
function buildFacts(builds: FleetBuilds | undefined): Fact[] {
  if (!builds) return [];
  const { place, problem, seconds, endedWithoutGpu, running } = builds;
  return [
    fact('builds', problem === undefined ? place : `${place}; ${problem}`, problem === undefined ? undefined : 'warn'),
    fact(
      'built',
      `${formatSeconds(seconds)} before a GPU was taken, ${running} jobs now; ${formatCount(endedWithoutGpu)} jobs needed none`,
    ),
  ];
}

/** A client's share of a partition. */
interface Share extends PartitionClient {
  readonly partition: string;
}

/** The waiting and running jobs of each client; the client whose turn is next comes first. */
function queueBlocks({ partitions }: Fleet): Block[] {
  const shares = partitions.flatMap(({ name, clients }) => clients.map((client) => ({ ...client, partition: name })));
  return shares.length === 0 ? [] : [heading('Queue by user'), tableOf(SHARE_COLUMNS, shares)];
}

const SHARE_COLUMNS: Column<Share>[] = [
  { title: 'user', shrinkTo: 8, cell: ({ client }) => client },
  { title: 'partition', cell: ({ partition }) => partition },
  { title: 'waiting', align: 'right', cell: ({ waitingJobs }) => String(waitingJobs) },
  { title: 'running', align: 'right', cell: ({ runningJobs }) => String(runningJobs) },
  { title: 'used lately', align: 'right', cell: ({ recentSeconds }) => formatElapsed(recentSeconds) },
  { title: 'weight', align: 'right', drop: 1, cell: ({ weight }) => String(weight) },
];

/** The pilots of one node. */
interface NodeUse {
  readonly node: string;
  readonly pilots: readonly Pilot[];
}

function nodeBlocks({ pilots }: Fleet): Block[] {
  const nodes = [...new Set(pilots.flatMap(({ node }) => node || []))].toSorted((a, b) =>
    a.localeCompare(b, 'en', { numeric: true }),
  );
  const uses = nodes.map((node): NodeUse => ({ node, pilots: pilots.filter((pilot) => pilot.node === node) }));
  return uses.length === 0 ? [] : [heading('Nodes'), tableOf(NODE_COLUMNS, uses), ...lackNotices(uses)];
}

/** Lists abilities that nodes lack; each text appears once. */
function lackNotices(uses: readonly NodeUse[]): Block[] {
  const lacking = uses.flatMap(({ node, pilots }) =>
    [...new Set(pilots.map(({ lacks }) => lacks))].filter((lacks) => lacks !== '').map((lacks) => ({ node, lacks })),
  );
  return [...Map.groupBy(lacking, ({ lacks }) => lacks)].map(([lacks, nodes]) =>
    notice(`${nodes.map(({ node }) => node).join(', ')}: ${lacks}`, 'dim'),
  );
}

const NODE_COLUMNS: Column<NodeUse>[] = [
  { title: 'node', shrinkTo: 8, cell: ({ node }) => node },
  { title: 'partition', cell: ({ pilots }) => [...new Set(pilots.map(({ partition }) => partition))].join(', ') },
  { title: 'pilots', align: 'right', cell: ({ pilots }) => String(pilots.length) },
  {
    title: 'busy',
    align: 'right',
    cell: ({ pilots }) => String(pilots.filter(({ state }) => state === PilotState.BUSY).length),
  },
  {
    title: 'jobs',
    shrinkTo: 8,
    cell: ({ pilots }) => pilots.flatMap(({ job }) => (job === '' ? [] : shortName(job))).join(' ') || '-',
  },
];

const inUseText = ({ heldSeconds, usedSeconds }: Partition): string =>
  heldSeconds === 0 ? '-' : formatPercent((100 * usedSeconds) / heldSeconds);

function costText({ name, heldSeconds }: Partition, devices: readonly Device[]): string {
  const rate = devices.find(({ deviceId }) => deviceId.endsWith(`:${name.toLowerCase()}`))?.usdPerHour;
  if (rate === undefined) return 'not known';
  // A rate of 0 is the emulator's, whose time is free.
  return rate === 0 ? '-' : formatCost((rate * heldSeconds) / 3600);
}

const pilotColumns = (titleOf: AboutFleet['titleOf']): Column<Pilot>[] => [
  { title: 'pilot', cell: ({ schedulerJob }) => schedulerJob },
  { title: 'partition', cell: ({ partition }) => partition },
  { title: 'state', cell: ({ state }) => piece(STATE_WORDS[state], state === PilotState.BUSY ? 'accent' : undefined) },
  { title: 'node', shrinkTo: 8, cell: ({ node }) => node || '-' },
  { title: 'since', cell: ({ startTime, submitTime }) => formatShortInstant(startTime ?? submitTime) },
  {
    title: 'job',
    shrinkTo: 8,
    cell: ({ job }) => (job === '' ? '-' : `${shortName(job)} ${titleOf(job) ?? ''}`.trim()),
  },
];
