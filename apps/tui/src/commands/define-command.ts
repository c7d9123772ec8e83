import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import type { GlobalOptions } from './options.ts';

/** Runs a command with its options and arguments; returns the exit code. */
export type Action<Options> = (
  context: CommandContext,
  options: Options,
  argument: string,
  second: string,
) => Promise<number>;

/** Attaches an action to a command. */
export type Define = <Options extends GlobalOptions>(command: Command, action: Action<Options>) => void;
