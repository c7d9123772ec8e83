import { create } from '@bufbuild/protobuf';
import { CancelJobResponseSchema, type CancelJobRequest, type CancelJobResponse } from '@flashcore/shared';
import type { UnaryHandler } from './call.ts';
import type { Services } from './services.ts';
import { checkName } from './validate/names.ts';
import { Violations } from './validate/violations.ts';

/** Ends a job; cancelling an ended job is no error. */
export const cancelJob = ({ jobs }: Services): UnaryHandler<CancelJobRequest, CancelJobResponse> => ({ name }) => {
  const violations = new Violations();
  checkName('name', name, violations);
  violations.throwIfAny();
  return create(CancelJobResponseSchema, { job: jobs.cancel(name) });
};
