import { BuildRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';

/** Compiles a kernel. */
export const build = (services: Services) =>
  startsJob(
    {
      method: 'build',
      schema: BuildRequestSchema,
      validate: ({ kernel, variant }, violations) => {
        checkKernelReference(kernel, violations);
        checkVariant(variant, violations);
      },
    },
    services,
  );
