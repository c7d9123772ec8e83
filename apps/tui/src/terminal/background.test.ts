import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { askBackground, isLight } from './background.ts';

const REPLY = '\u001b]11;rgb:fdfd/f6f6/e3e3\u001b\\';

/** A terminal's input, read in the way that Ink reads it. */
function open() {
  const stdin = Object.assign(new Readable({ read: () => undefined }), { setRawMode: () => stdin });
  stdin.setEncoding('utf8');
  const written: string[] = [];
  const got = { keys: '', light: false };
  const background = askBackground({
    stdin: stdin as unknown as NodeJS.ReadStream,
    stdout: { write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream,
    onLight: () => (got.light = true),
  });
  const listen = (): void => {
    for (let chunk: string | null; (chunk = stdin.read() as string | null) !== null;) got.keys += chunk;
  };
  stdin.on('readable', listen);
  const send = async (...chunks: string[]): Promise<typeof got> => {
    for (const chunk of chunks) {
      stdin.push(chunk);
      await vi.waitFor(() => expect(stdin.readableLength).toBe(0), { interval: 1 });
    }
    // eslint-disable-next-line flashcore/no-fixed-wait -- Held keys are released after a time.
    await wait(60);
    return got;
  };
  return {
    send,
    background,
    written,
    ignore: () => stdin.off('readable', listen),
    push: (text: string) => stdin.push(text),
  };
}

test.each([
  ['whole', [REPLY]],
  ['ended by BEL', ['\u001b]11;rgb:ff/ff/ff\u0007']],
  ['between keys', [`j${REPLY}k`]],
  ['in two pieces', [REPLY.slice(0, 9), REPLY.slice(9)]],
  ['in single characters', [...REPLY]],
  ['after other keys', ['j', 'G', REPLY, 'k']],
])('a reply that comes %s is never read as keys', async (_, chunks) => {
  const { keys, light } = await open().send(...chunks);
  expect({ keys: keys.replaceAll(/[jGk]/g, ''), light }).toEqual({ keys: '', light: true });
});

test('keys that begin like a reply arrive, and a reply after them is still removed', async () => {
  const terminal = open();
  expect(terminal.written).toEqual(['\u001b]11;?\u001b\\']);
  expect(await terminal.send('\u001b')).toEqual({ keys: '\u001b', light: false });
  expect(await terminal.send('\u001b]')).toEqual({ keys: '\u001b\u001b]', light: false });
  expect(await terminal.send('\u001b[A', 'q')).toEqual({ keys: '\u001b\u001b]\u001b[Aq', light: false });
  expect(await terminal.send(REPLY, 'x')).toEqual({ keys: '\u001b\u001b]\u001b[Aqx', light: true });
});

test('fa-tui waits for the reply before it exits, so that the shell does not get the reply', async () => {
  const { background, ignore, push } = open();
  ignore();
  let isSettled = false;
  const settled = background.settled().then(() => (isSettled = true));
  // eslint-disable-next-line flashcore/no-fixed-wait -- It must not settle while nothing comes.
  await wait(20);
  expect(isSettled).toBe(false);
  push(REPLY);
  await settled;
  await background.settled();
});

test('fa-tui waits for a reply at most a second', async () => {
  const { background } = open();
  const from = performance.now();
  await background.settled();
  expect(performance.now() - from).toBeLessThan(2_000);
  expect(performance.now() - from).toBeGreaterThan(900);
});

test('the luminance of a background decides whether it is light or dark; other replies are treated as dark', () => {
  const light = ['rgb:ffff/ffff/ffff', 'rgb:fdfd/f6f6/e3e3', 'rgb:f/f/f', 'rgba:eeee/eeee/eeee/ffff', 'rgb:ff/ff/00'];
  const dark = [
    'rgb:0000/0000/0000',
    'rgb:1e1e/1e1e/2e2e',
    'rgb:0000/2b2b/3636',
    'rgb:0000/0000/ffff',
    '?',
    '',
    'white',
  ];
  expect([light.map(isLight), dark.map(isLight)]).toEqual([light.map(() => true), dark.map(() => false)]);
});
