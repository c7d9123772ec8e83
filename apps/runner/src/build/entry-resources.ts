import { create } from '@bufbuild/protobuf';
import { EntryResourcesSchema, type EntryResources } from '@flashcore/shared/contract';
import { archLimits, occupancy, type PlannedLaunch } from '@flashcore/shared/kernels';
import type { PtxasEntry } from './ptxas-report.ts';

/** A launch, and the shape that it is for, as BxHxSxD, where somebody will ask for it. */
export interface ShapeLaunch extends PlannedLaunch {
  shape?: string;
}

/**
 * ptxas's figures with what follows from the largest of the launches: CTAs an SM, occupancy and what bounds it. Entries
 * that nothing launches are left out.
 */
export function entryResources(entries: readonly PtxasEntry[], launches: readonly ShapeLaunch[]): EntryResources[] {
  return entries.flatMap((entry) => {
    const own = launches.filter((launch) => launch.entry === entry.entry);
    return own.length === 0 ? [] : [resourcesOf(entry, own)];
  });
}

function resourcesOf(entry: PtxasEntry, launches: readonly ShapeLaunch[]): EntryResources {
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
    ...(fit && { ctasPerSm: fit.ctasPerSm, occupancyPercent: fit.percent, occupancyLimiter: fit.limiter }),
  });
}
