// Tables of docs/results about launches: what one costs in a graph and by ncu, launch options, SDPA's outputs beside
// ours, several GPUs. Each gives undefined where nothing was measured.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseNvidiaSmi } from './nvidia-smi.ts';

const figure = (value, digits = 2) =>
  value === undefined || Number.isNaN(value) ? 'not measured' : value.toFixed(digits);
const jsonOf = (folder, name) =>
  existsSync(join(folder, name)) ? JSON.parse(readFileSync(join(folder, name), 'utf8')) : undefined;
const filesOf = (folder, pattern) =>
  readdirSync(folder)
    .filter((name) => pattern.test(name))
    .sort();
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Hot time by launches of the graph, and what is added by an empty kernel after each launch. */
export function graphRows(folder) {
  const report = jsonOf(folder, 'overlap.json');
  if (!report) return undefined;
  const names = [...new Set(report.rows.map(({ name }) => name))];
  return [
    ['kernel', ...names],
    ...[...Map.groupBy(report.rows, ({ kernel }) => kernel)].map(([kernel, rows]) => [
      kernel,
      ...names
        .map((name) => figure(rows.find((row) => row.name === name)?.usPerLaunch))
        .map((text) => (text === 'not measured' ? '' : text)),
    ]),
  ];
}

/**
 * ncu's time of a launch with warm caches, the time in which an SM worked, and our hot figure: what of ncu's time the
 * graph does not have is the same for an empty kernel
 * as for every other.
 */
export function overlapRows(folder) {
  const report = jsonOf(folder, 'overlap.json');
  if (!report) return undefined;
  const kernels = [...new Set(report.rows.map(({ kernel }) => kernel))];
  const measured = new Map(
    kernels.map((kernel) => [
      kernel,
      {
        ...ncuOf(folder, kernel),
        hotUs: report.rows.filter((row) => row.kernel === kernel && row.name.startsWith('graph of ')).at(-1)
          .usPerLaunch,
      },
    ]),
  );
  const empty = measured.get('empty');
  const head = [
    'kernel',
    'ncu gpu__time_duration',
    'of it an SM works',
    'hot',
    'hot over ncu',
    'ncu, less what an empty kernel has more by ncu',
    'hot over that',
    'SM works, plus an empty launch in a graph',
    'hot over that',
  ];
  return [
    head,
    ...kernels.map((kernel) => {
      const { durationUs, activeUs, hotUs } = measured.get(kernel);
      const [less, plus] = [durationUs - (empty.durationUs - empty.hotUs), activeUs + empty.hotUs];
      return [
        kernel,
        figure(durationUs),
        figure(activeUs),
        figure(hotUs),
        figure(hotUs / durationUs, 3),
        ...(kernel === 'empty'
          ? ['', '', '', '']
          : [figure(less), figure(hotUs / less, 3), figure(plus), figure(hotUs / plus, 3)]),
      ];
    }),
  ];
}

