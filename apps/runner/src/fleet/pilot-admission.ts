import { toBinary } from '@bufbuild/protobuf';
import { FlashcoreError, type Device } from '@flashcore/shared/contract';
import { RegisterSchema, type Register } from '@flashcore/shared/fleet';
import { findDataSheet } from '@flashcore/shared/kernels';
import { plainLine } from '@flashcore/shared/text';
import type { Admission, FleetTable, PilotRow } from '../store/fleet-table.ts';
import type { PartitionSettings } from './fleet-file.ts';
import { noNumberOf } from './pilot-claims.ts';
import { expectedDevice } from './partition-devices.ts';

const SESSION = /^[\w-]{43}$/;
const MOST_LACKS = 300;
/** Limit for a registration, because its device is included in every GetHost. */
const MOST_REGISTER_BYTES = 64 * 1024;
/** A larger difference between clocks is reported along with the tools that the pilot lacks. */
const CLOCK_SKEW_MS = 5_000;

export interface AdmissionRules {
  partitions: readonly PartitionSettings[];
  table: FleetTable;
  /** Digest of the code that pilots must run. */
  buildId: string;
}

/**
 * Admits a pilot by its token, which is valid once, or else by its session. The pilot must run the gateway's code, and
 * its node must have the partition's device. Errors: UNAUTHENTICATED, INVALID_REQUEST, VERSION_MISMATCH,
 * DEVICE_UNAVAILABLE.
 */
export function letIn(
  asked: Register,
  { table, buildId, partitions }: AdmissionRules,
): { row: PilotRow; device: Device } {
  if (!SESSION.test(asked.session))
    throw new FlashcoreError('INVALID_REQUEST', {}, 'session: must be 43 characters of base64url');
  if (toBinary(RegisterSchema, asked).byteLength > MOST_REGISTER_BYTES)
    throw new FlashcoreError('INVALID_REQUEST', {}, `register: must have at most ${MOST_REGISTER_BYTES / 1024} KiB`);
  const row = admitted(table.admit(asked));
  if (asked.buildId !== buildId)
    throw new FlashcoreError(
      'VERSION_MISMATCH',
      { wanted: buildId, found: asked.buildId },
      `Put the gateway's own bundle on the nodes: the pilot of job ${row.schedulerJob} is of another build`,
    );
  const settings = partitions.find(({ partition }) => partition === row.partition);
  if (!settings || !asked.device)
    throw new FlashcoreError(
      'INVALID_REQUEST',
      { partition: row.partition },
      `Cancel job ${row.schedulerJob}: the fleet file has no partition ${row.partition} any more, or the node no device`,
    );
  const lie = noNumberOf(asked.device);
  if (lie !== undefined)
    throw new FlashcoreError('INVALID_REQUEST', {}, `device: must have finite numbers, but ${lie}`);
  requireModel(asked.device, settings);
  if (row.use === 'first') table.beginSession(row.id, asked.session);
  return { row, device: asked.device };
}

/** Errors: UNAUTHENTICATED. */
function admitted(admission: Admission): Exclude<Admission, string> {
  if (typeof admission === 'object') return admission;
  throw new FlashcoreError('UNAUTHENTICATED', {}, NOT_ADMITTED[admission]);
}

const NOT_ADMITTED = {
  used: 'Submit no pilot twice: its token was used before',
  dismissed: "Read the gateway's log: a job was taken from this pilot, which gets no other",
  unknown: 'Let the gateway submit pilots: it gave out no such token, or its pilot has ended',
};

/**
 * Requires the partition's model, because times of another model, or of the emulator instead of a GPU, must never be
 * stored as the partition's.
 */
function requireModel(found: Device, settings: PartitionSettings): void {
  const wanted = expectedDevice(settings);
  const model = (device: Device): string | undefined => findDataSheet(device.name)?.name;
  if (found.simulated === wanted.simulated && model(found) === model(wanted)) return;
  throw new FlashcoreError(
    'DEVICE_UNAVAILABLE',
    { partition: settings.partition },
    `Look at the node's driver, or change the fleet file: partition ${settings.partition} has ${wanted.name}, a pilot found ${plainLine(found.name)}`,
  );
}

/** Names of the tools that are missing on the node. */
export const missingOf = ({ tools }: Register): ReadonlySet<string> =>
  new Set(tools.filter(({ missing }) => missing !== undefined).map(({ name }) => name));

/**
 * Describes the tools that a node lacks, and a wrong clock. A wrong clock matters because events have the gateway's
 * time and results the node's.
 */
export function lacksOf({ tools, clockMs }: Register, nowMs: number): string {
  const missing = tools.filter((tool) => tool.missing !== undefined).map((tool) => plainLine(tool.name));
  const skewMs = Number(clockMs) - nowMs;
  return [
    ...(missing.length > 0 ? [`no ${missing.join(', no ')}`] : []),
    ...(Math.abs(skewMs) > CLOCK_SKEW_MS ? [`its clock is ${(skewMs / 1000).toFixed(0)} s off`] : []),
  ]
    .join('; ')
    .slice(0, MOST_LACKS);
}
