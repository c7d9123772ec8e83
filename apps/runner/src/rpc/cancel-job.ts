import { create } from '@bufbuild/protobuf';
import { CancelJobResponseSchema, type CancelJobRequest, type CancelJobResponse } from '@flashcore/shared/contract';
import { requirePermission } from '../access/roles.ts';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkJobName } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Ends a job of the caller or, with permission, of another client; cancelling an ended job is no error. */
export const cancelJob =
  ({ jobs }: Services): UnaryHandler<CancelJobRequest, CancelJobResponse> =>
  ({ name }, { caller }) => {
    const violations = new Violations();
    checkJobName('name', name, violations);
    violations.throwIfAny();
    const { owner } = jobs.get(name).job;
    if (owner !== caller.name) requirePermission(caller, 'cancel-any', `cancel a job of ${owner || 'nobody known'}`);
    return create(CancelJobResponseSchema, { job: jobs.cancel(name) });
  };
