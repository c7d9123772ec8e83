import { Phase } from '@flashcore/shared/contract';
import { startPhase } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/** The last answers of the gates, for everything that was built, also where a phase stopped the others. */
export const gatesPhase: VariantPhase = {
  phase: Phase.GATES,
  wants: (_services, { judging, build }) => judging !== undefined && build !== undefined,
  evenStopped: true,
  run(services, { judging, build, result, stopped }) {
    // Of a kernel that does not compile nothing is evaluated any more: a phase of all its gates would say the opposite.
    if (build!.result.succeeded) startPhase(services, Phase.GATES, services.spec.judged!.gates.length);
    result.gates = judging!.finish(stopped);
    return Promise.resolve(undefined);
  },
};
