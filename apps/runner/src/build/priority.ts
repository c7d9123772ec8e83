/** Of processors, the lowest that there is: what is left over. */
const LOWEST = '19';

/** A program and its arguments; with `aside` one that leaves the processors to others. */
export const atPriority = (
  program: string,
  args: readonly string[],
  { aside }: { aside?: boolean | undefined },
): [string, readonly string[]] => (aside ? ['nice', ['-n', LOWEST, program, ...args]] : [program, args]);
