import { PassThrough } from 'node:stream';

/** What a program reads keys from: a terminal as far as Ink looks. */
export function openKeyboard(): NodeJS.ReadStream {
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: () => stdin,
    ref: () => stdin,
    unref: () => stdin,
  });
  return stdin as unknown as NodeJS.ReadStream;
}
