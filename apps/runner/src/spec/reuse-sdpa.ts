import type { BenchmarkSettings } from '@flashcore/shared/contract';
import type { PlannedGate } from '@flashcore/shared/kernels';
import type { JobMethod } from '../jobs/job-context.ts';
import type { JudgedBy } from './judged-by.ts';

interface Measured {
  asked: Partial<BenchmarkSettings> | undefined;
  judged: Pick<JudgedBy, 'gates'> | undefined;
}

/**
 * Whether an earlier job's SDPA figures may be used: in an experiment or a search, unless backends are named or a
 * deciding gate depends on SDPA.
 */
export function mayReuseSdpa(method: JobMethod, { asked, judged }: Measured): boolean {
  if ((method !== 'runExperiment' && method !== 'tune') || (asked?.sdpaBackends ?? []).length > 0) return false;
  const gates = judged?.gates ?? [];
  const restsOnSdpa = ({ metric, anyOf }: PlannedGate): boolean =>
    metric.name.includes('sdpa') || gates.some((member) => anyOf.includes(member.id) && restsOnSdpa(member));
  return !gates.some((gate) => gate.level === 'hard' && restsOnSdpa(gate));
}
