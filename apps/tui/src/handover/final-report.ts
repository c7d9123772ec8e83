/**
 * The final report on chosen jobs: figures next to SDPA, parity, gates, success criteria and cost. Each row names its
 * job.
 */
import { GetJobResponseSchema, Verdict, type GateResult, type GetJobResponse } from '@flashcore/shared/contract';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import { toJson } from '@bufbuild/protobuf';
import { chapter, notice, tableOf, type Block, type Column } from '../present/blocks.ts';
import {
  counted,
  formatInstant,
  formatInUnit,
  formatMicroseconds,
  formatNumber,
  formatSeconds,
  formatSpeedupInterval,
} from '../present/numbers.ts';
import { gateMark } from '../present/gate-marks.ts';
import { jobPlots } from '../present/plots/job-plots.ts';
import { piece } from '../present/roles.ts';
import { shortName, reuseText } from '../present/words.ts';
import { byPlace, fastestSdpa, figuresOf, notValidText, MEDIAN_COLUMNS, placeTitle, type Figure } from './figures.ts';
import { costText, errorText, gatesText, correctText, totalCost } from './job-facts.ts';
import type { Report } from './report-formats.ts';
import { saidAndMeasured } from './said-and-measured.ts';

/** One table for each protocol, device and dtype, because figures with different ones must not be compared. */
export function finalReport(jobs: readonly GetJobResponse[]): Report {
  const places = byPlace(figuresOf(jobs));
  const plots = jobs.flatMap(jobPlots);
  const title = 'Final report';
  return {
    template: 'final',
    title,
    blocks: [
      chapter(title, 1),
      notice(spanText(jobs)),
      ...places.flatMap(({ place, figures }) => [
        chapter(placeTitle(place)),
        tableOf(LATENCY_COLUMNS, figures, noteOf),
      ]),
      ...(places.length === 0 ? [notice('Nothing was measured in these jobs.')] : []),
      chapter('What each job found'),
      foundTable(jobs),
      ...criteriaBlocks(jobs),
      ...saidAndMeasured(jobs),
      chapter('Cost'),
      notice(totalCost(jobs)),
      ...(plots.length === 0 ? [] : [chapter('Plots')]),
      ...plots.filter(({ drawing }) => drawing.type === 'ecdf' || drawing.type === 'roofline'),
    ],
    data: {
      places: places.map(({ place, figures }) => ({ ...place, figures: figures.map(figureData) })),
      jobs: jobs.map((each) => toJson(GetJobResponseSchema, each)),
    },
    plots,
  };
}

function spanText(jobs: readonly GetJobResponse[]): string {
  const times = jobs.flatMap(({ result }) => (result?.provenance?.time ? [result.provenance.time] : []));
  const sorted = times.toSorted((a, b) => Number(a.seconds - b.seconds));
  const [first, last] = [formatInstant(sorted[0]), formatInstant(sorted.at(-1))];
  const span = sorted.length === 0 ? '' : `, ${first === last ? first : `${first} to ${last}`}`;
  return `${counted(jobs.length, 'job')}${span}. Every row names its job; tables never mix devices, dtypes, protocols or simulated times.`;
}

const LATENCY_COLUMNS: readonly Column<Figure>[] = [
  { title: 'kernel', cell: ({ kernel }) => kernel },
  { title: 'shape', cell: ({ shape }) => shape },
  { title: 'mode', cell: ({ mode }) => mode },
  ...MEDIAN_COLUMNS,
  {
    title: 'p90',
    align: 'right',
    cell: ({ benchmark: { latency } }) =>
      latency!.samples < FEWEST_SAMPLES.p90 ? '-' : formatMicroseconds(latency!.p90Us, latency!.p50Us),
  },
  {
    title: 'TFLOP/s',
    align: 'right',
    cell: ({ benchmark: { tflops } }) => (tflops === undefined ? 'not measured' : formatNumber(tflops)),
  },
  { title: 'fastest SDPA', cell: ({ benchmark }) => fastestSdpa(benchmark)?.name ?? 'not measured' },
  {
    title: 'its p50',
    align: 'right',
    cell: ({ benchmark }) => {
      const us = fastestSdpa(benchmark)?.latency?.p50Us;
      return us === undefined ? '' : formatMicroseconds(us);
    },
  },
  {
    title: 'speedup',
    align: 'right',
    cell: ({ benchmark }) => {
      const sdpa = fastestSdpa(benchmark);
      if (sdpa === undefined) return '';
      return formatSpeedupInterval({ ratio: sdpa.speedup, low: sdpa.speedupLow, high: sdpa.speedupHigh });
    },
  },
  { title: 'job', cell: ({ job }) => shortName(job) },
];

