import type { Command } from 'commander';
import { didYouMean } from '@flashcore/shared/text';

/** A message about an unknown command, with the nearest existing ones. */
export const unknownCommand = (name: string, program: Command): string =>
  `Unknown command "${name}"${didYouMean(
    name,
    program.commands.map((known) => known.name()),
  )}; fa-tui --help lists them`;
