/** Runs a problem's reference.cpp in its own process and reads the expected output. */
import { spawn } from 'node:child_process';
import { killGroup, killMarked } from '@flashcore/shared/files';
import { ELEMENTS, elementsOfTensor, type ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Answers } from '../driver/reference.ts';
import { outputsOf, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Executor } from '../messages/device.ts';

const NAME_BYTES = 32;
const DOUBLE_BYTES = 8;
const MOST_ERROR_BYTES = 4096;
const LIMIT_MS = 120_000;

/** Returns the expected outputs. Throws if the process does not return all of them; the message quotes its stderr. */
export async function ownReference(
  { program, args, env, mark, group }: Executor,
  computed: ProblemCase,
  inputs: TensorsByName,
): Promise<Answers> {
  const outputs = outputsOf(computed);
  const wanted = outputs.reduce((sum, output) => sum + elementsOfTensor(output), 0) * DOUBLE_BYTES;
  const output = Buffer.from(new ArrayBuffer(wanted));
  let got = 0;
  let said = '';
  // The worker starts this process itself, like an executor, because only the judge may see a reference's inputs and
  // outputs.
  const child = spawn(program, args, {
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  child.stdout.on('data', (bytes: Buffer) => {
    if (got + bytes.length > wanted) child.kill('SIGKILL');
    bytes.copy(output, got);
    got += bytes.length;
  });
  child.stderr.on('data', (bytes: Buffer) => (said = (said + bytes.toString('utf8')).slice(-MOST_ERROR_BYTES)));
  // The process may exit before it has read everything; its exit status says why.
  child.stdin.on('error', () => undefined);
  const started = performance.now();
  const { promise, resolve } = Promise.withResolvers<string>();
  child.once('error', (error) => resolve(error.message));
  child.once('close', (code, signal) => resolve(signal ?? `exit status ${code}`));
  for (const part of messageOf(computed, inputs)) child.stdin.write(part);
  child.stdin.end();
  const end = await promise;
  if (group !== undefined) killGroup(group);
  if (mark !== undefined) killMarked(mark);
  if (end === 'exit status 0' && got === wanted) {
    let offset = 0;
    return new Map(
      outputs.map((each) => {
        const want = new Float64Array(output.buffer, offset, elementsOfTensor(each));
        offset += want.byteLength;
        return [each.name, { want }];
      }),
    );
  }
  const late = performance.now() - started >= LIMIT_MS ? `, after the limit of ${LIMIT_MS / 1000} s` : '';
  throw new Error(
    `the reference of ${computed.problem} gave ${got} of ${wanted} bytes and ended with ${end}${late}${said === '' ? '' : `: ${said.trim()}`}${remedy(computed, got > wanted)}`,
  );
}

const remedy = ({ problem }: ProblemCase, tooMuch: boolean): string =>
  `; correct it${tooMuch ? ' (it must neither fork nor write where its outputs go)' : ''}, then run fa-tui problem check ${problem}`;

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
