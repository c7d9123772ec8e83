import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  FleetBuildsSchema,
  FleetSchema,
  GpusSchema,
  PilotState,
  type Device,
  type Fleet,
  type FleetBuilds,
  type Gpus,
  type Pilot,
  type Plain,
} from '@flashcore/shared/contract';
import type { ClientLoad } from '../jobs/job-context.ts';
import type { PilotRow } from '../store/fleet-table.ts';
import type { PartitionSettings } from './fleet-file.ts';
import type { NodeGpus } from './scheduler.ts';

/** A registered pilot, with the data that the account reads. */
export interface AccountedPilot {
  id: number;
  partition: string;
  node: string;
  lacks: string;
  startMs: number;
  leaving: boolean;
  away: boolean;
  work: { job: string; usedMs: (nowMs: number) => number } | undefined;
}

/** Everything else that the account needs to describe a cluster, apart from its own counts. */
export interface FleetState {
  partitions: readonly PartitionSettings[];
  device: (partition: string) => Device | undefined;
  live: readonly AccountedPilot[];
  /** All pilots that have not ended. */
  submitted: readonly PilotRow[];
  waitingJobs: (partition: string) => number;
  clients: (partition: string) => ClientLoad[];
  /** undefined if pilots build the kernels. */
  builds?: FleetBuilds | undefined;
  nowMs: number;
}

const NOTHING_SPENT = { heldMs: 0, usedMs: 0 };

/** Counts jobs and GPU time since the gateway's start, and describes the cluster for GetHost. */
export class FleetAccount {
  /** Why the last round with the scheduler failed; undefined if it did not fail. */
  schedulerProblem: string | undefined;
  /** Pilots that were refused, by their id in the store, until they have ended or registered. */
  readonly refusals = new Map<number, { partition: string; text: string }>();
  /** The scheduler's last count of GPUs; empty if it gave none. */
  gpus: readonly NodeGpus[] = [];
  requeues = 0;
  lostLeases = 0;
  refusedEvents = 0;
  /** Time held and used by pilots and jobs that have ended, by partition. */
  readonly #spent = new Map<string, { heldMs: number; usedMs: number }>();

  /** Adds time that a pilot held or a job used, when either has ended. */
  spend(partition: string, { heldMs = 0, usedMs = 0 }: { heldMs?: number; usedMs?: number }): void {
    const before = this.#spent.get(partition) ?? NOTHING_SPENT;
    this.#spent.set(partition, { heldMs: before.heldMs + heldMs, usedMs: before.usedMs + usedMs });
  }

  describe(state: FleetState): Fleet {
    const { partitions, device, live, submitted, waitingJobs, clients, builds } = state;
    const byId = new Map(live.map((pilot) => [pilot.id, pilot]));
    return create(FleetSchema, {
      partitions: partitions.map(({ partition, max }) => ({
        ...this.#secondsOf(partition, state),
        name: partition,
        deviceName: device(partition)?.name ?? '',
        maxPilots: max,
        freePilots: live.filter((one) => one.partition === partition && !one.leaving && !one.away && !one.work).length,
        waitingJobs: waitingJobs(partition),
        ...gpusOf(this.gpus.filter((one) => one.partition === partition)),
        clients: clients(partition).map(({ client, waiting, running, used, weight }) => ({
          client,
          waitingJobs: waiting,
          runningJobs: running,
          recentSeconds: used,
          weight,
        })),
      })),
      pilots: submitted.map((row) => describePilot(row, byId.get(row.id))),
      ...(this.schedulerProblem !== undefined && { schedulerProblem: this.schedulerProblem }),
      requeues: BigInt(this.requeues),
      lostLeases: BigInt(this.lostLeases),
      refusedEvents: BigInt(this.refusedEvents),
      ...gpusOf(this.gpus),
      builds: builds ?? create(FleetBuildsSchema, { place: "on the pilots' nodes" }),
    });
  }

  #secondsOf(partition: string, { live, nowMs }: FleetState): { heldSeconds: number; usedSeconds: number } {
    const { heldMs, usedMs } = this.#spent.get(partition) ?? NOTHING_SPENT;
    const own = live.filter((one) => one.partition === partition);
    return {
      heldSeconds: own.reduce((sum, { startMs }) => sum + nowMs - startMs, heldMs) / 1000,
      usedSeconds: own.reduce((sum, { work }) => sum + (work?.usedMs(nowMs) ?? 0), usedMs) / 1000,
    };
  }
}

/** Adds up the GPUs, counting each node once, because partitions may share nodes. */
function gpusOf(all: readonly NodeGpus[]): { gpus?: Gpus } {
  if (all.length === 0) return {};
  const nodes = [...new Map(all.map((one) => [one.node, one])).values()];
  const sum = (key: 'total' | 'free'): number => nodes.reduce((before, one) => before + one[key], 0);
  return { gpus: create(GpusSchema, { total: sum('total'), free: sum('free') }) };
}

function describePilot(
  { schedulerJob, partition, submitMs }: PilotRow,
  live: AccountedPilot | undefined,
): Plain<Pilot> {
  return {
    schedulerJob,
    partition,
    state: stateOf(live),
    node: live?.node ?? '',
    job: live?.work?.job ?? '',
    submitTime: timestampFromMs(submitMs),
    ...(live && { startTime: timestampFromMs(live.startMs) }),
    lacks: live?.lacks ?? '',
  };
}

function stateOf(live: AccountedPilot | undefined): PilotState {
  if (!live) return PilotState.PENDING;
  if (live.away) return PilotState.AWAY;
  if (live.work) return PilotState.BUSY;
  return live.leaving ? PilotState.LEAVING : PilotState.IDLE;
}
