import { BenchmarkRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkBenchmarkSettings, checkSdpaAlone } from './validate/settings.ts';

/** Compiles a kernel if necessary, checks it on one case, and measures its latency; or SDPA's, without a kernel. */
export const benchmark = (services: Services) =>
  startsJob(
    {
      method: 'benchmark',
      schema: BenchmarkRequestSchema,
      validate: ({ kernel, variant, settings }, violations) => {
        if (kernel || (settings?.sdpaBackends.length ?? 0) === 0) checkKernelReference(kernel, violations);
        else checkSdpaAlone({ variant, settings: settings! }, violations);
        checkVariant(variant, violations);
        checkBenchmarkSettings('settings', settings, violations);
      },
    },
    services,
  );
