import { RunExperimentRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkBenchmarkSettings, checkPlan, checkProfileSettings, checkVerifySettings } from './validate/settings.ts';

/** Precheck, build, verification, benchmark, profile, then the gates. */
export const runExperiment = (services: Services) =>
  startsJob(
    {
      method: 'runExperiment',
      schema: RunExperimentRequestSchema,
      validate: (request, violations) => {
        checkKernelReference(request.kernel, violations);
        checkVariant(request.variant, violations);
        checkVerifySettings('verify', request.verify, violations);
        checkBenchmarkSettings('benchmark', request.benchmark, violations);
        checkProfileSettings('profile', request.profile, violations);
        checkPlan(request, violations);
        // Whether this is a pilot and its gateway sent the request.
        const fromGateway = services.ownerOf(request.options?.requestId ?? '') !== undefined;
        if (request.assigned && !fromGateway)
          violations.add('assigned', 'must be unset: a gateway sets it for its pilots');
      },
    },
    services,
  );
