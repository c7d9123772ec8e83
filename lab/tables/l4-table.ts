/**
 * Compares estimated times of the ladder on an L4 (libs/shared/src/kernels/estimate.ts) with the goals in the lab
 * notes. No L4 was available to measure on.
 */
import {
  attention,
  attentionCase,
  caseFlops,
  valuesOf,
  type ShapeFields,
  DATA_SHEETS,
  estimateLatency,
  findDataSheet,
  formatShape,
  planLaunches,
  resolveVariant,
  type Estimate,
  type Manifest,
} from '@flashcore/shared/kernels';
import { fixed, markdownTable } from './markdown.ts';
import {
  emulatorRun,
  experimentsOf,
  jsonOf,
  laddersMeasured,
  rowsOf,
  type EmulatorRun,
  type LadderRow,
} from './results.ts';

const L4 = DATA_SHEETS.find(({ name }) => name === 'NVIDIA L4')!;
/** The boost clock in the L4's data sheet. It gives the data sheet's 121 TFLOP/s with 58 SMs x 1024 FLOPs per cycle. */
const L4_CLOCK_MHZ = 2040;

/** The fraction of QK^T and PV that a kernel computes on tensor cores. */
const TENSOR_SHARE: Readonly<Record<string, number>> = {
  fa_v1_baseline: 0,
  flashcore_v5: 0,
  fa_s512_v3: 0,
  flashcore_v6: 0.5,
};

export function estimateMarkdown(steps: readonly Manifest[]): string {
  const folder = laddersMeasured().at(-1);
  const emulated = emulatorRun();
  if (folder === undefined || !emulated)
    return "Not estimated: it needs a measurement of the ladder and ptxas' facts for sm_89.\n";
  const launch = launchCost(folder);
  const launchUs = launch.usPerLaunch;
  const there = findDataSheet(experimentsOf(folder, /^run\..*\.json$/)[0]!.result!.provenance!.device!.name);
  if (!there) return 'Not estimated: the device measured has no data sheet here.\n';
  const estimates = steps.flatMap((step) => {
    const row = rowsOf(folder, /^run\..*\.json$/).find(({ kernel, fallback }) => kernel === step.id && !fallback);
    const found =
      row && step.emulated === true
        ? estimateOf(step, row, { emulated, launchUs, multiprocessors: there.multiprocessors })
        : undefined;
    return found ? [{ id: step.id, row: row!, ...found }] : [];
  });
  if (estimates.length === 0)
    return "Not estimated: ptxas' facts for sm_89 are missing (`npm run ladder:verify` on a host with nvcc).\n";
  const shape = formatShape(estimates[0]!.row.benchmark.shape!);
  const bytes = attentionCase(estimates[0]!.row.benchmark.shape!, 'fp16').bytes;
  return [
    `**Estimates, not measurements**, at ${shape}, hot (K and V in L2): an L4 at its boost clock (${L4_CLOCK_MHZ} MHz; at a lower clock all but the launch takes longer in proportion), ${L4.fp16TensorTflops} TFLOP/s dense, ${L4.multiprocessors} SMs. ` +
      `From the cycles measured on ${folder} and the data sheet: low if CTAs that fit an SM together overlap without loss, high if they do not overlap at all; the formula and what it leaves out (L2 bandwidth, the 72 W limit): [estimate.ts](../libs/shared/src/kernels/estimate.ts). ` +
      `Launch ${launchUs.toFixed(2)} us, as an empty kernel in a ${launch.name} ${launch.folder === folder ? 'there' : `of ${launch.folder} (${launch.device})`}. Cold, the ${(bytes / 2 ** 20).toFixed(0)} MiB of Q, K, V and O alone take ${(bytes / L4.memoryGbPerSecond / 1e3).toFixed(0)} us at ${L4.memoryGbPerSecond} GB/s.\n`,
    markdownTable(
      [
        'step',
        'measured us',
        'L4 CTAs',
        'on one SM',
        'fit',
        'tensor us',
        'FMA us',
        'ex2 us',
        'instructions us',
        'latency us',
        'estimate us',
        'low is bound by',
      ],
      estimates.map(({ id, row, ctas, resident, estimate }) => {
        const { terms, lowUs, highUs, limiter, ctasOnBusiestSm } = estimate;
        return [
          id,
          row.benchmark.latency!.p50Us.toFixed(2),
          String(ctas),
          String(ctasOnBusiestSm),
          String(resident),
          ...Object.values(terms).map((us) => fixed(us, 1)),
          `${fixed(lowUs, 0)} to ${fixed(highUs, 0)}`,
          limiter,
        ];
      }),
    ),
    `The goals of the effort that this project grew out of, set before any of this was measured:\n\n${markdownTable(
      ['goal', 'estimate us', 'judged'],
      estimates.flatMap(({ id, estimate }) =>
        goalsOf(steps.find((step) => step.id === id)!).map((goal) => [
          `${id} ${goalText(goal)}`,
          `${fixed(estimate.lowUs, 1)} to ${fixed(estimate.highUs, 1)}`,
          judged(estimate, goal.high),
        ]),
      ),
    )}`,
  ].join('\n');
}

