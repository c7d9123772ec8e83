import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { explainFailure, ncuArguments, parseProgress } from './ncu-command.ts';
import { countersOf } from './counters.ts';

const command = {
  arch: 'sm_90',
  metricSet: 'gates',
  entries: ['flashcore_v10', 'merge'],
  skip: 2,
  count: 2,
  report: '/tmp/report',
  program: ['node', 'profile-once.js', 'job.json'],
};

test('arguments leave clocks and caches unchanged, and select the launches by name', () => {
  const args = ncuArguments(command);
  const valueOf = (option: string): string | undefined => args[args.indexOf(option) + 1];
  expect([
    valueOf('--clock-control'),
    valueOf('--cache-control'),
    valueOf('--kernel-name'),
    valueOf('--launch-skip'),
    valueOf('--launch-count'),
  ]).toEqual(['none', 'none', 'regex:^(.*::)?(flashcore_v10|merge)$', '2', '2']);
  expect(args).not.toContain('--set');
  expect(args.slice(-3)).toEqual(command.program);
});

test.each([
  ['_Z10fwd_kernelILi64ELb1EEvPK6__halfPS0_', 'fwd_kernel'],
  ['_ZN5flash16flash_fwd_kernelINS_6TraitsILi64EEELb0EEEvNS_6ParamsE', 'flash_fwd_kernel'],
  ['flash::fwd_kernel<64, ns::Traits<true>>', 'fwd_kernel'],
  ['ns::merge', 'merge'],
  ['ns::a|.*', 'a|.*'],
  ['_attn_fwd[STAGE=3]', '_attn_fwd__STAGE_3'],
])('the launches of the entry %s are selected by its function, %s', (entry, name) => {
  const args = ncuArguments({ ...command, entries: [entry, 'merge'] });
  const [, pattern] = /^regex:(.*)$/.exec(args[args.indexOf('--kernel-name') + 1]!)!;
  const matches = new RegExp(pattern!);
  expect([name, `ns::${name}`, 'merge', `${name}2`, 'other'].map((each) => matches.test(each))).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
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
