/** Tests the pages of `fa-tui report` with results measured on an H200 and with hostile ones. */
import { create } from '@bufbuild/protobuf';
import { timestampFromDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  DecisionKind,
  DecisionSchema,
  FindingSchema,
  GetJobResponseSchema,
  HistogramSchema,
  JobKind,
  JobState,
  KernelSchema,
  Outcome,
  ProfileResultSchema,
  TimingMode,
  Verdict,
  type GetJobResponse,
} from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, onTestFinished, test } from 'vitest';
import type { Block } from '../present/blocks.ts';
import { markdownOf } from '../present/plain/markdown-painter.ts';
import { piece } from '../present/roles.ts';
import { drawingRows } from '../present/cells/cells-painter.ts';
import { rowWidth } from '../present/cells/row.ts';
import { jobPlots } from '../present/plots/job-plots.ts';
import { plotSvg } from '../present/svg/plot-svg.ts';
import { summaryOf } from '../search/search-report.ts';
import { SearchStore } from '../search/search-store.ts';
import { finalReport } from './final-report.ts';
import { PAGE_WRITERS } from './writers.ts';
import { totalCost } from './job-facts.ts';
import { kernelReport } from './kernel-report.ts';
import { labLog } from './lab-log.ts';
import { searchReport } from './search-page.ts';
import { FileSource, RunnerSource } from './sources.ts';

const LADDER = measuredFolder('h200-2026-11-21');
const SEARCH = path.join(measuredFolder('h200-search-2026-11-22'), 'searches/2026-11-22-639e68bb');
const decided = (name: string): string => path.join(measuredFolder('h200-decide-2026-11-22'), `decide.${name}.json`);

const compared = new FileSource(['faster', 'itself', 'slower'].map(decided)).jobs;
const named = (index: number): string => compared[index]!.job!.name;
const at = (text: string) => timestampFromDate(new Date(text));
const decisions = [
  create(DecisionSchema, {
    number: 2n,
    kind: DecisionKind.REJECTED,
    job: named(2),
    client: 'eva',
    time: at('2026-11-22T11:00:00Z'),
    note: 'slower, as it should be',
  }),
  create(DecisionSchema, {
    number: 1n,
    kind: DecisionKind.NOTED,
    job: named(0),
    client: 'ada',
    time: at('2026-11-22T10:50:00Z'),
    note: 'clusters share the loads of K and V',
  }),
];

test("the lab log has each job's hypothesis, changes, figures before and after, decision and cost", async () => {
  const page = PAGE_WRITERS.markdown(labLog({ jobs: compared, decisions, remarks: [] }));
  await expect(page).toMatchFileSnapshot('goldens/lab-log.txt');
  expect(page).toContain('hypothesis: clusters share the loads of K and V (ada)');
  expect(page).toMatch(/decision: rejected by eva, .*: slower, as it should be/);
});