type Goal = Manifest['expectations'][number];

/** The goals for an L4 that the lab notes project for the kernel. */
const goalsOf = ({ expectations }: Manifest): Goal[] =>
  expectations.filter(({ kind, device }) => kind === 'projected' && device === L4.name);

const goalText = ({ low, high, unit, note }: Goal): string =>
  [low === high ? `${low}` : `${low} to ${high}`, unit, ...(note === undefined ? [] : [note])].join(' ');

function judged({ lowUs, highUs }: Estimate, below: number): string {
  if (highUs < below) return 'within reach: the high end is below it';
  return lowUs < below
    ? 'open: the goal lies between low and high'
    : 'out of reach of this build: the low end is above it';
}

/**
 * The cost of an empty kernel in the longest graph that was measured with the ladder. If none was, it comes from the
 * newest run with such a graph.
 */
function launchCost(folder: string): OverlapRow & { folder: string; device: string } {
  for (const name of [folder, ...laddersMeasured().reverse()]) {
    const report = jsonOf<{ device: { name: string }; rows: OverlapRow[] }>(name, 'overlap.json');
    const [longest] = (report?.rows ?? [])
      .filter(({ kernel }) => kernel === 'empty')
      .sort((a, b) => b.launches - a.launches);
    if (longest) return { ...longest, folder: name, device: report!.device.name };
  }
  throw new Error('Wanted overlap.json with an empty kernel in a folder of lab/results: gpu_host --sections overlap');
}

/** A graph's name ("graph of 200"), its number of launches, and the microseconds per launch. */
interface OverlapRow {
  kernel: string;
  name: string;
  launches: number;
  usPerLaunch: number;
}

interface EstimateBasis {
  emulated: EmulatorRun;
  launchUs: number;
  multiprocessors: number;
}

/** Estimates the build that was measured, with the launch that its manifest makes on an L4. */
function estimateOf(
  step: Manifest,
  { variant, benchmark }: LadderRow,
  { emulated, launchUs, multiprocessors }: EstimateBasis,
): { estimate: Estimate; ctas: number; resident: number } | undefined {
  const shape = benchmark.shape!;
  const measured = Object.entries(variant.parameters).map(([name, value]): [string, number] => [name, Number(value)]);
  // If the manifest has gained a parameter since the measurement, the measured build had its default.
  const there = launchOf(step, { ...resolveVariant(step).parameters, ...Object.fromEntries<number>(measured) }, shape);
  const here = launchOf(step, resolveVariant(step, {}, { multiprocessors: L4.multiprocessors }).parameters, shape);
  const resident = emulated.builds
    .filter(({ kernel }) => kernel === step.id)
    .flatMap(({ entries }) => entries)
    .find(({ entry }) => entry === here.entry)?.ctasPerSm;
  const busy = variant.profile?.metrics.find(({ name }) => name === 'sm_busy_percent')?.value;
  if (resident === undefined || busy === undefined || !benchmark.conditions?.smClockMhz) return undefined;
  const estimate = estimateLatency(
    { ...L4, clockMhz: L4_CLOCK_MHZ },
    {
      ctas: here.ctas,
      ctasPerSm: resident,
      flops: caseFlops(attention(), shape),
      tensorShare: TENSOR_SHARE[step.id] ?? 1,
      exponentials: attentionProbabilities(shape),
    },
    {
      us: benchmark.latency!.p50Us,
      clockMhz: benchmark.conditions.smClockMhz,
      multiprocessors,
      ctas: there.ctas,
      launchUs,
      busyPercent: busy,
    },
  );
  return { estimate, ctas: here.ctas, resident };
}

function launchOf(
  step: Manifest,
  parameters: Readonly<Record<string, number>>,
  shape: NonNullable<LadderRow['benchmark']['shape']>,
): { entry: string; ctas: number } {
  const [launch] = planLaunches(step, { parameters }, shape).launches;
  return { entry: launch!.entry, ctas: launch!.grid.reduce((product, extent) => product * extent, 1) };
}

/** Number of elements of P. Each element needs one exponential. */
function attentionProbabilities(shape: ShapeFields): number {
  const { B = 0, H = 0, S = 0, causal = 0 } = valuesOf(shape);
  return B * H * S ** 2 * (causal === 1 ? 0.5 : 1);
}
