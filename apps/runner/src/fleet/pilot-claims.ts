/** Compares what a pilot's events say about device and runner with its registration. */
import { ScalarType, type DescMessage } from '@bufbuild/protobuf';
import {
  JobEventSchema,
  Outcome,
  isSha256,
  type Artifact,
  type Device,
  type JobEvent,
  type Provenance,
} from '@flashcore/shared/contract';

export interface KnownOfPilot {
  /** The device that the pilot registered. */
  device: Device;
  /** The gateway's build; pilots of other builds are refused. */
  buildId: string;
}

/** Events of the pilot's own queue, which the gateway does not pass on. */
const OF_ITS_QUEUE: readonly JobEvent['payload']['case'][] = ['created', 'started', 'attemptStarted'];
/** The longest time limit of a job, plus some time to end. */
const MOST_SECONDS = 8 * 24 * 3600;
/** Messages in which NaN and Infinity are allowed, for a wrong kernel's values or a profiler's missing counts. */
const MAY_BE_NO_NUMBER: readonly string[] = [
  ...['CaseResult', 'OutputResult', 'InputResult', 'SdpaComparison', 'ElementError', 'RoundingError', 'ErrorMap'],
  ...['Metric', 'GateResult'],
].map((name) => `flashcore.runner.v1.${name}`);
const SAME = ['name', 'arch', 'multiprocessors', 'simulated'] as const;

/**
 * Says how an event contradicts the registration; undefined if it does not. A time of another device must never be
 * stored as this device's.
 */
export function contradictionIn({ payload }: JobEvent, known: KnownOfPilot): string | undefined {
  if (OF_ITS_QUEUE.includes(payload.case)) return undefined;
  if (payload.case === 'finished') {
    const { outcome, result } = payload.value;
    if (outcome === Outcome.UNSPECIFIED || Outcome[outcome] === undefined)
      return `it tells of an end with outcome ${outcome}, which is none`;
    // Written so that NaN fails the comparison.
    if (result && !(result.deviceSeconds >= 0 && result.deviceSeconds <= MOST_SECONDS))
      return `it tells of ${result.deviceSeconds} seconds of its device`;
  }
  for (const message of messagesIn(payload.value)) {
    const found = contradictionOf(message, known);
    if (found !== undefined) return found;
  }
  return undefined;
}

function contradictionOf(message: object, { device, buildId }: KnownOfPilot): string | undefined {
  const endless = noNumberIn(message);
  if (endless !== undefined) return endless;
  if (isOf<Artifact>(message, 'Artifact') && !isSha256(message.sha256))
    return `it names an artifact by ${JSON.stringify(message.sha256.slice(0, 80))}, which is not a SHA-256`;
  if (isOf<Device>(message, 'Device')) {
    const other = SAME.find((field) => message[field] !== device[field]);
    return other && `it registered with ${other} ${device[other]} of its device, and tells of ${message[other]}`;
  }
  if (isOf<Provenance>(message, 'Provenance') && message.runnerBuildId !== buildId)
    return `it registered with build ${buildId.slice(0, 12)}, and tells of ${message.runnerBuildId.slice(0, 12)}`;
  if ('simulated' in message && message.simulated !== device.simulated)
    return device.simulated ? "it tells of a GPU's times, and has the emulator" : "it tells of the emulator's times";
  return undefined;
}

/** Names the first figure of a device that is not a finite number; undefined if all are finite. */
export function noNumberOf(device: Device): string | undefined {
  return [...messagesIn(device)].map(noNumberIn).find((found) => found !== undefined);
}

/**
 * Names the first figure of a message that is not finite. Figures are compared, summed and charged, so all must be
 * finite.
 */
function noNumberIn(message: object): string | undefined {
  const desc = NUMBERS.get((message as { $typeName?: string }).$typeName ?? '');
  const wrong = desc?.find((field) => !values(message, field).every(Number.isFinite));
  return wrong && `it tells of ${String(values(message, wrong).find((value) => !Number.isFinite(value)))} as ${wrong}`;
}

function values(message: object, field: string): unknown[] {
  const value: unknown = Reflect.get(message, field);
  if (value === undefined) return [];
  // The field is a list, a map of numbers by name, or a single number.
  if (Array.isArray(value)) return value;
  return typeof value === 'object' && value !== null ? Object.values(value) : [value];
}

/** The names of the double and float fields of each message in an event. */
const NUMBERS = new Map<string, string[]>();
(function note(desc: DescMessage): void {
  if (NUMBERS.has(desc.typeName)) return;
  const real = desc.fields.filter(({ scalar }) => scalar === ScalarType.DOUBLE || scalar === ScalarType.FLOAT);
  NUMBERS.set(desc.typeName, MAY_BE_NO_NUMBER.includes(desc.typeName) ? [] : real.map(({ localName }) => localName));
  for (const { message } of desc.fields) if (message) note(message);
})(JobEventSchema);

const isOf = <Message>(message: object, name: string): message is Message & object =>
  (message as { $typeName?: string }).$typeName === `flashcore.runner.v1.${name}`;

function* messagesIn(value: unknown): Generator<object> {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return;
  yield value;
  for (const each of Object.values(value)) yield* messagesIn(each);
}
