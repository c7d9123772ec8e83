import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_HOST, type HostSettings } from '../host-settings.ts';

/**
 * The host as tests have it: what one has compiled, the emulator above all, the others find. vitest.config.ts names the
 * folders; without it, one of the user's.
 */
export const TEST_HOST: HostSettings = {
  ...DEFAULT_HOST,
  libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'] ?? join(tmpdir(), `flashcore-test-libraries-${userInfo().uid}`),
  buildCache: process.env['FLASHCORE_BUILD_CACHE'],
};
