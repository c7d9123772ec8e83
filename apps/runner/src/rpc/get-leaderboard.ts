import { create } from '@bufbuild/protobuf';
import {
  GetLeaderboardResponseSchema,
  LeaderboardPlaceSchema,
  TimingMode,
  type CaseSet,
  type GetLeaderboardRequest,
  type GetLeaderboardResponse,
  type LeaderboardPlace,
  type Shape,
  timingModeName,
} from '@flashcore/shared/contract';
import {
  DEFAULT_PROBLEM,
  formatShape,
  installedProblems,
  namedCase,
  recordedDtype,
  recordedProblem,
  shapeViolations,
} from '@flashcore/shared/kernels';
import { didYouMean } from '@flashcore/shared/text';
import { BASELINE_KERNEL, type Leaderboard, type LeftOut, type RankedPlace } from '../store/leaderboard.ts';
import type { UnaryHandler, Services } from './call.ts';
import { Violations } from './validate/violations.ts';

/** Lists the best valid result per kernel variant for a device, shape, dtype, timing mode and protocol. */
export const getLeaderboard =
  (services: Services): UnaryHandler<GetLeaderboardRequest, GetLeaderboardResponse> =>
  (request) => {
    const violations = new Violations();
    violations.text('device_name', request.deviceName);
    violations.text('protocol', request.protocol);
    violations.dtype('dtype', request.dtype);
    if (request.shape) violations.addAll(shapeViolations(request.shape, 'shape'));
    violations.problem('problem', request.problem);
    violations.throwIfAny();
    const problem = recordedProblem(request.problem);
    const { canonicalShape, caseSets: sets } = services.planner.rankedCases(problem);
    const set = sets.find(({ name }) => name === request.caseSet);
    if (request.caseSet !== '' && request.shape) violations.add('case_set', 'give a shape or a case set, not both');
    else if (request.caseSet !== '' && !set) violations.add('case_set', unknownSet(request.caseSet, sets));
    violations.enumValue('mode', request.mode, TimingMode, { optional: true });
    violations.throwIfAny();

    const { leaderboard, decisions, kernels } = services;
    const known = sets.flatMap(({ shapes }) => shapes);
    const shape = request.shape ? namedCase(request.shape, known, 'shape') : canonicalShape;
    const place = placeOf(request, services, { problem, shape });
    const champions = new Set(decisions.champions().map(({ job }) => job));
    const found = set ? leaderboard.over({ ...place, set }) : leaderboard.at(place);
    const entries = found.map((entry) => ({
      ...entry,
      champion: entry.kernelId !== '' && champions.has(entry.job),
      // The lineage in the run's own manifest; older results did not record it, so the runner's kernel of that id gives
      // it.
      lineage: entry.kernelId === '' || entry.lineage.length > 0 ? entry.lineage : kernels.lineageOf(entry.kernelId),
    }));
    // For a table of means, the tables of its shapes report what is left out.
    const leftOut = set ? undefined : leftOutText(leaderboard, place);
    const emptyReason = entries.length > 0 ? undefined : emptyText(place, services, set);
    return create(GetLeaderboardResponseSchema, {
      entries,
      place: {
        ...(set ? withoutShape(place) : place),
        caseSet: request.caseSet,
        results: entries.filter(({ kernelId }) => kernelId !== '').length,
      },
      places: withMeans(leaderboard.places(), (each) => rankedSets(services, each)),
      baselineKernel: BASELINE_KERNEL,
      ...(leftOut !== undefined && { leftOut }),
      ...(emptyReason !== undefined && {
        emptyReason: leftOut === undefined ? emptyReason : `${emptyReason}. ${leftOut}`,
      }),
    });
  };

/** Case sets of several shapes that a plan with acceptable results measures: only these have means to rank. */
function rankedSets({ planner }: Services, problem: string): CaseSet[] {
  // Results may be about a problem that is no longer installed, which has no sets.
  if (!installedProblems().includes(problem)) return [];
  const { plans } = planner.judging();
  const { caseSets } = planner.rankedCases(problem);
  const measured = new Set(plans.filter(({ acceptable }) => acceptable).map(({ shapes }) => shapes));
  return caseSets.filter(({ name, shapes }) => shapes.length > 1 && measured.has(name));
}

