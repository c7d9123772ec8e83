/**
 * A submitter tries to become champion unfairly over an admin's champion; every attempt fails. The runner is real, with
 * the emulator and with small gates and cases set by its owner.
 */
import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  DecisionKind,
  Outcome,
  TimingMode,
  type FlashcoreError,
  type JobEvent,
  type JobResult,
  type KernelReference,
  type KernelReferenceSchema,
  RunExperimentRequestSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { initTls } from '../access/certificates.ts';
import { createPlanner } from '../experiment/planner.ts';
import { ownersKernels, collect, temporaryFolder } from '../testing/test-runner.ts';
import { startTokenRunner, type TokenRunner } from '../testing/token-runner.ts';
import { NO_CHAMPION } from '../store/decisions.ts';

type Request = Omit<MessageInitShape<typeof RunExperimentRequestSchema>, '$typeName' | 'kernel'> & {
  kernel?: MessageInitShape<typeof KernelReferenceSchema>;
};

const SMALL = parseShape('1x1x64x64');
const KERNEL = 'fa_v1_baseline';
const QUICK_GATES = `
default: merge
gates:
  - { id: cases, metric: cases_passed, op: "==", target: 1, why: all that was run }
plans:
  merge: { title: Mine, about: all, from: me, cases: quick, metrics: none, gates: { cases: hard } }
`;

const NO_WARNINGS = `
  - { id: warnings, metric: compile_warnings, op: "==", target: 0, why: none is wanted }
`;

/**
 * The requests from the lists below that run to their end: one for each part of a plan, and one for each way to loosen
 * a gate. The others are cancelled as soon as they run.
 */
const RUN_TO_THE_END = new Set([
  'own gates',
  'a plan that accepts nothing',
  'one seed',
  'hot alone',
  'no champion',
  'a champion of choice',
  'another counter set',
  'correctness off',
  'a tenth of the speed is enough',
  'another metric in the place of a gate',
]);

/** Requests that override a part of the plan; each override could let a wrong kernel pass. */
const REQUESTS: readonly (readonly [name: string, request: Request, reason: string])[] = [
  ['own gates', { gatesYaml: QUICK_GATES }, 'client gates'],
  ["the runner's own gates, sent along", { gatesYaml: 'RUNNERS' }, 'client gates'],
  ['a plan that accepts nothing', { plan: 'explore' }, 'plan explore accepts nothing'],
  ['one seed', { verify: { seedCount: 1 } }, '1 of at least 5 seeds a case'],
  ['four seeds', { verify: { seedCount: 4 } }, '4 of at least 5 seeds a case'],
  ['a seed that is known', { verify: { seeds: ['1'] } }, 'seeds given by the request'],
  ['five known seeds', { verify: { seeds: ['1', '2', '3', '4', '5'] } }, 'seeds given by the request'],
  ['one shape to verify', { verify: { shapes: [SMALL] } }, "cases other than the plan's"],
  ['another case set', { verify: { caseSet: 'quick' } }, "cases other than the plan's"],
  ['only the probes', { verify: { caseSet: 'probes' } }, "cases other than the plan's"],
  ['the loose tolerance', { verify: { tolerance: { profile: 'default' } } }, 'tolerance looser than parity'],
  ['an absolute bound', { verify: { tolerance: { profile: 'parity', absolute: 9 } } }, 'tolerance looser than parity'],
  ['a relative bound', { verify: { tolerance: { profile: 'parity', relative: 9 } } }, 'tolerance looser than parity'],
  [
    'a shape to measure',
    { benchmark: { shapes: [parseShape('1x1x32x64')] } },
    "benchmark shapes other than the plan's",
  ],
  ['a further shape to measure', { benchmark: { shapes: [SMALL, parseShape('1x1x32x64')] } }, 'benchmark shapes'],
  ['another shape set', { benchmark: { shapeSet: 'quick' } }, "benchmark shapes other than the plan's"],
  ['hot alone', { benchmark: { protocol: { modes: [TimingMode.HOT] } } }, "timing modes other than the plan's"],
  ['cold alone', { benchmark: { protocol: { modes: [TimingMode.COLD] } } }, "timing modes other than the plan's"],
  ['one sample', { benchmark: { protocol: { minSamples: 1, maxSamples: 1 } } }, 'limits the number of samples'],
  [
    'a limit on the number of samples',
    { benchmark: { protocol: { maxSamples: 150 } } },
    'limits the number of samples',
  ],
  ['little time', { benchmark: { protocol: { maxSeconds: 0.05 } } }, 'limits the time of sampling'],
  ['a wide interval', { benchmark: { protocol: { targetRelativeHalfWidth: 1 } } }, 'limits the width of the interval'],
  ['one backend of SDPA', { benchmark: { sdpaBackends: ['math'] } }, "SDPA backends other than the plan's"],
  ['no champion', { noChampion: true }, 'the request left the champion out'],
  [
    'a champion of choice',
    { benchmark: { champion: { kernel: idOf('fa_v2_wmma') } } },
    'champion named by the request',
  ],
  ['another counter set', { profile: { metricSet: 'none' } }, "profile other than the plan's"],
  ['another shape to profile', { profile: { shape: parseShape('1x1x32x64') } }, "profile other than the plan's"],
];

