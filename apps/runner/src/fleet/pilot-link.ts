import type { Device, JobEvent, JobFinished, Plain } from '@flashcore/shared/contract';
import type { Assignment } from '@flashcore/shared/fleet';

/** Messages from the gateway to a pilot. */
export interface PilotLink {
  /**
   * Confirms the registration. `lease`: the lease that continues after its event `afterSequence`; 0 if none continues.
   */
  registered(goesOn: { lease: number; afterSequence: number }): void;
  assign(assignment: Assignment): void;
  stop(lease: number): void;
  /** Ends the pilot; the link then closes. */
  dismiss(reason: string): void;
  /** Ends the link; the pilot may come back. */
  cut(reason: string): void;
}

/** Messages from a pilot to the gateway. */
export interface PilotSession {
  event(lease: number, event: JobEvent): void;
  giveBack(lease: number, reason: string): void;
  alive(secondsLeft: number): void;
  leaving(reason: string): void;
  /** Called when either side has ended the link. */
  lost(reason: string): void;
}

/** A pilot did not finish its job; another pilot may. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

/** A job's right to a pilot. */
export interface Lease {
  number: number;
  node: string;
  /** The scheduler's id for the pilot. */
  schedulerJob: string;
  device: Device;
  /**
   * Runs a job to its end, and then releases the pilot. If the pilot already has the job, the job continues. Errors:
   * LeaseLost.
   */
  run(assignment: Omit<Plain<Assignment>, 'lease'>, options: LeaseOptions): Promise<JobFinished>;
}

export interface LeaseOptions {
  /** `noted` must be called in the transaction that stores the event's effects. */
  onEvent: (event: JobEvent, noted: () => void) => void;
  /** Asks the pilot to stop the job, whose last event is still awaited. */
  signal: AbortSignal;
}
