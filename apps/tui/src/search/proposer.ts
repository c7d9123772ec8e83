import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { invalidRequest } from '@flashcore/shared/contract';
import { killProcessGroup, withoutSecrets } from '@flashcore/shared/files';
import { sanitize } from '../present/cells/cell-text.ts';
import { MAX_ANSWER_BYTES, NoProposal, type ProposalRequest } from './protocol.ts';

interface ProposerOptions {
  /** A command line for the shell. */
  readonly command: string;
  readonly seconds: number;
  /** File for the proposer's output. */
  readonly logFile: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

const MAX_LOG_BYTES = 4 * 1024 * 1024;

/**
 * Runs a proposer once and returns its stdout. The proposer has its own process group, which is killed at the time
 * limit, on abort, and if it prints too much. Errors: NoProposal; INVALID_REQUEST if the program does not exist,
 * because every later trial would fail in the same way; the signal's reason.
 */
export async function askProposer(request: ProposalRequest, options: ProposerOptions): Promise<string> {
  const { command, seconds, logFile, environment, signal } = options;
  signal.throwIfAborted();
  const log = createWriteStream(logFile);
  const env = withoutSecrets(environment);
  const child = spawn(command, { shell: true, detached: true, env, stdio: ['pipe', 'pipe', 'pipe'] });
  let stopped = '';
  const kill = (why: string): void => {
    stopped ||= why;
    killProcessGroup(child.pid);
  };
  const timer = setTimeout(
    () => kill(`The proposer did not answer within ${seconds} s and was killed`),
    seconds * 1000,
  );
  const onAbort = (): void => kill('aborted');
  signal.addEventListener('abort', onAbort, { once: true });
  const pieces: Buffer[] = [];
  let bytes = 0;
  let logged = 0;
  const toLog = (piece: Buffer): void => {
    logged += piece.length;
    if (logged <= MAX_LOG_BYTES) log.write(piece);
  };
  child.stdout.on('data', (piece: Buffer) => {
    toLog(piece);
    bytes += piece.length;
    if (bytes > MAX_ANSWER_BYTES) kill(`The proposer printed more than ${MAX_ANSWER_BYTES} bytes and was killed`);
    else pieces.push(piece);
  });
  const said = new LastWords();
  child.stderr.on('data', (piece: Buffer) => {
    toLog(piece);
    said.add(piece);
  });
  // A proposer that does not read all of its input causes EPIPE, but may still answer.
  child.stdin.on('error', () => undefined);
  child.stdin.end(`${JSON.stringify(request)}\n`);
  try {
    const end = await ended(child);
    signal.throwIfAborted();
    if (stopped !== '') throw new NoProposal(`${stopped}${said.text === '' ? '' : `; it said: ${said.text}`}`);
    if (NOT_STARTED.includes(end)) throw notStarted(command, said.text);
    if (end !== '') throw new NoProposal(`The proposer ${end}: ${said.text || tail(pieces)}`);
    return Buffer.concat(pieces).toString('utf8');
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    // Ends processes that the proposer left running.
    killProcessGroup(child.pid);
    // Waits until the log file is complete.
    await new Promise<void>((resolve) => {
      log.end(() => resolve());
    });
  }
}

/**
 * A shell's exit codes for a program that does not exist or cannot be executed (POSIX, Shell Command Language, 2.8.2).
 */
const NOT_STARTED = ['ended with status 126', 'ended with status 127'];

const notStarted = (command: string, said: string) =>
  invalidRequest({
    field: '--proposer',
    description: `"${command}": must be a program that the shell can start: ${said}`,
  });

/** Describes how the proposer failed; empty if it did not. Resolves once its output is read. */
function ended(child: ReturnType<typeof spawn>): Promise<string> {
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(`could not be started (${error.message})`));
    child.on('close', (code, killedBy) => {
      if (killedBy !== null) resolve(`was ended by ${killedBy}`);
      else resolve(code === 0 ? '' : `ended with status ${code}`);
    });
  });
}

const TAIL_BYTES = 500;

/** The end of a proposer's stderr, where programs report their errors. */
class LastWords {
  #bytes = Buffer.alloc(0);

  add(piece: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, piece.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
  }

  /** The text in one line, without control characters. */
  get text(): string {
    return readable(this.#bytes);
  }
}

const tail = (pieces: readonly Buffer[]): string =>
  readable(Buffer.concat(pieces).subarray(-TAIL_BYTES)) || 'it printed nothing';

/** Text without a character that was cut in half at the start. */
const readable = (bytes: Buffer): string =>
  sanitize(
    bytes
      .toString('utf8')
      .replace(/^\uFFFD+/, '')
      .replace(/\s+/g, ' '),
  ).trim();
