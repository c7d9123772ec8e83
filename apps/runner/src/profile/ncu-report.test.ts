import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseNcuCsv, type ProfiledLaunch } from './ncu-report.ts';

const recorded = (name: string): ProfiledLaunch[] =>
  parseNcuCsv(readFileSync(new URL(`recorded/${name}`, import.meta.url), 'utf8'));
const ASKED_FOR = {
  'gpu__time_duration.sum': 30_592,
  'dram__bytes.sum': 5_120,
  'smsp__inst_executed_op_shared_ld.sum': 954_368,
  launch__occupancy_limit_registers: 4,
  'l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum': 0,
  'l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum': 3_227_648,
};
const pick = ({ counters }: ProfiledLaunch): Record<string, number | undefined> =>
  Object.fromEntries(Object.keys(ASKED_FOR).map((name) => [name, counters.get(name)]));

test.each(['sm_90.raw.base.csv', 'sm_90.raw.auto.csv', 'sm_90.details.base.csv'])(
  'in %s, numbers with thousands separators are read, in base units',
  (name) => {
    const [launch, ...more] = recorded(name);
    expect(more).toEqual([]);
    expect(launch).toMatchObject({ id: 0, kernel: 'flashcore_v6' });
    expect(pick(launch!)).toEqual(ASKED_FOR);
    expect(launch!.counters.get('sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active')).toBeCloseTo(2.98, 2);
  },
);

test.each(['sm_90.raw.base.csv', 'sm_90.details.base.csv'])(
  'in %s, a counter that the chip does not have is absent',
  (name) => {
    expect(recorded(name)[0]!.counters.has('sm__no_such_counter.sum')).toBe(false);
  },
);

test("reads several launches between ncu's own lines", () => {
  expect(
    recorded('sm_90.two-launches.csv').map(({ id, kernel, counters }) => [
      id,
      kernel,
      counters.get('gpu__time_duration.sum'),
    ]),
  ).toEqual([
    [0, 'flashcore_v6', 30_912],
    [1, 'flashcore_v6', 29_824],
  ]);
});

test('output with only messages contains no launch', () => {
  expect(
    parseNcuCsv(
      '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n==WARNING== No kernels were profiled.\n',
    ),
  ).toEqual([]);
});
