import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_HOST, type HostSettings } from '../build/build-tools.ts';

/**
 * The host in tests: compiled libraries, above all the emulator, are shared between them. vitest.config.ts names the
 * folders; without it, a folder of the user.
 */
export const TEST_HOST: HostSettings = {
  ...DEFAULT_HOST,
  libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'] ?? join(tmpdir(), `flashcore-test-libraries-${userInfo().uid}`),
  buildCache: process.env['FLASHCORE_BUILD_CACHE'],
};
