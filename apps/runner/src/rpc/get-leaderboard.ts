import { create } from '@bufbuild/protobuf';
import {
  GetLeaderboardResponseSchema,
  TimingMode,
  type GetLeaderboardRequest,
  type GetLeaderboardResponse,
} from '@flashcore/shared/contract';
import { formatShape, shapeViolations } from '@flashcore/shared/kernels';
import { BASELINE_KERNEL, type LeftOut, type RankedPlace } from '../store/leaderboard.ts';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { Violations } from './validate/violations.ts';

/** Lists the best valid result per kernel variant for a device, shape, timing mode and protocol. */
export const getLeaderboard =
  (services: Services): UnaryHandler<GetLeaderboardRequest, GetLeaderboardResponse> =>
  (request) => {
    const violations = new Violations();
    violations.text('device_name', request.deviceName);
    violations.text('protocol', request.protocol);
    if (request.shape) violations.addAll(shapeViolations(request.shape, 'shape'));
    violations.enumValue('mode', request.mode, TimingMode, { optional: true });
    violations.throwIfAny();

    const { leaderboard, decisions, kernels } = services;
    const place = placeOf(request, services);
    const champions = new Set(decisions.champions().map(({ job }) => job));
    const entries = leaderboard.at(place).map((entry) => ({
      ...entry,
      champion: entry.kernelId !== '' && champions.has(entry.job),
      lineage: entry.kernelId === '' ? [] : kernels.lineageOf(entry.kernelId),
    }));
    const leftOut = leftOutText(leaderboard.leftOut(place), place.protocol, leaderboard.protocol);
    const emptyReason = entries.length > 0 ? undefined : emptyText(place, services);
    return create(GetLeaderboardResponseSchema, {
      entries,
      place: { ...place, results: entries.filter(({ kernelId }) => kernelId !== '').length },
      places: leaderboard.places(),
      baselineKernel: BASELINE_KERNEL,
      ...(leftOut !== undefined && { leftOut }),
      ...(emptyReason !== undefined && {
        emptyReason: leftOut === undefined ? emptyReason : `${emptyReason}. ${leftOut}`,
      }),
    });
  };

/** The request with every default filled in. A device's id stands for its name. */
function placeOf(request: GetLeaderboardRequest, { jobs, planner, leaderboard }: Services): RankedPlace {
  const devices = jobs.devices();
  const byId = devices.find(({ deviceId }) => deviceId === request.deviceName);
  return {
    deviceName: byId?.name ?? (request.deviceName || devices[0]?.name || ''),
    shape: request.shape ?? planner.canonicalShape(),
    mode: request.mode || TimingMode.HOT,
    protocol: request.protocol || leaderboard.protocol,
  };
}

const MODE_WORDS: Partial<Record<TimingMode, string>> = { [TimingMode.HOT]: 'hot', [TimingMode.COLD]: 'cold' };

function emptyText({ deviceName, shape, mode }: RankedPlace, { jobs, leaderboard }: Services): string {
  const simulated = jobs.devices().some((device) => device.name === deviceName && device.simulated);
  if (simulated) return `Emulator times are not GPU times and never count: ${deviceName} has no place in a leaderboard`;
  const emulated = leaderboard.hasSimulated(shape) ? '; those of the emulator are not GPU times and never count' : '';
  return `No valid result on ${deviceName} for ${formatShape(shape)}, ${MODE_WORDS[mode]}, yet${emulated}`;
}

function leftOutText(leftOut: readonly LeftOut[], asked: string, runners: string): string | undefined {
  if (leftOut.length === 0) return undefined;
  const counts = leftOut.map(
    ({ protocol, count }) => `${count} measured by ${protocol === '' ? 'an unknown protocol' : protocol}`,
  );
  const whose = asked === runners ? ", this runner's," : '';
  return `Left out: ${counts.join(', ')}; only results by ${asked}${whose} compare with each other`;
}
