/**
 * The ladder's tables in kernels/README.md: latency step by step, the resources of each build, the fastest kernels by
 * shape.
 */
import { type BenchmarkResult, type VariantResult } from '@flashcore/shared/contract';
import { figureOfEntries, formatShape, type EntryFigureName, type Manifest } from '@flashcore/shared/kernels';
import { fixed, markdownTable, notedTable, validity } from './markdown.ts';
import {
  emulatorRun,
  experimentsOf,
  laddersMeasured,
  rowsOf,
  sanitizerOf,
  sdpaInTurns,
  type LadderRow,
} from './results.ts';

/** The tables of the newest measurement. Older measurements have a page in their folders. */
export function resultsMarkdown(steps: readonly Manifest[]): string {
  const [folder, ...older] = laddersMeasured().reverse();
  if (folder === undefined) return 'Nothing measured yet.\n';
  const ladder = rowsOf(folder, /^run\..*\.json$/);
  const shapes = rowsOf(folder, /^bench\..*\.json$/);
  const { device, protocol } = experimentsOf(folder, /^run\..*\.json$/)[0]!.result!.provenance!;
  const canonical = ladder[0] ? formatShape(ladder[0].benchmark.shape!) : '';
  return [
    `Hot: back-to-back launches in a graph, x: times as fast. Every SDPA backend was measured ${sdpaInTurns([...ladder, ...shapes].map(({ benchmark }) => benchmark))}. ${device!.name}, driver ${device!.kernelDriverVersion || device!.driverVersion}, ${protocol}; [lab/results/${folder}](../lab/results/${folder}).` +
      (older.length > 0 ? ` Before: ${older.map((name) => `[${name}](../lab/results/${name})`).join(', ')}.\n` : '\n'),
    `**The ladder at ${canonical}** (B x H x S x D), step by step\n\n${latencyTable(steps, ladder)}`,
    `**What each step needs**: ptxas for the device measured and for sm_89 (an L4), counters by ncu, errors against fp64 over the parity cases\n\n${resourcesTable(steps, folder, ladder)}`,
    ...(shapes.length > 0 ? [`**The fastest, shape by shape**\n\n${shapesTable(shapes)}`] : []),
  ].join('\n');
}

/** The rows in the ladder's order, each with the step that it follows. A fallback comes after its kernel. */
export function latencyTable(steps: readonly Manifest[], rows: readonly LadderRow[]): string {
  const backends = backendsOf(rows);
  const first = rowOf(rows, steps[0]!.id);
  const head = [
    'step',
    'p50 us',
    '95 % interval',
    'p10 to p90',
    'TFLOP/s',
    '% of roofline',
    'x step before',
    `x ${steps[0]!.id}`,
    ...backends.map((name) => `x ${name}`),
  ];
  const noted = steps.flatMap(({ id, after }) =>
    rows
      .filter(({ kernel }) => kernel === id)
      .map((row) => ({
        note: validity(row.benchmark),
        cells: [
          nameOf(row),
          ...latencyCells(row.benchmark),
          spread(row.benchmark),
          ...rateCells(row.benchmark),
          against(row, after === undefined ? undefined : rowOf(rows, after)),
          against(row, first),
          ...backends.map((name) => speedup(row.benchmark, name)),
        ],
      })),
  );
  return notedTable(head, noted);
}

function resourcesTable(steps: readonly Manifest[], folder: string, rows: readonly LadderRow[]): string {
  const emulated = emulatorRun();
  const head = [
    'step',
    'registers',
    'SMEM B',
    'spills B',
    'CTAs/SM',
    'sm_89: registers',
    'SMEM B',
    'spills B',
    'CTAs/SM',
    'occupancy',
    'bank conflicts',
    'tensor pipe',
    'largest stall',
    'compute-sanitizer',
    'max error',
  ];
  const cells = steps.flatMap(({ id }) =>
    rows
      .filter(({ kernel }) => kernel === id)
      .map((row) => {
        const sm89 = emulated?.builds.find(
          ({ kernel, label }) => kernel === id && sameBuild(label, row.variant.label),
        )?.entries;
        return [
          nameOf(row),
          ...entryCells(row.variant.build?.entries ?? []),
          ...entryCells(sm89 ?? []),
          figureCell('theoretical_occupancy_percent', sm89 ?? [], ' %'),
          counter(row.variant, 'smem_bank_conflict_percent'),
          counter(row.variant, 'tensor_pipe_percent'),
          row.variant.profile?.stalls.find(({ name }) => !['selected', 'not_selected'].includes(name))?.name ?? '-',
          row.fallback ? '-' : (sanitizerOf(folder, id) ?? 'not run'),
          errorCell(row.variant),
        ];
      }),
  );
  return `${markdownTable(head, cells)}\nMost over a kernel's entries, CTAs and occupancy least. sm_89: ${emulated ? `${emulated.tools.filter((tool) => tool.startsWith('nvcc')).join('')}, [lab/results/${emulated.folder}](../lab/results/${emulated.folder})` : 'not built'}; sm_90a has no counterpart there.\n`;
}

