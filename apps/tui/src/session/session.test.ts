import {
  CancelJobResponseSchema,
  FindingKind,
  FlashcoreError,
  HostSchema,
  JobSchema,
  JobState,
  KernelReferenceSchema,
  Outcome,
  Verdict,
} from '@flashcore/shared/contract';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { fakeRunner } from '../testing/fake-runner.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, eventsOf, sampleEvents } from '../testing/sample-job.ts';
import { initialState } from '../state/app-state.ts';
import type { RunnerPort } from './runner-port.ts';
import { Session } from './session.ts';
import { Store } from './store.ts';
import { messageRows, restartText } from '../screens/chrome/message.ts';
import { clockOf, idleFallback } from '../state/selectors.ts';
import { rowText } from '../present/cells/row.ts';
import { namedJob } from '../present/words.ts';

const EVENTS = sampleEvents();

let session: Session | undefined;
afterEach(() => session?.end());

function begin(client: RunnerPort, options?: Parameters<Session['begin']>[0]): Store {
  const store = new Store({
    state: initialState({ runner: { label: 'host:1', embedded: false }, columns: 80, rows: 24, now: SAMPLE_START_MS }),
  });
  session = new Session({ client, store, now: () => SAMPLE_START_MS });
  void session.begin(options);
  return store;
}

test('a session loads all lists and shows the running job', async () => {
  const store = begin(fakeRunner());
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  const { connection, host, jobs, kernels, experiments, attached } = store.state;
  expect({
    connection,
    host: host?.hostName,
    jobs: jobs.length,
    kernels: kernels.length,
    experiments: experiments.length,
    attached,
  }).toEqual({ connection: 'connected', host: 'laptop', jobs: 5, kernels: 5, experiments: 2, attached: SAMPLE_JOB });
  expect(store.log.end).toBeGreaterThan(40);
});

test('if a job ends while the user is asked whether to cancel it, the message says that it ended', async () => {
  const store = begin(fakeRunner());
  await vi.waitFor(() => expect(store.state.jobs).toHaveLength(5));
  const passed = store.state.jobs.find(({ outcome }) => outcome === Outcome.PASSED)!.name;
  const open = store.state.jobs.find(({ state }) => state !== JobState.ENDED)!.name;
  await session!.cancel([passed]);
  const name = (wanted: string): string => {
    const job = store.state.jobs.find((each) => each.name === wanted)!;
    return namedJob({ ...job, label: job.kernelId });
  };
  expect(store.state.notice?.text).toBe(`${name(passed)} had already ended`);
  await session!.cancel([passed, open]);
  expect(store.state.notice).toMatchObject({
    text: `Cancelling ${name(open)}: it ends within two seconds. ${name(passed)} had already ended`,
    jobs: [open],
  });
});

test('a kernel that is run again stops its fallback that decides nothing, and no other job', async () => {
  const cancelled: string[] = [];
  const runner = fakeRunner();
  // Without the last event the fallback still runs.
  const { watch } = runner;
  const store = begin({
    ...runner,
    async *watch(...given) {
      for await (const event of watch(...given)) if (event.payload.case !== 'finished') yield event;
      await new Promise(() => undefined);
    },
    cancelJob: ({ name = '' }) => {
      cancelled.push(name);
      return Promise.resolve(create(CancelJobResponseSchema, {}));
    },
  });
  await vi.waitFor(() =>
    expect(store.state.views[SAMPLE_JOB] && idleFallback(store.state.views[SAMPLE_JOB])).toBeDefined(),
  );
  const request = () => ({ method: 'verify', request: {} }) as const;
  await session!.startKernel({ kernelId: 'flashcore_v7' }, request);
  expect(cancelled).toEqual([]);
  await session!.startKernel({ kernelId: 'flashcore_v6' }, request);
  expect(cancelled).toEqual([SAMPLE_JOB]);
});

