import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { sshError } from './ssh-problem.ts';
import { sshProcess, type SshHost } from './ssh-command.ts';

interface HostCommand {
  readonly command: string;
  /** The command's input; absent for none. */
  readonly input?: Readable;
  readonly limitMs: number;
  /** True if ssh may ask a person at the terminal. */
  readonly mayAsk: boolean;
}

export interface HostAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

const MAX_OUTPUT = 64 * 1024;
/** ssh's exit code for its own failures; stderr gives the reason. */
const SSH_FAILED = 255;

/** Runs a command on the host until it ends. Errors: SshError if ssh failed or the command took too long. */
export function runOnHost(
  host: SshHost,
  { command, input, limitMs, mayAsk }: HostCommand,
  environment: NodeJS.ProcessEnv,
): Promise<HostAnswer> {
  return new Promise((resolve, reject) => {
    const args = ['-o', `BatchMode=${mayAsk ? 'no' : 'yes'}`, ...host.options, '--', host.destination, command];
    const ssh = spawn('ssh', args, {
      ...sshProcess(environment, mayAsk),
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: limitMs,
    });
    let [stdout, stderr] = ['', ''];
    let spawnError: NodeJS.ErrnoException | undefined;
    ssh.stdout.setEncoding('utf8').on('data', (text: string) => (stdout = (stdout + text).slice(0, MAX_OUTPUT)));
    ssh.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-MAX_OUTPUT)));
    // If the host stops reading, its exit code gives the reason, so the error of the pipe is not reported.
    ssh.stdin.on('error', () => input?.destroy());
    if (input) {
      input.once('error', (error) => {
        ssh.kill();
        reject(error);
      });
      input.pipe(ssh.stdin);
    } else ssh.stdin.end();
    ssh.on('error', (error) => (spawnError = error));
    ssh.on('close', (exitCode) => {
      if (exitCode !== null && exitCode !== SSH_FAILED && !spawnError) return resolve({ exitCode, stdout, stderr });
      const late = ssh.killed ? `\ntimed out after ${limitMs / 1000} s` : '';
      reject(sshError({ address: host.address, stderr: stderr + late, spawnError }));
    });
  });
}
