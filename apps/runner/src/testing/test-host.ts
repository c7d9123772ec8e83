import { writeFileSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { DEFAULT_HOST, type HostSettings } from '../build/build-tools.ts';

/**
 * The host in tests: compiled libraries, above all the emulator, are shared between them. vitest.config.ts names the
 * folders; without it, the libraries are in a folder of the user.
 */
export const TEST_HOST: HostSettings = {
  ...DEFAULT_HOST,
  libraryCache: process.env['FLASHCORE_LIBRARY_CACHE'] ?? join(tmpdir(), `flashcore-test-libraries-${userInfo().uid}`),
  buildCache: process.env['FLASHCORE_BUILD_CACHE'],
};

/**
 * Runs background compilations at normal priority until vi.unstubAllEnvs(), because on a busy machine they would
 * outlast any test: puts a `nice` into `folder` that only starts the command, and `folder` into PATH.
 */
export function withoutPriorities(folder: string): void {
  writeFileSync(join(folder, 'nice'), '#!/bin/sh\nshift 2\nexec "$@"\n', { mode: 0o755 });
  vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
}
