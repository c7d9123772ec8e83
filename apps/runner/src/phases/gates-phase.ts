import { Phase, Verdict, VariantResultSchema, type GateResult, type VariantResult } from '@flashcore/shared/contract';
import { evaluateGates, type GateHistory } from '@flashcore/shared/kernels';
import { clone } from '@bufbuild/protobuf';
import { startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';

/** Gates are evaluated for everything that was built, also where a phase stopped the others. */
export const gatesPhase: VariantPhase = {
  wants: ({ spec }, { build }) => spec.method === 'runExperiment' && build !== undefined,
  evenStopped: true,
  run(services, { result, stopped }) {
    result.gates = runGates(services, result, { stopped });
    return Promise.resolve(undefined);
  },
};

/**
 * Evaluates every gate for a variant. A phase that was skipped because the output is wrong is said to be that, not just
 * missing.
 */
function runGates(
  services: VariantServices,
  variant: VariantResult,
  { stopped }: { stopped: string | undefined },
): GateResult[] {
  const { job, spec, gates, cases } = services;
  startPhase(services, Phase.GATES, gates.length);
  const answers = evaluateGates(gates, {
    kernelId: spec.kernel.kernelId,
    arch: spec.arch,
    variant: clone(VariantResultSchema, variant),
    history: acceptedBefore(services),
    cases,
  });
  const later = new Set(
    gates
      .filter(({ phase }) => phase === 'benchmark' || phase === 'profile' || phase === 'history')
      .map(({ id }) => id),
  );
  for (const answer of answers) {
    if (
      stopped !== undefined &&
      answer.verdict === Verdict.NOT_MEASURED &&
      answer.level !== 'off' &&
      later.has(answer.gateId)
    )
      answer.detail = `not measured: ${stopped}`;
    job.emit({ case: 'gateResult', value: answer });
  }
  return answers;
}

/** What the store has of this kernel on this device. */
function acceptedBefore({ history, spec, job }: VariantServices): GateHistory {
  const place = { deviceName: job.device.name, kernelId: spec.kernel.kernelId };
  return {
    bestAccepted(shape) {
      const { job: name, label, latency } = history.bestAccepted({ ...place, shape })?.entry ?? {};
      return name !== undefined && label !== undefined && latency ? { job: name, label, latency } : undefined;
    },
  };
}
