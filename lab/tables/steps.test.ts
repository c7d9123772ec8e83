import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { emulatorRun } from './results.ts';

const steps = await ladderSteps();

test('every step except the first follows an earlier one', () => {
  expect(steps.filter(({ after }) => after === undefined).map(({ id }) => id)).toEqual(['fa_v1_baseline']);
  for (const [index, { after }] of steps.entries())
    if (after !== undefined) expect(steps.slice(0, index).map(({ id }) => id)).toContain(after);
});

describe.each(steps.map((step) => [step.id, step] as const))('%s', (id, { lesson, title }) => {
  const notes = readFileSync(new URL(`../../kernels/${id}/NOTES.md`, import.meta.url), 'utf8');
  test('has a one-line lesson, and notes with figures and with failed attempts', () => {
    expect([title, lesson].every((text) => text !== '' && !text.includes('\n'))).toBe(true);
    expect(notes).toMatch(/H200/);
    expect(notes).toMatch(/\d(\.\d+)? us|microseconds/);
    expect(notes).toMatch(/[Tt]ried|lose|slower|instead of|gain|gave wrong/);
  });
});

test('ptxas finds no spill and no stack frame for sm_89 in flashcore_v9 and flashcore_v10, as recorded', () => {
  const entries = emulatorRun()!
    .builds.filter(({ kernel }) => ['flashcore_v9', 'flashcore_v10'].includes(kernel))
    .flatMap((build) => build.entries);
  expect(entries.length).toBeGreaterThanOrEqual(8);
  expect(
    entries.filter(
      ({ arch, spillStoreBytes, spillLoadBytes, stackBytes }) =>
        arch !== 'sm_89' || spillStoreBytes + spillLoadBytes + stackBytes > 0,
    ),
  ).toEqual([]);
});

test("a Hopper-only kernel has no sm_89 figures, even if the emulator's ladder has it", () => {
  const hopper = steps.filter(({ emulated }) => emulated === 'ptx').map(({ id }) => id);
  const builds = emulatorRun()!.builds.filter(({ kernel }) => hopper.includes(kernel));
  expect(builds.map(({ kernel, entries }) => [kernel, entries])).toEqual(hopper.map((id) => [id, []]));
});
