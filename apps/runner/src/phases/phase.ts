import { create } from '@bufbuild/protobuf';
import { PhaseTimeSchema, type Phase } from '@flashcore/shared/contract';
import type { VariantFound } from './job-found.ts';
import type { VariantServices } from './job-services.ts';

/** A step of a variant: build, verify, benchmark … */
export interface VariantPhase {
  /** The phase that its time counts towards. */
  readonly phase: Phase;
  /** Whether the job's spec asks for this step, for this variant. */
  wants(services: VariantServices, found: VariantFound): boolean;
  /** Whether the phase also runs after another phase has stopped the variant. */
  readonly evenStopped?: boolean;
  /**
   * Does the work and writes its findings into `found`. Returns why later phases would be pointless, or undefined.
   * Errors: reasons why the runner has no answer, and the signal's reason.
   */
  run(services: VariantServices, found: VariantFound): Promise<string | undefined>;
}

/** Runs the phases of a variant in order. */
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

/** Runs a phase and records its duration, even if it throws. */
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
