import { create } from '@bufbuild/protobuf';
import { EntryResourcesSchema, type EntryResources, type LaunchWaves } from '@flashcore/shared/contract';
import { archLimits, launchWaves, occupancy, type PlannedLaunch } from '@flashcore/shared/kernels';
import type { PtxasEntry } from './ptxas-report.ts';

/** A launch with its shape as BxHxSxD, or without a shape if it is not to be reported. */
export interface ShapeLaunch extends PlannedLaunch {
  shape?: string;
}

/**
 * ptxas's figures for each entry, along with CTAs per SM, occupancy and the resource that limits it, for the entry's
 * largest launch. Entries that no launch uses are left out.
 */
export function entryResources(
  entries: readonly PtxasEntry[],
  launches: readonly ShapeLaunch[],
  multiprocessors = 0,
): EntryResources[] {
  return entries.flatMap((entry) => {
    const own = launches.filter((launch) => launch.entry === entry.entry);
    return own.length === 0 ? [] : [resourcesOf(entry, own, multiprocessors)];
  });
}

function resourcesOf(entry: PtxasEntry, launches: readonly ShapeLaunch[], multiprocessors: number): EntryResources {
  const dynamicSmemBytes = Math.max(...launches.map(({ sharedBytes }) => sharedBytes));
  const threadsPerCta = Math.max(...launches.map(({ block: [x, y, z] }) => x * y * z));
  const sheet = archLimits(entry.arch);
  const fit =
    sheet &&
    occupancy(
      { registers: entry.registers, smem: entry.staticSmemBytes + dynamicSmemBytes, threads: threadsPerCta },
      sheet,
    );
  return create(EntryResourcesSchema, {
    entry: entry.entry,
    arch: entry.arch,
    registersPerThread: entry.registers,
    staticSmemBytes: entry.staticSmemBytes,
    dynamicSmemBytes,
    spillStoreBytes: entry.spillStoreBytes,
    spillLoadBytes: entry.spillLoadBytes,
    stackBytes: entry.stackBytes,
    barriers: entry.barriers,
    constantBytes: entry.constantBytes,
    threadsPerCta,
    shapes: [...new Set(launches.flatMap(({ shape }) => shape ?? []))],
    ...(sheet && { smemLimitBytes: sheet.smemPerCtaOptinBytes }),
    waves: fit && fit.ctasPerSm > 0 && multiprocessors > 0 ? wavesOf(launches, fit.ctasPerSm, multiprocessors) : [],
    ...(fit && { ctasPerSm: fit.ctasPerSm, occupancyPercent: fit.percent, occupancyLimiter: fit.limiter }),
  });
}

/** Waves of the largest launch of each shape. */
function wavesOf(launches: readonly ShapeLaunch[], ctasPerSm: number, multiprocessors: number): LaunchWaves[] {
  const largest = new Map<string, number>();
  for (const { shape, grid } of launches) {
    const ctas = grid[0] * grid[1] * grid[2];
    if (shape !== undefined) largest.set(shape, Math.max(ctas, largest.get(shape) ?? 0));
  }
  return [...largest].map(([shape, ctas]) => launchWaves({ shape, ctas, ctasPerSm, multiprocessors }));
}
