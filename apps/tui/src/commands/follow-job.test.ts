/** Tests the plain reporter with jobs that lose their runner. */
import { create, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { FlashcoreError, JobState, Outcome, GetJobResponseSchema, type JobEvent } from '@flashcore/shared/contract';
import { expect, onTestFinished, test, vi } from 'vitest';
import { SAMPLE_JOB, eventsOf, sampleEvents } from '../testing/sample-job.ts';
import { CommandContext } from './context.ts';
import { followJob, type OpenEvents, exitCodeOfEnd, onInterruptComeBack } from './follow-job.ts';

const EVENTS = sampleEvents();

interface Followed {
  code: number;
  stdout: string;
  stderr: string;
}

async function follow(
  open: OpenEvents,
  { json = false, gone = false }: { json?: boolean; gone?: boolean } = {},
): Promise<Followed> {
  const text = { stdout: '', stderr: '' };
  const stream = (name: keyof typeof text) => ({ write: (piece: string) => void (text[name] += piece) });
  const context = new CommandContext(
    { stdin: {}, stdout: stream('stdout'), stderr: stream('stderr'), environment: {} },
    { color: 'never', json },
  );
  const job = { name: SAMPLE_JOB, label: 'flashcore_v6', state: JobState.ENDED, outcome: Outcome.INTERRUPTED };
  const client = {
    getJob: () =>
      gone
        ? Promise.reject(new FlashcoreError('RUNNER_UNREACHABLE', {}, 'Lost the runner at login1:1'))
        : Promise.resolve(create(GetJobResponseSchema, { job })),
  };
  return { code: await followJob(open, { client }, context), ...text };
}

/** The sample job's events up to its third case, at which the runner is killed and started again. */
const CUT = [...EVENTS.slice(0, EVENTS.findIndex(({ payload }) => payload.case === 'finding') - 8)];
const END = eventsOf([
  ...CUT.map(({ payload }) => payload),
  { case: 'finished', value: { outcome: Outcome.INTERRUPTED, summary: 'the runner ended' } },
]).slice(-1);

test('after the runner was lost and found again, the report has the results from before', async () => {
  async function* open({ onConnection }: Parameters<OpenEvents>[0]): AsyncGenerator<JobEvent> {
    yield* CUT;
    onConnection?.('reconnecting');
    onConnection?.('connected');
    // Events that are sent again do not add a second case.
    yield* [...CUT.slice(-3), ...END];
    await Promise.resolve();
  }
  const { code, stdout, stderr } = await follow(open);
  expect(code).toBe(3);
  expect(stderr).toMatch(/connection lost, trying again\nrunner: connected again\n/);
  expect(stdout).toMatch(/flashcore_v6 +56 +72 KiB[^]*Correctness {2}3 of 3 cases passed[^]*INTERRUPTED/);
  expect(stdout.match(/2x8x512x64 /g)).toHaveLength(1);
});

test('a stream that ends before the job does is an error that names the job', async () => {
  async function* open(): AsyncGenerator<JobEvent> {
    yield* CUT;
    await Promise.resolve();
  }
  await expect(follow(open)).rejects.toThrow(`The stream of ${SAMPLE_JOB} ended without the job's last event`);
});

test('if the runner is gone after the job has ended, result and exit code come from the events', async () => {
  async function* open(): AsyncGenerator<JobEvent> {
    yield* EVENTS;
    await Promise.resolve();
  }
  const { code, stdout, stderr } = await follow(open, { json: true, gone: true });
  const end = EVENTS.at(-1)!.payload;
  if (end.case !== 'finished') throw new Error('the sample has no end');
  const { job, result } = fromJson(GetJobResponseSchema, JSON.parse(stdout) as JsonValue);
  expect([job, result]).toEqual([
    expect.objectContaining({ name: SAMPLE_JOB, state: JobState.ENDED, outcome: end.value.outcome }),
    end.value.result,
  ]);
  expect([code, stderr]).toEqual([exitCodeOfEnd(end.value), expect.stringContaining('Lost the runner at login1:1')]);
});

test.each([
  ['an own job', false, [[], [130]], /^COME\nCtrl-C again leaves\.\n$/],
  ["another command's job", true, [[130]], /^COME\n$/],
])('Ctrl-C on %s tells on a line of its own how to come back', (_, leaves, exits, text) => {
  const exit = vi.spyOn(process, 'exit').mockImplementation((() => undefined) as never);
  const now = vi.spyOn(Date, 'now');
  let told = '';
  const interrupts = onInterruptComeBack(
    () => SAMPLE_JOB,
    new CommandContext(
      { stdin: {}, stdout: {}, stderr: { write: (piece: string) => void (told += piece) }, environment: {} } as never,
      { color: 'never' },
    ),
    { clear: () => true, leaves },
  );
  onTestFinished(() => {
    interrupts.dispose();
    vi.restoreAllMocks();
  });
  exits.forEach((codes, press) => {
    now.mockReturnValue(1_000 * (press + 1));
    process.emit('SIGINT');
    expect(exit.mock.calls.flat()).toEqual(codes);
  });
  expect(told.replace(/The job goes on\. Watch it: .* Cancel it: .*/, 'COME')).toMatch(text);
});
