import { didYouMean } from '@flashcore/shared/text';
import { UsageError } from '../usage-error.ts';

/** Throws UsageError with the nearest of the commands that there are. */
export function unknownCommand(name: string, commands: readonly string[]): never {
  throw new UsageError(`Unknown command "${name}"${didYouMean(name, commands) || '; fa-tui --help lists them'}`);
}
