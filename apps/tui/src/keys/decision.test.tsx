import { create } from '@bufbuild/protobuf';
import {
  DecisionSchema,
  KernelSchema,
  FlashcoreError,
  DecisionKind,
  ListChampionsResponseSchema,
  type Acceptability,
  type Decision,
  type JobEvent,
} from '@flashcore/shared/contract';
import { afterEach, expect, test } from 'vitest';
import { shortName } from '../present/words.ts';
import { decidedEvents } from '../testing/measured-job.ts';
import { fakeRunner, type FakeRunner } from '../testing/fake-runner.ts';
import { standingOf } from '../screens/gates/decision-pane.ts';
import { openTerminal, type TestTerminal } from '../testing/terminal.tsx';

const ESCAPE = '\u001b';
const LEFT = `${ESCAPE}[D`;
const RIGHT = `${ESCAPE}[C`;
const PAGE_DOWN = `${ESCAPE}[6~`;

let terminal: TestTerminal;
afterEach(() => terminal.close());

/** The program with an ended job on the screen. */
async function show(name: string, runner: FakeRunner = fakeRunner()): Promise<JobEvent[]> {
  terminal = openTerminal({ columns: 120, rows: 40, runner });
  const events = decidedEvents(name);
  terminal.store.dispatch({ type: 'connection', connection: 'connected' });
  terminal.store.dispatch({ type: 'attach', job: events[0]!.job });
  for (const event of events) terminal.store.dispatch({ type: 'job-event', event });
  await terminal.screen();
  return events;
}

const dialog = () => terminal.store.state.ui.overlay;
const said = () => terminal.store.state.notice?.text;

test('Escape and Enter that arrive in one chunk close the dialog and decide nothing', async () => {
  await show('faster');
  await terminal.press('a');
  expect(dialog()).toBeDefined();
  await terminal.press(`${ESCAPE}\r`);
  expect([dialog(), terminal.runner.decided]).toEqual([undefined, []]);
});

