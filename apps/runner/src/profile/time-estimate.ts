/** Estimates a GPU's time, with its error, from multiprocessor cycles modelled on the emulator. */
import { create } from '@bufbuild/protobuf';
import { TimeEstimateSchema, type EntryResources, type TimeEstimate } from '@flashcore/shared/contract';
import { findDataSheet, type PlannedLaunch } from '@flashcore/shared/kernels';
import type { CountReport, Filling } from '../../worker/messages/profiling.ts';

/** Figures and errors of the model, from the report in `source`; a test checks that they match the report. */
export const ESTIMATE_MODEL = {
  device: 'NVIDIA H200',
  arch: 'sm_90',
  clockMhz: 1980,
  source: 'lab/results/emulator-2026-11-22/estimates.json',
  /** Time of an empty launch in a graph. */
  launchUs: 0.56,
  /** Measured time of kernels relative to the modelled cycles. */
  scale: 1.182,
  meanErrorPercent: 8.5,
  ratioErrorPercent: 8.4,
};

/** How a plan fills the modelled GPU; or a text: why there is no estimate, and what to do. */
export function fillingOf(launches: readonly PlannedLaunch[], entries: readonly EntryResources[]): Filling | string {
  const [launch, ...others] = launches;
  const { device, arch } = ESTIMATE_MODEL;
  if (launch === undefined || others.length > 0)
    return `the model was checked only for plans of one launch; this one has ${launches.length}`;
  if (launch.cooperative) return 'the model walks single CTAs; those of a cooperative launch wait for one another';
  const entry = entries.find((each) => each.entry === launch.entry);
  if (entry === undefined || entry.ctasPerSm === 0)
    return 'how many CTAs a multiprocessor holds is known from nvcc only';
  if (entry.arch === `${arch}a`)
    return `the model has no time for the instructions that only ${entry.arch} has, such as wgmma and setmaxnreg`;
  if (entry.arch !== arch)
    return `the model covers only the ${device}, and this build is for ${entry.arch}; --arch ${arch} builds for the ${device}`;
  return {
    ctas: launch.grid[0] * launch.grid[1] * launch.grid[2],
    multiprocessors: findDataSheet(device)!.multiprocessors,
    residents: entry.ctasPerSm,
    registers: entry.registersPerThread,
  };
}

/** `filling`: the result of fillingOf(). */
export function timeEstimate(filling: Filling | string, { cycles, noCycles }: CountReport): TimeEstimate {
  const { device, clockMhz, launchUs, scale, source, meanErrorPercent, ratioErrorPercent } = ESTIMATE_MODEL;
  if (typeof filling === 'string') return create(TimeEstimateSchema, { device, missing: filling });
  if (cycles === undefined) return create(TimeEstimateSchema, { device, missing: noCycles ?? 'it was not walked' });
  const latencyUs = launchUs + (scale * cycles) / clockMhz;
  return create(TimeEstimateSchema, { device, latencyUs, meanErrorPercent, ratioErrorPercent, source });
}
