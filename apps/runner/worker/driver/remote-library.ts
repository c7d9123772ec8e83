import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, ftruncateSync, readFileSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { killGroup, killMarked } from '@flashcore/shared/files';
import type { Executor } from '../messages/device.ts';
import { AdoptedProcesses, libc } from './adopted-processes.ts';
import { argumentsOf } from './arguments.ts';
import {
  outParameter,
  parameterTypes,
  type NativeArgument,
  type NativeLibrary,
  type NativeName,
} from './declarations.ts';
import { BadFrame, decodeReply, encodeRequest, REPLY_BYTES, type FrameArgument, type Reply } from './frames.ts';

/** How an executor ended before its work was finished. */
export interface ExecutorEnd {
  exitCode: number | null;
  signalName: string | null;
  /**
   * Whether the executor answered at least once, so its process had started. Before that it contains nothing of a
   * candidate.
   */
  answered: boolean;
  /**
   * Whether SIGKILL ended the box. No process inside the box can send it that signal; if a process inside was killed,
   * the box exits with a status that says so.
   */
  fromOutside: boolean;
  /** The protocol violation or other problem; undefined if the executor simply exited. */
  problem?: string | undefined;
}

type OwnEnd = Omit<ExecutorEnd, 'answered' | 'fromOutside'>;

/** The process with the candidate's code has exited, or was killed because of what it sent. */
export class ExecutorEnded extends Error {
  override readonly name = 'ExecutorEnded';
  /** Settles when the process is gone. */
  readonly end: Promise<ExecutorEnd>;

  constructor(end: Promise<ExecutorEnd>, problem: string) {
    super(problem);
    this.end = end;
  }
}

const MEMORY_BYTES = 64 * 1024 ** 2;
/** Bytes per copy; larger copies are split. */
const PIECE_BYTES = 16 * 1024 ** 2;
const O_CLOEXEC = 0o2000000;
const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const F_ADD_SEALS = 1033;
const F_SEAL_SHRINK = 2;
const F_SEAL_GROW = 4;
/**
 * Fills outputs before the executor writes them. As fp16 it is a NaN, and it differs from all of verification's
 * poisons.
 */
const UNWRITTEN = 0xfd;
/** Alignment of a CUtensorMap, the strictest of all arguments. */
const SLOT_ALIGNMENT = 64;
const EXIT_PATIENCE_MS = 2_000;

/** Functions that write through their pointer; all others only read. */
const WRITES: ReadonlySet<NativeName> = new Set([
  'cuDeviceGetName',
  'cuDeviceGetPCIBusId',
  'cuMemcpyDtoHAsync_v2',
  'flashcore_emulator_last_fault',
  'flashcore_emulator_profile',
  'flashcore_emulator_statistics',
  'flashcore_emulator_trace',
]);

interface Call {
  name: string;
  values: FrameArgument[];
  probe: boolean;
}

/**
 * A driver library in a separate process, which is started for each piece of work. Only this process loads and launches
 * a candidate's code. Calls are sent as frames of fixed size, and every field of a reply is checked. Bytes go through a
 * memory file that this process owns: it is filled before the executor may write to it, and read once. An invalid reply
 * ends the executor and nothing else. Linux only.
 */
export class RemoteLibrary implements NativeLibrary, Disposable {
  readonly #child: ChildProcess;
  readonly #requests: number;
  readonly #replies: number;
  readonly #memory: number;
  readonly #exited: Promise<OwnEnd>;
  /** Identifies the processes that the executor leaves behind, if no box ends them. */
  readonly #mark: string | undefined;
  readonly #group: string | undefined;
  readonly #memoryKills: number;
  #sequence = 0;
  #answered = false;
  #ended: ExecutorEnded | undefined;

