/** Runs Debian's Python with its gRPC package, for clients in another language. */
import { execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { ROOT } from '../support/home.ts';

export const PYTHON = '/usr/bin/python3';
interface PythonOptions {
  folder: string;
  address: string;
}

/**
 * Runs a program of this folder with a runner's address and a file that describes the contract. Returns the JSON that
 * the program prints. The runner may be in this process.
 */
export async function runPython(program: string, args: string[], { folder, address }: PythonOptions): Promise<unknown> {
  const descriptors = join(folder, 'flashcore.binpb');
  execFileSync(join(ROOT, 'node_modules/.bin/buf'), ['build', '-o', descriptors], {
    cwd: ROOT,
    // Keeps the cache out of the user's home, where nothing would remove it.
    env: { ...process.env, BUF_CACHE_DIR: join(folder, 'buf') },
  });
  const child = spawn(PYTHON, [join(import.meta.dirname, program), address, descriptors, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
  });
  return json(child.stdout);
}
