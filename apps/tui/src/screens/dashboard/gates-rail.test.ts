import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { GateResultSchema, ProfileResultSchema, Verdict } from '@flashcore/shared/contract';
import { parseGates, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { rowText } from '../../present/cells/row.ts';
import { initialState } from '../../state/app-state.ts';
import { LogBuffer } from '../../state/log-buffer.ts';
import { sampleEvents } from '../../testing/sample-job.ts';
import { Store } from '../../session/store.ts';
import { gatesRail } from './gates-rail.ts';

const JOB = 'jobs/11111111-0000-4000-8000-000000000001';
/** Cells of a row in the rail at 120x40. */
const WIDTH = 34;

/** The rail with these gates, in `height` rows. */
function railOf(gates: readonly JsonValue[], height: number, profiled?: string): string[] {
  const runner = { label: 'x', embedded: true };
  const store = new Store({ state: initialState({ runner, columns: 120, rows: 40, now: 0 }) });
  for (const event of sampleEvents()) store.dispatch({ type: 'job-event', event: { ...event, job: JOB } });
  store.dispatch({ type: 'attach', job: JOB });
  const view = store.state.views[JOB]!;
  const variants = view.variants.map((variant) => ({
    ...variant,
    build: undefined,
    ...(profiled !== undefined && { profile: create(ProfileResultSchema, { shape: parseShape(profiled) }) }),
    gates: gates.map((gate) => fromJson(GateResultSchema, gate)),
  }));
  const state = { ...store.state, views: { [JOB]: { ...view, result: undefined, variants } } };
  const log = new LogBuffer(1);
  return gatesRail({ state, log, search: undefined }, { width: WIDTH, height }).body.map((row) =>
    rowText(row).trimEnd(),
  );
}

const gate = (title: string, verdict: Verdict): JsonValue => ({
  gateId: title,
  title,
  verdict,
  level: 'hard',
  comparison: '<=',
  target: 64,
  value: 61,
  unit: 'registers',
});

test('spare rows go to the titles of gates that failed, then to those that passed', () => {
  const gates = [
    gate('Passed by a kernel that is documented', Verdict.PASS),
    gate('Failed by a kernel that is slow', Verdict.FAIL),
  ];
  const [passed, failed] = [['✓ Passed by a kernel…     61 <= 64'], ['✗ Failed by a kernel that… 61 > 64']];
  expect([2, 3, 4].map((height) => railOf(gates, height))).toEqual([
    [...passed, ...failed],
    [...passed, '✗ Failed by a kernel that  61 > 64', '  is slow'],
    ['✓ Passed by a kernel that 61 <= 64', '  is documented', '✗ Failed by a kernel that  61 > 64', '  is slow'],
  ]);
});

test('if not all gates fit, the rail says how many more view 5 has', () => {
  const gates = ['a', 'b', 'c', 'd', 'e'].map((title) => gate(title, Verdict.PASS));
  expect(railOf(gates, 4).map((row) => row.split(' ').slice(0, 4).join(' ').trim())).toEqual([
    '✓ a',
    '✓ b',
    '✓ c',
    '▾ 2 more: 5',
  ]);
});

test('what to write into NOTES.md is left to view 5', () => {
  const detail =
    'NOTES.md was not filled in when this job ran: write into NOTES.md what the kernel changes and why, then accept the result, without another run';
  const notes = { ...(gate('Documented', Verdict.NOT_JUDGED) as object), detail };
  const rows = railOf([notes], 4).join(' ');
  expect(rows).toMatch(/– 1 to do before accepting: fill +in NOTES.md$/);
  expect(rows).not.toMatch(/write into/);
});

test('a gate that the plan turned off is neither listed nor counted as not measured', () => {
  const off = { ...(gate('Tensor pipe busy', Verdict.NOT_MEASURED) as object), level: 'off' };
  expect(railOf([gate('Spills', Verdict.PASS), off], 4)).toEqual([expect.stringMatching(/^✓ Spills +61 <= 64$/)]);
});

test('every title in kernels/gates.yaml fits next to its target', () => {
  const file = join(import.meta.dirname, '../../../../../kernels/gates.yaml');
  const { gates } = parseGates(readFileSync(file, 'utf8'), file);
  const json = gates.map(({ id, title, op, target, unit }): JsonValue => ({
    gateId: id,
    title,
    level: 'hard',
    comparison: op,
    target,
    unit,
  }));
  const rail = railOf(json, gates.length);
  expect(rail.map((row) => row.includes('…'))).toEqual(gates.map(() => false));
});

test('a gate about all cases counts the cases so far, because a share of 100 % would be false', () => {
  const parity = {
    ...(gate('Parity cases', Verdict.UNSPECIFIED) as object),
    ...{ metric: 'parity_cases_passed', comparison: '==', target: 100, unit: '%' },
  };
  const [row] = railOf([parity], 2);
  expect(row).toMatch(/^. Parity cases +\d+\/\d+ cases so far$/);
});

test('a figure of another shape than the profile names its shape', () => {
  const gates = [{ ...(gate('SMs with work', Verdict.PASS) as object), phase: 'build', condition: '1x4x128x64' }];
  expect(railOf(gates, 4, '2x8x512x64').join(' ').replaceAll(/ +/g, ' ')).toMatch(/SMs with work, 61 <= 64 1x4x128x64/);
  expect(railOf(gates, 4, '1x4x128x64').join(' ')).not.toContain('1x4x128x64');
  expect(railOf(gates, 4).join(' ')).not.toContain('1x4x128x64');
});

test('a reason that is too long for the rows that are left has all of them', () => {
  const open = (detail: string): JsonValue => ({ title: detail, verdict: Verdict.NOT_MEASURED, level: 'warn', detail });
  const gates = [open('a short one'), open(`no champion of a device with a long name ${'by a protocol '.repeat(9)}`)];
  const rows = railOf(gates, 5);
  expect(rows.length).toBe(5);
  expect(rows.at(-1)).toMatch(/^ {2}.* …$/);
});
