import type { Command } from 'commander';
import { didYouMean } from '@flashcore/shared/text';

/** That there is no such command, with the nearest of those that there are. */
export const unknownCommand = (name: string, program: Command): string =>
  `Unknown command "${name}"${didYouMean(
    name,
    program.commands.map((known) => known.name()),
  )}; fa-tui --help lists them`;
