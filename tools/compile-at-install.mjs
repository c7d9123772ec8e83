// The last step of `npm ci` (prepare): compiles the emulator and the CPU reference into node_modules/.cache, so that
// the first job need not compile them. Runners find them there by the digest of all their inputs. Never fails an
// installation, because a runner compiles whatever is missing when it needs it. Skipped if CI is set, and by `npm ci
// --ignore-scripts`.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const LIMIT_MS = 180_000;

if (!process.env.CI) {
  const runner = fileURLToPath(new URL('../apps/runner/bin/flashcore-runner.js', import.meta.url));
  const { status, stderr, error } = spawnSync(process.execPath, [runner, 'compile'], {
    encoding: 'utf8',
    timeout: LIMIT_MS,
  });
  if (status !== 0) {
    const why = error?.message ?? stderr.trim().split('\n')[0];
    console.log(`note: the emulator was not compiled; the first job on it will do so (${why})`);
  }
}
