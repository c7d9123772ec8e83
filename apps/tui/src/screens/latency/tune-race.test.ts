import { create } from '@bufbuild/protobuf';
import {
  JobKind,
  JobResultSchema,
  JobState,
  Outcome,
  TunedVariantSchema,
  Verdict,
  type TunedVariant,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { jobViewOf, type JobView } from '../../state/job-view.ts';
import { raceOf, withTunedVariant } from '../../state/tuned-variants.ts';
import { rowText } from '../../present/cells/row.ts';
import { racePane, raceTexts } from './tune-race.ts';

const job: JobView = {
  ...jobViewOf({
    name: 'jobs/1',
    kind: JobKind.TUNE,
    label: 'k, 3 variants',
    kernelId: 'k',
    state: JobState.RUNNING,
    outcome: Outcome.UNSPECIFIED,
    summary: '',
  }),
};
const row = (label: string, more: object = {}): TunedVariant =>
  create(TunedVariantSchema, { label, verified: Verdict.NOT_MEASURED, ...more });
const built = (registers: number, smemBytes: number) => ({ buildId: 'b', registers, smemBytes, ctasPerSm: 4 });
const RIGHT = { verified: Verdict.PASS };

const ROWS = [
  row('TILE=32', { ...built(64, 8192), ...RIGHT, p50Us: 12, p50LowUs: 11.9, p50HighUs: 12.1, ratio: { ratio: 0.8 } }),
  row('TILE=64', { ...built(96, 16384), ...RIGHT, p50Us: 9.6, p50LowUs: 9.5, p50HighUs: 9.7 }),
  row('TILE=128', { ...built(168, 65536), ...RIGHT, p50Us: 13, dropped: 'slower than TILE=64 by 1.354 [1.34, 1.37]' }),
  row('TILE=256'),
];
const look = { width: 110, height: 12, selected: 3, focused: true };
const textOf = (view: JobView) => racePane(view, '3 Latency', look)!;

test('a later row about a variant replaces the earlier one', () => {
  const rows = ROWS.reduce<TunedVariant[]>((all, each) => withTunedVariant(all, each), []);
  const changed = withTunedVariant(
    rows,
    row('TILE=256', { ...built(255, 0), dropped: '48 bytes of registers spilled' }),
  );
  expect(changed.map(({ label, registers }) => [label, registers])).toEqual([
    ['TILE=32', 64],
    ['TILE=64', 96],
    ['TILE=128', 168],
    ['TILE=256', 255],
  ]);
});

test('in a live race the fastest variant leads, dropped variants come last with the reason, and the Pareto front is made from the results known so far', () => {
  const pane = textOf({ ...job, tuned: ROWS });
  expect(pane.title).toBe('3 Latency  search over 4 variants, 1 dropped  LIVE');
  expect(pane.body.map(rowText).map((text) => text.trimEnd())).toEqual([
    '   #  variant   regs    SMEM  CTAs/SM  correct          p50                  95 %  x leader',
    '  -*  TILE=64     96  16 KiB        4  ✓           9.600 us  9.500 us to 9.700 us         -',
    '  -*  TILE=32     64   8 KiB        4  ✓           12.00 us  11.90 us to 12.10 us    0.8000',
    '  -   TILE=256     -       -        -  ● building         -                     -         -',
    '▸ -   TILE=128   168  64 KiB        4  ✓           13.00 us                     -         -',
    '─'.repeat(110),
    '* Pareto front of median latency and registers: TILE=64; TILE=32',
    'TILE=128 was dropped: slower than TILE=64 by 1.354 [1.34, 1.37]',
  ]);
});

test('an ended job shows the table and the Pareto front of its result', () => {
  const result = create(JobResultSchema, {
    tune: {
      variants: [{ ...ROWS[1]!, rank: 1 }, { ...ROWS[0]!, rank: 2 }, ROWS[2]!],
      pareto: ['TILE=64'],
      paretoOf: 'median latency and registers',
      rankedBy: 'median latency',
      complete: true,
    },
  });
  const race = raceOf({ ...job, tuned: ROWS, result })!;
  expect([race.rows.map(({ label }) => label), [...race.pareto]]).toEqual([
    ['TILE=64', 'TILE=32', 'TILE=128'],
    ['TILE=64'],
  ]);
  expect(textOf({ ...job, tuned: ROWS, result }).title).toMatch(/1 dropped {2}decided$/);
});

test('if nothing is timed, the Pareto front uses shared memory and registers; other kinds of job have no race', () => {
  const untimed = [row('A', { ...built(40, 4096), ...RIGHT }), row('B', { ...built(48, 4096), ...RIGHT })];
  expect([...raceOf({ ...job, tuned: untimed })!.pareto]).toEqual(['A']);
  expect(racePane(job, '3 Latency', look)).toBeUndefined();
});

test('a search that timed nothing says so, and has no columns for times', () => {
  const rows = [row('TILE=32', { ...built(64, 8192), ...RIGHT, rank: 1 })];
  const result = create(JobResultSchema, {
    tune: { variants: rows, complete: true, rankedBy: 'registers, not timed' },
  });
  const pane = textOf({ ...job, state: JobState.ENDED, outcome: Outcome.PASSED, tuned: rows, result });
  expect(pane.title).toBe('3 Latency  search over 1 variant, 0 dropped  not timed on a GPU');
  expect(rowText(pane.body[0]!).trim()).toBe('#  variant  regs   SMEM  CTAs/SM  correct  dropped');
  const race = raceOf({ ...job, tuned: rows, result })!;
  expect(raceTexts(race)).toEqual({
    leader: 'fewest registers: TILE=32, 64',
    size: 'search over 1 variant, 0 dropped  not timed on a GPU',
  });
});

test('the reason of a dropped variant does not begin with its name, which is in the same row', () => {
  const reasons = ['k TILE=256: does not compile', 'TILE=256 spills', 'k needs more', 'kept: no', ''];
  const tuned = reasons.map((dropped, index) => row(index < 2 ? 'TILE=256' : `TILE=${index}`, { dropped }));
  const shown = tuned.map((each) => {
    const { body } = textOf({ ...job, tuned: [each] });
    return rowText(body[1]!).trimEnd().split(/ {2,}/).at(-1);
  });
  expect(shown.slice(0, 4)).toEqual(['does not compile', 'spills', 'needs more', 'kept: no']);
});
