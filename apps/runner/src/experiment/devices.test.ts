import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { openTestPlanner } from './testing/run-job.ts';

test('a GPU host whose driver does not answer serves only the emulator, and lists the driver first among the tools', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fc-driver-'));
  const library = join(folder, 'libcuda.so.1');
  writeFileSync(library, 'no library');
  vi.stubEnv('LD_LIBRARY_PATH', folder);
  const opened = openTestPlanner();
  vi.unstubAllEnvs();
  expect(opened.planner.devices().map(({ deviceId }) => deviceId)).toEqual(['emulator']);
  const [first] = await opened.planner.describeTools();
  expect(first).toMatchObject({
    name: 'libcuda',
    missing: expect.stringContaining(`no GPU of this host is served: ${library} does not list its devices (`) as string,
  });
  await opened.close();
  rmSync(folder, { recursive: true });
});
