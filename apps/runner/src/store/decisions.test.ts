import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { RunnerClient } from '@flashcore/shared/client';
import { AcceptabilitySchema, DecisionKind, Outcome, type JobResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { inFull } from '@flashcore/shared/testing';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { startChildRunnerIn } from '../testing/child-runner.ts';
import { NO_CHAMPION as NONE } from './decisions.ts';
import { acceptable, fakePlanner } from '../testing/fake-planner.ts';
import { collect, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';

async function experiment(client: RunnerClient, kernelId: string): Promise<string> {
  const events = await collect(client.start('runExperiment', kernel(kernelId)));
  return events[0]!.job;
}

const kinds = (decisions: { kind: DecisionKind; note: string }[]) =>
  decisions.map(({ kind, note }) => [DecisionKind[kind], note]);

test('champions follow from the decisions: accepted, replaced, rejected, undone', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const champions = async () => (await client.listChampions()).champions.map(({ job, best }) => [job, best]);
  const first = await experiment(client, 'champion_9');
  const accepted = await client.accept({ job: first, note: 'a start', over: NONE });
  expect(accepted).toMatchObject({
    champion: {
      kernelId: 'champion_9',
      deviceName: 'Fake GPU',
      protocol: 'flashcore-protocol 3',
      plan: 'merge',
      decision: { kind: DecisionKind.ACCEPTED, client: 'local', note: 'a start', number: 1n },
    },
  });
  expect(accepted.replaced).toBeUndefined();
  const second = await experiment(client, 'champion_7');
  await client.accept({ job: second, over: first });
  // The other kernel is another step of the ladder, so both are champions; the faster one is the device's best.
  expect(await champions()).toEqual([
    [second, true],
    [first, false],
  ]);
  const again = await experiment(client, 'champion_9');
  expect((await client.accept({ job: again, over: first })).replaced).toMatchObject({ job: first });
  expect(await champions()).toEqual([
    [again, false],
    [second, true],
  ]);
  expect((await client.undo({ job: again })).champions.map(({ job }) => job)).toEqual([first]);
  expect((await client.reject({ job: second, note: 'loses at S 4096' })).removed.map(({ job }) => job)).toEqual([
    second,
  ]);
  expect(await champions()).toEqual([[first, true]]);
  await client.undo({ job: second });
  expect(await champions()).toEqual([
    [second, true],
    [first, false],
  ]);
  await client.note({ job: first, note: 'before the swizzle' });
  const { decisions } = await client.listChampions({ includeDecisions: true });
  expect(kinds(decisions)).toEqual([
    ['NOTED', 'before the swizzle'],
    ['UNDONE', ''],
    ['REJECTED', 'loses at S 4096'],
    ['UNDONE', ''],
    ['ACCEPTED', ''],
    ['ACCEPTED', ''],
    ['ACCEPTED', 'a start'],
  ]);
  await client.undo({ job: first });
  await expect(client.undo({ job: first })).rejects.toMatchObject({ reason: 'NOT_ACCEPTABLE' });
  // The list of experiments shows the decisions in force: those about `first` and `again` were undone.
  const { experiments } = await client.listExperiments();
  expect(experiments.map(({ job, decision }) => [job!.name, decision && DecisionKind[decision.kind]])).toEqual([
    [again, undefined],
    [second, 'ACCEPTED'],
    [first, undefined],
  ]);
});

test('accepting an unacceptable result is refused with the reason; bad requests name their field', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'ok');
  await expect(client.accept({ job, over: NONE })).rejects.toMatchObject({ reason: 'NOT_ACCEPTABLE' });
  await expect(client.accept({ job: 'jobs/none', over: NONE })).rejects.toMatchObject({ reason: 'JOB_NOT_FOUND' });
  await expect(client.note({ job, note: ' ' })).rejects.toMatchObject({ violations: [{ field: 'note' }] });
  await expect(client.accept({ job, over: NONE, note: 'x'.repeat(5000) })).rejects.toMatchObject({
    violations: [{ field: 'note' }],
  });
  await expect(client.accept({ job, over: NONE, requestId: 'mine' })).rejects.toMatchObject({
    violations: [{ field: 'request_id' }],
  });
});

