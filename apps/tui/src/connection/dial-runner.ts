/**
 * The remote end of an ssh connection to a runner, which passes data between the runner's socket and stdin and stdout.
 */
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import process from 'node:process';
import { dataDirectory, readRunnerRecord } from './data-directory.ts';
import { ensureEmbeddedRunner } from './embedded-runner.ts';
import { greetingBytes, type DialGreeting } from '../remote/tunnel.ts';
import { DIAL } from '../remote/ssh-address.ts';

/**
 * Runs `fa-tui __dial start` or `fa-tui __dial /path/of/a.sock`. Returns the exit code when the connection has ended.
 */
export async function dialRunner([what = '']: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const { address, greeting } =
    what === 'start' ? await started(environment) : { address: `unix:${what}`, greeting: { started: false } };
  const socket = dial(address);
  return new Promise((resolve) => {
    socket.once('error', (error) => {
      process.stderr.write(`${DIAL}: no runner answers at ${address}: ${error.message}\n`);
      resolve(1);
    });
    socket.once('connect', () => {
      process.stdout.write(greetingBytes(greeting));
      process.stdin.pipe(socket).pipe(process.stdout);
      process.stdin.once('end', () => socket.end());
    });
    socket.once('close', () => resolve(0));
  });
}

async function started(
  environment: NodeJS.ProcessEnv,
): Promise<{ readonly address: string; readonly greeting: DialGreeting }> {
  const directory = dataDirectory(environment);
  const before = readRunnerRecord(directory)?.pid;
  const notify = (message: string): void => void process.stderr.write(`${message}\n`);
  const { client, pid, address } = await ensureEmbeddedRunner({ directory, environment, notify });
  client.close();
  return { address, greeting: { pid, started: pid !== before, log: path.join(directory, 'runner.log') } };
}

function dial(address: string): Socket {
  if (address.startsWith('unix:')) return connect(address.slice('unix:'.length));
  const [, host, port] = /^(.*):(\d+)$/.exec(address)!;
  return connect(Number(port), host!.replace(/^\[|\]$/g, ''));
}
