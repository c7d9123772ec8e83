/** Checks which of the probes' distributions a kernel gets. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseCases, parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { probeRules } from './coming-verification.ts';

const read = (path: string): string => readFileSync(join(REPOSITORY_ROOT, 'kernels', path), 'utf8');
const cases = parseCases(read('cases.yaml'), 'cases.yaml');

test('only kernels that sum in fp32 get partial sums beyond the largest number of fp16', () => {
  const namesFor = (kernel: string): string[] => {
    const manifest = parseManifest(read(`${kernel}/kernel.yaml`), kernel);
    return probeRules({ cases, resolved: resolveVariant(manifest), spec: { kernel: { manifest } } }).map(
      ({ name }) => name,
    );
  };
  const all = cases.probes.distributions.map(({ name }) => name);
  expect(namesFor('flashcore_v6')).toEqual(all);
  expect(namesFor('corpus/claims_fp16_sums')).toEqual(all.filter((name) => name !== 'cancelling'));
});
