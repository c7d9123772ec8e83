import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { DeviceFacts } from '../../worker/messages.ts';

/** dist/worker.js beside the bundle; worker/main.ts when the runner runs from its sources (Node strips the types). */
export function workerEntry(): string {
  const bundled = new URL('./worker.js', import.meta.url);
  return fileURLToPath(existsSync(bundled) ? bundled : new URL('../../worker/main.ts', import.meta.url));
}

const PASSED_ON = /^(PATH|HOME|TMPDIR|LANG|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*|FLASHCORE_EMULATOR_.*)$/;

/** A worker sees no more of the environment than it needs. */
export function workerEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name)));
}

const LIST_LIMIT_MS = 20_000;

/**
 * The devices of a driver library, asked in a process of its own: a driver that hangs or crashes must not take the daemon with it.
 * None where the library can't be loaded or has no device.
 */
export function listDevicesOf(library: string): DeviceFacts[] {
  const { status, stdout } = spawnSync(process.execPath, [workerEntry(), 'list-devices', library], { encoding: 'utf8', timeout: LIST_LIMIT_MS, env: workerEnvironment(), stdio: ['ignore', 'pipe', 'ignore'] });
  return status === 0 ? (JSON.parse(stdout) as DeviceFacts[]) : [];
}
