import { SHELLS } from './completion-scripts.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';

/** `fa-tui completion bash|zsh|fish`: prints the script for the shell to source. */
export function completion(shell: string, context: CommandContext): Promise<ExitCode> {
  context.surroundings.stdout.write(SHELLS[shell as keyof typeof SHELLS]);
  return Promise.resolve(ExitCode.PASSED);
}
