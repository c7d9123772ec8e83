import type { WatchJobRequest } from '@flashcore/shared/contract';
import type { StreamHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkJobName } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Streams a job's events after a given one, then new ones, until the job ends. */
export const watchJob = ({ jobs }: Services): StreamHandler<WatchJobRequest, Uint8Array> =>
  async function* watch({ name, afterSequence }, { signal }) {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.range('after_sequence', Number(afterSequence), { least: 0, most: Number.MAX_SAFE_INTEGER });
    violations.throwIfAny();
    yield* jobs.watch(name, { afterSequence: Number(afterSequence), signal });
  };
