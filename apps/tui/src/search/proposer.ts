import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { killProcessGroup, withoutSecrets } from '@flashcore/shared/files';
import { sanitize } from '../present/cells/cell-text.ts';
import { MAX_ANSWER_BYTES, NoProposal, type ProposalRequest } from './protocol.ts';

export interface ProposerOptions {
  /** A command line for the shell. */
  readonly command: string;
  readonly seconds: number;
  /** Whatever it prints goes there. */
  readonly logFile: string;
  readonly environment: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
}

const MAX_LOG_BYTES = 4 * 1024 * 1024;

/**
 * Runs a proposer once and gives what it printed on stdout. It has a process group of its own, which is killed at the
 * limit, at the abort and when it prints too much. Errors: NoProposal; the signal's reason.
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
  // One that does not read its input to the end (EPIPE) may answer all the same.
  child.stdin.on('error', () => undefined);
  child.stdin.end(`${JSON.stringify(request)}\n`);
  try {
    const end = await ended(child);
    signal.throwIfAborted();
    if (stopped !== '') throw new NoProposal(`${stopped}${said.text === '' ? '' : `; it said: ${said.text}`}`);
    if (end !== '') throw new NoProposal(`The proposer ${end}: ${said.text || tail(pieces)}`);
    return Buffer.concat(pieces).toString('utf8');
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    // What it left running has no business any more.
    killProcessGroup(child.pid);
    // What it printed is in the file when this answers.
    await new Promise<void>((resolve) => {
      log.end(() => resolve());
    });
  }
}

/** How it ended, when that was not well; resolves when its output is read. */
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

/** The end of what a proposer writes on stderr, where programs say what went wrong. */
class LastWords {
  #bytes = Buffer.alloc(0);

  add(piece: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, piece.subarray(-TAIL_BYTES)]).subarray(-TAIL_BYTES);
  }

  /** In one line, without control characters. */
  get text(): string {
    return readable(this.#bytes);
  }
}

const tail = (pieces: readonly Buffer[]): string =>
  readable(Buffer.concat(pieces).subarray(-TAIL_BYTES)) || 'it printed nothing';

/** A character that was cut in two at the beginning is left out. */
const readable = (bytes: Buffer): string =>
  sanitize(
    bytes
      .toString('utf8')
      .replace(/^\uFFFD+/, '')
      .replace(/\s+/g, ' '),
  ).trim();