test('a result that lacked only notes is accepted with notes that say something, which are recorded', async () => {
  const run = acceptable(9);
  run.acceptability = create(AcceptabilitySchema, { reason: 'NOTES.md is missing', notesWanted: true, over: NONE });
  const bodies = { undocumented: () => Promise.resolve({ outcome: Outcome.PASSED, summary: 'passed', result: run }) };
  await using fixture = await startTestRunner({ createPlanner: () => fakePlanner({ bodies }) });
  const { client } = fixture;
  const job = await experiment(client, 'undocumented');
  const template = '# mine\n\n## What it changes, and why\n';
  for (const notes of ['', template])
    await expect(client.accept({ job, over: NONE, notes })).rejects.toThrow(/Cannot accept .*: NOTES.md is missing/);
  await expect(client.accept({ job, over: NONE, notes: 'x'.repeat(4097) })).rejects.toMatchObject({
    violations: [{ field: 'notes' }],
  });
  const notes = `${template}Padded rows:\tno bank conflicts.\n`;
  const { champion } = await client.accept({ job, over: NONE, notes });
  expect(champion?.decision?.evidence?.notes).toBe(notes);
  const { decisions } = await client.listChampions({ includeDecisions: true });
  expect(decisions.map(({ evidence }) => evidence?.notes)).toEqual([notes]);
});

test('a decision that would change nothing is refused and leaves the trail unchanged', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'champion_9');
  const short = job.slice('jobs/'.length, 'jobs/'.length + 8);
  const already = (what: string) => `${short} is ${what} already: fa-tui undo ${short} takes that back`;
  await client.accept({ job, over: NONE });
  await expect(client.accept({ job, over: NONE, note: 'twice' })).rejects.toThrow(already('the champion'));
  await client.reject({ job });
  await expect(client.reject({ job })).rejects.toThrow(already('rejected'));
  await client.accept({ job, over: NONE });
  await expect(client.accept({ job, over: NONE })).rejects.toThrow(already('the champion'));
  const { decisions } = await client.listChampions({ includeDecisions: true });
  expect(kinds(decisions)).toEqual([
    ['ACCEPTED', ''],
    ['REJECTED', ''],
    ['ACCEPTED', ''],
  ]);
});

test('an acceptance succeeds only if the current champion is the one that the run was compared with', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const [first, stale] = [await experiment(client, 'champion_9'), await experiment(client, 'champion_9')];
  await expect(client.accept({ job: first })).rejects.toMatchObject({
    reason: 'INVALID_REQUEST',
    violations: [{ field: 'over' }],
  });
  await expect(client.accept({ job: first, over: stale })).rejects.toThrow('over: must be none, which the result was');
  await client.accept({ job: first, over: NONE });
  // Both were compared with no champion, but one was accepted first.
  for (const over of [NONE, first])
    await expect(client.accept({ job: stale, over })).rejects.toMatchObject({
      reason: 'NOT_ACCEPTABLE',
      metadata: { over: NONE, champion: first },
      message: expect.stringMatching(
        new RegExp(
          `compared with no champion, and the champion is now champion_9 of ${first}; compare with that: fa-tui run [0-9a-f]{64} --plan merge$`,
        ),
      ) as string,
    });
  const again = await experiment(client, 'champion_9');
  await expect(client.accept({ job: again, over: NONE })).rejects.toThrow(`over: must be ${first}`);
  const { champion, replaced } = await client.accept({ job: again, over: first });
  expect(replaced).toMatchObject({ job: first });
  expect(champion!.decision).toMatchObject({
    role: 'admin',
    evidence: {
      plan: 'merge',
      rulesDigest: 'ab'.repeat(32),
      seeds: ['5eed'],
      sourceDigest: 'c0ffee',
      over: first,
      owner: 'local',
    },
  });
});

test('only one of several parallel acceptances succeeds', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const jobs = await Promise.all(Array.from({ length: 6 }, () => experiment(client, 'champion_9')));
  const answers = await Promise.allSettled([...jobs, ...jobs].map((job) => client.accept({ job, over: NONE })));
  expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect((await client.listChampions({ includeDecisions: true })).decisions).toHaveLength(1);
});

test('a champion from another job on some of the shapes is not replaced without a comparison', async () => {
  const measured = [[64, 128], [128]].map((lengths) => onShapes(lengths));
  const bodies = {
    measured: () => Promise.resolve({ outcome: Outcome.PASSED, summary: 'passed', result: measured.shift()! }),
  };
  await using fixture = await startTestRunner({ createPlanner: () => fakePlanner({ bodies }) });
  const { client } = fixture;
  const [both, one] = [await experiment(client, 'measured'), await experiment(client, 'measured')];
  await client.accept({ job: one, over: NONE });
  await expect(client.accept({ job: both, over: NONE })).rejects.toThrow(`the champion is now measured of ${one}`);
});

test('an acceptance stored before ranked runs existed is still readable and has no evidence', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'champion_9');
  await client.accept({ job, over: NONE });
  const database = new DatabaseSync(join(fixture.dataDirectory, 'flashcore.db'));
  database.exec('DROP TRIGGER decisions_stay');
  database.exec("UPDATE decisions SET evidence = NULL, role = ''");
  database.close();
  const { champions } = await client.listChampions();
  expect(champions[0]).toMatchObject({ job, decision: { role: '' } });
  expect(champions[0]!.decision!.evidence).toBeUndefined();
});

