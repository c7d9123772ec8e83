import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterEach, expect, test, vi } from 'vitest';
import { temporaryFolder } from '../testing/test-runner.ts';
import { purge } from './purge.ts';

afterEach(() => vi.unstubAllEnvs());

test('a home that is also the data folder is not purged, because "sources" may be the user\'s', () => {
  using home = temporaryFolder();
  writeFileSync(join(home.path, 'flashcore.db'), '');
  mkdirSync(join(home.path, 'sources'));
  vi.stubEnv('HOME', home.path);
  expect(() => purge(home.path)).toThrow('it is your home');
  expect(existsSync(join(home.path, 'sources'))).toBe(true);
});