test('the message about a cancelled job that waited says that it has ended', async () => {
  const waiting = { name: 'jobs/waiting', state: JobState.ENDED, outcome: Outcome.CANCELLED };
  const runner = fakeRunner();
  const cancelJob = ({ name = '' }): ReturnType<RunnerPort['cancelJob']> =>
    name === 'jobs/foreign'
      ? Promise.reject(new FlashcoreError('PERMISSION_DENIED', {}, "it is ada's"))
      : Promise.resolve(create(CancelJobResponseSchema, { job: waiting }));
  const store = begin({ ...runner, cancelJob });
  const said = async (...jobs: string[]) => {
    await session!.cancel(jobs);
    return store.state.notice?.text;
  };
  expect(await said('jobs/waiting')).toBe('Cancelled waiting');
  expect(await said('jobs/waiting', 'jobs/other')).toBe('Cancelled waiting and other');
  expect(await said('jobs/a', 'jobs/b', 'jobs/c', 'jobs/d', 'jobs/e')).toBe('Cancelled a, b, c and 2 others');
  // The runner refuses one; the others are cancelled, and the message says so.
  expect(await said('jobs/foreign', 'jobs/waiting')).toBe("Cancelled waiting. Cannot cancel foreign: it is ada's");
});

test('if a job is running, a session opens with that job rather than with the job that it showed last', async () => {
  const store = begin(fakeRunner(), { lastJob: 'jobs/22222222-0000-4000-8000-000000000004' });
  await vi.waitFor(() => expect(store.state.attached).toBe(SAMPLE_JOB));
});

test('a request given at the start is started once, and its job is shown', async () => {
  const runner = fakeRunner();
  const store = begin(runner, {
    start: { method: 'runExperiment', request: { kernel: { source: { case: 'kernelId', value: 'flashcore_v6' } } } },
  });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.lastSequence).toBe(EVENTS.length));
  expect(runner.started).toEqual(['flashcore_v6']);
});

test('a job that is shown again is watched from the last event that this client has', async () => {
  const asked: number[] = [];
  const runner = fakeRunner({ events: EVENTS.slice(0, 10) });
  const client: RunnerPort = {
    ...runner,
    watch: (job, options) => {
      asked.push(Number(options?.afterSequence));
      return runner.watch(job, options);
    },
  };
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.lastSequence).toBe(10));
  const lines = store.log.end;
  session?.attach(SAMPLE_JOB);
  await vi.waitFor(() => expect(asked).toEqual([0, 10]));
  expect(store.log.end).toBe(lines);
});

test('comparing jobs that were read to their end requests no more events', async () => {
  const runner = fakeRunner();
  const asked: string[] = [];
  const client: RunnerPort = {
    ...runner,
    watch: (job, options) => {
      asked.push(job);
      return runner.watch(job, options);
    },
  };
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  store.dispatch({ type: 'pin', job: SAMPLE_JOB });
  await session?.compare(SAMPLE_JOB, SAMPLE_JOB);
  expect(asked).toEqual([SAMPLE_JOB]);
});

test('comparing with a job that was not timed opens the first page with content', async () => {
  const failed = 'jobs/f0000000-0000-4000-8000-000000000000';
  const runner = fakeRunner();
  const untimed = sampleEvents()
    .filter(({ payload }) => !payload.case?.startsWith('benchmark'))
    .map((event, index) => ({ ...event, job: failed, sequence: BigInt(index + 1) }));
  const client: RunnerPort = {
    ...runner,
    async *watch(job, options) {
      if (job === failed) yield* untimed;
      else yield* runner.watch(job, options);
    },
  };
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  store.dispatch({ type: 'pin', job: failed });
  await session?.compare(SAMPLE_JOB, failed);
  expect(store.state.ui.comparePage).toBe('figures');
});

test("the list of experiments is read again when another client's job has ended", async () => {
  const runner = fakeRunner({ events: [] });
  let reads = 0;
  let isEnded = false;
  const client: RunnerPort = {
    ...runner,
    listExperiments: (...given) => {
      reads += 1;
      return runner.listExperiments(...given);
    },
    listJobs: async (...given) => {
      const answer = await runner.listJobs(...given);
      const jobs = answer.jobs.map((job) => ({ ...job, state: isEnded ? JobState.ENDED : JobState.RUNNING }));
      return { ...answer, jobs };
    },
  };
  const store = begin(client);
  await vi.waitFor(() => expect(store.state.experiments).not.toHaveLength(0));
  await session?.lists.jobs();
  const before = reads;
  isEnded = true;
  await session?.lists.jobs();
  await vi.waitFor(() => expect(reads).toBe(before + 1));
  await session?.lists.jobs();
  expect(reads).toBe(before + 1);
});

