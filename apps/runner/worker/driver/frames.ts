/** The frames between the worker and the executor of a candidate's code (libs/emulator/executor/main.cpp). */

const REQUEST_BYTES = 176;
export const REPLY_BYTES = 40;
const REQUEST_MAGIC = 0x31514346;
const REPLY_MAGIC = 0x31504346;
const NAME_BYTES = 48;
const MAX_ARGUMENTS = 12;
const MAX_TEXT_BYTES = 256;
/** CUresult codes are below 1,000, but a fault's description returns its length in bytes. */
const MAX_CODE = 1 << 20;
/** These functions return their length in bytes, which grows with the kernel's work. */
const ANSWER_BYTES: ReadonlySet<string> = new Set(['flashcore_emulator_profile', 'flashcore_emulator_trace']);

export const KIND = { value: 0, out: 1, memory: 2, null: 3, parameters: 4, text: 5, config: 6 } as const;

export interface FrameArgument {
  kind: keyof typeof KIND;
  /** The value, or an offset in the shared memory. */
  value: bigint;
}

export interface Request {
  sequence: number;
  name: string;
  arguments: readonly FrameArgument[];
  /** Whether the request only asks if the function exists. */
  probe?: boolean;
}

export interface Reply {
  found: boolean;
  code: number;
  out: bigint;
  textBytes: number;
}

/** A frame that our executor would never send, so the candidate's code must have written it. */
export class BadFrame extends Error {
  override readonly name = 'BadFrame';
}

export function encodeRequest({ sequence, name, arguments: values, probe = false }: Request): Buffer {
  if (values.length > MAX_ARGUMENTS || Buffer.byteLength(name) >= NAME_BYTES)
    throw new TypeError(`${name} does not fit into a frame`);
  const frame = Buffer.alloc(REQUEST_BYTES);
  frame.writeUInt32LE(REQUEST_MAGIC, 0);
  frame.writeUInt32LE(sequence, 4);
  frame.write(name, 8, NAME_BYTES - 1, 'latin1');
  frame.writeUInt32LE(values.length, 56);
  frame.writeUInt32LE(Number(probe), 60);
  values.forEach(({ kind, value }, index) => {
    frame.writeBigUInt64LE(BigInt.asUintN(64, value), 64 + 8 * index);
    frame.writeUInt8(KIND[kind], 160 + index);
  });
  return frame;
}

/** Checks every field of the reply to request number `sequence`, which called `name`. Errors: BadFrame. */
export function decodeReply(frame: Buffer, sequence: number, name: string): Reply {
  const check = (right: boolean, what: string): void => {
    if (!right) throw new BadFrame(`the kernel's process sent a frame with a wrong ${what}`);
  };
  check(frame.length === REPLY_BYTES, 'length');
  check(frame.readUInt32LE(0) === REPLY_MAGIC, 'beginning');
  check(frame.readUInt32LE(4) === sequence, 'number');
  const found = frame.readUInt32LE(8);
  check(found <= 1, 'answer');
  const code = frame.readInt32LE(12);
  check(code >= 0 && (code <= MAX_CODE || ANSWER_BYTES.has(name)), 'code');
  const textBytes = frame.readBigUInt64LE(24);
  check(textBytes <= BigInt(MAX_TEXT_BYTES), 'length of a text');
  check(frame.readBigUInt64LE(32) === 0n, 'end');
  return { found: found === 1, code, out: frame.readBigUInt64LE(16), textBytes: Number(textBytes) };
}
