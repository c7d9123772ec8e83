import { TuneRequestSchema } from '@flashcore/shared/contract';
import type { Services } from './services.ts';
import { startsJob } from './start-job.ts';
import { checkKernelReference, checkVariant } from './validate/kernel.ts';
import { checkShapes } from './validate/settings.ts';

const MAX_TRIALS = 10_000;
const MAX_PARAMETERS = 64;
const MAX_VALUES = 256;
const MAX_SECONDS = 7 * 24 * 3600;
const MAX_USD = 1e6;

/** Searches a kernel's variants for the fastest correct one. */
export const tune = (services: Services) =>
  startsJob(
    {
      method: 'tune',
      schema: TuneRequestSchema,
      resumable: true,
      validate: ({ kernel, variant, shapes, champion, parameters, maxTrials, maxSeconds, maxUsd }, violations) => {
        checkKernelReference(kernel, violations);
        checkVariant(variant, violations);
        checkShapes('shapes', shapes, violations);
        if (champion) {
          checkKernelReference(champion.kernel, violations, 'champion.kernel');
          checkVariant(champion.variant, violations, 'champion.variant');
        }
        violations.count('parameters', parameters, MAX_PARAMETERS);
        parameters.slice(0, MAX_PARAMETERS).forEach(({ name, values }, index) => {
          violations.text(`parameters[${index}].name`, name);
          violations.count(`parameters[${index}].values`, values, MAX_VALUES);
        });
        violations.range('max_trials', maxTrials, { least: 0, most: MAX_TRIALS });
        violations.range('max_seconds', maxSeconds, { least: 0, most: MAX_SECONDS, unit: 's' });
        violations.range('max_usd', maxUsd, { least: 0, most: MAX_USD, unit: 'USD' });
      },
    },
    services,
  );
