import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { BadFrame, decodeReply, REPLY_BYTES } from './frames.ts';
import { ExecutorEnded, RemoteLibrary } from './remote-library.ts';

const SOAK = process.env['FLASHCORE_SOAK'] === '1';
const MUTATED = SOAK ? 1_000_000 : 50_000;
const SENT = SOAK ? 10_000 : 60;
const SEED = Number(process.env['FLASHCORE_SEED'] ?? 20_261_122);

const below = (random: Random, count: number): number => Math.floor(random.uniform() * count);

function goodReply(sequence: number): Buffer {
  const frame = Buffer.alloc(REPLY_BYTES);
  frame.writeUInt32LE(0x31504346, 0);
  frame.writeUInt32LE(sequence, 4);
  frame.writeUInt32LE(1, 8);
  return frame;
}

/** A good reply with some bytes changed, cut, or of nothing but chance. */
function mutated(random: Random, sequence: number): Buffer {
  const frame = goodReply(sequence);
  switch (below(random, 4)) {
    case 0:
      return Buffer.from(Array.from({ length: REPLY_BYTES }, () => below(random, 256)));
    case 1:
      return frame.subarray(0, below(random, REPLY_BYTES));
    default:
      for (let change = 0; change <= below(random, 4); ++change) frame[below(random, REPLY_BYTES)] = below(random, 256);
      return frame;
  }
}

test(`${MUTATED} mutated frames: each is refused, or says what a frame may say`, () => {
  const random = new Random(SEED);
  for (let round = 1; round <= MUTATED; ++round) {
    const frame = mutated(random, round);
    try {
      const { code, textBytes, found } = decodeReply(frame, round);
      if (code < 0 || code > 1 << 20 || textBytes > 256 || typeof found !== 'boolean')
        throw new Error(`taken: ${frame.toString('hex')}`);
    } catch (error) {
      if (!(error instanceof BadFrame)) throw error;
    }
  }
});

test(`${SENT} hostile frames from a process: each ends it, and nothing else`, { timeout: 1_800_000 }, async () => {
  const random = new Random(SEED);
  const folder = mkdtempSync(join(tmpdir(), 'flashcore-frames-'));
  try {
    for (let round = 0; round < SENT; ++round) {
      const frame = mutated(random, 1);
      writeFileSync(join(folder, 'frame'), frame);
      const script = `cat "${folder}/frame" >&4; [ ${round % 2} = 0 ] || exec sleep 30`;
      using library = new RemoteLibrary(
        { program: '/bin/sh', args: ['-c', script, 'sh'], env: { PATH: '/usr/bin:/bin' } },
        'none',
      );
      // A cut frame with a process that stays would be a hang, which the daemon's limit on the step ends.
      if (frame.length < REPLY_BYTES && round % 2 === 1) continue;
      try {
        library.call('cuInit', 0);
        decodeReply(frame, 1);
      } catch (error) {
        if (error instanceof TypeError) continue;
        expect(error).toBeInstanceOf(ExecutorEnded);
        await (error as ExecutorEnded).end;
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
