import type { Device } from '@flashcore/shared/contract';
import type { Register } from '@flashcore/shared/fleet';
import { plainLine } from '@flashcore/shared/text';
import type { PilotRow } from '../store/fleet-table.ts';
import { lacksOf, missingOf } from './pilot-admission.ts';
import type { PilotLink } from './pilot-link.ts';
import type { PilotWork } from './pilot-work.ts';

/** A pilot that has registered with this gateway or an earlier one. */
export interface LivePilot extends PilotRow {
  /** undefined if the pilot is away and may come back. */
  link: PilotLink | undefined;
  node: string;
  device: Device;
  lacks: string;
  /** Names of the tools that are missing on the node. */
  missing: ReadonlySet<string>;
  startMs: number;
  idleSinceMs: number;
  secondsLeft: number | undefined;
  leaving: boolean;
  work: PilotWork | undefined;
  /** Timer that gives up a pilot that is away. */
  givenUp?: NodeJS.Timeout | undefined;
}

/** A pilot with less time left than this takes no further job. */
const LEAST_SECONDS_LEFT = 60;

/** Whether a pilot has time for another job. */
export const hasTime = ({ secondsLeft = Infinity }: LivePilot): boolean => secondsLeft >= LEAST_SECONDS_LEFT;

const MOST_NODE = 64;

/** The node that a pilot reports. */
export const nodeOf = ({ node }: Register): string => plainLine(node).slice(0, MOST_NODE);

interface Absence {
  node: string;
  /** The device that the partition should have. */
  device: Device;
  nowMs: number;
}

interface Arrival {
  asked: Register;
  link: PilotLink;
  device: Device;
  /** The job that the pilot comes back with. */
  work: PilotWork | undefined;
  /** When the pilot first registered. */
  startMs: number | undefined;
  nowMs: number;
}

/** The object for a pilot that has registered. */
export function arrivedPilot(row: PilotRow, { asked, link, device, work, startMs, nowMs }: Arrival): LivePilot {
  return {
    ...row,
    link,
    node: nodeOf(asked),
    device,
    lacks: lacksOf(asked, nowMs),
    missing: missingOf(asked),
    startMs: startMs ?? nowMs,
    idleSinceMs: nowMs,
    secondsLeft: Number(asked.secondsLeft) || undefined,
    leaving: false,
    work,
  };
}

/** The object for a pilot that registered with an earlier gateway and is not connected to this one. */
export function awayPilot(row: PilotRow, { node, device, nowMs }: Absence): LivePilot {
  return {
    ...row,
    link: undefined,
    node,
    device,
    lacks: '',
    missing: new Set(),
    startMs: nowMs,
    idleSinceMs: nowMs,
    secondsLeft: undefined,
    leaving: false,
    work: undefined,
  };
}