test('an acceptable result is announced; the key a shows the comparison, Enter accepts with a note, u undoes it', async () => {
  const [first] = await show('faster');
  await terminal.press('1');
  expect(await terminal.screen()).toMatch(/→ a accepts it, replacing +│[^\n]*\n│ +flashcore_v10 SMS=132 PERSIST=0 +│/);
  await terminal.press('5');
  expect(await terminal.screen()).toMatch(
    /plan merge +│\n[^\n]*May be merged[^]*→ a accepts it, replacing flashcore_v10/,
  );

  await terminal.press('a');
  const screen = await terminal.screen();
  for (const shown of [
    new RegExp(`Accept ${shortName(first!.job)}: flashcore_v11 SMS=132`),
    /champion of flashcore_v11 on NVIDIA H200 for 2x8x512x64 \(flashcore-protocol \d+\), by plan merge/,
    /1\.2168 \[1\.2154, 1\.2181\]/,
    /1\.2308 \[1\.2305, 1\.2312\]/,
    /registers 232 → 168 +spills 0 B → 0 B +SMEM 72 KiB → 88\.6 KiB +CTAs\/SM 2 → 1/,
    /lines \+467 -319 in 3 files/,
    /parameters 1 changed/,
    /38 changes at once/,
  ])
    expect(screen).toMatch(shown);

  // These letters are keys of the views, but in the dialog they belong to the note.
  await terminal.press('quick, jk');
  expect(await terminal.screen()).toMatch(/note +quick, jk█/);
  await terminal.press('\r');
  expect([dialog(), terminal.runner.decided]).toEqual([
    undefined,
    [{ kind: DecisionKind.ACCEPTED, job: first!.job, note: 'quick, jk' }],
  ]);
  expect(said()).toMatch(/^Accepted: flashcore_v11 SMS=132 \(\w{8}\) is the champion on NVIDIA H200; u undoes it/);
  expect(await terminal.screen()).toMatch(/✓ accepted by local, 11-21 12:00: quick, jk; u undoes it/);

  await terminal.press('a');
  expect([dialog(), said()]).toEqual([
    undefined,
    'Cannot accept flashcore_v11 SMS=132 (76993775): it is the champion already; u undoes that',
  ]);
  await terminal.press('u');
  expect(await terminal.screen()).toMatch(/Undoes the decision \(accepted by local/);
  // The refusal was about another choice.
  expect(said()).toBeUndefined();
  await terminal.press('\r');
  expect(terminal.runner.decided.map(({ kind }) => kind)).toEqual([DecisionKind.ACCEPTED, DecisionKind.UNDONE]);
  expect(await terminal.screen()).toMatch(/→ a accepts it/);
});

test('a result that lacked only notes is accepted with NOTES.md as it is now, without another run', async () => {
  const runner = fakeRunner();
  const handedIn: (string | undefined)[] = [];
  const accepting: FakeRunner = {
    ...runner,
    accept(request, options) {
      handedIn.push(request?.notes);
      return runner.accept(request, options);
    },
  };
  await show('faster', accepting);
  const { store } = terminal;
  const [job] = decidedEvents('faster');
  const view = store.state.views[job!.job]!;
  const acceptability = { ...view.result!.acceptability!, possible: false, notesWanted: true };
  const wanting = { ...view, codeDigest: 'c0de', result: { ...view.result!, acceptability } };
  const wants = { ...store.state, views: { ...store.state.views, [job!.job]: wanting } };
  const kernel = (notes: string) => create(KernelSchema, { kernelId: view.kernelId, codeDigest: 'c0de', notes });
  expect(standingOf({ ...wants, kernels: [kernel('')] })?.text).toMatch(
    /^cannot be accepted: NOTES.md says nothing yet/,
  );
  expect(standingOf({ ...wants, kernels: [kernel('wider tiles')] })?.text).toMatch(
    /^→ a accepts it, replacing flashcore_v10/,
  );
  for (const event of withResult(decidedEvents('faster'), acceptability))
    store.dispatch({ type: 'job-event', event: { ...event, job: 'jobs/wants' } });
  store.dispatch({ type: 'attach', job: 'jobs/wants' });
  store.dispatch({ type: 'kernels', kernels: [kernel('# v11')] });
  await terminal.press('5a');
  expect([dialog(), said()]).toEqual([undefined, expect.stringContaining('NOTES.md says nothing yet')]);
  store.dispatch({ type: 'kernels', kernels: [kernel('# v11\n\nwider tiles\n')] });
  await terminal.press('a');
  expect(await terminal.screen()).toMatch(/NOTES\.md as it is now is handed in/);
  await terminal.press('\r');
  expect(handedIn).toEqual(['# v11\n\nwider tiles\n']);
});

/** The events of the job as they would be if it had this acceptability, and this code. */
const withResult = (events: readonly JobEvent[], acceptability: Acceptability): JobEvent[] =>
  events.map((event): JobEvent => {
    const { payload } = event;
    if (payload.case === 'created')
      return {
        ...event,
        payload: { case: 'created', value: { ...payload.value, job: { ...payload.value.job!, codeDigest: 'c0de' } } },
      };
    if (payload.case !== 'finished') return event;
    return {
      ...event,
      payload: { case: 'finished', value: { ...payload.value, result: { ...payload.value.result!, acceptability } } },
    };
  });

test('arrows change the decision, a refused decision shows its reason, and Escape decides nothing', async () => {
  await show('faster');
  await terminal.press(`5a${LEFT}`);
  expect(await terminal.screen()).toMatch(/decision +← undo →[^]*Cannot undo it: it was neither accepted nor rejected/);
  await terminal.press('\r');
  expect([dialog()?.kind, terminal.runner.decided]).toEqual(['decide', []]);
  await terminal.press(`${RIGHT}${RIGHT}too many changes\r`);
  expect(terminal.runner.decided).toMatchObject([{ kind: DecisionKind.REJECTED, note: 'too many changes' }]);
  await terminal.press(`a${ESCAPE}`);
  expect([dialog(), terminal.runner.decided.length]).toEqual([undefined, 1]);
});

test('all differences can be reached by scrolling, even on a small screen', async () => {
  await show('faster');
  await terminal.resize(80, 24);
  await terminal.press('a');
  expect(await terminal.screen()).toMatch(/rows 1-\d+ of \d+; Enter decides, Esc closes/);
  for (let page = 0; page < 8; page += 1) await terminal.press(PAGE_DOWN);
  expect(await terminal.screen()).toMatch(/tensor_pipe_percent +30\.5 +24\.61/);
});

test.each([
  ['flashcore_v11.explore', 'a', 'plan explore accepts nothing: run it with a plan such as merge'],
  ['flashcore_v11.nsight', 'a', 'plan nsight accepts nothing: run it with a plan such as merge'],
  ['slower', 'a', 'it did not pass'],
  ['faster', 'u', 'it was neither accepted nor rejected, or that was undone already'],
])('for the job %s the key %s is refused at once', async (name, key, reason) => {
  await show(name);
  await terminal.press(key);
  expect([dialog(), said()?.endsWith(`: ${reason}`)]).toEqual([undefined, true]);
});

test('a viewer sees at once that this decision needs another role', async () => {
  await show('faster');
  const { host } = await terminal.runner.getHost();
  terminal.store.dispatch({
    type: 'host',
    host: host!,
    caller: { $typeName: 'flashcore.runner.v1.Caller', name: 'ann', role: 'viewer' },
  });
  await terminal.press('a');
  expect(said()).toMatch(/ann is viewer: ask the runner's owner for the role submitter or admin/);
});

test('a refusal by the runner is shown, and the note is kept', async () => {
  const accept = () =>
    Promise.reject(new FlashcoreError('PERMISSION_DENIED', {}, "Ask the runner's owner for the role admin"));
  await show('faster', { ...fakeRunner(), accept });
  await terminal.press('amine\r');
  expect([dialog(), said()]).toEqual([
    expect.objectContaining({ kind: 'decide', note: 'mine' }),
    "Ask the runner's owner for the role admin",
  ]);
});

test('the note is edited as in a shell: Ctrl-U clears it, Ctrl-W deletes a word', async () => {
  await show('faster');
  await terminal.press('ay n');
  await terminal.press('\u0017');
  expect(dialog()).toMatchObject({ note: 'y ' });
  await terminal.press('\u0015');
  expect(dialog()).toMatchObject({ note: '' });
});

test('a result can no longer be accepted after the champion that it was compared with was withdrawn', async () => {
  const events = await show('faster');
  const [end] = events.slice(-1).map(({ payload }) => payload);
  const over = end?.case === 'finished' ? end.value.result!.acceptability!.over : '';
  const decision = (number: bigint, kind: DecisionKind, undoes?: bigint) =>
    create(DecisionSchema, { number, kind, job: over, ...(undoes !== undefined && { undoes }) });
  const accepted = decision(1n, DecisionKind.ACCEPTED);
  const told = (...decisions: Decision[]): void =>
    terminal.store.dispatch({ type: 'champions', champions: create(ListChampionsResponseSchema, { decisions }) });
  told(accepted);
  expect(await terminal.screen()).toMatch(/→ a accepts it/);
  told(accepted, decision(2n, DecisionKind.UNDONE, 1n));
  expect(await terminal.screen()).not.toMatch(/→ a accepts it/);
  await terminal.press('5');
  expect(await terminal.screen()).toMatch(/cannot be accepted: the champion that it was compared with was withdrawn/);
});

test('the dialog for undoing an acceptance names the champion that follows', async () => {
  const [first] = await show('faster');
  const before = 'jobs/0190f3e2-0000-4000-8000-000000000000';
  const accepted = (job: string, over: string, number: bigint) =>
    create(DecisionSchema, { number, kind: DecisionKind.ACCEPTED, job, label: 'older', evidence: { over } });
  const told = async (over: string): Promise<string> => {
    const decisions = [accepted(first!.job, over, 2n), accepted(before, 'none', 1n)];
    terminal.store.dispatch({ type: 'champions', champions: create(ListChampionsResponseSchema, { decisions }) });
    await terminal.press('u');
    const screen = (await terminal.screen()).replaceAll(/[^\x21-\x7e]+/g, ' ');
    await terminal.press(ESCAPE);
    return screen;
  };
  expect(await told(before)).toContain('older (0190f3e2), the champion before it, is champion again.');
  expect(await told('none')).toContain('there is no champion, as before.');
});
