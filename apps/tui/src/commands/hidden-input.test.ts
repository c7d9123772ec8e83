import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { readSecret } from './hidden-input.ts';

/** A terminal that sends these pieces of input, and records the text that it shows. */
function terminal(...keys: string[]) {
  const modes: boolean[] = [];
  let shown = '';
  const stdin = Object.assign(Readable.from(keys), { isTTY: true, setRawMode: (raw: boolean) => modes.push(raw) });
  const stderr = { isTTY: true, write: (text: string) => void (shown += text) };
  return { read: () => readSecret('Token: ', stdin, stderr), modes, shown: () => shown };
}

test("typed text is not shown, and the terminal's mode is restored at the end", async () => {
  const { read, modes, shown } = terminal('fct', '_s\u007f\u007f', '_ab', '\rnot read');
  expect(await read()).toBe('fct_ab');
  expect([modes, shown()]).toEqual([[true, false], 'Token: \n']);
});

test("Ctrl-C cancels and restores the terminal's mode", async () => {
  const { read, modes } = terminal('fct\u0003');
  await expect(read()).rejects.toThrow('Ctrl-C');
  expect(modes).toEqual([true, false]);
});

test.for([
  [['fct_', 'x\nmore'], 'fct_x'],
  [['fct_x'], 'fct_x'],
  [[], ''],
] as const)('reads the first line of %j from a pipe and shows no prompt', async ([pieces, token]) => {
  let shown = '';
  expect(await readSecret('Token: ', Readable.from(pieces), { write: (text: string) => void (shown += text) })).toBe(
    token,
  );
  expect(shown).toBe('');
});
