import type { Rule } from 'eslint';

/** What each room may import from; "*": from every room. */
export type RoomTable = Readonly<Record<string, readonly string[]>>;
export function circlesOf(edges: ReadonlyMap<string, readonly string[]>): string[][];
export function checkTable(rooms: RoomTable): void;
export const importRooms: Rule.RuleModule;
