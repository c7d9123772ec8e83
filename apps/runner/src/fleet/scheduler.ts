import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';
import type { FleetFile } from './fleet-file.ts';
import { UNREACHABLE_EXITS } from './pilot-connection.ts';

/** The functions that the gateway needs from a cluster's scheduler. */
export interface Scheduler {
  /**
   * Submits a pilot of the partition, and returns the scheduler's id for it. `avoid`: nodes that it should not run on,
   * if the scheduler can choose. Errors: SchedulerError.
   */
  submit(partition: string, token: string, avoid: readonly string[]): Promise<string>;
  /** The ids of the pilots that have not ended. Errors: SchedulerError. */
  pilots(): Promise<ReadonlySet<string>>;
  /** Ends pilots; ids of pilots that have already ended are ignored. Errors: SchedulerError. */
  cancel(schedulerJobs: readonly string[]): Promise<void>;
  /**
   * Why and where a pilot ended before it registered, and what to do about it; undefined if the reason is unknown or
   * somebody cancelled the pilot.
   */
  whyEnded(schedulerJob: string): Promise<string | undefined>;
  /** The node of a pilot for which whyEnded() or runsUnregistered() gave a reason. */
  nodeOf?(schedulerJob: string): string | undefined;
  /** Why a pilot can't start until somebody changes something, as of the last call of pilots(); undefined if it can. */
  whyStuck?(schedulerJob: string): string | undefined;
  /**
   * For how long a pilot has run, as of the last call of pilots(), and what to look at if it has not registered by now;
   * undefined if it does not run. `failing`: the pilot itself says why, and goes on trying.
   */
  runsUnregistered?(schedulerJob: string): { seconds: number; why: string; failing?: boolean } | undefined;
  /** GPUs of the partitions' nodes that accept jobs. Errors: SchedulerError. */
  gpus?(): Promise<NodeGpus[]>;
}

/** The GPUs of a node that are of the kind that a partition's pilots ask for. */
export interface NodeGpus {
  partition: string;
  node: string;
  total: number;
  free: number;
}

/** The scheduler refused a request or does not answer; the message says what to do. */
export class SchedulerError extends FlashcoreError {
  /** True if the same request would be refused again. */
  readonly refused: boolean;

  constructor(message: string, { refused }: { refused: boolean }) {
    super('DEVICE_UNAVAILABLE', {}, message);
    this.refused = refused;
  }
}

/**
 * This gateway's id, by which it knows its own pilots. It is kept in a file, so that a restarted gateway has the same
 * id.
 */
export function gatewayId(path: string): string {
  const kept = existsSync(path) ? readFileSync(path, 'utf8') : '';
  if (/^[0-9a-f]{8}$/.test(kept)) return kept;
  // A full disk may have left the file empty.
  const made = randomBytes(4).toString('hex');
  writeFileSync(`${path}.new`, made, { mode: 0o600 });
  renameSync(`${path}.new`, path);
  return made;
}

/** The remedy for the exit code of a pilot that could not reach the gateway; undefined for any other code. */
export function unreachableRemedy(exitCode: number, { reach, tls_ca: authority }: FleetFile): string | undefined {
  switch (exitCode) {
    case UNREACHABLE_EXITS.noHost:
      return `Change "reach" in the fleet file: the node does not know the name in ${reach}`;
    case UNREACHABLE_EXITS.noAnswer:
      return `Change "reach" in the fleet file, or open the firewall: the node got no answer from ${reach}`;
    case UNREACHABLE_EXITS.noTrust:
      return `Check the certificate for ${reach}, tls_ca (${authority ?? 'not given'}) and the node's clock: the node does not trust the gateway`;
    default:
      return undefined;
  }
}

const MAX_SAID = 300;
/** The output of a scheduler's command, as one line of limited length. */
export const said = (lines: readonly string[]): string => plainLine(lines.join(' ')).slice(0, MAX_SAID) || 'nothing';
