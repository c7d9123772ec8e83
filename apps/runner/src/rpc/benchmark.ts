import { BenchmarkRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkBenchmarkSettings } from './validate/settings.ts';

/** Compiles a kernel, if need be, checks it on one case, and measures its latency. */
export const benchmark = (services: Services) =>
  startsJob(
    {
      method: 'benchmark',
      schema: BenchmarkRequestSchema,
      validate: ({ kernel, variant, settings }, violations) => {
        checkKernelReference(kernel, violations);
        checkVariant(variant, violations);
        checkBenchmarkSettings('settings', settings, violations);
      },
    },
    services,
  );
