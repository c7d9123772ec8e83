import { PassThrough } from 'node:stream';

/** A stand-in for a terminal's input that has everything that Ink checks. */
export function openKeyboard(): NodeJS.ReadStream {
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: () => stdin,
    ref: () => stdin,
    unref: () => stdin,
  });
  return stdin as unknown as NodeJS.ReadStream;
}
