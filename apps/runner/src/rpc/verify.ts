import { VerifyRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkVerifySettings } from './validate/settings.ts';

/** Compiles a kernel if necessary, and compares its output with the reference. */
export const verify = (services: Services) =>
  startsJob(
    {
      method: 'verify',
      schema: VerifyRequestSchema,
      validate: ({ kernel, variant, settings }, violations) => {
        checkKernelReference(kernel, violations);
        checkVariant(variant, violations);
        checkVerifySettings('settings', settings, violations);
      },
    },
    services,
  );
