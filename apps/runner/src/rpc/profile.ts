import { ProfileRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkProfileSettings } from './validate/settings.ts';

/** Compiles a kernel if necessary, and reads hardware counters while it runs. */
export const profile = (services: Services) =>
  startsJob(
    {
      method: 'profile',
      schema: ProfileRequestSchema,
      validate: ({ kernel, variant, settings }, violations) => {
        checkKernelReference(kernel, violations);
        checkVariant(variant, violations);
        checkProfileSettings('settings', settings, violations);
      },
    },
    services,
  );
