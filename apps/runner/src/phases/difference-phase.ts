import { Phase } from '@flashcore/shared/contract';
import { championDifference, profileOf } from './champion-difference.ts';
import type { VariantPhase } from './phase.ts';

/** Reports how the candidate differs from the champion, once both are built and the candidate is profiled. */
export const differencePhase: VariantPhase = {
  phase: Phase.COMPARE,
  wants: (_services, { championBuild, result }) => championBuild !== undefined && !result.fallback,
  evenStopped: true,
  run({ job, spec, resolved, decisions }, { result, championBuild }) {
    const champion = spec.champion!;
    const { kernel, accepted } = champion;
    const { label } = champion.resolved;
    const difference = championDifference({
      champion: {
        label: label === 'default' ? kernel.kernelId : `${kernel.kernelId} ${label}`,
        kernel,
        resolved: champion.resolved,
        build: championBuild,
        profile: accepted && profileOf(decisions.resultOf(accepted.job)),
      },
      candidate: { label: resolved.label, kernel: spec.kernel, resolved, build: result.build, profile: result.profile },
      championJob: accepted?.job,
      comparison: result.comparison,
    });
    result.difference = difference;
    job.emit({ case: 'championDifference', value: difference });
    return Promise.resolve(undefined);
  },
};
