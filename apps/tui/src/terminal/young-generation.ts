/**
 * Keeps V8 from growing its young generation. V8 would double it to up to 3 x 32 MiB while much is allocated, and never
 * shrink it.
 */
import { setFlagsFromString } from 'node:v8';

/**
 * Call this once the program has loaded, because the size needed for loading is enough for data from a runner. Saves 60
 * MiB after a million log lines, at the same CPU time.
 */
export const keepYoungGeneration = (): void => setFlagsFromString('--semi-space-growth-factor=1');
