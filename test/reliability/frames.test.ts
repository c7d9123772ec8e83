/**
 * Frames from a candidate's process: an invalid frame ends that process and nothing else. Mutated frames are passed to
 * the decoder; hostile frames come from a process through the executor's pipe.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  BadFrame,
  ExecutorEnded,
  REPLY_BYTES,
  RemoteLibrary,
  decodeReply,
  temporaryFolder,
} from '@flashcore/runner/testing-daemon';
import { type Random } from '@flashcore/shared/statistics';
import { expect } from 'vitest';
import { campaign, integer, pick } from './campaign.ts';

const MAX_CODE = 1 << 20;
const MAX_TEXT_BYTES = 256;

function goodReply(sequence: number): Buffer {
  const frame = Buffer.alloc(REPLY_BYTES);
  frame.writeUInt32LE(0x31504346, 0);
  frame.writeUInt32LE(sequence, 4);
  frame.writeUInt32LE(1, 8);
  return frame;
}

/** A good reply with changed or missing bytes, or only random bytes. */
function mutated(random: Random, sequence: number): Buffer {
  const frame = goodReply(sequence);
  const way = pick(random, ['chance', 'cut', 'changed', 'changed']);
  if (way === 'chance') return Buffer.from(Array.from({ length: REPLY_BYTES }, () => integer(random, 0, 255)));
  if (way === 'cut') return frame.subarray(0, integer(random, 0, REPLY_BYTES - 1));
  for (let changes = integer(random, 1, 4); changes > 0; --changes)
    frame[integer(random, 0, REPLY_BYTES - 1)] = integer(random, 0, 255);
  return frame;
}

/** The decoded reply; undefined if the decoder refuses the frame. */
function decoded(frame: Buffer, sequence: number): ReturnType<typeof decodeReply> | undefined {
  try {
    return decodeReply(frame, sequence, 'cuInit');
  } catch (error) {
    if (error instanceof BadFrame) return undefined;
    throw error;
  }
}

campaign(
  'mutated frames',
  { promise: 'boundary', rounds: { ci: 20_000, soak: 1_000_000 } },
  ({ random, rounds, figure }) => {
    const started = performance.now();
    let taken = 0;
    for (let round = 1; round <= rounds; ++round) {
      const frame = mutated(random, round);
      const reply = decoded(frame, round);
      if (!reply) continue;
      taken += 1;
      if (reply.code < 0 || reply.code > MAX_CODE || reply.textBytes > MAX_TEXT_BYTES)
        throw new Error(`taken: ${frame.toString('hex')}`);
    }
    expect(taken).toBeLessThan(rounds);
    figure(
      'mutated frames, decoded',
      `${rounds} in ${((performance.now() - started) / 1000).toFixed(1)} s: ${rounds - taken} refused, ${taken} within what a frame may say`,
    );
    return Promise.resolve();
  },
);

campaign(
  "hostile frames at the executor's pipe",
  { promise: 'boundary', rounds: { ci: 40, soak: 10_000 } },
  async ({ random, rounds, figure }) => {
    using folder = temporaryFolder();
    const path = join(folder.path, 'frame');
    const ends = { refused: 0, taken: 0, 'cut and gone': 0 };
    for (let round = 0; round < rounds; ++round) {
      const frame = mutated(random, 1);
      writeFileSync(path, frame);
      const reply = decoded(frame, 1);
      // After an invalid frame every second process stays alive. After a cut frame none does, because the reader would
      // wait for the rest until the step's time limit.
      const stays = reply !== undefined || (round % 2 === 1 && frame.length === REPLY_BYTES);
      const script = `cat "${path}" >&4; ${stays ? 'exec sleep 30' : ':'}`;
      using library = new RemoteLibrary(
        { program: '/bin/sh', args: ['-c', script, 'sh'], env: { PATH: '/usr/bin:/bin' } },
        'none',
      );
      if (reply) {
        ends.taken += 1;
        // A well-formed reply may say that there is no such function. That is a fault of the library, not of the frame.
        if (reply.found) expect(library.call('cuInit', 0)).toBe(reply.code);
        else expect(() => library.call('cuInit', 0)).toThrow(TypeError);
        continue;
      }
      const error = thrown(() => library.call('cuInit', 0));
      expect(error, frame.toString('hex')).toBeInstanceOf(ExecutorEnded);
      await (error as ExecutorEnded).end;
      ends[frame.length < REPLY_BYTES ? 'cut and gone' : 'refused'] += 1;
    }
    figure(
      "hostile frames at the executor's pipe",
      `${rounds} processes: ${ends.refused} ended for a wrong frame, ${ends['cut and gone']} within one, ${ends.taken} frames within what one may say; the worker's side served each next one`,
    );
  },
);

function thrown(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
