import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { explainFailure, ncuArguments, parseProgress } from './ncu-command.ts';
import { countersOf } from './counters.ts';

const command = {
  arch: 'sm_90',
  metricSet: 'gates',
  report: '/tmp/report',
  program: ['node', 'profile-once.js', 'job.json'],
};

test('arguments leave clocks and caches unchanged, and the program says which launches are profiled', () => {
  const args = ncuArguments(command);
  const valueOf = (option: string): string | undefined => args[args.indexOf(option) + 1];
  expect(['--clock-control', '--cache-control', '--profile-from-start'].map(valueOf)).toEqual(['none', 'none', 'off']);
  expect(args).not.toContain('--set');
  expect(args.slice(-3)).toEqual(command.program);
});

test('the full set is requested only on demand, along with our counters', () => {
  const args = ncuArguments({ ...command, metricSet: 'full' });
  expect(args[args.indexOf('--set') + 1]).toBe('full');
  expect(args[args.indexOf('--metrics') + 1]).toContain('gpu__time_duration.sum');
});

test('counters of sm_89 are requested by the names in its metric lists', () => {
  const known = readFileSync(new URL('recorded/sm_89.counter-names.txt', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  const asked = new Set(countersOf('gates', 'sm_89'));
  expect(known.length).toBeGreaterThan(15);
  expect(known.filter((name) => !asked.has(name))).toEqual([]);
});

test('counters differ by architecture', () => {
  const tensor = (arch: string): string | undefined =>
    countersOf('gates', arch).find((name) => name.startsWith('sm__pipe_tensor'));
  expect([tensor('sm_89'), tensor('sm_90'), tensor('sm_90a')]).toEqual([
    'sm__pipe_tensor_cycles_active_v2.avg.pct_of_peak_sustained_active',
    'sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active',
    'sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active',
  ]);
  expect(countersOf('stalls', 'sm_90a')).toContain('smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio');
  expect(countersOf('stalls', 'sm_89')).not.toContain('smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio');
});

test('a smaller metric set requests fewer counters', () => {
  expect(countersOf('roofline', 'sm_90').length).toBeLessThan(countersOf('gates', 'sm_90').length);
});

test("progress is parsed from ncu's output", () => {
  const lines = readFileSync(new URL('recorded/sm_90.progress.txt', import.meta.url), 'utf8').split('\n');
  expect(lines.flatMap((line) => parseProgress(line) ?? [])).toEqual([{ kernel: 'flashcore_v6', passes: 1 }]);
});

test('missing permission for counters is reported with the remedy', () => {
  const said =
    '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.';
  expect(explainFailure(['==PROF== Connected to process 1 (node)', said], 0)).toMatch(
    /NVreg_RestrictProfilingToAdminUsers=0/,
  );
  expect(explainFailure(['==ERROR== The application returned an error code (3).'], 3)).toBe(
    'ncu ended with exit status 3: The application returned an error code (3).',
  );
  expect(explainFailure([], undefined)).toBe('ncu was killed and read no counter');
});
