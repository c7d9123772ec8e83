/**
 * All information about one kernel: its description, its best figures by device, its history, and the notes' claims.
 */
import { TimingMode, type Champion, type Decision, type GetJobResponse, type Kernel } from '@flashcore/shared/contract';
import { chapter, fact, facts, notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import { counted, formatMicroseconds, formatNumber, formatSpeedup, instantOf } from '../present/numbers.ts';
import { jobPlots } from '../present/plots/job-plots.ts';
import { championsBlocks } from '../present/sections/decisions.ts';
import { expectationText } from '../present/sections/plan.ts';
import { outcomeWord, caseText, shortName } from '../present/words.ts';
import {
  byPlace,
  fastestSdpa,
  figuresOf,
  MEDIAN_COLUMNS,
  placeTitle,
  sdpaName,
  type Figure,
  type Place,
} from './figures.ts';
import { errorText, gatesText, correctText, totalCost } from './job-facts.ts';
import { adviceOf, nextSteps } from './lab-log.ts';
import type { Report } from './report-formats.ts';

interface KernelReportInput {
  readonly kernelId: string;
  /** Absent if the results were read from files. */
  readonly kernel: Kernel | undefined;
  /** The kernel's ended jobs, oldest first. */
  readonly jobs: readonly GetJobResponse[];
  readonly champions: readonly Champion[];
  readonly decisions: readonly Decision[];
  readonly remarks: readonly string[];
}

export function kernelReport(input: KernelReportInput): Report {
  const { kernelId, kernel, jobs, champions, decisions, remarks } = input;
  const places = byPlace(figuresOf(jobs)).map(({ place, figures }) => ({ place, best: bestOf(figures) }));
  const bestJobs = new Set(places.flatMap(({ best }) => best.map(({ job }) => job)));
  const plots = jobs.flatMap(jobPlots);
  const shown = jobs.filter(({ job }) => bestJobs.has(job?.name ?? '')).flatMap(jobPlots);
  const expectations = expectationsOf(jobs, kernel);
  return {
    template: 'kernel',
    title: kernelId,
    blocks: [
      chapter(kernelId, 1),
      ...(kernel ? aboutBlocks(kernel) : []),
      ...remarks.map((text) => notice(text)),
      ...places.flatMap(({ place, best }) => [
        chapter(`Best on ${placeTitle(place)}`),
        best.length > 0 ? tableOf(BEST_COLUMNS, best) : notice(nothingValid(place)),
      ]),
      ...(places.length === 0 ? [notice('Nothing of it was measured in these jobs.')] : []),
      chapter('Champions'),
      ...championsBlocks(champions, decisions),
      chapter('Its jobs, oldest first'),
      notice(`${counted(jobs.length, 'job')}, ${totalCost(jobs)}.`),
      tableOf(JOB_COLUMNS, jobs),
      ...(expectations.length === 0 ? [] : [chapter('What notes said'), facts(...expectations)]),
      ...adviceBlocks(jobs),
      ...(shown.length === 0 ? [] : [chapter('Plots of the best')]),
      ...shown,
      ...(kernel?.notes ? [chapter('NOTES.md'), verbatim(kernel.notes)] : []),
    ],
    data: {
      kernel: kernelId,
      best: places.map(({ place, best }) => ({ ...place, figures: best.map(bestData) })),
      jobs: jobs.map(jobData),
      remarks,
    },
    plots,
  };
}

const verbatim = (text: string): Block => ({ kind: 'verbatim', lines: text.trimEnd().split('\n') });

function aboutBlocks({ title, lesson, after, parameters, limits, minArch, deprecated, sourceDigest }: Kernel): Block[] {
  return [
    notice(title),
    facts(
      fact('teaches', lesson),
      fact('after', after ?? ''),
      ...parameters.map(({ name, values }) => fact(name, values.join(', '))),
      ...limits.map(({ require, because }) => fact('limit', `${require}: ${because}`)),
      fact('least architecture', minArch),
      fact('source', sourceDigest),
      fact('deprecated', deprecated, 'warn'),
    ),
  ];
}

/** Says why a place has no best figure. */
const nothingValid = ({ simulated }: Place): string =>
  simulated
    ? 'The emulator’s times judge nothing: none is a best.'
    : 'No figure from there is valid; the jobs below say why.';

/** The smallest valid median of each shape and mode, over all variants. */
function bestOf(figures: readonly Figure[]): Figure[] {
  const best = new Map<string, Figure>();
  for (const figure of figures.filter(({ benchmark }) => benchmark.valid)) {
    const key = `${figure.shape} ${figure.mode}`;
    const known = best.get(key);
    if (!known || figure.benchmark.latency!.p50Us < known.benchmark.latency!.p50Us) best.set(key, figure);
  }
  return [...best.values()];
}

const BEST_COLUMNS: readonly Column<Figure>[] = [
  { title: 'shape', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  { title: 'build', cell: ({ kernel }) => kernel },
  ...MEDIAN_COLUMNS,
  {
    title: 'TFLOP/s',
    align: 'right',
    cell: ({ benchmark: { tflops } }) => (tflops === undefined ? 'not measured' : formatNumber(tflops)),
  },
  {
    title: 'over the fastest SDPA',
    align: 'right',
    cell: ({ benchmark }) => {
      const sdpa = fastestSdpa(benchmark);
      return sdpa ? `${formatSpeedup(sdpa.speedup)} (${sdpaName(sdpa)})` : 'not measured';
    },
  },
  { title: 'job', cell: ({ job }) => shortName(job) },
];

const bestData = ({ job, kernel, shape, mode, benchmark }: Figure): unknown => ({
  job,
  build: kernel,
  shape,
  mode,
  p50_us: benchmark.latency!.p50Us,
  p50_low_us: benchmark.latency!.p50LowUs,
  p50_high_us: benchmark.latency!.p50HighUs,
  samples: benchmark.latency!.samples,
  tflops: benchmark.tflops ?? null,
  speedup_over_sdpa: fastestSdpa(benchmark)?.speedup ?? null,
});

const askedOf = ({ result }: GetJobResponse) => result?.variants.find(({ fallback }) => !fallback);

const hotText = (response: GetJobResponse): string => {
  const hot = askedOf(response)?.benchmarks.find(({ mode, latency }) => mode === TimingMode.HOT && latency);
  if (!hot) return 'not measured';
  const remarks = [hot.simulated && 'simulated', !hot.simulated && !hot.valid && 'not valid'];
  return [formatMicroseconds(hot.latency!.p50Us), caseText(hot.shape), ...remarks].filter(Boolean).join(', ');
};

const JOB_COLUMNS: readonly Column<GetJobResponse>[] = [
  { title: 'started', cell: ({ job }) => instantOf(job?.startTime ?? job?.createTime) },
  { title: 'job', cell: ({ job }) => shortName(job?.name ?? '') },
  { title: 'build', cell: ({ job }) => job?.label ?? '' },
  { title: 'device', cell: ({ result }) => result?.provenance?.device?.name ?? '' },
  { title: 'protocol', cell: ({ result }) => result?.provenance?.protocol ?? '' },
  { title: 'hot p50', align: 'right', cell: hotText },
  {
    title: 'parity',
    cell: (response) => {
      const variant = askedOf(response);
      return variant?.verify ? `${correctText(variant)}, ${errorText(variant)}` : 'not checked';
    },
  },
  { title: 'gates', cell: (response) => gatesText(askedOf(response)?.gates ?? []) },
  { title: 'outcome', cell: ({ job }) => outcomeWord(job) },
];

const jobData = (response: GetJobResponse): unknown => ({
  job: response.job?.name,
  started: instantOf(response.job?.startTime ?? response.job?.createTime),
  build: response.job?.label,
  device: response.result?.provenance?.device?.name ?? null,
  simulated: response.result?.provenance?.device?.simulated ?? false,
  outcome: outcomeWord(response.job),
  source_digest: response.result?.provenance?.sourceDigest ?? null,
});

/** The notes' claims, next to the figures of the latest job that measured them. */
function expectationsOf(jobs: readonly GetJobResponse[], kernel: Kernel | undefined) {
  const last = jobs.findLast(({ result }) => (result?.expectations.length ?? 0) > 0);
  const all = last?.result?.expectations ?? kernel?.expectations ?? [];
  const of = last?.job ? `; job ${shortName(last.job.name)}` : '';
  return all.map((each) => fact(each.source, `${expectationText(each)}${of}`));
}

function adviceBlocks(jobs: readonly GetJobResponse[]): Block[] {
  const advised = nextSteps(jobs.filter((each) => adviceOf(each).length > 0));
  return advised.length === 0
    ? []
    : [
        chapter('Next steps'),
        facts(...advised.map(({ text, evidence, job }) => fact(text, `${evidence} (job ${shortName(job)})`))),
      ];
}
