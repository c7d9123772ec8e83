import type { Rule } from 'eslint';

/** For each room, the rooms that it may import from. "*" means every room. */
export type RoomTable = Readonly<Record<string, readonly string[]>>;
export function circlesOf(edges: ReadonlyMap<string, readonly string[]>): string[][];
export function checkTable(rooms: RoomTable): void;
export const importRooms: Rule.RuleModule;
