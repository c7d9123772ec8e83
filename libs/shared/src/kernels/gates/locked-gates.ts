/** Locked gates: a kernel's own manifest may tighten but not loosen them if its result is to become a champion. */
import type { GatesFile, PlannedGate } from './gate.ts';
import { plannedGates, type Judged } from './plan-gates.ts';

/**
 * Ids of the locked gates that the manifest loosens. The locked gates are those that reject in the file's plan, and the
 * members of a rejecting group, because a member with an easy target would pass the whole group.
 */
export function loosenedGates(file: GatesFile, judged: Judged): string[] {
  const asked = new Map(plannedGates(file, judged).map((gate) => [gate.id, gate]));
  const ofFile = plannedGates(file, { ...judged, own: [] });
  const rejecting = ofFile.filter(({ level }) => level === 'hard');
  const members = new Set(rejecting.flatMap(({ anyOf }) => anyOf));
  return ofFile
    .filter(({ id, level }) => level === 'hard' || members.has(id))
    .filter((locked) => isLooser(asked.get(locked.id)!, locked))
    .map(({ id }) => id);
}

/**
 * Whether a gate is looser. A gate with another measurement or comparison counts as looser, because it cannot be
 * compared.
 */
function isLooser(asked: PlannedGate, locked: PlannedGate): boolean {
  if (locked.level === 'hard' && asked.level !== 'hard') return true;
  if (conditionOf(asked) !== conditionOf(locked)) return true;
  switch (locked.op) {
    case '<':
    case '<=':
      return asked.target > locked.target;
    case '>':
    case '>=':
      return asked.target < locked.target;
    case '==':
      return asked.target !== locked.target;
  }
}

const conditionOf = ({ metric, anyOf, op }: PlannedGate): string =>
  JSON.stringify([Object.entries(metric).toSorted(), anyOf, op]);
