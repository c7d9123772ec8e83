import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Outcome } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { collect, finished, startTestRunner } from '../testing/test-runner.ts';
import { TEST_HOST } from '../testing/test-host.ts';
import { createPlanner } from './planner.ts';

test(
  'if the data folder is a link, a sandboxed worker still finds its libraries and modules',
  { timeout: 120_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'fc-link-'));
    mkdirSync(join(folder, 'real'));
    symlinkSync(join(folder, 'real'), join(folder, 'link'));
    mkdirSync(TEST_HOST.libraryCache!, { recursive: true });
    symlinkSync(TEST_HOST.libraryCache!, join(folder, 'libraries'));
    await using fixture = await startTestRunner({
      dataDirectory: join(folder, 'link'),
      createPlanner: (options) =>
        createPlanner({
          ...options,
          host: { ...TEST_HOST, libraryCache: join(folder, 'libraries') },
        }),
    });
    const events = await collect(
      fixture.client.start('verify', {
        kernel: { source: { case: 'kernelId', value: 'fa_v1_baseline' } },
        settings: { shapes: [parseShape('1x1x64x64')], seedCount: 1 },
      }),
    );
    expect(finished(events)).toMatchObject({ outcome: Outcome.PASSED });
    rmSync(folder, { recursive: true });
  },
);