/** Medians over the launches of a recorded ncu run, microseconds; cycles by the clock of the same launch. */
function ncuOf(folder, kernel) {
  const text = readFileSync(join(folder, `overlap.ncu.${kernel}.cache-none.csv`), 'utf8');
  const values = Map.groupBy(text.matchAll(/^"(\d+)",.*"((?:gpu|sm)__[\w.]+)","[^"]*","([\d.,]+)"$/gm), ([, id]) => id);
  const launches = [...values.values()].map((rows) =>
    Object.fromEntries(rows.map(([, , name, value]) => [name, Number(value.replaceAll(',', ''))])),
  );
  return {
    durationUs: median(launches.map((launch) => launch['gpu__time_duration.sum'] / 1e3)),
    activeUs: median(
      launches.map((launch) => (1e6 * launch['sm__cycles_active.max']) / launch['sm__cycles_elapsed.avg.per_second']),
    ),
  };
}

/** A kernel that traps unless its cluster is as the manifest says, and reads K and V after a stream of writes. */
export function launchOptionRows(folder) {
  const files = filesOf(folder, /^launch_options\.cluster\d+\.persist\d\.json$/);
  if (files.length === 0) return undefined;
  return [
    ['cluster', 'l2_persist', 'hot, us', 'interval', 'cold, us', 'verified'],
    ...files.map((name) => {
      const [, cluster, persist] = /cluster(\d+)\.persist(\d)/.exec(name);
      const [variant] = jsonOf(folder, name).result.variants;
      const of = (mode) => variant.benchmarks.find((each) => each.mode === `TIMING_MODE_${mode}`).latency;
      return [
        `${cluster} x 1 x 1`,
        persist === '1' ? 'K, V' : 'none',
        figure(of('HOT').p50Us),
        `${figure(of('HOT').p50LowUs)} to ${figure(of('HOT').p50HighUs)}`,
        figure(of('COLD').p50Us),
        variant.verify.cases.every(({ verdict }) => verdict === 'VERDICT_PASS') ? 'right' : '**wrong**',
      ];
    }),
  ];
}

/**
 * Every kernel's output beside every SDPA backend's over all cases of a verification; ratios of errors against the same
 * fp64 reference.
 */
export function parityRows(folder) {
  const files = filesOf(folder, /^parity\..*\.json$/);
  if (files.length === 0) return undefined;
  return [
    ['kernel', 'backend', 'cases', 'largest difference', 'largest error, ours over its', 'mean error, ours over its'],
    ...files.flatMap((name) => {
      const { job, result } = jsonOf(folder, name);
      const compared = result.variants[0].verify.cases
        .flatMap(({ sdpa = [] }) => sdpa)
        .filter(({ missing }) => !missing);
      const range = (of) => (rows) =>
        `${Math.min(...rows.map(of)).toFixed(2)} to ${Math.max(...rows.map(of)).toFixed(2)}`;
      return [...Map.groupBy(compared, ({ backend }) => backend)].map(([backend, rows]) => [
        `${job.kernelId}${name.includes('.large.') ? ', large shapes' : ''}`,
        backend,
        rows.length,
        Math.max(...rows.map((row) => row.maxAbsDifference)).toExponential(1),
        range((row) => row.maxAbsError / row.sdpaMaxAbsError)(rows),
        range((row) => row.meanAbsError / row.sdpaMeanAbsError)(rows),
      ]);
    }),
  ];
}

/** Jobs that were started together on a host with several GPUs. */
export function severalRows(folder) {
  const report = jsonOf(folder, 'several.json');
  return (
    report && [
      ['started together', 'kernel', 'device', 'from, s', 'to, s', 'outcome', 'hot p50, us'],
      ...Object.entries(report).flatMap(([name, jobs]) =>
        jobs.map(({ kernel, device, from_s: from, to_s: to, outcome, findings, hot_p50_us: us }, index) => [
          index === 0 ? name : '',
          kernel,
          device,
          figure(from),
          figure(to),
          [outcome, ...findings].join(', '),
          us === null ? '' : figure(us),
        ]),
      ),
    ]
  );
}

/** The cards as they were found, by `nvidia-smi -q`. */
export function cardRows(folder) {
  const path = join(folder, 'nvidia-smi.txt');
  if (!existsSync(path)) return undefined;
  const of =
    ({ values }) =>
    (name) =>
      values.get(name) ?? 'not told';
  return [
    ['GPU', 'state', 'SM clock, most', 'memory clock, most', 'power limit', 'temperature'],
    ...parseNvidiaSmi(readFileSync(path, 'utf8')).map((gpu) => [
      gpu.id,
      ...[
        'Performance State',
        'Max Clocks/SM',
        'Max Clocks/Memory',
        'GPU Power Readings/Current Power Limit',
        'Temperature/GPU Current Temp',
      ].map(of(gpu)),
    ]),
  ];
}

export const shapeText = ({ batch, heads, sequenceLength, headDim, causal }) =>
  `${batch}x${heads}x${sequenceLength}x${headDim}${causal ? 'c' : ''}`;
const ratio = (measured) =>
  measured ? `${figure(measured.ratio, 4)} [${figure(measured.low, 4)}, ${figure(measured.high, 4)}]` : 'not measured';

/** Candidate against champion, and the champion against its second copy, in one job: shape by shape. */
export function comparisonRows(folder) {
  const comparisons = filesOf(folder, /^ab\..*\.json$/).flatMap((name) =>
    jsonOf(folder, name).result.variants.map(({ comparison }) => comparison),
  );
  if (comparisons.length === 0) return undefined;
  return [
    [
      'candidate',
      'against',
      'shape',
      'time',
      'cycles',
      'champion against itself, time',
      'in cycles',
      'blocks',
      'answer',
    ],
    ...comparisons.flatMap(({ candidate, champion, shapes }) =>
      shapes.map((each) => [
        candidate.kernelId,
        champion.kernelId,
        shapeText(each.shape),
        ratio(each.time),
        ratio(each.cycles),
        ratio(each.selfTime),
        ratio(each.selfCycles),
        each.blocks,
        each.verdict.replace('COMPARISON_VERDICT_', '').toLowerCase().replaceAll('_', ' '),
      ]),
    ),
  ];
}

/** Samples with and without clock stamps around them, and the clocks. */
export function clockRows(folder) {
  const reports = filesOf(folder, /^clock\..*\.json$/).map((name) => jsonOf(folder, name));
  if (reports.length === 0) return undefined;
  return [
    [
      'kernel',
      'shape',
      'mode',
      'without stamps, us',
      'with stamps, us',
      'with over without',
      'clock, MHz (p1 to p99)',
      'NVML, MHz',
    ],
    ...reports.flatMap(({ kernel, shape, nvml, modes }) =>
      Object.entries(modes).map(([mode, each]) => [
        kernel,
        shape,
        mode,
        figure(each.withoutUs),
        figure(each.withUs),
        ratio(each.withOverWithout),
        `${figure(each.clocks.medianMhz, 0)} (${figure(each.clocks.p1Mhz, 0)} to ${figure(each.clocks.p99Mhz, 0)})`,
        nvml.smClockMhz,
      ]),
    ),
  ];
}
