import { join } from 'node:path';
import { RunnerClient } from '@flashcore/shared/client';
import { DecisionKind, Outcome, type JobResult } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { startChildRunnerIn } from '../testing/child-runner.ts';
import { acceptable, fakePlanner } from '../testing/fake-planner.ts';
import { collect, kernel, startTestRunner, temporaryFolder } from '../testing/test-runner.ts';

async function experiment(client: RunnerClient, kernelId: string): Promise<string> {
  const events = await collect(client.start('runExperiment', kernel(kernelId)));
  return events[0]!.job;
}

const kinds = (decisions: { kind: DecisionKind; note: string }[]) =>
  decisions.map(({ kind, note }) => [DecisionKind[kind], note]);

test('who is champion follows from the decisions: accepted, replaced, rejected, undone', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const champions = async () => (await client.listChampions()).champions.map(({ job, best }) => [job, best]);
  const [first, second] = [await experiment(client, 'champion_9'), await experiment(client, 'champion_7')];
  const accepted = await client.accept({ job: first, note: 'a start' });
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
  await client.accept({ job: second });
  // Another kernel is another step of the ladder; the faster one is the device's best.
  expect(await champions()).toEqual([
    [second, true],
    [first, false],
  ]);
  const again = await experiment(client, 'champion_9');
  expect((await client.accept({ job: again })).replaced).toMatchObject({ job: first });
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
});

test('what can not be accepted is refused with the reason; bad requests name their field', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'ok');
  await expect(client.accept({ job })).rejects.toMatchObject({ reason: 'NOT_ACCEPTABLE' });
  await expect(client.accept({ job: 'jobs/none' })).rejects.toMatchObject({ reason: 'JOB_NOT_FOUND' });
  await expect(client.note({ job, note: ' ' })).rejects.toMatchObject({ violations: [{ field: 'note' }] });
  await expect(client.accept({ job, note: 'x'.repeat(5000) })).rejects.toMatchObject({
    violations: [{ field: 'note' }],
  });
  await expect(client.accept({ job, requestId: 'mine' })).rejects.toMatchObject({
    violations: [{ field: 'request_id' }],
  });
});

test('a decision that would change nothing is refused and leaves the trail as it was', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'champion_9');
  const short = job.slice('jobs/'.length, 'jobs/'.length + 8);
  const already = (what: string) => `${short} is ${what} already: fa-tui undo ${short} takes that back`;
  await client.accept({ job });
  await expect(client.accept({ job, note: 'twice' })).rejects.toThrow(already('the champion'));
  await client.reject({ job });
  await expect(client.reject({ job })).rejects.toThrow(already('rejected'));
  await client.accept({ job });
  await expect(client.accept({ job })).rejects.toThrow(already('the champion'));
  const { decisions } = await client.listChampions({ includeDecisions: true });
  expect(kinds(decisions)).toEqual([
    ['ACCEPTED', ''],
    ['REJECTED', ''],
    ['ACCEPTED', ''],
  ]);
});

test('a champion that was replaced on some of its shapes may have them back', async () => {
  const measured = [[64, 128], [128]].map((lengths) => onShapes(lengths));
  const bodies = {
    measured: () => Promise.resolve({ outcome: Outcome.PASSED, summary: 'passed', result: measured.shift()! }),
  };
  await using fixture = await startTestRunner({ createPlanner: () => fakePlanner({ bodies }) });
  const { client } = fixture;
  const [both, one] = [await experiment(client, 'measured'), await experiment(client, 'measured')];
  const champions = async () =>
    (await client.listChampions()).champions.map(({ job, shapes }) => [
      job,
      ...shapes.map(({ sequenceLength }) => sequenceLength),
    ]);
  await client.accept({ job: both });
  await client.accept({ job: one });
  expect(await champions()).toEqual([
    [one, 128],
    [both, 64],
  ]);
  expect((await client.accept({ job: both })).replaced).toMatchObject({ job: one });
  expect(await champions()).toEqual([[both, 64, 128]]);
});

/** A result that can be accepted, measured at these sequence lengths. */
function onShapes(lengths: readonly number[]): JobResult {
  const result = acceptable(9);
  const [variant] = result.variants;
  const [benchmark] = variant!.benchmarks;
  variant!.benchmarks = lengths.map((length) => ({ ...benchmark!, shape: parseShape(`1x1x${length}x64`) }));
  return result;
}

test('the same request is the same decision; the trail is never changed', async () => {
  await using fixture = await startTestRunner();
  const { client } = fixture;
  const job = await experiment(client, 'champion_9');
  const request = { job, note: 'once', requestId: '123e4567-e89b-42d3-a456-426614174000' };
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

test.each(['before', 'torn', 'after'])(
  'kill -9 %s the commit of an acceptance: the same request again makes it once, and it is there after a restart',
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
    const request = { job, note: 'kept', requestId: '123e4567-e89b-42d3-a456-426614174001' };
    {
      // The first commit of this life is the acceptance's.
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
