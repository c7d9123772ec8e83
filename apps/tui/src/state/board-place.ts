/** Places that have a leaderboard: device, problem, shape, dtype, timing mode and protocol. */
import type { LeaderboardPlace } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { AppState } from './app-state.ts';

const keyOf = ({ deviceName, problem, shape, caseSet, dtype, mode, protocol }: LeaderboardPlace): string =>
  JSON.stringify([deviceName, problem, shape ? formatShape(shape) : caseSet, dtype, mode, protocol]);

/** The place after the one shown, wrapping around at the end; the first place if the one shown has no results. */
export function nextPlace({ leaderboard }: Pick<AppState, 'leaderboard'>): LeaderboardPlace | undefined {
  const { places = [], place } = leaderboard ?? {};
  const shown = place === undefined ? -1 : places.findIndex((each) => keyOf(each) === keyOf(place));
  return places[(shown + 1) % Math.max(1, places.length)];
}
