import { expect, test } from 'vitest';
import { parameterArray } from './arguments.ts';
import { ExecutorEnded, RemoteLibrary, slotsOf } from './remote-library.ts';

test.each([
  [[8, 4], 64],
  [[8, 224], 256],
  [[], 64],
])('arguments of %j bytes are sent in slots of %i', (lengths, slotBytes) => {
  const values = lengths.map((length, index) => Buffer.alloc(length, index + 1));
  const slots = slotsOf(parameterArray(values));
  expect([slots.readBigUInt64LE(), slots.readBigUInt64LE(8)]).toEqual([BigInt(lengths.length), BigInt(slotBytes)]);
  for (const [index, value] of values.entries())
    expect(slots.subarray(64 + slotBytes * index).subarray(0, value.length)).toEqual(value);
});

test.runIf(process.platform === 'linux')(
  'an executor whose box breaks before the first answer is not blamed on the candidate',
  async () => {
    const broken = { program: '/bin/sh', args: ['-c', 'echo bwrap: no permission >&2; exit 1'], env: {} };
    using library = new RemoteLibrary(broken, 'libcuda_emu.so');
    const ended = await Promise.resolve()
      .then(() => library.has('cuInit'))
      .catch((error: unknown) => error as ExecutorEnded);
    expect(ended).toBeInstanceOf(ExecutorEnded);
    expect(await (ended as ExecutorEnded).end).toMatchObject({ answered: false, exitCode: 1 });
  },
);

/** Answers one request, then kills itself with SIGKILL. */
const KILLED = `
const { readSync, writeSync } = require('node:fs');
const request = Buffer.alloc(176);
readSync(3, request);
const reply = Buffer.alloc(40);
reply.writeUInt32LE(0x31504346);
request.copy(reply, 4, 4, 8);
reply.writeUInt32LE(1, 8);
writeSync(4, reply);
readSync(3, request);
process.kill(process.pid, 'SIGKILL');
`;

test.runIf(process.platform === 'linux').each([
  ['a box that died of a signal was killed from outside', undefined, true],
  ['a process without a box may have killed itself', 'FLASHCORE_EXECUTOR=test', false],
])('%s', async (_, mark, fromOutside) => {
  const executor = {
    program: process.execPath,
    args: ['-e', KILLED, '--'],
    env: {},
    ...(mark !== undefined && { mark }),
  };
  using library = new RemoteLibrary(executor, 'libcuda_emu.so');
  expect(library.has('cuInit')).toBe(true);
  const ended = await Promise.resolve()
    .then(() => library.has('cuInit'))
    .catch((error: unknown) => error as ExecutorEnded);
  expect(await (ended as ExecutorEnded).end).toMatchObject({ answered: true, signalName: 'SIGKILL', fromOutside });
});
