import { statSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { runProgram } from '../sandbox/run.ts';

/** The first question for every tool. */
export const VERSION = ['--version'];

export interface ToolAnswersOptions {
  limitMs?: number | undefined;
  failureKeptMs?: number | undefined;
}

const LIMIT_MS = 10_000;
/** A tool that did not answer is not asked again for this long. */
const FAILURE_KEPT_MS = 10_000;

/** Answers of this host's programs. A program is asked each question once, however many callers wait for the answer. */
export class ToolAnswers {
  readonly #answers = new Map<string, string>();
  /** Why an existing tool can't answer; kept until the tool is asked again. */
  readonly #failures = new Map<string, string>();
  readonly #asking = new Map<string, Promise<void>>();
  readonly #limitMs: number;
  readonly #failureKeptMs: number;

  constructor({ limitMs = LIMIT_MS, failureKeptMs = FAILURE_KEPT_MS }: ToolAnswersOptions = {}) {
    this.#limitMs = limitMs;
    this.#failureKeptMs = failureKeptMs;
  }

  /**
   * Asks a tool, unless it is missing or has already answered. Never rejects: if the tool does not answer, of() reports
   * it.
   */
  async ask(path: string | undefined, args: readonly string[]): Promise<void> {
    if (path === undefined || this.known(path, args) !== undefined) return;
    const key = keyOf(path, args);
    let asking = this.#asking.get(key);
    if (!asking) {
      asking = answerOf(path, args, this.#limitMs).then(({ answer, failure }) => {
        this.#failures.delete(key);
        if (answer !== undefined) this.#answers.set(key, answer);
        else if (failure !== undefined) this.#failures.set(key, failure);
        setTimeout(() => this.#asking.delete(key), answer === undefined ? this.#failureKeptMs : 0).unref();
      });
      this.#asking.set(key, asking);
    }
    await asking;
  }

  /** The answer; undefined if the tool was not asked or did not answer. */
  known(path: string, args: readonly string[]): string | undefined {
    return this.#answers.get(keyOf(path, args));
  }

  /** Whether the tool can't be run. */
  failed(path: string, args: readonly string[]): boolean {
    return this.#failures.has(keyOf(path, args));
  }

  /** The answer. Errors: UnusableCompiler if there is none. */
  of(path: string, args: readonly string[]): string {
    const answer = this.known(path, args);
    if (answer !== undefined) return answer;
    const failure = this.#failures.get(keyOf(path, args));
    if (failure !== undefined) throw new UnusableCompiler(path, failure, { lasting: true });
    throw new UnusableCompiler(
      path,
      `${path} ${args.join(' ')} gave no answer within ${this.#limitMs / 1000} s: try again when the runner's host is less busy`,
      { lasting: false },
    );
  }
}

/**
 * COMPILER_MISSING for a tool that exists but does not work; `lasting`: it stays so until somebody repairs the tool.
 */
export class UnusableCompiler extends FlashcoreError {
  readonly lasting: boolean;

  constructor(path: string, message: string, { lasting }: { lasting: boolean }) {
    super('COMPILER_MISSING', { wanted: path }, message);
    this.lasting = lasting;
  }
}

/** The version in a tool's output. Errors: UnusableCompiler if the output has none. */
export function versionIn(text: string, pattern: RegExp, path: string): string {
  const version = pattern.exec(text)?.[1];
  if (version !== undefined) return version;
  throw new UnusableCompiler(
    path,
    cannotRun(path, `names no version${text ? `: ${text.split('\n')[0]!.slice(0, 200)}` : ''}`),
    { lasting: true },
  );
}

/** Contains the file's modification time, so that a replaced tool is asked again. */
const keyOf = (path: string, args: readonly string[]): string => `${path} ${statSync(path).mtimeMs} ${args.join(' ')}`;

/** A shell's exit status for a program that can't be run; the next higher status means that it was not found. */
const NOT_RUN = 126;

interface Answer {
  /** The program's output. */
  answer?: string;
  /** Why there is no answer and what to do about it; undefined if the program only ran out of time. */
  failure?: string;
}

/**
 * Asks a program. A failure at any later question is also an answer, for example from an nvcc too old for the question.
 * A program that can't report its version can't be run: it has no execute permission, was built for another machine, or
 * lacks its interpreter.
 */
async function answerOf(path: string, args: readonly string[], limitMs: number): Promise<Answer> {
  try {
    const { signal } = new AbortController();
    const { timedOut, exitCode, lines } = await runProgram(path, args, { limitMs, signal, environment: process.env });
    if (timedOut || exitCode === undefined) return {};
    if (exitCode === 0 || (args !== VERSION && exitCode < NOT_RUN)) return { answer: lines.join('\n') };
    return { failure: cannotRun(path, `ended with ${exitCode}${lines[0] ? `: ${lines[0].slice(0, 200)}` : ''}`) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // After any other error, such as a lack of memory or of processes, the tool is asked again.
    return code === 'EACCES' || code === 'ENOEXEC' ? { failure: cannotRun(path, `can't be run (${code})`) } : {};
  }
}

const cannotRun = (path: string, how: string): string =>
  `Repair ${path} or remove its folder from PATH: "${path} --version" ${how}`;
