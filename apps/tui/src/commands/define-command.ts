import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import type { GlobalOptions } from './options.ts';

/** What a command does with its options and arguments; gives the exit code. */
export type Action<Options> = (
  context: CommandContext,
  options: Options,
  argument: string,
  second: string,
) => Promise<number>;

/** Gives a command its action. */
export type Define = <Options extends GlobalOptions>(command: Command, action: Action<Options>) => void;