/**
 * True if the two names mean the same build. A parameter that is derived from the device is ignored, because it only
 * selects a launch. A build that was measured before a parameter existed lacks it; the first build that fits has its
 * default.
 */
function sameBuild(built: string, measured: string): boolean {
  const parameters = new Set(built.split(' '));
  return measured
    .split(' ')
    .every((one) => one === '' || one === 'default' || /^SMS=/.test(one) || parameters.has(one));
}

function shapesTable(rows: readonly LadderRow[]): string {
  const backends = backendsOf(rows);
  const head = [
    'shape',
    'kernel',
    'p50 us',
    '95 % interval',
    'TFLOP/s',
    '% of roofline',
    ...backends.map((name) => `x ${name}`),
  ];
  const byShape = [...Map.groupBy(rows, ({ benchmark }) => formatShape(benchmark.shape!))];
  return notedTable(
    head,
    byShape.flatMap(([shape, each]) =>
      each.map(({ kernel, benchmark }) => ({
        note: validity(benchmark),
        cells: [
          shape,
          kernel,
          ...latencyCells(benchmark),
          ...rateCells(benchmark),
          ...backends.map((name) => speedup(benchmark, name)),
        ],
      })),
    ),
  );
}

const rowOf = (rows: readonly LadderRow[], id: string): LadderRow | undefined =>
  rows.find(({ kernel, fallback }) => kernel === id && !fallback);
const nameOf = ({ kernel, fallback }: LadderRow): string => `${kernel}${fallback ? ' USE_WMMA=0' : ''}`;
const backendsOf = (rows: readonly LadderRow[]): string[] =>
  [...new Set(rows.flatMap(({ benchmark }) => benchmark.sdpa.map(({ name }) => name)))].sort();
const speedup = (benchmark: BenchmarkResult, backend: string): string =>
  fixed(benchmark.sdpa.find(({ name }) => name === backend)?.speedup, 2);
const latencyCells = ({ latency }: BenchmarkResult): string[] => [
  latency!.p50Us.toFixed(2),
  `${latency!.p50LowUs.toFixed(2)} to ${latency!.p50HighUs.toFixed(2)}`,
];
const spread = ({ latency }: BenchmarkResult): string => `${latency!.p10Us.toFixed(2)} to ${latency!.p90Us.toFixed(2)}`;
const rateCells = ({ tflops, rooflinePercent }: BenchmarkResult): string[] => [
  fixed(tflops, 1),
  fixed(rooflinePercent, 1),
];

/**
 * The ratio of two rows. There is no interval, because the figures come from two jobs a few minutes apart on one
 * device. Invalid measurements have no ratio.
 */
function against(row: LadderRow, other: LadderRow | undefined): string {
  if (other === undefined || other === row) return '';
  return row.benchmark.valid && other.benchmark.valid
    ? fixed(other.benchmark.latency!.p50Us / row.benchmark.latency!.p50Us, 2)
    : '-';
}

type Entries = NonNullable<VariantResult['build']>['entries'];

const entryCells = (entries: Entries): string[] =>
  (['registers_per_thread', 'smem_bytes_per_cta', 'spill_bytes', 'theoretical_ctas_per_sm'] as const).map((name) =>
    figureCell(name, entries),
  );

function figureCell(name: EntryFigureName, entries: Entries, unit = ''): string {
  const value = figureOfEntries(name, entries);
  return value === undefined ? '-' : `${Math.round(value)}${unit}`;
}

function counter({ profile }: VariantResult, name: string): string {
  const metric = profile?.metrics.find((each) => each.name === name);
  return metric ? `${metric.value.toFixed(1)} %` : '-';
}

function errorCell({ verify }: VariantResult): string {
  const cases = verify?.cases ?? [];
  return cases.length === 0 ? '-' : Math.max(...cases.map(({ maxAbsError }) => maxAbsError)).toExponential(1);
}
