import { create } from '@bufbuild/protobuf';
import { PhaseTimeSchema, type Phase } from '@flashcore/shared/contract';
import type { VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';

/** A step that a variant goes through: build, verify, benchmark … */
export interface VariantPhase {
  /** What its time counts as. */
  readonly phase: Phase;
  /** Whether the job's spec asks for it, of this variant. */
  wants(services: VariantServices, found: VariantFound): boolean;
  /** Runs also after a phase that stopped the others. */
  readonly evenStopped?: boolean;
  /**
   * Does the work and writes what it finds out into `found`; answers why the phases after it make no sense, or
   * undefined. Errors: what the runner could not find out, and the signal's reason.
   */
  run(services: VariantServices, found: VariantFound): Promise<string | undefined>;
}

/** Takes a variant through the phases, in their order. */
export async function runPhases(
  phases: readonly VariantPhase[],
  services: VariantServices,
  found: VariantFound,
): Promise<void> {
  for (const phase of phases) {
    if (found.stopped !== undefined && !phase.evenStopped) continue;
    if (!phase.wants(services, found)) continue;
    const stopped = await timed(phase, services, found);
    found.judging?.look();
    found.stopped ??= stopped;
  }
}

/** Runs a phase and notes how long it took, also where it throws. */
async function timed(phase: VariantPhase, services: VariantServices, found: VariantFound): Promise<string | undefined> {
  const started = performance.now();
  try {
    return await phase.run(services, found);
  } finally {
    found.job.phaseTimes.push(
      create(PhaseTimeSchema, {
        phase: phase.phase,
        variant: services.resolved.label,
        startSeconds: (started - found.job.started) / 1000,
        seconds: (performance.now() - started) / 1000,
        waitSeconds: found.waitSeconds ?? 0,
      }),
    );
    delete found.waitSeconds;
  }
}
