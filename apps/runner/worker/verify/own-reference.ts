/** Runs the own reference of a problem in its own process, and reads the expected outputs. */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { killGroup, killMarked } from '@flashcore/shared/files';
import { ELEMENTS, elementsOfTensor, type ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers } from '../driver/reference.ts';
import { outputsOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';

const NAME_BYTES = 32;
const DOUBLE_BYTES = 8;
const NEWLINE = 10;
const MOST_ERROR_BYTES = 4096;
/** Limits of a case in seconds, for problems that declare none: a device waits while a reference hangs. */
const START_S = 20;
const SLOW_START_S = 60; // PyTorch loads in two seconds, and on a very busy host in thirty
const MOST_S = 120;
/** Rates that a plain loop over flashcore_reference.h's views exceeds several times, also on a busy host. */
const FLOPS_PER_S = 5e7;
const BYTES_PER_S = 1e6;
/** How long a process without cases is kept. Loading PyTorch takes seconds, and a process with it has 200 MB. */
const IDLE_MS = 10_000;

/** A reference did not return the expected outputs. The message says why, and what to do. */
export class ReferenceFailed extends Error {}

/** The process of the last case, if it can answer another one. */
let kept: { key: string; process: ReferenceProcess } | undefined;

/**
 * Returns the expected outputs. The process is kept for the next case, which must come after this one's end. Errors:
 * ReferenceFailed, with a message that quotes the process's stderr.
 */
export function ownReference(executor: Executor, computed: ProblemCase, inputs: TensorsByName): Promise<Answers> {
  const key = JSON.stringify(executor);
  if (kept?.key !== key) {
    // Two processes may have the same cgroup, and the end of one kills both.
    endReference();
    kept = { key, process: new ReferenceProcess(executor) };
  }
  return kept.process.answers(computed, inputs);
}

/** How long a reference may take for a case: as the problem says, or in proportion to the case's work and size. */
export const limitOf = (
  { referenceLimitS, flops, bytes }: ProblemCase,
  { startsSlowly }: Pick<Executor, 'startsSlowly'> = {},
): number => {
  const start = startsSlowly ? SLOW_START_S : START_S;
  return referenceLimitS ?? Math.min(MOST_S, Math.ceil(start + flops / FLOPS_PER_S + bytes / BYTES_PER_S));
};

/** Ends the kept process. Until then this process cannot end by itself. */
export function endReference(): void {
  kept?.process.end();
}

/** A process that answers one case after another, as kernels/reference/reference_main.cpp describes. */
class ReferenceProcess {
  readonly #executor: Executor;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<string>;
  #output = Buffer.alloc(0);
  #got = 0;
  #gaveTooMuch = false;
  #said = '';
  #answered: () => void = () => undefined;
  #idle: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(executor: Executor) {
    this.#executor = executor;
    // The worker starts this process itself, like an executor, because only the judge may see a reference's inputs and
    // outputs.
    const child = spawn(executor.program, executor.args, { env: executor.env, stdio: 'pipe' });
    this.#child = child;
    child.stdout.on('data', (bytes: Buffer) => this.#take(bytes));
    child.stderr.on('data', (bytes: Buffer) => {
      this.#said = (this.#said + bytes.toString('utf8')).slice(-MOST_ERROR_BYTES);
    });
    // The process may exit before it has read everything; its exit status says why.
    child.stdin.on('error', () => undefined);
    const { promise, resolve } = Promise.withResolvers<string>();
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(signal ?? `exit status ${code}`));
    this.#closed = promise.finally(() => this.end());
  }

  /** The answers to a case. Errors: ReferenceFailed; the process has then ended. */
  async answers(computed: ProblemCase, inputs: TensorsByName): Promise<Answers> {
    clearTimeout(this.#idle);
    const wanted = outputsOf(computed).reduce((sum, each) => sum + elementsOfTensor(each), 0) * DOUBLE_BYTES;
    // One byte more, for the newline after the outputs.
    this.#output = Buffer.from(new ArrayBuffer(wanted + 1));
    this.#got = 0;
    this.#said = '';
    const answered = new Promise<undefined>((resolve) => (this.#answered = () => resolve(undefined)));
    const limitS = limitOf(computed, this.#executor);
    let late = '';
    const limit = setTimeout(() => {
      late = `, after the limit of ${limitS} s (limit_s under reference in problem.yaml sets another)`;
      this.#child.kill('SIGKILL');
    }, limitS * 1000);
    for (const part of messageOf(computed, inputs)) this.#child.stdin.write(part);
    const end = await Promise.race([answered, this.#closed]);
    clearTimeout(limit);
    if (end === undefined) {
      // Without a box, the end of a candidate kills all children of this process.
      if (this.#executor.mark === undefined) this.#idle = setTimeout(() => this.end(), IDLE_MS).unref();
      else this.end();
      return answersIn(this.#output.buffer, computed);
    }
    const said = this.#said === '' ? '' : `: ${this.#said.trim()}`;
    const got = Math.min(this.#got, wanted);
    const gaveAll = got === wanted ? 'no end' : 'too little';
    const howWrong = this.#gaveTooMuch ? 'too much' : gaveAll;
    const gave = this.#gaveTooMuch ? 'more than' : `${got} of`;
    throw new ReferenceFailed(
      `the reference of ${computed.problem} gave ${gave} ${wanted} bytes and ended with ${end}${late}${said}${remedy(computed, howWrong)}`,
    );
  }

  /** Ends the process and whatever it started. Later calls do nothing: a new process may have the same group. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#idle);
    const { mark, group } = this.#executor;
    if (kept?.process === this) kept = undefined;
    this.#child.kill('SIGKILL');
    if (group !== undefined) killGroup(group);
    if (mark !== undefined) killMarked(mark);
  }

  #take(bytes: Buffer): void {
    bytes.copy(this.#output, this.#got);
    this.#got += bytes.length;
    const { length } = this.#output;
    if (this.#got < length) return;
    this.#gaveTooMuch = this.#got > length || this.#output[length - 1] !== NEWLINE;
    if (this.#gaveTooMuch) this.#child.kill('SIGKILL');
    else this.#answered();
  }
}

function answersIn(doubles: ArrayBufferLike, computed: ProblemCase): Answers {
  let offset = 0;
  return new Map(
    outputsOf(computed).map((output) => {
      const want = new Float64Array(doubles, offset, elementsOfTensor(output));
      offset += want.byteLength;
      return [output.name, { want }];
    }),
  );
}

const HINTS = {
  'too much': ' (it must neither fork nor write where its outputs go)',
  'no end': ' (all of its outputs came, but it did not end: it must start no other process)',
  'too little': '',
} as const;

const remedy = ({ problem }: ProblemCase, howWrong: keyof typeof HINTS): string =>
  `; correct it${HINTS[howWrong]}, then run fa-tui problem check ${problem}`;

/** The message that kernels/reference/reference_main.cpp reads. */
function* messageOf({ values, tensors }: ProblemCase, inputs: TensorsByName): Generator<Uint8Array> {
  yield u32(Object.keys(values).length);
  for (const [name, value] of Object.entries(values)) {
    const number = Buffer.alloc(DOUBLE_BYTES);
    number.writeDoubleLE(value);
    yield Buffer.concat([named(name), number]);
  }
  yield u32(tensors.length);
  for (const { name, direction, dims, dtype } of tensors) {
    const extents = BigInt64Array.from(dims, BigInt);
    yield Buffer.concat([
      named(name),
      ...[ELEMENTS[dtype].number, direction === 'out' ? 1 : 0, dims.length].map(u32),
      new Uint8Array(extents.buffer),
    ]);
    const bits = entryOf(inputs, name);
    if (direction === 'in' && bits) yield new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength);
  }
}

function named(name: string): Buffer {
  const bytes = Buffer.alloc(NAME_BYTES);
  bytes.write(name, 'utf8');
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
