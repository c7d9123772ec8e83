import { statSync } from 'node:fs';
import { FlashcoreError } from '@flashcore/shared/contract';
import { runProgram } from '../sandbox/run.ts';

/** What every tool is asked first. */
export const VERSION = ['--version'];

export interface ToolAnswersOptions {
  limitMs?: number | undefined;
  failureKeptMs?: number | undefined;
}

const LIMIT_MS = 10_000;
/** A tool that hangs is not waited for again at once. */
const FAILURE_KEPT_MS = 10_000;

/** What programs of this host said when they were asked: each question once for each file, whoever waits for it. */
export class ToolAnswers {
  readonly #answers = new Map<string, string>();
  /** Why one that is there does not answer, until it is asked again. */
  readonly #failures = new Map<string, string>();
  readonly #asking = new Map<string, Promise<void>>();
  readonly #limitMs: number;
  readonly #failureKeptMs: number;

  constructor({ limitMs = LIMIT_MS, failureKeptMs = FAILURE_KEPT_MS }: ToolAnswersOptions = {}) {
    this.#limitMs = limitMs;
    this.#failureKeptMs = failureKeptMs;
  }

  /** Asks a tool, if it is there and has not answered. Never rejects: of() tells of one that does not answer. */
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

  /** Undefined: it was not asked, or did not answer. */
  known(path: string, args: readonly string[]): string | undefined {
    return this.#answers.get(keyOf(path, args));
  }

  /** Whether it can't be run. */
  failed(path: string, args: readonly string[]): boolean {
    return this.#failures.has(keyOf(path, args));
  }

  /** Errors: UnusableCompiler where it did not answer. */
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

/** COMPILER_MISSING of one that is there; `lasting`: until somebody mends it. */
export class UnusableCompiler extends FlashcoreError {
  readonly lasting: boolean;

  constructor(path: string, message: string, { lasting }: { lasting: boolean }) {
    super('COMPILER_MISSING', { wanted: path }, message);
    this.lasting = lasting;
  }
}

/** Errors: UnusableCompiler where it says nothing of the kind: it is no compiler. */
export function versionIn(text: string, pattern: RegExp, path: string): string {
  const version = pattern.exec(text)?.[1];
  if (version !== undefined) return version;
  throw new UnusableCompiler(
    path,
    cannotRun(path, `names no version${text ? `: ${text.split('\n')[0]!.slice(0, 200)}` : ''}`),
    { lasting: true },
  );
}

/** A tool that was replaced is asked anew. */
const keyOf = (path: string, args: readonly string[]): string => `${path} ${statSync(path).mtimeMs} ${args.join(' ')}`;

/** Exit status of a shell that could not run a program; the next one: that did not find it. */
const NOT_RUN = 126;

interface Answer {
  /** What it prints. */
  answer?: string;
  /** Why there is none, where it is not for want of time: what to do about it. */
  failure?: string;
}

/**
 * What a program answers. One that fails at any question but the first has answered: an nvcc too old for it. One that
 * can't tell its version can't be run: no execute permission, made for another machine, its interpreter gone.
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
    // Anything else: a host that is short of memory or of processes is asked again.
    return code === 'EACCES' || code === 'ENOEXEC' ? { failure: cannotRun(path, `can't be run (${code})`) } : {};
  }
}

const cannotRun = (path: string, how: string): string =>
  `Mend ${path} or take its folder off PATH: "${path} --version" ${how}`;
