import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { ChampionSchema, JobKind, JobSchema, JobState, Outcome } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState, type AppState } from '../../state/app-state.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import type { Size } from '../pane/view.ts';
import { jobsView } from './jobs.ts';

const NOW = 400_000;
const ended = (name: string, more: MessageInitShape<typeof JobSchema>) =>
  create(JobSchema, {
    ...{ name: `jobs/${name}`, kernelId: 'my_attention', label: 'my_attention', kind: JobKind.EXPERIMENT },
    ...{ state: JobState.ENDED, outcome: Outcome.PASSED, createTime: timestampFromMs(0) },
    ...{ startTime: timestampFromMs(10_000), endTime: timestampFromMs(303_000), ...more },
  });

function shown(jobs: AppState['jobs'], size: Size, more: Partial<AppState> = {}): { remark: string; body: string[] } {
  const start = initialState({ runner: { label: '', embedded: true }, columns: 120, rows: 40, now: NOW });
  const state: AppState = { ...start, jobs, ui: { ...start.ui, view: 'jobs' }, ...more };
  const { remark = '', body } = jobsView({ state, log: new LogBuffer(1), search: undefined }, size);
  return { remark, body: body.map((row) => rowText(row).trimEnd()) };
}

test.each([
  { width: 76, title: 'age', age: /4 min 53 s +6 min {2}\S/ },
  { width: 78, title: 'age', age: /4 min 53 s +6 min {2}\S/ },
  { width: 98, title: 'age', age: /4 min 53 s +6 min {2}\S/ },
  { width: 158, title: 'submitted', age: /4 min 53 s +6 min ago {2}\S/ },
])(
  'in $width cells the list says when a job was submitted and how long it took, and no column moves when a job ends',
  ({ width, title, age }) => {
    const size = { width, height: 18 };
    const running = ended('aaaaaaaa', {
      state: JobState.RUNNING,
      outcome: Outcome.UNSPECIFIED,
      kernelId: 'k',
      label: 'my_attention_with_a_long_name BLOCK_Q=64 BLOCK_KV=96',
    });
    const failed = ended('aaaaaaaa', {
      outcome: Outcome.WRONG_RESULT,
      label: 'my_attention_with_a_long_name BLOCK_Q=64 BLOCK_KV=96',
      summary: `WRONG_RESULT: ${'23 of 30 cases fail; '.repeat(9)}`,
    });
    const [before, after] = [shown([running], size).body, shown([failed], size).body];
    expect(before[0]).toMatch(new RegExp(` id +job .*took +${title} `));
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toMatch(age);
    expect(after[1]).toMatch(/wrong result.*…$/);
  },
);

test('the marks are explained in a row of their own, which no border cuts', () => {
  const [first, second] = [ended('aaaaaaaa', {}), ended('bbbbbbbb', {})];
  const { remark, body } = shown(
    [first, second],
    { width: 76, height: 18 },
    {
      attached: first.name,
      leftAt: 200_000,
      champions: [create(ChampionSchema, { job: second.name })],
      views: {},
    },
  );
  expect(remark).toBe('1 of 2 jobs');
  expect(body).toContain('* on screen, ★ champion, • ended since 00:03 and not shown yet');
});

test('a summary has the room that the list does not need, and "…" where it is cut', () => {
  const long = ended('aaaaaaaa', { summary: Array.from({ length: 99 }, (_, index) => `reason${index}`).join(' ') });
  const rowsIn = (height: number): string[] =>
    shown([long], { width: 76, height })
      .body.filter((row) => /reason\d/.test(row))
      .slice(1);
  expect([rowsIn(14).length, rowsIn(40).length]).toEqual([4, 13]);
  expect(rowsIn(14).at(-1)).toMatch(/ reason\d+ …$/);
  expect(rowsIn(40).at(-1)).toMatch(/ reason98$/);
});

test('the state of a stopped job is never cut: without room for its reason, the state alone', () => {
  const stopped = ended('aaaaaaaa', { outcome: Outcome.CANCELLED, summary: 'Cancelled while it was running' });
  const rowIn = (width: number): string => shown([stopped], { width, height: 6 }).body[1]!;
  expect([rowIn(76), rowIn(98)]).toEqual([
    expect.stringMatching(/6 min +cancelled$/),
    expect.stringMatching(/6 min +Cancelled while it was running$/),
  ]);
});