  constructor({ program, args, env, mark, group }: Executor, library: string) {
    const [childRequests, requests] = pipe();
    const [replies, childReplies] = pipe();
    this.#memory = memoryFile();
    this.#requests = requests;
    this.#replies = replies;
    this.#mark = mark;
    this.#group = group;
    this.#memoryKills = memoryKills(group);
    // Adopt orphans before the executor can leave any.
    if (mark !== undefined) AdoptedProcesses.adopt();
    // The worker starts the executor itself instead of using the daemon's sandbox/. The executor inherits pipes and
    // memory that the worker reads and writes synchronously, as it would call a driver, and it lives for at most one
    // request.
    this.#child = spawn(program, [...args, library, '3', '4', '5', String(MEMORY_BYTES)], {
      env,
      stdio: ['ignore', 'inherit', 'inherit', childRequests, childReplies, this.#memory],
    });
    closeSync(childRequests);
    closeSync(childReplies);
    const { promise, resolve } = Promise.withResolvers<OwnEnd>();
    this.#exited = promise;
    this.#child.once('error', (error) => resolve({ exitCode: null, signalName: null, problem: error.message }));
    this.#child.once('exit', (exitCode, signalName) => resolve({ exitCode, signalName }));
  }

  has(name: NativeName): boolean {
    return this.#exchange({ name, values: [], probe: true }).found;
  }

  call(name: NativeName, ...values: NativeArgument[]): number {
    if (name === 'cuMemcpyHtoDAsync_v2' || name === 'cuMemcpyDtoHAsync_v2') return this.#copy(name, values);
    return this.#callOnce(name, values);
  }

  /**
   * Kills the executor, but not a box whose process has ended: the box exits a moment later with that process's status.
   */
  [Symbol.dispose](): void {
    if (!this.#ended) this.#killAll();
    for (const descriptor of [this.#requests, this.#replies, this.#memory]) closeSync(descriptor);
  }

  #killAll(): void {
    this.#child.kill('SIGKILL');
    if (this.#group !== undefined) killGroup(this.#group);
    if (this.#mark !== undefined) {
      killMarked(this.#mark);
      AdoptedProcesses.end(this.#child.pid);
    }
  }

  /** Splits a copy into pieces that fit into the shared memory. */
  #copy(name: NativeName, values: NativeArgument[]): number {
    const upload = name === 'cuMemcpyHtoDAsync_v2';
    const [device, host] = upload ? [values[0], values[1]] : [values[1], values[0]];
    const bytes = bytesOf(host as NodeJS.ArrayBufferView);
    const stream = values[3]!;
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
      const piece = bytes.subarray(from, from + PIECE_BYTES);
      const address = BigInt(device as bigint | number) + BigInt(from);
      const code = this.#callOnce(
        name,
        upload ? [address, piece, piece.length, stream] : [piece, address, piece.length, stream],
      );
      if (code !== 0) return code;
    }
    return 0;
  }

  #callOnce(name: NativeName, values: NativeArgument[]): number {
    const types = parameterTypes(name);
    let used = 0;
    let text: { out: [unknown]; offset: number } | undefined;
    const outs: [unknown][] = [];
    const outputs: { bytes: Buffer; offset: number }[] = [];
    const take = (bytes: number): number => {
      const offset = used;
      used += Math.ceil(bytes / 64) * 64;
      if (used > MEMORY_BYTES) throw new RangeError(`${name}: ${bytes} bytes are too many for one call`);
      return offset;
    };
    const frame = values.map((value, index): FrameArgument => {
      const type = types[index]!;
      if (type === 'out') {
        if (outParameter(name) === 'text') {
          text = { out: value as [unknown], offset: take(256) };
          return { kind: 'text', value: BigInt(text.offset) };
        }
        outs.push(value as [unknown]);
        return { kind: 'out', value: 0n };
      }
      if (typeof value === 'string')
        return { kind: 'memory', value: BigInt(this.#put(take, Buffer.from(`${value}\0`))) };
      if (type !== 'pointer') return { kind: 'value', value: BigInt(value as number | bigint) };
      if (value === 0n) return { kind: 'null', value: 0n };
      if (name === 'cuLaunchKernelEx' && index === 0)
        return { kind: 'config', value: BigInt(this.#put(take, bytesOf(value as NodeJS.ArrayBufferView))) };
      if (name === 'cuLaunchKernel' || name === 'cuLaunchKernelEx')
        return { kind: 'parameters', value: BigInt(this.#put(take, slotsOf(value as BigUint64Array))) };
      const bytes = bytesOf(value as NodeJS.ArrayBufferView);
      const writes = name === 'cuTensorMapEncodeTiled' ? index === 0 : WRITES.has(name);
      if (!writes) return { kind: 'memory', value: BigInt(this.#put(take, bytes)) };
      const offset = take(bytes.length);
      this.#write(Buffer.alloc(bytes.length, UNWRITTEN), offset);
      outputs.push({ bytes, offset });
      return { kind: 'memory', value: BigInt(offset) };
    });
    const reply = this.#exchange({ name, values: frame, probe: false });
    if (!reply.found) throw new TypeError(`the driver library does not export ${name}`);
    for (const { bytes, offset } of outputs) this.#read(bytes, offset);
    for (const out of outs) out[0] = decodeOut(name, reply.out);
    if (text) {
      const bytes = Buffer.alloc(reply.textBytes);
      this.#read(bytes, text.offset);
      text.out[0] = bytes.toString('utf8');
    }
    return reply.code;
  }

  #put(take: (bytes: number) => number, bytes: Buffer): number {
    const offset = take(bytes.length);
    this.#write(bytes, offset);
    return offset;
  }

  #exchange({ name, values, probe }: Call): Reply {
    if (this.#ended) throw this.#ended;
    this.#sequence += 1;
    const frame = encodeRequest({ sequence: this.#sequence, name, arguments: values, probe });
    try {
      writeSync(this.#requests, frame);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
      throw this.#end();
    }
    const answer = Buffer.alloc(REPLY_BYTES);
    for (let have = 0; have < REPLY_BYTES;) {
      const got = readSync(this.#replies, answer, have, REPLY_BYTES - have, null);
      if (got === 0) throw this.#end();
      have += got;
    }
    try {
      const reply = decodeReply(answer, this.#sequence, name);
      this.#answered = true;
      return reply;
    } catch (error) {
      if (error instanceof BadFrame) throw this.#end(error.message);
      throw error;
    }
  }

  /** Ends the executor. Its exit status is known after the event loop's next turn. */
  #end(problem?: string): ExecutorEnded {
    if (problem !== undefined) this.#child.kill('SIGKILL');
    const patience = new Promise<OwnEnd>((resolve) => {
      setTimeout(() => {
        this.#child.kill('SIGKILL');
        resolve({ exitCode: null, signalName: 'SIGKILL', problem: 'it closed its pipe and did not end' });
      }, EXIT_PATIENCE_MS).unref();
    });
    const end = Promise.race([this.#exited, patience]).then((ended) => {
      const told = memoryKills(this.#group) > this.#memoryKills ? MEMORY_LIMIT_REACHED : problem;
      const fromOutside =
        this.#mark === undefined && ended.signalName === 'SIGKILL' && (told ?? ended.problem) === undefined;
      this.#killAll();
      return { ...ended, answered: this.#answered, fromOutside, ...(told !== undefined && { problem: told }) };
    });
    this.#ended = new ExecutorEnded(end, problem ?? "the kernel's process ended");
    return this.#ended;
  }

  #write(bytes: Buffer, offset: number): void {
    for (let done = 0; done < bytes.length;)
      done += writeSync(this.#memory, bytes, done, bytes.length - done, offset + done);
  }

  #read(bytes: Buffer, offset: number): void {
    for (let done = 0; done < bytes.length;) {
      const got = readSync(this.#memory, bytes, done, bytes.length - done, offset + done);
      if (got === 0) throw new Error('the shared memory is shorter than it was made');
      done += got;
    }
  }
}

const MEMORY_LIMIT_REACHED =
  "the kernel's process was killed: it needed more memory than the runner's --box-memory-mib allows";

/** How often Linux has killed a process of the cgroup because of its memory limit. */
function memoryKills(group: string | undefined): number {
  const path = group && join(group, 'memory.events');
  if (!path || !existsSync(path)) return 0;
  return Number(/^oom_kill (\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1] ?? 0);
}

/** Encodes the number of arguments and the size of a slot, then each argument in a slot as large as the largest one. */
export function slotsOf(parameters: BigUint64Array): Buffer {
  const values = argumentsOf(parameters);
  const most = Math.max(1, ...values.map(({ length }) => length));
  const slotBytes = Math.ceil(most / SLOT_ALIGNMENT) * SLOT_ALIGNMENT;
  const slots = Buffer.alloc(SLOT_ALIGNMENT + slotBytes * values.length);
  slots.writeBigUInt64LE(BigInt(values.length));
  slots.writeBigUInt64LE(BigInt(slotBytes), 8);
  for (const [index, value] of values.entries()) value.copy(slots, SLOT_ALIGNMENT + slotBytes * index);
  return slots;
}

function decodeOut(name: NativeName, out: bigint): number | bigint {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(out);
  switch (outParameter(name)) {
    case 'float':
      return bytes.readFloatLE();
    case 'int':
      return bytes.readInt32LE();
    default:
      return out;
  }
}

const bytesOf = (view: NodeJS.ArrayBufferView): Buffer => Buffer.from(view.buffer, view.byteOffset, view.byteLength);

/** Creates a pipe with blocking ends. */
function pipe(): [read: number, write: number] {
  const ends = new Int32Array(2);
  const status = libc('int pipe2(void *ends, int flags)')(ends, O_CLOEXEC);
  if (status !== 0) throw new Error(`pipe2() answered ${status}`);
  return [ends[0]!, ends[1]!];
}

/** Creates a memory file whose length cannot be changed. */
function memoryFile(): number {
  const descriptor = libc('int memfd_create(const char *name, uint32_t flags)')(
    'flashcore',
    MFD_CLOEXEC | MFD_ALLOW_SEALING,
  );
  if (descriptor < 0) throw new Error(`memfd_create() answered ${descriptor}`);
  ftruncateSync(descriptor, MEMORY_BYTES);
  const sealed = libc('int fcntl(int descriptor, int command, int value)')(
    descriptor,
    F_ADD_SEALS,
    F_SEAL_SHRINK | F_SEAL_GROW,
  );
  if (sealed !== 0) throw new Error(`fcntl(F_ADD_SEALS) answered ${sealed}`);
  return descriptor;
}
