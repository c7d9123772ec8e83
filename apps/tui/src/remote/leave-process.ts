import { spawn } from 'node:child_process';

/** Starts this program again, with other arguments, as a process that outlives this one and its terminal. */
export function leaveProcess(args: readonly string[], environment: NodeJS.ProcessEnv): void {
  spawn(process.execPath, [process.argv[1]!, ...args], {
    detached: true,
    cwd: '/',
    env: environment,
    stdio: 'ignore',
  }).unref();
}
