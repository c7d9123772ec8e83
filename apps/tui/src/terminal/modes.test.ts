import { fileURLToPath } from 'node:url';
import { spawn } from '@lydell/node-pty';
import { Terminal } from '@xterm/headless';
import { expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../testing/modes-program.ts', import.meta.url));

interface Ended {
  readonly exitCode: number;
  readonly signal: number | undefined;
  readonly output: string;
  readonly screen: 'normal' | 'alternate';
  readonly pasteBracketed: boolean;
}

/** Runs the program in a pty, and sends the signal once the program has set the terminal's modes. */
async function end(way: string, signal?: string): Promise<Ended> {
  const pty = spawn(process.execPath, [PROGRAM, way], { name: 'xterm-256color', cols: 80, rows: 24 });
  const terminal = new Terminal({ allowProposedApi: true });
  let output = '';
  pty.onData((data) => {
    output += data;
    terminal.write(data);
    if (signal !== undefined && data.includes('ready')) pty.kill(signal);
  });
  const { exitCode, signal: endedBy } = await new Promise<{ exitCode: number; signal?: number }>((resolve) =>
    pty.onExit(resolve),
  );
  await new Promise<void>((resolve) => terminal.write('', resolve));
  return {
    exitCode,
    signal: endedBy,
    output,
    screen: terminal.buffer.active.type,
    pasteBracketed: terminal.modes.bracketedPasteMode,
  };
}

for (const [signal, exitCode] of [
  ['SIGTERM', 143],
  ['SIGHUP', 129],
  ['SIGINT', 130],
] as const) {
  test(`${signal} restores the terminal and sets the exit code`, async () => {
    const ended = await end('wait', signal);
    expect(ended).toMatchObject({ exitCode, screen: 'normal', pasteBracketed: false });
    expect(ended.output).toMatch(/\u001b\[\?25h/);
  });
}

for (const [way, message] of [
  ['exception', 'a fault of the program'],
  ['rejection', 'nobody caught this'],
] as const) {
  test(`an ${way} gives the terminal back, then says what happened`, async () => {
    const ended = await end(way);
    expect(ended).toMatchObject({ exitCode: 3, screen: 'normal', pasteBracketed: false });
    expect(ended.output.indexOf(message)).toBeGreaterThan(ended.output.indexOf('\u001b[?1049l'));
  });
}

test('the terminal is restored even if unmounting the screen fails', async () => {
  expect(await end('unmount-throws', 'SIGTERM')).toMatchObject({ screen: 'normal', pasteBracketed: false });
});