function noteOf({ benchmark }: Figure) {
  const problem = notValidText({ benchmark });
  if (problem !== undefined) return piece(problem, 'warn');
  const reused = fastestSdpa(benchmark)?.reused;
  if (reused) return piece(`SDPA: ${reuseText(reused)}`, 'dim');
  return benchmark.sdpa.length === 0 && benchmark.sdpaMissing
    ? piece(`SDPA: ${benchmark.sdpaMissing}`, 'dim')
    : undefined;
}

function figureData({ job, kernel, shape, mode, benchmark }: Figure): unknown {
  const { latency, tflops, valid, invalidReason, sdpa, sdpaMissing } = benchmark;
  return {
    job,
    kernel,
    shape,
    mode,
    p50_us: latency!.p50Us,
    p50_low_us: latency!.p50LowUs,
    p50_high_us: latency!.p50HighUs,
    p90_us: latency!.p90Us,
    samples: latency!.samples,
    tflops: tflops ?? null,
    valid,
    invalid_reason: invalidReason ?? null,
    sdpa: sdpa.map(({ name, version, latency: times, speedup, speedupLow, speedupHigh, reused }) => ({
      name,
      version,
      p50_us: times?.p50Us ?? null,
      speedup,
      speedup_low: speedupLow,
      speedup_high: speedupHigh,
      ...(reused && { reused_from: reused.job, drift: reused.drift }),
    })),
    sdpa_missing: sdpaMissing ?? null,
  };
}

function foundTable(jobs: readonly GetJobResponse[]): Block {
  const rows = jobs.flatMap(({ job, result }) =>
    (result?.variants ?? []).map((variant) => ({ job: job!, result: result!, variant })),
  );
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { title: 'job', cell: ({ job }) => shortName(job.name) },
    { title: 'kernel', cell: ({ job, variant }) => `${job.kernelId} ${variant.label}`.trim() },
    { title: 'device', cell: ({ result }) => result.provenance?.device?.name ?? 'none' },
    { title: 'parity', cell: ({ variant }) => correctText(variant) },
    { title: 'largest error', align: 'right', cell: ({ variant }) => errorText(variant) },
    { title: 'plan', cell: ({ result }) => result.plan?.name ?? '-' },
    { title: 'gates', cell: ({ variant }) => gatesText(variant.gates) },
    { title: 'findings', align: 'right', cell: ({ variant }) => String(variant.findings.length) },
    { title: 'device time', align: 'right', cell: ({ result }) => formatSeconds(result.deviceSeconds) },
    { title: 'cost', cell: ({ result }) => costText(result) },
  ];
  return tableOf(columns, rows);
}

/** The gates of this plan are the success criteria. */
const FINAL_PLAN = 'final';

interface Criterion {
  readonly job: string;
  readonly kernel: string;
  readonly gate: GateResult;
}

function criteriaBlocks(jobs: readonly GetJobResponse[]): Block[] {
  const criteria = jobs.flatMap(({ job, result }) =>
    result?.plan?.name === FINAL_PLAN
      ? result.variants
          .filter(({ fallback }) => !fallback)
          .flatMap(({ gates }) =>
            gates
              .filter(({ level }) => level !== 'off')
              .map((gate): Criterion => ({ job: job!.name, kernel: job!.label || job!.kernelId, gate })),
          )
      : [],
  );
  return [
    chapter('Success criteria'),
    criteria.length === 0
      ? notice(`None of these jobs was judged by the plan ${FINAL_PLAN}: fa-tui run <kernel> --plan ${FINAL_PLAN}`)
      : tableOf(CRITERIA_COLUMNS, criteria, ({ gate }) =>
          gate.verdict === Verdict.PASS || gate.detail === '' ? undefined : piece(gate.detail, 'dim'),
        ),
  ];
}

const CRITERIA_COLUMNS: readonly Column<Criterion>[] = [
  {
    title: 'criterion',
    cell: ({ gate }) => (gate.condition === '' ? gate.title : `${gate.title} (${gate.condition})`),
  },
  { title: 'wanted', align: 'right', cell: ({ gate }) => `${gate.comparison} ${formatInUnit(gate.target, gate.unit)}` },
  {
    title: 'measured',
    align: 'right',
    cell: ({ gate }) => (gate.value === undefined ? '-' : formatInUnit(gate.value, gate.unit)),
  },
  { title: 'verdict', cell: ({ gate }) => piece(gateMark(gate).word, gateMark(gate).role) },
  { title: 'level', cell: ({ gate }) => gate.level },
  { title: 'kernel', cell: ({ kernel }) => kernel },
  { title: 'job', cell: ({ job }) => shortName(job) },
];
