import { FlashcoreError, type TuneRequest } from '@flashcore/shared/contract';
import type { StreamHandler } from './call.ts';

/** Searches a kernel's variants; not served yet. */
export const tune = (): StreamHandler<TuneRequest, Uint8Array> => () => {
  throw new FlashcoreError(
    'NOT_IMPLEMENTED',
    { rpc: 'Tune' },
    'Use RunExperiment for each variant: the search over variants (Tune) is missing in this version of the runner',
  );
};
