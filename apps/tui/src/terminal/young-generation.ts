/**
 * Keeps V8 from growing its young generation, which it doubles up to 3 x 32 MiB while much is allocated and never gives
 * back.
 */
import { setFlagsFromString } from 'node:v8';

/**
 * To be called once the program has loaded: what loading needed is enough for what comes from a runner. 60 MiB less
 * after a million log lines, at the same CPU time.
 */
export const keepYoungGeneration = (): void => setFlagsFromString('--semi-space-growth-factor=1');
