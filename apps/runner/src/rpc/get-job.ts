import { create } from '@bufbuild/protobuf';
import { GetJobResponseSchema, type GetJobRequest, type GetJobResponse } from '@flashcore/shared/contract';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkJobName } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Returns a job and, once it has ended, its result. */
export const getJob =
  ({ jobs }: Services): UnaryHandler<GetJobRequest, GetJobResponse> =>
  ({ name }) => {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.throwIfAny();
    return create(GetJobResponseSchema, jobs.get(name));
  };
