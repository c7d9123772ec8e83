/**
 * Runs every mistake of kernels/faulty that only some inputs reveal on every distribution of cases.yaml, which gives
 * the matrix of docs/inputs.md. Distributions that cases normally draw with their seeds are probes here, so that each
 * is judged separately.
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, Verdict, type CaseResult } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { parse, stringify } from 'yaml';
import { collect } from '@flashcore/runner/testing-daemon';
import { Home, ROOT } from '../support/home.ts';
import { campaign } from './campaign.ts';

const SEED = '5eed';

campaign(
  'distributions x mistakes',
  { promise: 'mistakes', rounds: { ci: 1, soak: 99 } },
  async ({ rounds, figure }) => {
    await using home = new Home();
    const { address } = await home.startDaemonAt('127.0.0.1:0', '--kernels', everythingProbed(home.path));
    using client = await RunnerClient.connect({ address });
    const { distributions, rows } = readMatrix();
    const tried = [...rows].slice(0, rounds);
    for (const [mistake, cells] of tried) {
      const { found } = await probed(client, mistake);
      expect(distributions.map((name) => (found.has(name) ? 'found' : '-')).join(' '), mistake).toBe(cells.join(' '));
      expect(found.size, `${mistake} is found by nothing`).toBeGreaterThan(0);
    }
    const good = await probed(client, 'flashcore_v6');
    expect([good.outcome, [...good.found]]).toEqual(['PASSED', []]);
    expect(good.tried).toEqual(new Set(distributions));
    figure(
      'distributions x mistakes',
      `${distributions.length} distributions, ${tried.length} mistakes: each is found by those that docs/inputs.md says, and by no other; a right kernel passes all`,
    );
  },
);

interface CasesText {
  distributions: Record<string, unknown>;
  probes: { distributions: Record<string, unknown> };
}

/** A copy of the runner's kernels in which all distributions are probes. */
function everythingProbed(parent: string): string {
  const folder = join(parent, 'kernels');
  cpSync(join(ROOT, 'kernels'), folder, { recursive: true });
  const path = join(folder, 'cases.yaml');
  const cases = parse(readFileSync(path, 'utf8')) as CasesText;
  cases.probes.distributions = { ...cases.distributions, ...cases.probes.distributions };
  writeFileSync(path, stringify(cases));
  return folder;
}

/**
 * The distributions on which a kernel failed, and all distributions that were tried. A kernel that crashed counts as
 * failed on all.
 */
async function probed(client: RunnerClient, kernelId: string) {
  const events = await collect(
    client.start('verify', {
      kernel: { source: { case: 'kernelId', value: kernelId } },
      settings: { caseSet: 'long_probes', seeds: [SEED] },
    }),
  );
  const end = events.at(-1)!.payload;
  if (end.case !== 'finished') throw new Error('the stream has no end');
  const probes = end.value.result!.variants[0]!.verify!.probes;
  const tried = new Set(probes.flatMap(({ inputs }) => inputs.map(({ distribution }) => distribution)));
  const failing = (probe: CaseResult): string[] =>
    probe.inputs.flatMap(({ distribution, verdict }) => (verdict === Verdict.FAIL ? [distribution] : []));
  const crashed = probes.some(({ verdict, inputs }) => verdict === Verdict.FAIL && inputs.length === 0);
  return {
    outcome: Outcome[end.value.outcome],
    tried,
    found: new Set(crashed ? readMatrix().distributions : probes.flatMap(failing)),
  };
}

/** The table of docs/inputs.md: its columns, and the cells of each mistake. */
function readMatrix(): { distributions: string[]; rows: Map<string, string[]> } {
  const page = readFileSync(join(ROOT, 'docs/inputs.md'), 'utf8');
  const [head, , ...rows] = page
    .slice(page.indexOf('## Mistakes by distributions'))
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim().replaceAll('`', '')),
    );
  return { distributions: head!.slice(1), rows: new Map(rows.map(([mistake, ...cells]) => [mistake!, cells])) };
}