test('repeated events do not add log lines again', () => {
  const store = begin(fakeRunner({ events: [] }));
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  for (const event of [...EVENTS.slice(0, 12), ...EVENTS.slice(4, 12), EVENTS[20]!])
    store.dispatch({ type: 'job-event', event });
  expect(store.state.views[SAMPLE_JOB]).toMatchObject({ lastSequence: 12, gap: true });
  expect(
    Array.from({ length: store.log.end }, (_, line) => store.log.at(line)?.text).filter((text) =>
      text?.includes('Used 56 registers'),
    ),
  ).toHaveLength(1);
});

test('a job whose first events the runner no longer has is shown from the first one left', async () => {
  const runner = fakeRunner();
  const client: RunnerPort = {
    ...runner,
    watch: async function* (job, options) {
      options?.onExpired?.(21n);
      yield* runner.watch(job, { afterSequence: 20 });
    },
  };
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() =>
    expect(store.state.views[SAMPLE_JOB]).toMatchObject({
      state: JobState.ENDED,
      lastSequence: EVENTS.length,
      gap: false,
    }),
  );
  expect(store.state.notice?.text).toBe("The job's events before number 21 are no longer kept");
});

test('events of a job that is no longer shown do not change the screen', async () => {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const left = Promise.withResolvers<void>();
  const runner = fakeRunner();
  const client: RunnerPort = {
    ...runner,
    watch: async function* (job) {
      if (job !== 'jobs/slow') return yield* runner.watch(job);
      await held;
      try {
        yield* EVENTS.slice(0, 5).map((event) => ({ ...event, job }));
      } finally {
        left.resolve();
      }
    },
  };
  const store = begin(client, { watchJob: 'jobs/slow' });
  session?.attach(SAMPLE_JOB);
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  release();
  await left.promise;
  expect([store.state.attached, store.state.views['jobs/slow']?.lastSequence]).toEqual([SAMPLE_JOB, 0]);
});

test('a lost runner is reported in the header and in a notice, and found again', async () => {
  const runner = fakeRunner();
  let lost = true;
  const answer = <Answer>(question: () => Promise<Answer>): Promise<Answer> =>
    lost
      ? Promise.reject(new FlashcoreError('RUNNER_UNREACHABLE', {}, 'Wanted a runner at host:1, found nobody there'))
      : question();
  const client: RunnerPort = {
    ...runner,
    listJobs: () => answer(() => runner.listJobs()),
    getHost: () => answer(() => runner.getHost({})),
    listKernels: () => answer(() => runner.listKernels({})),
    listExperiments: () => answer(() => runner.listExperiments({})),
    watch: () => {
      throw new FlashcoreError('RUNNER_UNREACHABLE', {}, 'Wanted a runner at host:1, found nobody there');
    },
  };
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() =>
    expect(store.state.notice).toMatchObject({ tone: 'bad', text: 'Wanted a runner at host:1, found nobody there' }),
  );
  lost = false;
  await vi.waitFor(async () => {
    await session?.lists.jobs();
    expect([store.state.connection, store.state.jobs.length]).toEqual(['connected', 5]);
  });
  expect(store.state.notice).toBeUndefined();
});

test('a refused job is reported, and no job is shown for it', async () => {
  const runner = fakeRunner();
  const client: RunnerPort = {
    ...runner,
    listJobs: async () => ({ ...(await runner.listJobs()), jobs: [] }),
    start: () => {
      throw new FlashcoreError(
        'KERNEL_NOT_FOUND',
        {},
        'Wanted a kernel of this runner, found no "flash_v6"; nearest: flashcore_v6',
      );
    },
  };
  const store = begin(client);
  void session?.startKernel({ kernelId: 'flash_v6' }, (kernel) => ({
    method: 'runExperiment',
    request: { kernel },
  }));
  await vi.waitFor(() => expect(store.state.notice?.text).toMatch(/nearest: flashcore_v6/));
  expect(store.state.attached).toBeUndefined();
});

test('a failed watch ends, so that the user can choose a folder again', async () => {
  const store = begin(fakeRunner());
  session?.watchFolder({
    folder: '/nowhere',
    requestFor: (kernel) => ({ method: 'runExperiment', request: { kernel } }),
  });
  expect(store.state.watching).toEqual({ folder: '/nowhere' });
  await vi.waitFor(() =>
    expect([store.state.watching, store.state.notice?.text]).toEqual([undefined, '/nowhere: no such folder to watch']),
  );
});

