import type { KernelBuild } from '../build/compiled-kernel.ts';
import { keepsStateFinding } from '../build/kept-state.ts';
import { emitWarning, type VariantServices } from './job-services.ts';

/** Refuses memory that outlives a launch if the result could be accepted; other plans only report it. */
export function judgeKeptState({ job, spec }: VariantServices, { findings, keptState }: KernelBuild): void {
  const finding = keepsStateFinding(keptState);
  if (!finding) return;
  if (spec.judged?.plan.acceptable) findings.push(finding);
  else emitWarning(job, `${finding.message}; a plan whose results can be accepted refuses it`);
}
