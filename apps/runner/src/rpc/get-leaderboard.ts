import { create } from '@bufbuild/protobuf';
import {
  GetLeaderboardResponseSchema,
  type GetLeaderboardRequest,
  type GetLeaderboardResponse,
} from '@flashcore/shared/contract';
import { formatShape, shapeViolations } from '@flashcore/shared/kernels';
import type { LeftOut } from '../store/history.ts';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { Violations } from './validate/violations.ts';

/** Lists the best valid result per kernel variant for a device and a shape. */
export const getLeaderboard =
  ({ history, jobs, planner, decisions }: Services): UnaryHandler<GetLeaderboardRequest, GetLeaderboardResponse> =>
  (request) => {
    const violations = new Violations();
    violations.text('device_name', request.deviceName);
    if (request.shape) violations.addAll(shapeViolations(request.shape, 'shape'));
    violations.throwIfAny();

    const shape = request.shape ?? planner.canonicalShape();
    const devices = jobs.devices();
    const deviceName = request.deviceName || devices[0]?.name || '';
    const place = { deviceName, shape };
    const champions = new Set(decisions.champions().map(({ job }) => job));
    const entries = [
      ...history.leaderboard(place).map(({ entry }) => ({ ...entry, champion: champions.has(entry.job) })),
      ...history.sdpa(place),
    ].toSorted((a, b) => (a.latency?.p50Us ?? Infinity) - (b.latency?.p50Us ?? Infinity));
    const leftOut = leftOutText(history.leftOut({ deviceName, shape }), history.protocol);
    const others = leftOut !== undefined && { leftOut };
    if (entries.length > 0) return create(GetLeaderboardResponseSchema, { entries, ...others });

    const simulated = devices.some((device) => device.name === deviceName && device.simulated);
    const emptyReason = simulated
      ? `Emulator times are not GPU times and never count: ${deviceName} has no place in a leaderboard`
      : `No valid result on ${deviceName} for ${formatShape(shape)} yet${history.hasSimulated(shape) ? '; those of the emulator are not GPU times and never count' : ''}`;
    return create(GetLeaderboardResponseSchema, {
      emptyReason: leftOut === undefined ? emptyReason : `${emptyReason}. ${leftOut}`,
      ...others,
    });
  };

function leftOutText(leftOut: readonly LeftOut[], current: string): string | undefined {
  if (leftOut.length === 0) return undefined;
  const counts = leftOut.map(
    ({ protocol, count }) => `${count} measured by ${protocol === '' ? 'an unknown protocol' : protocol}`,
  );
  return `Left out: ${counts.join(', ')}; only results by ${current}, this runner's, compare with each other`;
}
