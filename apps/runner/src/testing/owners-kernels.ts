import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REPOSITORY_ROOT } from './test-runner.ts';

/** Replaces the parity cases and the probes' shapes by cases that the emulator computes in a second. */
const SMALL_CASES: readonly (readonly [RegExp, string])[] = [
  [
    /(?<=\n {2}parity:\n)(?: {4}-.*\n)+/,
    '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n    - { B: 2, H: 2, S: 64, D: 64, causal: true }\n',
  ],
  [/(?<=\n {2}emulated:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
  [/(?<=\n {2}canonical:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
  [/(?<=\nprobes:\n {2}shapes:\n)(?: {4}-.*\n)+/, '    - { B: 1, H: 1, S: 64, D: 64, causal: false }\n'],
];

/** A copy of kernels/ in `folder`, as a runner's owner could have it: with small cases and gates of the owner. */
export function ownersKernels(folder: string): string {
  const kernels = join(folder, 'kernels');
  cpSync(join(REPOSITORY_ROOT, 'kernels'), kernels, { recursive: true });
  const file = join(kernels, 'cases.yaml');
  const before = readFileSync(file, 'utf8');
  const after = SMALL_CASES.reduce((text, [place, cases]) => {
    if (!place.test(text)) throw new Error(`cases.yaml has no ${String(place)}`);
    return text.replace(place, cases);
  }, before);
  writeFileSync(file, after);
  return kernels;
}