/**
 * Settings of a request that cannot make a wrong kernel pass: they name the candidate, describe the job, or add
 * measurements.
 */
const HARMLESS = [
  // Times kernels of other projects too. The verdict does not use these times.
  'benchmark.rivals',
  ...['options', 'kernel', 'variant', 'noFallback', 'heldOut'],
  ...['verify.sanitize', 'profile.counters', 'benchmark.legacyLoop'],
  // Refused unless it equals the kernel's own dtype.
  'benchmark.dtype',
  // Refused if a client sends it; see "by a request that claims to be ranked".
  'assigned',
];

/**
 * Paths of a request's settings, such as "verify.tolerance.absolute". Phases, the tolerance and the protocol are listed
 * by their fields.
 */
function settingsIn(desc: DescMessage, above = ''): string[] {
  return desc.fields.flatMap(({ localName, fieldKind, message }) => {
    const path = `${above}${localName}`;
    const isGroup = /^(verify|benchmark|profile|verify\.tolerance|benchmark\.protocol)$/.test(path);
    return isGroup && fieldKind === 'message' ? settingsIn(message, `${path}.`) : [path];
  });
}

test('every setting of a run is tried in an attempt below or listed as harmless', () => {
  const all = settingsIn(RunExperimentRequestSchema);
  const tried = all.filter((path) => REQUESTS.some(([, request]) => valueAt(request, path.split('.')) !== undefined));
  expect(all).toContain('verify.tolerance.absolute');
  expect([...tried, ...HARMLESS].toSorted()).toEqual(all.toSorted());
});

function valueAt(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return value;
  return typeof value === 'object' && value !== null ? valueAt(Reflect.get(value, key), rest) : undefined;
}

/** Attempts to loosen gates in the kernel's own manifest. */
const OWN_GATES: readonly (readonly [name: string, gates: string])[] = [
  ['correctness off', '{ id: correctness, level: "off", why: mine }'],
  ['correctness shown only', '{ id: correctness, level: warn, why: mine }'],
  ['half of the cases are enough', '{ id: correctness, level: hard, op: ">=", target: 0.5, why: mine }'],
  ['no champion to beat', '{ id: regression, level: "off", why: mine }'],
  ['a tenth of the speed is enough', '{ id: regression, target: 0.1, why: mine }'],
  ['no champion to beat in merge', '{ id: regression, level: warn, plans: [merge], why: mine }'],
  [
    'another metric in the place of a gate',
    '{ id: regression, metric: registers_per_thread, op: "<=", target: 255, why: mine }',
  ],
  ['undocumented', '{ id: documented, level: warn, why: mine }'],
];

function idOf(kernelId: string): { source: { case: 'kernelId'; value: string } } {
  return { source: { case: 'kernelId', value: kernelId } };
}

