/** The command table, which defines the meaning of every key. The handlers are in keys/. */
import { didYouMean } from '@flashcore/shared/text';
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

/** The commands with the user's own keys. A key given to one command is removed from the others. */
export function commandsOf({ customKeys }: Pick<AppState, 'customKeys'>): readonly Command[] {
  const known = customized.get(customKeys);
  if (known !== undefined) return known;
  const taken = new Set(Object.values(customKeys).flat());
  const commands = COMMANDS.map((command): Command => {
    const keys = customKeys[command.id] ?? command.keys.filter((key) => !taken.has(key));
    return { ...command, keys };
  });
  customized.set(customKeys, commands);
  return commands;
}

// A user's keys never change while the program runs, so this is computed once rather than at every key.
const customized = new WeakMap<AppState['customKeys'], readonly Command[]>();

/** The mistake in the user's keys, for a message; undefined if there is none. */
export function customKeysProblem(customKeys: AppState['customKeys']): string | undefined {
  const ids = COMMANDS.map(({ id }): string => id);
  const unknown = Object.keys(customKeys).find((id) => !ids.includes(id));
  return unknown === undefined ? undefined : `keys: there is no command "${unknown}"${didYouMean(unknown, ids)}`;
}

/** The first command of the table that has the key and an effect now. */
export function commandOf(key: string, state: AppState): Command | undefined {
  return commandsOf(state).find((command) => command.keys.includes(key) && isUsable(command, state));
}

export const isUsable = ({ when }: Command, state: AppState): boolean => when?.(state) ?? true;

/** The message for a key that has an effect elsewhere but not now; undefined if the key has no meaning or leaves. */
export function whyNothing(key: string, state: AppState): string | undefined {
  // Users press these to leave whatever is open, or in a list that may be empty.
  if (key === 'escape' || key === 'enter') return undefined;
  const [command] = commandsOf(state).filter(({ keys }) => keys.includes(key));
  return command && doesNothing(command);
}

export const doesNothing = ({ help, whyNot }: CommandRow): string => whyNot ?? `Not here: ${help}`;

/**
 * Commands whose id, keys or help contain every word of the query: first those with exactly that key, then those whose
 * name begins with the query.
 */
export function findCommands(query: string, state: Pick<AppState, 'customKeys'> = { customKeys: {} }): Command[] {
  const words = query.toLowerCase().split(' ').filter(Boolean);
  const found = commandsOf(state).filter(({ id, keys, help }) =>
    words.every((word) => `${id} ${keys.join(' ')} ${help}`.toLowerCase().includes(word)),
  );
  const rank = ({ id, keys }: Command): number => {
    if (keys.includes(query)) return 0;
    return query !== '' && id.startsWith(query.toLowerCase()) ? 1 : 2;
  };
  return found.toSorted((a, b) => rank(a) - rank(b));
}