test('the log of a kernel that does not compile opens at its first error, unless the user has scrolled', async () => {
  const failed = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'gateResult', value: { title: 'Notes', verdict: Verdict.FAIL, level: 'hard', value: 1 } },
    { case: 'logLine', value: { source: 'nvcc', text: 'nvcc -cubin k.cu' } },
    {
      case: 'diagnostic',
      value: { severity: 'error', tool: 'nvcc', file: 'k.cu', line: 9, message: 'expected a ";"' },
    },
    { case: 'diagnostic', value: { severity: 'error', tool: 'g++', file: 'k.cu', line: 9, message: 'expected' } },
    { case: 'finished', value: { outcome: Outcome.COMPILE_FAILED, summary: 'COMPILE_FAILED: k.cu:9' } },
  ]);
  const store = begin(fakeRunner({ events: failed }), { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  expect([store.log.at(store.state.ui.log.top)?.text, store.state.ui.log.follow]).toEqual([
    'k.cu:9: error: expected a ";"',
    false,
  ]);
  // The rest of the summary is left out, because it repeats the outcome.
  expect(store.log.at(store.log.end - 1)?.text).toBe('compile failed: k.cu:9');
});

test('the last line of the log does not repeat the finding above it', async () => {
  const message = 'thread (0,0,0) writes byte 8, which thread (32,0,0) read';
  const raced = eventsOf([
    { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
    { case: 'finding', value: { kind: FindingKind.RACE, message, remedy: 'Put a __syncthreads() between the two' } },
    { case: 'finished', value: { outcome: Outcome.WRONG_RESULT, summary: `RACE: ${message}` } },
  ]);
  const store = begin(fakeRunner({ events: raced }), { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  expect([1, 2, 3].map((line) => store.log.at(line)?.text)).toEqual([
    `race: ${message}`,
    'Put a __syncthreads() between the two',
    'race, see the finding above',
  ]);
});

test('the last line says that there are several findings, without another count than the pane has', async () => {
  const finding = (message: string) => ({ case: 'finding', value: { kind: FindingKind.RACE, message } }) as const;
  const store = begin(
    fakeRunner({
      events: eventsOf([
        { case: 'created', value: { job: { name: SAMPLE_JOB, label: 'k', state: JobState.QUEUED } } },
        finding('a race'),
        finding('another'),
        { case: 'finished', value: { outcome: Outcome.WRONG_RESULT, summary: 'RACE: a race' } },
      ]),
    }),
    { watchJob: SAMPLE_JOB },
  );
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.state).toBe(JobState.ENDED));
  expect(store.log.at(3)?.text).toBe('race, see the findings above');
});

const savedFolder = (): string => {
  const folder = mkdtempSync(path.join(tmpdir(), 'fa-tui-quick-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(
    path.join(folder, 'kernel.yaml'),
    'id: k\ntitle: a kernel\nlesson: none\nsource: k.cu\nmin_arch: sm_80\nmath: { inputs: fp16, accumulate: fp32 }\nlaunches:\n  - { entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q, K, V, O] }\n',
  );
  writeFileSync(path.join(folder, 'k.cu'), '');
  return folder;
};

test.each([
  ['passes', Outcome.PASSED, ['verify', 'runExperiment']],
  ['fails', Outcome.WRONG_RESULT, ['verify']],
])(
  'a quick watch runs the rest of a version only if its smallest case passes: the case %s',
  async (_, outcome, methods) => {
    const asked: { method: string; request: unknown }[] = [];
    const client: RunnerPort = {
      ...fakeRunner(),
      uploadFolder: () => Promise.resolve(create(KernelReferenceSchema, { source: { case: 'kernelId', value: 'k' } })),
      start: (method, request) => {
        asked.push({ method, request });
        const name = `jobs/${asked.length}`;
        return (async function* () {
          await Promise.resolve();
          yield* eventsOf(
            [
              { case: 'created', value: { job: { name, label: 'k', state: JobState.QUEUED } } },
              { case: 'finished', value: { outcome } },
            ],
            name,
          );
        })();
      },
    };
    const store = begin(client);
    session?.watchFolder({
      folder: savedFolder(),
      requestFor: (kernel) => ({ method: 'runExperiment', request: { kernel } }),
      quick: true,
    });
    await vi.waitFor(() => expect(asked.map(({ method }) => method)).toEqual(methods));
    expect(asked[0]?.request).toMatchObject({
      settings: { shapes: [{ heads: 4, sequenceLength: 128 }], seedCount: 1 },
    });
    // Both jobs belong to one version, so there is no earlier version to compare with.
    expect(store.state.watching?.jobBefore).toBeUndefined();
  },
);

/** Watches a folder with a runner whose jobs, save-1 and so on, pass when the test says so. */
function watchSaves() {
  const folder = savedFolder();
  const asked: string[] = [];
  const passes: (() => void)[] = [];
  const client: RunnerPort = {
    ...fakeRunner(),
    uploadFolder: () => Promise.resolve(create(KernelReferenceSchema, { source: { case: 'kernelId', value: 'k' } })),
    start: (method) => {
      const name = `jobs/save-${asked.push(method)}`;
      const passed = new Promise<void>((resolve) => passes.push(resolve));
      const [created, finished] = eventsOf(
        [
          { case: 'created', value: { job: { name, label: 'k', kernelId: 'k', state: JobState.QUEUED } } },
          { case: 'finished', value: { outcome: Outcome.PASSED } },
        ],
        name,
      );
      return (async function* () {
        yield created!;
        await passed;
        yield finished!;
      })();
    },
  };
  const store = begin(client);
  session?.watchFolder({
    folder,
    requestFor: (kernel) => ({ method: 'runExperiment', request: { kernel } }),
    quick: true,
  });
  const attached = (job: string) => vi.waitFor(() => expect(store.state.attached).toBe(job), { timeout: 5_000 });
  const save = (text: string): void => writeFileSync(path.join(folder, 'k.cu'), text);
  return { store, asked, passes, attached, save };
}

test('the jobs of a watched folder are shown in the view that the user is in', async () => {
  const { store, passes, attached, save } = watchSaves();
  expect(store.state.ui.view).toBe('run');
  await attached('jobs/save-1');
  store.dispatch({ type: 'show', view: 'correct' });
  passes[0]?.();
  await attached('jobs/save-2');
  store.dispatch({ type: 'show', view: 'kernels' });
  save('// 2\n');
  await attached('jobs/save-3');
  expect(store.state.ui.view).toBe('kernels');
});

test('a job of a watched folder is shown only after the open prompt is closed', async () => {
  const { store, passes, attached } = watchSaves();
  await attached('jobs/save-1');
  store.dispatch({ type: 'show', view: 'kernels' });
  store.dispatch({ type: 'overlay', overlay: { kind: 'list-filter', list: 'kernels', text: 'abc' } });
  passes[0]?.();
  await vi.waitFor(() => expect(store.state.watching?.job).toBe('jobs/save-2'));
  expect([store.state.attached, store.state.ui.view]).toEqual(['jobs/save-1', 'kernels']);
  store.dispatch({ type: 'list-filter', list: 'kernels', text: 'abc' });
  await attached('jobs/save-2');
  expect(store.state.ui.view).toBe('kernels');
});

test('a job that the user chose after a save stays on the screen until the next save, whose job is read to its end', async () => {
  const { store, asked, passes, attached, save } = watchSaves();
  await attached('jobs/save-1');
  session?.attach('jobs/other');
  passes[0]?.();
  await vi.waitFor(() => expect(store.state.watching?.job).toBe('jobs/save-2'));
  expect(store.state.attached).toBe('jobs/other');
  passes[1]?.();
  await vi.waitFor(() => expect(store.state.views['jobs/save-2']).toMatchObject({ outcome: Outcome.PASSED }));
  expect([store.state.attached, asked]).toEqual(['jobs/other', ['verify', 'runExperiment']]);
  save('// 2\n');
  await attached('jobs/save-3');
  // This save is compared with the one that passed.
  expect(store.state.watching?.jobBefore).toBe('jobs/save-2');
});

test('after the watch has stopped, the rest of a version is not started', async () => {
  const { store, asked, passes, attached } = watchSaves();
  await attached('jobs/save-1');
  session?.stopWatchingFolder();
  passes[0]?.();
  await vi.waitFor(() => expect(store.state.views['jobs/save-1']).toMatchObject({ outcome: Outcome.PASSED }));
  // Whatever follows the job's end has happened once the lists are read again.
  await session?.poll();
  expect([store.state.attached, asked]).toEqual(['jobs/save-1', ['verify']]);
});

/** A runner that is lost on demand, and after that answers as another process. */
function losable(events = EVENTS) {
  const runner = fakeRunner({ events });
  const isLost = { value: false };
  const asked: string[] = [];
  const lostError = () => new FlashcoreError('RUNNER_UNREACHABLE', {}, 'No runner at unix:/run.sock: start it again');
  const answered = async <Answer>(question: () => Promise<Answer>): Promise<Answer> => {
    if (isLost.value) throw lostError();
    return question();
  };
  const client: RunnerPort = {
    ...runner,
    listJobs: () => answered(() => runner.listJobs()),
    getHost: () => answered(() => runner.getHost({})),
    listKernels: () => answered(() => runner.listKernels({})),
    listExperiments: () => answered(() => runner.listExperiments({})),
    watch: async function* (job, options) {
      asked.push(`${job} after ${options?.afterSequence}`);
      if (isLost.value) throw lostError();
      yield* runner.watch(job, options);
    },
  };
  return { client, isLost, asked };
}

test('after a lost runner is back, the stream of the shown job continues where it was cut', async () => {
  const { client, isLost, asked } = losable();
  isLost.value = true;
  const store = begin(client, { watchJob: SAMPLE_JOB });
  await vi.waitFor(() => expect(asked).toHaveLength(1));
  isLost.value = false;
  await session?.poll();
  await vi.waitFor(() => expect(store.state.views[SAMPLE_JOB]?.lastSequence).toBe(EVENTS.length));
  expect(asked).toEqual([`${SAMPLE_JOB} after 0`, `${SAMPLE_JOB} after 0`]);
});

test('an embedded runner that was killed is started again, and the screen says so with its new process', async () => {
  const runner = fakeRunner();
  let lost = true;
  const store = new Store({
    state: initialState({
      ...{ columns: 120, rows: 40, now: SAMPLE_START_MS },
      runner: { label: 'embedded (pid 11, /home)', embedded: true },
    }),
  });
  const restarted = Promise.withResolvers<string>();
  const listJobs = async () => {
    if (lost) throw new FlashcoreError('RUNNER_UNREACHABLE', {}, 'No runner at unix:/run.sock: start it again');
    return runner.listJobs();
  };
  session = new Session({ client: { ...runner, listJobs }, store, revive: () => restarted.promise });
  await session.lists.jobs();
  const shown = (): string => messageRows(store.state, 120).map(rowText).join(' ').trim();
  expect(shown()).toBe(
    'Lost embedded (pid 11, /home): starting it again. Jobs that it was running end as interrupted.',
  );
  lost = false;
  restarted.resolve('embedded (pid 12, /home)');
  await vi.waitFor(() => expect(store.state.runner.label).toBe('embedded (pid 12, /home)'));
  await session.lists.jobs();
  expect([store.state.connection, shown()]).toEqual(['connected', '']);
});

test('the message about a restart of the runner goes with the next key, but stays in view 8', () => {
  const at = (seconds: number) => Date.UTC(2026, 10, 30, 20, 39, seconds);
  const store = new Store({
    state: initialState({ runner: { label: 'embedded', embedded: true }, columns: 80, rows: 24, now: at(0) }),
  });
  const host = (processId: number, seconds: number) => ({ processId, startTime: timestampFromMs(at(seconds)) });
  const job = (state: JobState, outcome = Outcome.UNSPECIFIED) =>
    create(JobSchema, { name: SAMPLE_JOB, label: 'k', state, outcome, startTime: timestampFromMs(at(0)) });
  store.dispatch({ type: 'host', host: create(HostSchema, host(11, -60)) });
  store.dispatch({ type: 'jobs', jobs: [job(JobState.RUNNING)] });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  store.dispatch({ type: 'tick', now: at(10) });
  store.dispatch({ type: 'connection', connection: 'reconnecting' });
  store.dispatch({ type: 'tick', now: at(25) });
  const shown = (): string => messageRows(store.state, 120).map(rowText).join(' ').trim();
  expect(shown()).toBe('Lost embedded 15 s ago: starting it again. Jobs that it was running end as interrupted.');
  // The clocks of a job that may have ended stand still.
  expect(clockOf(store.state, store.state.views[SAMPLE_JOB]!)).toBe(at(10));
  store.dispatch({ type: 'jobs', jobs: [job(JobState.ENDED, Outcome.INTERRUPTED)] });
  store.dispatch({ type: 'host', host: create(HostSchema, host(12, 18)) });
  store.dispatch({ type: 'connection', connection: 'connected' });
  store.dispatch({ type: 'tick', now: at(55) });
  const text = 'The runner was restarted at 20:39:18, which interrupted 1 job';
  expect(shown()).toBe(`${text}.`);
  store.dispatch({ type: 'key' });
  expect(shown()).toBe('');
  expect(restartText(store.state)).toBe(text);
});