// A runner whose clients authenticate does not start without a sandbox.
describe.skipIf(missing('openssl') || missing('bubblewrap'))('nobody becomes champion unfairly', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let runner: TokenRunner;
  let submitter: RunnerClient;
  let other: RunnerClient;
  let admin: RunnerClient;
  let champion: string;
  let gatesYaml: string;

  beforeAll(async () => {
    folder = temporaryFolder();
    const tls = join(folder.path, 'tls');
    initTls(tls, []);
    const kernelsDirectory = ownersKernels(folder.path);
    gatesYaml = readFileSync(join(kernelsDirectory, 'gates.yaml'), 'utf8');
    const quotas = { jobs: 64, callsPerSecond: 1000, uploadMibPerHour: 256, deviceHoursPerDay: 24 };
    runner = await startTokenRunner(tls, { createPlanner, kernelsDirectory, quotas });
    [submitter, other, admin] = (await Promise.all(['submitter', 'other', 'admin'].map(runner.as))) as [
      RunnerClient,
      RunnerClient,
      RunnerClient,
    ];
    const { job, result } = await experiment(admin, {});
    expect(result.ranking).toMatchObject({ ranked: true, reasons: [] });
    expect(result.acceptability).toMatchObject({ possible: true, over: NO_CHAMPION });
    await admin.accept({ job, over: NO_CHAMPION });
    champion = job;
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  async function experiment(
    client: RunnerClient,
    request: Request,
  ): Promise<{ job: string; result: JobResult; outcome: Outcome }> {
    const events = await collect(client.start('runExperiment', { kernel: idOf(KERNEL), ...request }));
    return ended(client, events[0]!.job);
  }

  /**
   * An experiment that is cancelled as soon as its gates are announced. Its result already says why the run is not
   * ranked.
   */
  async function cancelled(client: RunnerClient, request: Request): ReturnType<typeof experiment> {
    let name = '';
    for await (const { job, payload } of client.start('runExperiment', { kernel: idOf(KERNEL), ...request })) {
      name = job;
      if (payload.case === 'gatePlan') await client.cancelJob({ name });
    }
    return ended(client, name);
  }

  async function ended(client: RunnerClient, name: string): ReturnType<typeof experiment> {
    const { job, result } = await client.getJob({ name });
    return { job: job!.name, result: result!, outcome: job!.outcome };
  }

  /** A kernel folder with changed files, as a client uploads it. */
  function uploaded(
    client: RunnerClient,
    change: (files: Record<string, string>) => void,
    from = KERNEL,
  ): Promise<KernelReference> {
    const source = join(folder.path, 'kernels', from);
    const copy = join(folder.path, `copy-${crypto.randomUUID()}`);
    cpSync(source, copy, { recursive: true });
    const files = Object.fromEntries(readdirSync(copy).map((name) => [name, readFileSync(join(copy, name), 'utf8')]));
    change(files);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(copy, name), text);
    return client.uploadFolder(copy);
  }

  const renamed = (id: string, remark: string): Promise<KernelReference> =>
    uploaded(submitter, (files) => {
      files['kernel.yaml'] = edited(files['kernel.yaml']!, /^id: .*$/m, `id: ${id}`);
      files[`${KERNEL}.cu`] = `// ${remark}\n${files[`${KERNEL}.cu`]!}`;
    });

  const expectDenied = (client: RunnerClient, job: string, over = champion): Promise<void> =>
    expect(client.accept({ job, over })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });

  /** Tries to accept the job over each champion that a submitter can name, and returns the refusals. */
  async function tryToAccept(
    client: RunnerClient,
    job: string,
    named: readonly string[] = [],
  ): Promise<FlashcoreError[]> {
    const refusals: FlashcoreError[] = [];
    for (const over of new Set([NO_CHAMPION, champion, job, ...named].filter((each) => each !== '')))
      refusals.push(
        await client.accept({ job, over }).then(
          ({ champion: made }) => expect.fail(`${made!.job} became champion over ${over}`),
          (error: unknown) => error as FlashcoreError,
        ),
      );
    return refusals;
  }

  async function expectSameChampion(): Promise<void> {
    const { champions } = await admin.listChampions();
    expect(champions.map(({ job, decision }) => [job, decision!.client])).toEqual([[champion, 'admin']]);
  }

  test.each(inFull(REQUESTS, ([name]) => ['own gates', 'one seed', 'no champion', 'hot alone'].includes(name)))(
    'by a request with %s',
    { timeout: 60_000 },
    async (name, request, reason) => {
      const tried = RUN_TO_THE_END.has(name) ? experiment : cancelled;
      const { job, result } = await tried(submitter, request.gatesYaml === 'RUNNERS' ? { gatesYaml } : request);
      expect(result.ranking!.ranked).toBe(false);
      expect(result.ranking!.reasons.join('; ')).toContain(reason);
      const refusals = await tryToAccept(submitter, job, [result.acceptability?.over ?? '']);
      for (const { reason: code } of refusals) expect(code).toBe('NOT_ACCEPTABLE');
      await expectSameChampion();
      if (!RUN_TO_THE_END.has(name)) return;
      const { experiments } = await submitter.listExperiments({ pageSize: 1 });
      expect(experiments[0]!.ranking!.reasons).toEqual(result.ranking!.reasons);
      expect(experiments[0]!.job!.summary).toContain('not ranked: ');
    },
  );

  test.each(inFull(OWN_GATES, ([name]) => name === 'correctness off' || name === 'a tenth of the speed is enough'))(
    "by gates in the kernel's own manifest: %s",
    { timeout: 60_000 },
    async (name, gate) => {
      const kernel = await uploaded(submitter, (files) => {
        files['kernel.yaml'] = edited(files['kernel.yaml']!, /^gates:\n/m, `gates:\n  - ${gate}\n`);
      });
      const tried = RUN_TO_THE_END.has(name) ? experiment : cancelled;
      const { job, result } = await tried(submitter, { kernel });
      expect(result.ranking!.reasons).toEqual([expect.stringMatching(/^the kernel's own gates loosen /)]);
      await tryToAccept(submitter, job, [result.acceptability?.over ?? '']);
      await expectSameChampion();
    },
  );

  test("stricter or new gates in the kernel's own manifest leave the run ranked", { timeout: 60_000 }, async () => {
    const kernel = await uploaded(submitter, (files) => {
      files['kernel.yaml'] = edited(
        files['kernel.yaml']!,
        /^gates:\n/m,
        'gates:\n  - { id: regression, target: 1, why: at least as fast }\n  - { id: warnings, metric: compile_warnings, op: "==", target: 0, level: hard, why: none is wanted }\n',
      );
    });
    const { result } = await experiment(submitter, { kernel });
    expect(result.ranking).toMatchObject({ ranked: true, reasons: [] });
  });

  test.each([
    ['wrong on one of the cases', 'int diagonal) {', 'int diagonal) {\n  if (gridDim.y == 4) S /= 2;'],
    ['that leaves small values out', '', ''],
  ])('by a ranked run of a kernel %s', { timeout: 60_000 }, async (_, before, after) => {
    const kernel =
      before === ''
        ? await uploaded(submitter, () => undefined, join('cheating', 'small_values'))
        : await uploaded(submitter, (files) => {
            files[`${KERNEL}.cu`] = edited(files[`${KERNEL}.cu`]!, before, after);
          });
    const { job, result, outcome } = await experiment(submitter, { kernel });
    expect(Outcome[outcome]).not.toBe('PASSED');
    await tryToAccept(submitter, job, [result.acceptability!.over]);
    await expectSameChampion();
  });

  test("by the same build, by a copy of the sources, or over an admin's champion", { timeout: 60_000 }, async () => {
    const same = await experiment(submitter, {});
    expect(same.result.acceptability).toMatchObject({ possible: true, over: champion });
    const copy = await experiment(submitter, {
      kernel: await uploaded(submitter, (files) => {
        files[`${KERNEL}.cu`] = `// mine\n${files[`${KERNEL}.cu`]!}`;
      }),
    });
    for (const { job } of [same, copy]) {
      const refusals = await tryToAccept(submitter, job);
      expect(refusals.map(({ reason }) => reason)).toContain('PERMISSION_DENIED');
    }
    await expect(admin.accept({ job: same.job, over: champion })).rejects.toThrow('is the same build');
    await expectSameChampion();
  });

  test("by changing an admin's decision", { timeout: 60_000 }, async () => {
    const { job } = await experiment(submitter, {
      kernel: await uploaded(submitter, (files) => {
        files[`${KERNEL}.cu`] = `// an improvement\n${files[`${KERNEL}.cu`]!}`;
      }),
    });
    for (const each of [submitter, other])
      for (const decide of ['undo', 'reject'] as const)
        await expect(each[decide]({ job: champion })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    await expect(other.accept({ job, over: champion })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    // The admin accepts the submitter's result, then undoes the acceptance.
    await admin.accept({ job, over: champion });
    for (const decide of ['undo', 'reject'] as const)
      await expect(submitter[decide]({ job })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    await admin.undo({ job });
    await expectDenied(submitter, job);
    await admin.reject({ job });
    await expect(submitter.undo({ job })).rejects.toMatchObject({ reason: 'PERMISSION_DENIED' });
    await expectDenied(submitter, job);
    await expectSameChampion();
    // The new kernel id has no champion yet, so the submitter replaces no champion of an admin.
    const mine = await experiment(submitter, { kernel: await renamed('rejected_attention', 'mine') });
    const { over } = mine.result.acceptability!;
    await submitter.accept({ job: mine.job, over });
    await admin.undo({ job: mine.job });
    await expectDenied(submitter, mine.job, over);
    await admin.reject({ job: mine.job });
    await expectDenied(submitter, mine.job, over);
    await expectSameChampion();
  });

  test("by a result from before the runner's owner made a gate stricter", { timeout: 60_000 }, async () => {
    const { job, result } = await experiment(submitter, { kernel: await renamed('earlier_attention', 'mine') });
    const { over } = result.acceptability!;
    const file = join(folder.path, 'kernels', 'gates.yaml');
    writeFileSync(file, edited(gatesYaml, /^gates:\n/m, `gates:\n${NO_WARNINGS}`));
    for (const client of [submitter, admin])
      await expect(client.accept({ job, over })).rejects.toMatchObject({
        reason: 'NOT_ACCEPTABLE',
        message: expect.stringMatching(
          /judged by earlier rules.* run it again: fa-tui run [0-9a-f]{64} --plan merge$/,
        ) as string,
      });
    await expectSameChampion();
    writeFileSync(file, gatesYaml);
    await submitter.accept({ job, over });
    await admin.undo({ job });
    await expectSameChampion();
  });

  test("by an upload of the champion's sources with a manifest that slows it down", { timeout: 60_000 }, async () => {
    const buildOf = async (job: string) => (await admin.getJob({ name: job })).result!.variants[0]!.build!.buildId;
    const build = await buildOf(champion);
    const before = await admin.getKernel({ buildId: build });
    const slower = await uploaded(submitter, (files) => {
      files['kernel.yaml'] = edited(files['kernel.yaml']!, '"B * H", 1]', '"B * H", 9]');
      files['NOTES.md'] = 'It is slow.\n';
    });
    const [{ job }] = (await collect(submitter.start('build', { kernel: slower }))) as [JobEvent];
    expect(await buildOf(job)).not.toBe(build);
    expect(await admin.getKernel({ buildId: build })).toEqual(before);
  });

  test('by jobs that are not experiments', { timeout: 60_000 }, async () => {
    const kernel = idOf(KERNEL);
    const jobs = [
      submitter.start('verify', { kernel }),
      submitter.start('benchmark', { kernel, settings: { shapes: [SMALL] } }),
      submitter.start('tune', { kernel: idOf('fa_v2_wmma'), shapes: [SMALL], maxTrials: 2, seed: 1 }),
      submitter.start('build', { kernel }),
    ];
    for (const stream of jobs) await tryToAccept(submitter, (await collect(stream))[0]!.job);
    await expectSameChampion();
  });

  test('by a request that claims to be ranked', async () => {
    await expect(
      experiment(submitter, {
        verify: { seedCount: 1 },
        assigned: { ranking: { ranked: true }, championJob: champion },
      }),
    ).rejects.toMatchObject({ reason: 'INVALID_REQUEST', violations: [{ field: 'assigned' }] });
    await expectSameChampion();
  });

  test('by a stale comparison, by parallel accepts, or under another name', { timeout: 120_000 }, async () => {
    // Anyone may use a new name. The build is compared with the device's best champion, but becomes champion of its own
    // name only.
    const mine = await experiment(submitter, { kernel: await renamed('my_attention', 'first') });
    const stale = await experiment(submitter, { kernel: await renamed('my_attention', 'second') });
    expect(mine.result.acceptability).toMatchObject({ possible: true, over: champion });
    const answers = await Promise.allSettled(
      [mine, stale, mine, stale].map(({ job }) => submitter.accept({ job, over: champion })),
    );
    expect(answers.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const { champions, decisions } = await admin.listChampions({ includeDecisions: true });
    expect(champions.map(({ kernelId }) => kernelId).toSorted()).toEqual([KERNEL, 'my_attention']);
    const [made] = decisions;
    expect(made).toMatchObject({
      kind: DecisionKind.ACCEPTED,
      client: 'submitter',
      role: 'submitter',
      evidence: {
        plan: 'merge',
        gatesDigest: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
        rulesDigest: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
        cases: expect.stringContaining('2 of 2') as string,
        over: champion,
        owner: 'submitter',
      },
    });
    expect(made!.evidence!.seeds.length).toBeGreaterThanOrEqual(5);
    // Another submitter's equally fast result does not replace it.
    const equal = await experiment(other, {
      kernel: await uploaded(other, (files) => {
        files['kernel.yaml'] = edited(files['kernel.yaml']!, /^id: .*$/m, 'id: my_attention');
        files[`${KERNEL}.cu`] = `// third\n${files[`${KERNEL}.cu`]!}`;
      }),
    });
    await expect(other.accept({ job: equal.job, over: equal.result.acceptability!.over })).rejects.toThrow(
      'is not shown to be faster',
    );
    await admin.undo({ job: made!.job });
    await expectSameChampion();
  });
});
