/** A first-time user's path in tmux, played by the script next to this file. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { missing } from '@flashcore/shared/testing';
import { Home, ROOT } from '../support/home.ts';

test.skipIf(missing('tmux'))(
  'a first-time user starts fa-tui and compares two kernels with keys only, and sees each step on the screen',
  async () => {
    // Each try gets a fresh folder, because the script expects that no job has run yet.
    await using home = new Home();
    const script = spawn('bash', [join(ROOT, 'test/e2e/first-steps.sh')], {
      env: { ...home.env, LIMIT_S: '240' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let told = '';
    for (const stream of [script.stdout, script.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => void (told += text));
    const [exitCode] = (await once(script, 'close')) as [number | null];
    expect(exitCode, told).toBe(0);
    expect(told).toMatch(/c compares [^]*all was seen\n$/);
  },
  900_000,
);
