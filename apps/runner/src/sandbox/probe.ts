import type { BoxedCommand } from './child.ts';
import { runProgram } from './run.ts';

const FAILURE_KEPT_MS = 60_000;
/** A probe that takes too long means that the host is busy, not that the program fails. */
const TRIES = 3;

/**
 * Results of probes, by name. Success is cached; failure only for a while, because a busy host becomes quiet and
 * missing programs get installed.
 */
export class Probes {
  readonly #failureKeptMs: number;
  readonly #known = new Map<string, { problem: Promise<string | undefined>; untilMs: number }>();

  constructor(failureKeptMs = FAILURE_KEPT_MS) {
    this.#failureKeptMs = failureKeptMs;
  }

  /** The problem; undefined if the probe works. Concurrent callers get the same answer. */
  async problem(name: string, probe: () => Promise<string | undefined>): Promise<string | undefined> {
    const known = this.#known.get(name);
    if (known && performance.now() < known.untilMs) return known.problem;
    const asked = { problem: probe(), untilMs: Infinity };
    this.#known.set(name, asked);
    const problem = await asked.problem;
    if (problem !== undefined) asked.untilMs = performance.now() + this.#failureKeptMs;
    return problem;
  }
}

/**
 * The reason why a command does not exit with 0 as it should; undefined if it does. The command runs again if it does
 * not end in time.
 */
export async function tryCommand(command: BoxedCommand, limitMs: number): Promise<string | undefined> {
  for (let attempt = 0; attempt < TRIES; ++attempt) {
    const end = await runOnce(command, limitMs);
    if (end !== 'time-limit') return end;
  }
  return `it did not end within ${limitMs / 1000} s, ${TRIES} times`;
}

async function runOnce({ program, args }: BoxedCommand, limitMs: number): Promise<string | undefined> {
  try {
    const { signal } = new AbortController();
    const end = await runProgram(program, args, { limitMs, signal, environment: process.env });
    if (end.timedOut) return 'time-limit';
    return end.exitCode === 0
      ? undefined
      : (tellingLine(end.lines.join('\n')) ?? `${program} ended with exit status ${end.exitCode}`);
  } catch (error) {
    return (error as Error).message;
  }
}

/** The informative line of an error: the first line or, for a JavaScript error, the line after the source location. */
export function tellingLine(stderr: string): string | undefined {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return lines.find((line) => /^\w*Error\b.*: /.test(line)) ?? lines[0];
}
