/** What a pilot's events say of the device and the runner, held against what it was let in with. */
import { Outcome, type Device, type JobEvent, type Provenance } from '@flashcore/shared/contract';

export interface KnownOfPilot {
  /** That it registered with. */
  device: Device;
  /** Of the gateway, which lets no other in. */
  buildId: string;
}

/** Of its own queue: a gateway passes none of them on. */
const OF_ITS_QUEUE: readonly JobEvent['payload']['case'][] = ['created', 'started', 'attemptStarted'];
const SAME = ['name', 'arch', 'multiprocessors', 'simulated'] as const;

/** What contradicts it, in words; undefined: nothing does. A time of another device must never stand for this one's. */
export function contradictionIn({ payload }: JobEvent, known: KnownOfPilot): string | undefined {
  if (OF_ITS_QUEUE.includes(payload.case)) return undefined;
  if (payload.case === 'finished') {
    const { outcome, result } = payload.value;
    if (outcome === Outcome.UNSPECIFIED || Outcome[outcome] === undefined)
      return `it tells of an end with outcome ${outcome}, which is none`;
    // NaN is neither.
    if (result && !(result.deviceSeconds >= 0)) return `it tells of ${result.deviceSeconds} seconds of its device`;
  }
  for (const message of messagesIn(payload.value)) {
    const found = contradictionOf(message, known);
    if (found !== undefined) return found;
  }
  return undefined;
}

function contradictionOf(message: object, { device, buildId }: KnownOfPilot): string | undefined {
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

const isOf = <Message>(message: object, name: string): message is Message & object =>
  (message as { $typeName?: string }).$typeName === `flashcore.runner.v1.${name}`;

function* messagesIn(value: unknown): Generator<object> {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return;
  yield value;
  for (const each of Object.values(value)) yield* messagesIn(each);
}