/** Adds a place for each set whose shapes all have results, before the places of single shapes. */
function withMeans(
  places: readonly LeaderboardPlace[],
  setsOf: (problem: string) => readonly CaseSet[],
): LeaderboardPlace[] {
  const key = ({ deviceName, problem, dtype, mode, protocol }: LeaderboardPlace): string =>
    JSON.stringify([deviceName, problem, dtype, mode, protocol]);
  const means = [...Map.groupBy(places, key).values()].flatMap((at) => {
    const shapes = new Map(at.map(({ shape, results }) => [formatShape(shape!), results]));
    return setsOf(at[0]!.problem).flatMap((set) => {
      const results = set.shapes.map((shape) => shapes.get(formatShape(shape)) ?? 0);
      return results.includes(0) ? [] : [{ ...withoutShape(at[0]!), caseSet: set.name, results: Math.min(...results) }];
    });
  });
  return [...means, ...places].map((place) => create(LeaderboardPlaceSchema, place));
}

function withoutShape<Place extends { shape?: Shape | undefined }>({ shape: _, ...rest }: Place): Omit<Place, 'shape'> {
  return rest;
}

function unknownSet(name: string, sets: readonly CaseSet[]): string {
  const known = sets.map((set) => set.name);
  return `must be one of ${known.join(', ')}, got "${name}"${didYouMean(name, known)}`;
}

/** The request with every default filled in. A device's id is replaced by the device's name. */
function placeOf(
  request: GetLeaderboardRequest,
  { jobs, leaderboard }: Services,
  { problem, shape }: { problem: string; shape: Shape },
): RankedPlace {
  const devices = jobs.devices();
  const byId = devices.find(({ deviceId }) => deviceId === request.deviceName);
  return {
    deviceName: byId?.name ?? (request.deviceName || devices[0]?.name || ''),
    problem,
    shape,
    dtype: recordedDtype(request.dtype),
    mode: request.mode || TimingMode.HOT,
    protocol: request.protocol || leaderboard.protocol,
  };
}

function emptyText(
  { deviceName, problem, shape, dtype, mode }: RankedPlace,
  { jobs, leaderboard }: Services,
  set: CaseSet | undefined,
): string {
  const simulated = jobs.devices().some((device) => device.name === deviceName && device.simulated);
  if (simulated) return `Emulator times are not GPU times: ${deviceName} has no leaderboard`;
  if (set)
    return `No ranked run on ${deviceName} measured one build on all ${set.shapes.length} shapes of ${set.name}${dtype === 'fp16' ? '' : ` in ${dtype}`}, ${timingModeName(mode)}, yet: run a plan that measures ${set.name}`;
  const emulated = leaderboard.hasSimulated({ problem, shape })
    ? '; those of the emulator are not GPU times and never count'
    : '';
  return `No valid result on ${deviceName} for ${formatShape(shape)}${problem === DEFAULT_PROBLEM ? '' : ` of ${problem}`}${dtype === 'fp16' ? '' : ` ${dtype}`}, ${timingModeName(mode)}, yet${emulated}`;
}

function leftOutText(leaderboard: Leaderboard, place: RankedPlace): string | undefined {
  const { notRanked, rejected } = leaderboard.notCounted(place);
  const others = otherProtocols(leaderboard.leftOut(place), place.protocol, leaderboard.protocol);
  const counts = [
    ...(notRanked > 0 ? [`${notRanked} of runs that were not ranked, or from before ranked runs existed`] : []),
    ...(rejected > 0 ? [`${rejected} that were rejected`] : []),
    ...(others === undefined ? [] : [others]),
  ];
  return counts.length === 0 ? undefined : `Left out: ${counts.join('; ')}`;
}

function otherProtocols(leftOut: readonly LeftOut[], asked: string, runners: string): string | undefined {
  if (leftOut.length === 0) return undefined;
  const counts = leftOut.map(
    ({ protocol, count }) => `${count} measured by ${protocol === '' ? 'an unknown protocol' : protocol}`,
  );
  const whose = asked === runners ? ", this runner's," : '';
  return `${counts.join(', ')}; only results by ${asked}${whose} compare with each other`;
}
