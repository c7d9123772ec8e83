/** The lowest priority: the process only gets processor time that others leave. */
const LOWEST = '19';

/** A program and its arguments; `aside` runs it at the lowest priority. */
export const atPriority = (
  program: string,
  args: readonly string[],
  { aside }: { aside?: boolean | undefined },
): [string, readonly string[]] => (aside ? ['nice', ['-n', LOWEST, program, ...args]] : [program, args]);
