import { Phase, Verdict, VariantResultSchema, type GateResult, type VariantResult } from '@flashcore/shared/contract';
import { evaluateGates, type GateHistory } from '@flashcore/shared/kernels';
import { clone } from '@bufbuild/protobuf';
import { startPhase, type VariantScope } from './job-scope.ts';

/**
 * Evaluates every gate for a variant. A phase that was skipped because the output is wrong is said to be that, not just
 * missing.
 */
export function runGates(scope: VariantScope, variant: VariantResult, options: { skipped: string }): GateResult[] {
  const { job, spec, gates, cases } = scope;
  startPhase(scope, Phase.GATES, gates.length);
  const answers = evaluateGates(gates, {
    kernelId: spec.kernel.kernelId,
    arch: spec.arch,
    variant: clone(VariantResultSchema, variant),
    history: acceptedBefore(scope),
    cases,
  });
  const later = new Set(
    gates
      .filter(({ phase }) => phase === 'benchmark' || phase === 'profile' || phase === 'history')
      .map(({ id }) => id),
  );
  for (const answer of answers) {
    if (
      options.skipped !== '' &&
      answer.verdict === Verdict.NOT_MEASURED &&
      answer.level !== 'off' &&
      later.has(answer.gateId)
    )
      answer.detail = `not measured: ${options.skipped}`;
    job.emit({ case: 'gateResult', value: answer });
  }
  return answers;
}

/** What the store has of this kernel on this device. */
function acceptedBefore({ history, spec, job }: VariantScope): GateHistory {
  const place = { deviceName: job.device.name, kernelId: spec.kernel.kernelId };
  return {
    bestAccepted(shape) {
      const { job: name, label, latency } = history.bestAccepted({ ...place, shape })?.entry ?? {};
      return name !== undefined && label !== undefined && latency ? { job: name, label, latency } : undefined;
    },
  };
}