test('the lab log begins with counts and with what did not pass, the newest first', () => {
  const raced = structuredClone(compared[1]!);
  Object.assign(raced.job!, { outcome: Outcome.WRONG_RESULT, summary: 'RACE: two threads, one byte' });
  const page = PAGE_WRITERS.markdown(labLog({ jobs: [...compared, raced], decisions: [], remarks: [] }));
  expect(page).toMatch(/^# Lab log\n\n4 jobs: 2 passed, 1 failed, 1 race; /);
  const [, failures = ''] = /## What did not pass\n([^]*)\n## What was tried/.exec(page) ?? [];
  expect(failures.match(/^\| \w{8} \|.*$/gm)?.map((row) => row.split(' | ').slice(3).join(' | '))).toEqual([
    'race | two threads, one byte |',
    expect.stringMatching(/^failed \| .*rejected by regression/),
  ]);
});

test("the lab log has a finding's remedy, which says what is wrong", () => {
  const wrong = structuredClone(compared[1]!);
  wrong.result!.variants[0]!.findings.push(
    create(FindingSchema, { message: '1x1x64x64: 12 wrong', remedy: 'The kernel treats only key 77 wrongly' }),
  );
  const page = PAGE_WRITERS.markdown(labLog({ jobs: [wrong], decisions: [], remarks: [] }));
  expect(page).toMatch(/finding: 1x1x64x64: 12 wrong The kernel treats only key 77 wrongly/);
});

test('the lab log gives the same advice once, for all of its kernels', () => {
  const advised = ['a', 'b'].map((kernelId) => {
    const job = structuredClone(compared[0]!);
    Object.assign(job.job!, { kernelId, label: kernelId, name: `jobs/${kernelId.repeat(8)}` });
    job.result!.variants[0]!.profile = create(ProfileResultSchema, {
      advice: [{ text: 'Launch more CTAs', evidence: `${kernelId} waits` }],
    });
    return job;
  });
  const page = PAGE_WRITERS.markdown(labLog({ jobs: advised, decisions: [], remarks: [] }));
  expect(page.match(/Launch more CTAs/g)?.length).toBe(1);
  expect(page).toContain('| Launch more CTAs | a (aaaaaaaa), b (bbbbbbbb) | a waits; b waits |');
});

test("the lab log's figures come from the comparison in the job, and its data names every job", () => {
  const data = JSON.parse(PAGE_WRITERS.json(labLog({ jobs: compared, decisions, remarks: [] }))) as {
    entries: { job: string; steps: { job: string; before_us: number; after_us: number; ratio: { ratio: number } }[] }[];
  };
  const [shape] = compared[0]!.result!.variants[0]!.comparison!.shapes;
  expect(data.entries[0]!.steps[0]).toMatchObject({
    job: named(0),
    before_us: shape!.champion!.p50Us,
    after_us: shape!.candidate!.p50Us,
    ratio: { ratio: shape!.time!.ratio },
  });
  expect(data.entries.map(({ job }) => job)).toEqual(compared.map(({ job }) => job!.name));
});

test('figures of two jobs have no ratio, and share a row only if device, shape, mode and protocol are the same', () => {
  const run = new FileSource([path.join(LADDER, 'run.flashcore_v11.json')]).jobs[0]!;
  const again = structuredClone(run);
  again.job!.name = 'jobs/again';
  const elsewhere = structuredClone(run);
  elsewhere.job!.name = 'jobs/elsewhere';
  elsewhere.result!.provenance!.device!.name = 'NVIDIA L4';
  const { entries } = labLog({ jobs: [run, again, elsewhere], decisions: [], remarks: [] }).data as {
    entries: { steps: { before_us: number | null; ratio: unknown; mode: string }[] }[];
  };
  const hot = run.result!.variants[0]!.benchmarks.find(({ mode }) => mode === TimingMode.HOT)!;
  expect(entries.map(({ steps }) => steps[0]!.before_us)).toEqual([null, hot.latency!.p50Us, null]);
  expect(entries.flatMap(({ steps }) => steps.map(({ ratio }) => ratio))).toEqual(
    entries.flatMap(({ steps }) => steps.map(() => null)),
  );
});

test('the final report has the success criteria and verdicts of jobs judged by the plan final', async () => {
  const { jobs } = new FileSource([decided('flashcore_v11.final')]);
  const page = PAGE_WRITERS.markdown(finalReport(jobs));
  await expect(page).toMatchFileSnapshot('goldens/final.txt');
  const gate = jobs[0]!.result!.variants[0]!.gates.find(
    ({ level, verdict }) => level !== 'off' && verdict === Verdict.PASS,
  )!;
  expect(page).toContain(gate.title);
  expect(PAGE_WRITERS.markdown(finalReport(compared))).toContain('None of these jobs was judged by the plan final');
});

test("the final report compares the notes' claims with measurements, and judges only measurements on the device of the claim", () => {
  const [elsewhere] = new FileSource([decided('flashcore_v10.merge')]).jobs as [GetJobResponse];
  const there = structuredClone(elsewhere);
  const [goal, range] = there.result!.expectations;
  Object.assign(goal!, { measuredOn: 'NVIDIA L4' });
  Object.assign(range!, { measuredOn: 'NVIDIA L4', measured: 27 });
  const unmeasured = structuredClone(elsewhere);
  for (const each of unmeasured.result!.expectations) each.measured = undefined;
  const judged = (jobs: readonly GetJobResponse[]) => {
    const page = PAGE_WRITERS.markdown(finalReport(jobs));
    const [, chapter = ''] = page.split('## What notes said');
    return chapter
      .split('\n## ')[0]!
      .split('\n')
      .filter((line) => line.startsWith('| flash'))
      .map((line) => line.split(' | ')[6]);
  };
  expect(judged([elsewhere])).toEqual(['not judged: another device', 'not judged: another device']);
  expect(judged([unmeasured, there])).toEqual(['met', 'missed: 1.50 times']);
  expect(judged([unmeasured])).toEqual(['not measured', 'not measured']);
  expect(judged(new FileSource([path.join(LADDER, 'run.flashcore_v11.json')]).jobs)).toEqual([]);
});

test("a kernel’s page has its best figure for each device, with the figure's job", async () => {
  const { jobs } = new FileSource([path.join(LADDER, 'run.flashcore_v11.json'), decided('flashcore_v11.merge')]);
  const report = kernelReport({
    kernelId: 'flashcore_v11',
    kernel: undefined,
    jobs,
    champions: [],
    decisions: [],
    remarks: [],
  });
  await expect(PAGE_WRITERS.markdown(report)).toMatchFileSnapshot('goldens/kernel.txt');
  const { best } = report.data as {
    best: { figures: { p50_us: number; shape: string; mode: string; job: string }[] }[];
  };
  const all = jobs.flatMap(({ job, result }) =>
    result!.variants.flatMap(({ benchmarks }) =>
      benchmarks
        .filter(({ mode }) => mode === TimingMode.HOT)
        .map(({ latency }) => ({ us: latency!.p50Us, job: job!.name })),
    ),
  );
  const least = all.toSorted((a, b) => a.us - b.us)[0]!;
  expect(best[0]!.figures.find(({ mode, shape }) => mode === 'hot' && shape === '2x8x512x64')).toMatchObject({
    p50_us: least.us,
    job: least.job,
  });
});

test('a kernel timed only on the emulator has no best figure, and its page says so', () => {
  const [job] = new FileSource([path.join(LADDER, 'run.flashcore_v11.json')]).jobs;
  const simulated = structuredClone(job!);
  for (const { benchmarks } of simulated.result!.variants)
    for (const each of benchmarks) Object.assign(each, { simulated: true, valid: false });
  const input = { kernel: undefined, champions: [], decisions: [], remarks: [] };
  const report = kernelReport({ kernelId: 'flashcore_v11', jobs: [simulated], ...input });
  expect(PAGE_WRITERS.markdown(report)).toContain('The emulator’s times judge nothing: none is a best.');
  expect(report.data).toMatchObject({ best: [{ simulated: true, figures: [] }] });
});

test('a search’s page has every trial and a picture of its race', async () => {
  const store = SearchStore.openFolder(SEARCH);
  const summary = summaryOf(store.plan, store.trials());
  const report = searchReport(summary);
  await expect(PAGE_WRITERS.markdown(report)).toMatchFileSnapshot('goldens/search.txt');
  const html = PAGE_WRITERS.html(report);
  expect(html.match(/<title>trial \d+: /g)).toHaveLength(
    summary.lineage.filter(({ score, status }) => score > 0 && ['root', 'accepted', 'valid'].includes(status)).length,
  );
});

test('correct trials of a search are listed with their intervals, if the intervals are known', () => {
  const store = SearchStore.openFolder(SEARCH);
  const trials = store.trials().map((trial) => {
    const { evaluation } = trial;
    if (trial.trial !== 9 || evaluation === undefined) return trial;
    const metrics = { ...evaluation.metrics, median_low_us: 7.461, median_high_us: 7.474 };
    return { ...trial, evaluation: { ...evaluation, metrics } };
  });
  const page = PAGE_WRITERS.markdown(searchReport(summaryOf(store.plan, trials)));
  expect(page).toMatch(/\| p50 \| 95 % interval \| registers/);
  expect(page).toContain('| 7.467 us | 7.461 us to 7.474 us |');
});

const HOSTILE = '</title><script>alert(1)</script>"\'| `x` \u001b[31m\u202e ]]> -->';

function hostileJob(): GetJobResponse {
  const histogram = create(HistogramSchema, { lowUs: 1, binWidthUs: 1, counts: [1, 4, 9] });
  const latency = { samples: 100, p50Us: 2, p90Us: 3, p50LowUs: 2, p50HighUs: 2, minUs: 1, maxUs: 4 };
  return create(GetJobResponseSchema, {
    job: {
      name: 'jobs/0000',
      kernelId: HOSTILE,
      label: HOSTILE,
      summary: HOSTILE,
      state: JobState.ENDED,
      labels: { thought: HOSTILE },
    },
    result: {
      provenance: { device: { name: HOSTILE }, protocol: HOSTILE },
      plan: { name: 'final' },
      variants: [
        {
          label: HOSTILE,
          benchmarks: [
            {
              shape: { batch: 1, heads: 1, sequenceLength: 16, headDim: 64 },
              mode: TimingMode.HOT,
              latency,
              histogram,
              sdpa: [{ name: HOSTILE, version: HOSTILE, latency, histogram }],
              invalidReason: HOSTILE,
            },
          ],
          verify: {
            cases: [
              {
                verdict: Verdict.FAIL,
                reason: HOSTILE,
                errorMap: {
                  rows: 1,
                  columns: 2,
                  blockRows: 16,
                  blockColumns: 32,
                  maxAbsError: [0.5, NaN],
                },
              },
            ],
          },
          profile: { stalls: [{ name: HOSTILE, value: 1 }], advice: [{ text: HOSTILE, evidence: HOSTILE }] },
          gates: [
            { gateId: HOSTILE, title: HOSTILE, level: 'hard', verdict: Verdict.FAIL, detail: HOSTILE, unit: HOSTILE },
          ],
          findings: [{ message: HOSTILE, remedy: HOSTILE }],
        },
      ],
    },
  });
}

const hostileNote = create(DecisionSchema, {
  kind: DecisionKind.NOTED,
  job: 'jobs/0000',
  client: HOSTILE,
  note: HOSTILE,
});

test('a lab log without jobs says so', () => {
  expect(PAGE_WRITERS.markdown(labLog({ jobs: [], decisions: [], remarks: [] }))).toBe(
    '# Lab log\n\nNo job to report: builds that passed are left out.\n',
  );
});

test.each([
  ['final', () => finalReport([hostileJob()])],
  ['lab-log', () => labLog({ jobs: [hostileJob()], decisions: [hostileNote], remarks: [] })],
  [
    'kernel',
    () =>
      kernelReport({
        kernelId: HOSTILE,
        kernel: create(KernelSchema, {
          title: HOSTILE,
          lesson: HOSTILE,
          notes: HOSTILE,
          limits: [{ require: HOSTILE, because: HOSTILE }],
        }),
        jobs: [hostileJob()],
        champions: [],
        decisions: [hostileNote],
        remarks: [],
      }),
  ],
] as const)('hostile titles, notes and names are not interpreted in the page %s', (_, make) => {
  const report = make();
  const html = PAGE_WRITERS.html(report);
  // The tags are only those of the page's own markup, and none is left open by a foreign text.
  expect(html.match(/<\/?([a-zA-Z!][\w-]*)/g)!.filter((tag) => !OWN_TAGS.test(tag))).toEqual([]);
  expect(html).not.toMatch(/<script|[\u001b\u202e]/);
  expect(html.match(/<title>/g)!.length).toBe(html.match(/<\/title>/g)!.length);
  // Markdown interprets nothing between fences.
  const markdown = PAGE_WRITERS.markdown(report).replaceAll(/^(`{3,})\n[^]*?\n\1$/gm, '');
  expect(markdown).not.toMatch(/[^\\]<|[\u001b\u202e]/);
  expect(
    markdown
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .map(cellsIn),
  ).toSatisfy(sameWithinTables(markdown));
  for (const plot of report.plots) expect(plotSvg(plot)).not.toMatch(/<script|[\u001b\u202e]/);
});

const OWN_TAGS =
  /^<\/?(!doctype|html|head|meta|title|style|body|h[123]|span|dl|dt|dd|p|strong|div|table|thead|tbody|tr|th|td|figure|svg|rect|text|polyline|circle|pre)$/;

const cellsIn = (row: string): number => row.replaceAll(/\\./g, '').split('|').length;

/** A row with more cells than its table's head would mean that foreign text became markup. */
const sameWithinTables = (markdown: string) => (): boolean =>
  markdown.split(/\n{2,}/).every((paragraph) => {
    const rows = paragraph.split('\n').filter((line) => line.startsWith('| '));
    return new Set(rows.map(cellsIn)).size <= 1;
  });

test('every plot for which a job has data can be drawn, and its caption names the job', () => {
  const jobs = [...compared, hostileJob(), ...new FileSource([path.join(LADDER, 'profile.flashcore_v10.json')]).jobs];
  const plots = jobs.flatMap(jobPlots);
  expect(new Set(plots.map(({ drawing }) => drawing.type))).toEqual(
    new Set(['histogram', 'ecdf', 'mirrored', 'roofline', 'bars', 'heat']),
  );
  for (const plot of plots) {
    const svg = plotSvg(plot);
    expect(svg).toMatch(/^<svg [^>]*>[^]*<\/svg>$/);
    expect(svg).not.toMatch(/NaN(?!\b<)|Infinity/);
    expect(plot.caption).toMatch(/job [0-9a-f]{4,8}$/);
    const rows = drawingRows(plot.drawing, { width: 72, height: 9 });
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.filter((row) => rowWidth(row) > 72)).toEqual([]);
  }
});

test('text read from files can neither control a terminal nor mislead a reader', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'flashcore-report-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const job = { name: 'jobs/1', state: 'JOB_STATE_ENDED', label: 'mine\u001b[2J\u202e\u{e0069}' };
  writeFileSync(path.join(folder, 'job.json'), JSON.stringify({ job, result: {} }));
  expect(new FileSource([folder]).jobs.map((each) => each.job?.label)).toEqual(['mine']);
});

test('a file without results is refused if it is named, and skipped if it is in a named folder', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'flashcore-report-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const other = path.join(folder, 'other.json');
  writeFileSync(other, '{"a":1}');
  expect(() => new FileSource([other])).toThrow(`${other}: must be what --json prints`);
  expect(() => new FileSource([folder])).toThrow("there is no ended job's JSON");
  expect(() => new FileSource([path.join(folder, 'none.json')])).toThrow('cannot be read (ENOENT)');
});

test('a page shows NOTES.md unchanged, and nothing in the text can end its fence', () => {
  const notes =
    '# Why\n\n- `D == 64 || D == 128`\n- a_b * c\n\n```cuda\nif (a < b) {}\n```\n\n````\n<b>@ada</b>\n````\n';
  const kernel = create(KernelSchema, { title: 'mine', notes });
  const page = kernelReport({ kernelId: 'mine', kernel, jobs: [], champions: [], decisions: [], remarks: [] });
  expect(PAGE_WRITERS.markdown(page).split('## NOTES.md\n\n')[1]).toBe(`\`\`\`\`\`\n${notes}\`\`\`\`\`\n`);
  expect(PAGE_WRITERS.html(page)).toContain('<pre># Why\n\n- `D == 64 || D == 128`\n- a_b * c\n');
});

test('rows with the same note share one bullet', () => {
  const rows = ['cold', 'hot', 'cold'].map((mode) => ({
    cells: [piece('mine'), piece(mode)],
    note: piece('SDPA: no PyTorch'),
  }));
  const table: Block = { kind: 'table', columns: [{ title: 'kernel' }, { title: 'mode' }], rows };
  expect(markdownOf([table]).match(/SDPA: no PyTorch/g)).toHaveLength(1);
});

test('the lab log neither shows nor counts passed builds, which exports create', async () => {
  const of = (name: string, kind: JobKind, outcome: Outcome) =>
    create(GetJobResponseSchema, { job: { name, kernelId: 'mine', kind, outcome, state: JobState.ENDED } });
  const jobs = [
    of('jobs/export', JobKind.BUILD, Outcome.PASSED),
    of('jobs/broken', JobKind.BUILD, Outcome.COMPILE_FAILED),
    of('jobs/export-2', JobKind.BUILD, Outcome.PASSED),
    of('jobs/run', JobKind.EXPERIMENT, Outcome.PASSED),
  ];
  const client = {
    listJobs: () => Promise.resolve({ jobs: jobs.map(({ job }) => job!), nextPageToken: '' }),
    getJob: ({ name }: { name: string }) => Promise.resolve(jobs.find(({ job }) => job!.name === name)!),
  } as unknown as RunnerClient;
  const { jobs: listed, leftOut } = await new RunnerSource(client).list({ most: 2 });
  expect([listed.map(({ job }) => job!.name), leftOut]).toEqual([['jobs/run', 'jobs/broken'], false]);
});

test('a lab log since a time includes jobs that were submitted before that time and ended after it', async () => {
  const of = (name: string, created: number, ended: number) =>
    create(GetJobResponseSchema, {
      job: {
        ...{ name, kind: JobKind.VERIFY, outcome: Outcome.PASSED, state: JobState.ENDED },
        createTime: timestampFromMs(created * 1000),
        endTime: timestampFromMs(ended * 1000),
      },
    });
  const week = 7 * 86_400;
  const jobs = [of('jobs/waited', 80, 101), of('jobs/short', 70, 90), of('jobs/long', 60, 200)];
  const old = of('jobs/older-than-a-week', 99 - week, 300);
  const client = {
    listJobs: () => Promise.resolve({ jobs: [...jobs, old].map(({ job }) => job!), nextPageToken: '' }),
    getJob: ({ name }: { name: string }) => Promise.resolve(jobs.find(({ job }) => job!.name === name)!),
  } as unknown as RunnerClient;
  const { jobs: listed, leftOut } = await new RunnerSource(client).list({ since: 100, most: 9 });
  expect([listed.map(({ job }) => job!.name), leftOut]).toEqual([['jobs/long', 'jobs/waited'], false]);
});

test('a total over jobs without a charge is marked as such', () => {
  const job = (costMissing: string) => create(GetJobResponseSchema, { result: { deviceSeconds: 2, costMissing } });
  const free = job("no charge: the emulator runs on the host's own processor");
  const unknown = job('cost not known; set --usd-per-hour');
  expect([[free, free], [unknown], [free, unknown]].map(totalCost)).toEqual([
    "4.00 s of the device, no charge: the emulator runs on the host's own processor",
    '2.00 s of the device, cost not known',
    '4.00 s of the device, cost not known',
  ]);
});
