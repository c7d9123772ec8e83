import { ExitCode } from './exit-code.ts';

// bin/fa-tui.js passes signals on, and a terminal sends Ctrl-C to both processes, so signals within this time count as
// one.
const SAME_PRESS_MS = 150;

/**
 * Calls `first` at the first Ctrl-C. The second one ends the program with 130, and so does the first if `first` returns
 * a falsy value.
 */
export function onInterrupt(first: () => unknown): { dispose(): void } {
  let firstAt: number | undefined;
  const handler = () => {
    if (firstAt !== undefined && Date.now() - firstAt < SAME_PRESS_MS) return;
    if (firstAt !== undefined || !first()) process.exit(ExitCode.INTERRUPTED);
    firstAt = Date.now();
  };
  process.on('SIGINT', handler);
  return { dispose: () => process.off('SIGINT', handler) };
}
