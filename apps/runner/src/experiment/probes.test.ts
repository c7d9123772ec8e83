/**
 * Tests that the probes of cases.yaml detect every known mistake. docs/inputs.md has the whole matrix; this test checks
 * the part for probes, and test/reliability/matrix.test.ts checks all of it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Outcome, Verdict } from '@flashcore/shared/contract';
import { formatShape, parseCases } from '@flashcore/shared/kernels';
import { inFull } from '@flashcore/shared/testing';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { openTestPlanner, type TestPlanner } from './testing/run-job.ts';

const SEED = '5eed';
const MISTAKES = [
  'no_maximum',
  'maximum_never_raised',
  'sum_not_rescaled',
  'mask_off_by_one',
  'tail_read',
  'scale_forgotten',
  'last_tile_skipped',
  'wrong_heads_keys',
  'fp16_sums',
  'adjacent_tensors',
  'clamped_to_e4m3',
  'rounded_to_e4m3',
  'flushes_subnormals',
  'zero_logits_masked',
  'maximum_by_norms',
] as const;

const cases = parseCases(readFileSync(join(REPOSITORY_ROOT, 'kernels/cases.yaml'), 'utf8'), 'cases.yaml');
const { distributions, long } = cases.probes;
const names = distributions.map(({ name }) => name);
const columns = [...Object.keys(cases.distributions), ...names, ...long.distributions.map(({ name }) => name)];
let fixture: TestPlanner;
beforeAll(() => void (fixture = openTestPlanner()));
afterAll(() => fixture.close());

/**
 * Runs the probes of a kernel with a mistake; `found`: the distributions that detected the mistake on either shape. A
 * crash is a detection by every distribution.
 */
async function probed(kernelId: string) {
  const { outcome } = await fixture.run('verify', {
    kernel: { source: { case: 'kernelId', value: kernelId } },
    settings: { caseSet: 'probes', seeds: [SEED] },
  });
  const { verify, findings } = outcome.result.variants[0]!;
  const probes = verify!.probes;
  const fails = (name: string): boolean =>
    probes.some(({ verdict, inputs }) =>
      inputs.length === 0
        ? verdict === Verdict.FAIL
        : inputs.some((input) => input.distribution === name && input.verdict === Verdict.FAIL),
    );
  return { outcome: Outcome[outcome.outcome], probes, findings, found: names.filter(fails) };
}

/** The matrix on the page: for each mistake, its entry by distribution. */
function matrix(): Map<string, Record<string, string>> {
  const page = readFileSync(join(REPOSITORY_ROOT, 'docs/inputs.md'), 'utf8');
  const rows = page
    .slice(page.indexOf('## Mistakes by distributions'))
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  expect(rows[0]!.slice(1)).toEqual(columns);
  return new Map(
    rows
      .slice(2)
      .map(([mistake, ...cells]) => [
        mistake!.replaceAll('`', ''),
        Object.fromEntries(columns.map((name, index) => [name, cells[index]!])),
      ]),
  );
}

test('the page has all mistakes and distributions, and each distribution detects the mistakes listed for it', () => {
  const rows = matrix();
  expect([...rows.keys()]).toEqual([...MISTAKES]);
  for (const { name, finds } of [...distributions, ...long.distributions]) {
    expect(finds.length, name).toBeGreaterThan(0);
    for (const mistake of finds) expect(rows.get(mistake)![name], `${mistake} by ${name}`).toBe('found');
  }
});

// The short run has one kernel per kind of check: infinities, a mask, small errors, another tensor's memory, and errors
// that show only in all elements together.
const SHORT: readonly string[] = [
  'no_maximum',
  'mask_off_by_one',
  'fp16_sums',
  'adjacent_tensors',
  'flushes_subnormals',
  'rounded_to_e4m3',
];

test.each(inFull(MISTAKES, (mistake) => SHORT.includes(mistake)))(
  '%s is detected by exactly the distributions that the page names',
  { timeout: 120_000 },
  async (mistake) => {
    const { outcome, found, findings } = await probed(mistake);
    expect(found).not.toEqual([]);
    const row = matrix().get(mistake)!;
    expect(found).toEqual(names.filter((name) => row[name] === 'found'));
    expect(['WRONG_RESULT', 'CRASHED']).toContain(outcome);
    expect(findings.length).toBeGreaterThan(0);
  },
);

test(
  'a correct kernel passes on shapes that no tile divides, with and without a mask',
  { timeout: 120_000 },
  async () => {
    const { outcome, probes, found } = await probed('flashcore_v6');
    expect({ outcome, found }).toEqual({ outcome: 'PASSED', found: [] });
    expect(probes.map(({ shape, inputs }) => [formatShape(shape!), inputs.length])).toEqual([
      ['1x2x333x64', names.length],
      ['2x2x197x64c', names.length],
    ]);
  },
);

test('each distribution meets every width of the probes that a kernel takes', { timeout: 120_000 }, async () => {
  const { outcome, probes } = await probed('flashcore_v10');
  expect(outcome).toBe('PASSED');
  const widths = names.map((name) => {
    const met = probes.filter(({ inputs }) => inputs.some(({ distribution }) => distribution === name));
    return [name, new Set(met.map(({ shape }) => shape!.headDim))];
  });
  expect(widths).toEqual(names.map((name) => [name, new Set([64, 128])]));
});
