/** Decisions about a result on fa-tui's screen, with a real runner on the emulator. */
import { expect, test } from 'vitest';
import { ownersKernels } from '@flashcore/runner/testing-daemon';
import { Home } from '../support/home.ts';
import { openScreen } from '../support/screens.ts';

test("a accepts the result on the screen with a note, u undoes it, X rejects it, and the runner's audit trail has all three decisions", async () => {
  // The cases of a ranked run would take the emulator a minute, so this runner's owner uses small cases.
  await using home = new Home();
  await home.startDaemonAt('127.0.0.1:0', '--kernels', ownersKernels(home.path));
  expect(home.faTui(['run', 'fa_v1_baseline'])).toMatchObject({ exitCode: 0 });
  const terminal = openScreen(home);
  try {
    await terminal.waitFor(/1 Run[^]*following/);
    terminal.type('a');
    await terminal.waitFor(/Accept \w{8}: fa_v1_baseline[^]*There is no champion yet/);
    terminal.type('first champion\r');
    // The answer shows a moment before the dialog closes; keys typed in between would go into its note.
    await terminal.waitFor(
      /^(?![^]*There is no champion yet)[^]*accepted by local[^]*first champion[^]*Accepted: fa_v1_baseline \(\w{8}\) is the champion/,
    );
    terminal.type('u');
    await terminal.waitFor(/Undoes the decision \(accepted by local/);
    terminal.type('\r');
    await terminal.waitFor(/^(?![^]*Undoes the decision)[^]*Undone for fa_v1_baseline/);
    terminal.type('X');
    await terminal.waitFor(/Reject \w{8}: fa_v1_baseline/);
    terminal.type('no better\r');
    await terminal.waitFor(/rejected by local[^]*Rejected: fa_v1_baseline/);
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
  const { decisions } = JSON.parse(home.faTui(['champions', '--trail', '--json']).stdout) as {
    decisions: { kind: string; note?: string }[];
  };
  expect(decisions.map(({ kind, note = '' }) => `${kind} ${note}`.trim())).toEqual([
    'DECISION_KIND_REJECTED no better',
    'DECISION_KIND_UNDONE',
    'DECISION_KIND_ACCEPTED first champion',
  ]);
}, 120_000);
