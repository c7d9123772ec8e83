import { expect, test } from 'vitest';
import { BadFrame, decodeReply, REPLY_BYTES } from './frames.ts';

function replyWithCode(code: number): Buffer {
  const frame = Buffer.alloc(REPLY_BYTES);
  frame.writeUInt32LE(0x31504346, 0);
  frame.writeUInt32LE(1, 4);
  frame.writeUInt32LE(1, 8);
  frame.writeInt32LE(code, 12);
  return frame;
}

test('the code of a reply may exceed the largest CUDA result only where it is the length of a trace', () => {
  const length = 300 * 1024 ** 2;
  expect(decodeReply(replyWithCode(length), 1, 'flashcore_emulator_trace').code).toBe(length);
  expect(() => decodeReply(replyWithCode(length), 1, 'cuCtxSynchronize')).toThrow(BadFrame);
  expect(() => decodeReply(replyWithCode(-1), 1, 'flashcore_emulator_trace')).toThrow(BadFrame);
});
