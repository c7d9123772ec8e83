import type { Device } from '@flashcore/shared/contract';
import type { Register } from '@flashcore/shared/fleet';
import { plainLine } from '@flashcore/shared/text';
import type { PilotRow } from '../store/fleet-table.ts';
import { lacksOf, missingOf } from './pilot-admission.ts';
import type { PilotLink } from './pilot-link.ts';
import type { PilotWork } from './pilot-work.ts';

/** A pilot that has registered, or that had before the gateway was started again. */
export interface LivePilot extends PilotRow {
  /** Undefined: it is away, and may come back. */
  link: PilotLink | undefined;
  node: string;
  device: Device;
  lacks: string;
  /** Names of the tools that the node does not have. */
  missing: ReadonlySet<string>;
  startMs: number;
  idleSinceMs: number;
  secondsLeft: number | undefined;
  leaving: boolean;
  work: PilotWork | undefined;
  /** Ends the wait for one that is away. */
  givenUp?: NodeJS.Timeout | undefined;
}

/** A pilot whose scheduler ends it sooner takes no further job. */
const LEAST_SECONDS_LEFT = 60;

/** Whether a pilot has time for another job. */
export const hasTime = ({ secondsLeft = Infinity }: LivePilot): boolean => secondsLeft >= LEAST_SECONDS_LEFT;

const MOST_NODE = 64;

/** Where a pilot says that it is. */
export const nodeOf = ({ node }: Register): string => plainLine(node).slice(0, MOST_NODE);

interface Absence {
  node: string;
  /** What its partition is expected to have. */
  device: Device;
  nowMs: number;
}

interface Arrival {
  asked: Register;
  link: PilotLink;
  device: Device;
  /** That it comes back with. */
  work: PilotWork | undefined;
  /** When it came first. */
  startMs: number | undefined;
  nowMs: number;
}

/** A pilot that registers. */
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

/** A pilot that an earlier gateway let in: it is away. */
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