test('each dtype has its own champions; a champion from before dtypes were recorded has dtype fp16', async () => {
  const jobs: string[] = [];
  const resultOf = (index: number, dtype: string): JobResult => {
    // The third run is compared with the first, the champion of its dtype.
    const result = acceptable(9, index === 2 ? jobs[0] : undefined);
    result.provenance!.dtype = dtype;
    return result;
  };
  const dtypes = ['', 'bf16', 'fp16'];
  const bodies = {
    measured: () =>
      Promise.resolve({
        outcome: Outcome.PASSED,
        summary: 'passed',
        result: resultOf(3 - dtypes.length, dtypes.shift()!),
      }),
  };
  await using fixture = await startTestRunner({ createPlanner: () => fakePlanner({ bodies }) });
  const { client } = fixture;
  jobs.push(await experiment(client, 'measured'), await experiment(client, 'measured'));
  for (const job of jobs) expect((await client.accept({ job, over: NONE })).replaced).toBeUndefined();
  const champions = async () =>
    (await client.listChampions()).champions.map(({ job, dtype, best }) => [job, dtype, best]);
  expect(await champions()).toEqual([
    [jobs[1], 'bf16', true],
    [jobs[0], 'fp16', true],
  ]);
  const third = await experiment(client, 'measured');
  expect((await client.accept({ job: third, over: jobs[0]! })).replaced).toMatchObject({ job: jobs[0] });
  expect(await champions()).toEqual([
    [third, 'fp16', true],
    [jobs[1], 'bf16', true],
  ]);
});

/** An acceptable result, measured at these sequence lengths. */
function onShapes(lengths: readonly number[]): JobResult {
  const result = acceptable(9);
  const [variant] = result.variants;
  const [benchmark] = variant!.benchmarks;
  variant!.benchmarks = lengths.map((length) => ({ ...benchmark!, shape: parseShape(`1x1x${length}x64`) }));
  return result;
}

test('a repeated request returns the same decision; the trail never changes', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'champion_9');
  const request = { job, over: NONE, note: 'once', requestId: '123e4567-e89b-42d3-a456-426614174000' };
  const answers = [
    await client.accept(request),
    await client.accept({ ...request, requestId: request.requestId.toUpperCase() }),
  ];
  expect(answers[1]).toEqual(answers[0]);
  await expect(client.accept({ ...request, note: 'twice' })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
  expect((await client.listChampions({ includeDecisions: true })).decisions).toHaveLength(1);
  const database = new DatabaseSync(join(fixture.dataDirectory, 'flashcore.db'));
  expect(() => database.exec("UPDATE decisions SET note = 'other'")).toThrow(/never changed/);
  expect(() => database.exec('DELETE FROM decisions')).toThrow(/never removed/);
  database.close();
});

test.each(inFull(['before', 'torn', 'after'], (where) => where === 'torn'))(
  'after kill -9 (%s the commit), a repeated request accepts once, and the acceptance survives a restart',
  { timeout: 60_000 },
  async (where) => {
    using folder = temporaryFolder();
    const flags = ['--data', join(folder.path, 'data'), '--address', `unix:${join(folder.path, 's')}`];
    const connect = (address: string) => RunnerClient.connect({ address });
    let job = '';
    {
      await using runner = await startChildRunnerIn(process.env, ...flags);
      const client = await connect(runner.address);
      job = await experiment(client, 'champion_9');
      client.close();
      await runner.end('SIGTERM');
    }
    const request = { job, over: NONE, note: 'kept', requestId: '123e4567-e89b-42d3-a456-426614174001' };
    {
      // The acceptance is the first commit of this process.
      await using runner = await startChildRunnerIn({ ...process.env, FLASHCORE_FAILPOINT: `1 ${where}` }, ...flags);
      const client = await connect(runner.address);
      await expect(client.accept(request)).rejects.toMatchObject({ reason: 'RUNNER_UNREACHABLE' });
      client.close();
    }
    await using runner = await startChildRunnerIn(process.env, ...flags);
    const client = await connect(runner.address);
    const before = await client.listChampions({ includeDecisions: true });
    expect(before.champions).toHaveLength(where === 'after' ? 1 : 0);
    const answer = await client.accept(request);
    const { champions, decisions } = await client.listChampions({ includeDecisions: true });
    expect(champions).toEqual([answer.champion]);
    expect(kinds(decisions)).toEqual([['ACCEPTED', 'kept']]);
    client.close();
  },
);
