import type { Device, JobEvent, JobFinished } from '@flashcore/shared/contract';
import type { Assignment } from '@flashcore/shared/fleet';

/** What the gateway says to a pilot. */
export interface PilotLink {
  /** It is let in. `lease`: the one that goes on, after its event of that number; 0: none does. */
  registered(goesOn: { lease: number; afterSequence: number }): void;
  assign(assignment: Assignment): void;
  stop(lease: number): void;
  /** Ends the pilot; the link then closes. */
  dismiss(reason: string): void;
  /** Ends the link; the pilot may come back. */
  cut(reason: string): void;
}

/** What a pilot says to the gateway. */
export interface PilotSession {
  event(lease: number, event: JobEvent): void;
  giveBack(lease: number, reason: string): void;
  alive(secondsLeft: number): void;
  leaving(reason: string): void;
  /** The link has ended, whoever ended it. */
  lost(reason: string): void;
}

/** A job's pilot did not bring it to its end: another may. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** A pilot that a job has. */
export interface Lease {
  number: number;
  node: string;
  /** The scheduler's number of it. */
  schedulerJob: string;
  device: Device;
  /** Runs a job to its end, and gives it back; one that its pilot has already goes on. Errors: LeaseLost. */
  run(assignment: Omit<Assignment, 'lease' | '$typeName' | '$unknown'>, options: LeaseOptions): Promise<JobFinished>;
}

export interface LeaseOptions {
  /** `noted`: to be done in the transaction that stores what comes of the event. */
  onEvent: (event: JobEvent, noted: () => void) => void;
  /** Asks the pilot to stop the job; its end is then the job's. */
  signal: AbortSignal;
}
