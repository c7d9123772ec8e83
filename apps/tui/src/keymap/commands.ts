/** The command table: what every key means. What the commands do is in keys/. */
import type { AppState } from '../state/app-state.ts';
import type { CommandRow } from './command.ts';
import { JOB_COMMANDS } from './job-commands.ts';
import { LOG_COMMANDS } from './log-commands.ts';
import { MOVE_COMMANDS } from './move-commands.ts';
import { PROGRAM_COMMANDS } from './program-commands.ts';
import { LATENCY_COMMANDS, MAP_COMMANDS, SHOW_COMMANDS, VIEW_COMMANDS } from './view-commands.ts';

const TABLE = [
  ...SHOW_COMMANDS,
  ...MAP_COMMANDS,
  ...VIEW_COMMANDS,
  ...LATENCY_COMMANDS,
  ...MOVE_COMMANDS,
  ...LOG_COMMANDS,
  ...JOB_COMMANDS,
  ...PROGRAM_COMMANDS,
] as const;

export type CommandId = (typeof TABLE)[number]['id'];
export type Command = CommandRow & { readonly id: CommandId };

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = TABLE;

/** The first command of the table that has the key and does something now. */
export function commandOf(key: string, state: AppState): Command | undefined {
  return COMMANDS.find((command) => command.keys.includes(key) && isUsable(command, state));
}

export const isUsable = ({ when }: Command, state: AppState): boolean => when?.(state) ?? true;

/** What to say of a key that does nothing now, though it does elsewhere; undefined: it has no meaning, or leaves. */
export function whyNothing(key: string): string | undefined {
  // Pressed to get out of whatever there is, or in a list that may be empty.
  if (key === 'escape' || key === 'enter') return undefined;
  const [command] = COMMANDS.filter(({ keys }) => keys.includes(key));
  return command && doesNothing(command);
}

export const doesNothing = ({ help, whyNot }: CommandRow): string => whyNot ?? `"${help}" does nothing here`;

/**
 * Commands whose id, keys or help contain every word of the query: first those with that very key, then those whose
 * name begins so.
 */
export function findCommands(query: string): Command[] {
  const words = query.toLowerCase().split(' ').filter(Boolean);
  const found = COMMANDS.filter(({ id, keys, help }) =>
    words.every((word) => `${id} ${keys.join(' ')} ${help}`.toLowerCase().includes(word)),
  );
  const rank = ({ id, keys }: Command): number => {
    if (keys.includes(query)) return 0;
    return query !== '' && id.startsWith(query.toLowerCase()) ? 1 : 2;
  };
  return found.toSorted((a, b) => rank(a) - rank(b));
}
