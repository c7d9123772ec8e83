import { Phase } from '@flashcore/shared/contract';
import { startPhase } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/** Final answers of the gates for everything that was built, even if a phase stopped the later ones. */
export const gatesPhase: VariantPhase = {
  phase: Phase.GATES,
  wants: (_services, { judging, build }) => judging !== undefined && build !== undefined,
  evenStopped: true,
  run(services, { judging, build, result, stopped }) {
    // No gate is evaluated for a kernel that does not compile, so a phase that counts its gates would mislead.
    if (build!.result.succeeded) startPhase(services, Phase.GATES, services.spec.judged!.gates.length);
    result.gates = judging!.finish(stopped);
    return Promise.resolve(undefined);
  },
};
