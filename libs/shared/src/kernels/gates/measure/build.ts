/** Metrics from the compiler's report. */
import type { BuildResult, EntryResources } from '../../../generated/flashcore/runner/v1/result_pb.js';
import { FindingKind } from '../../../generated/flashcore/runner/v1/kernel_pb.js';
import { formatShape } from '../../shape.ts';
import { ENTRY_FIGURES, type EntryFigureName, type Metric } from '../metrics.ts';
import { shapesNamed } from '../plan-gates.ts';
import { type GateContext, type Measure, type MetricAnswer } from './answer.ts';
import { formatCount } from '../../../text/numbers.ts';

const occupancyText = ({ ctasPerSm, occupancyPercent, occupancyLimiter }: EntryResources): string =>
  occupancyLimiter === undefined
    ? ''
    : `${ctasPerSm} CTA${ctasPerSm === 1 ? '' : 's'}/SM, ${occupancyPercent.toFixed(0)} % of its warps, bound by ${occupancyLimiter}`;

const boundText = ({ threadsPerCta, occupancyLimiter }: EntryResources): string =>
  `${threadsPerCta} threads, bound by ${occupancyLimiter ?? 'nobody knows what'}`;

/** Explains where a figure comes from or what it costs. */
const EXPLAIN: Partial<Record<EntryFigureName, (entry: EntryResources) => string>> = {
  registers_per_thread: occupancyText,
  smem_bytes_per_cta: (entry) =>
    [
      `${formatCount(entry.staticSmemBytes)} B static, ${formatCount(entry.dynamicSmemBytes)} B dynamic`,
      ...(entry.smemLimitBytes > 0 ? [`the device allows ${entry.smemLimitBytes} B`] : []),
      ...(entry.occupancyLimiter === undefined ? [] : [occupancyText(entry)]),
    ].join(', '),
  spill_bytes: ({ spillStoreBytes, spillLoadBytes }) =>
    `${formatCount(spillStoreBytes)} B stored, ${formatCount(spillLoadBytes)} B loaded`,
  theoretical_ctas_per_sm: boundText,
  theoretical_occupancy_percent: boundText,
};

export const measureBuild: Measure = (context, metric) => {
  const { build } = context.variant;
  if (!build) return { notMeasured: 'the kernel was not built' };
  if (metric.name === 'smem_bytes_per_cta' && !build.succeeded) {
    const refused = refusedSmem(context, build);
    if (refused) return refused;
  }
  if (!build.succeeded) return { notMeasured: 'the kernel does not compile' };
  if (metric.name === 'compile_warnings') return warnings(build);
  if (metric.name === 'waves' || metric.name === 'tail_efficiency_percent') return measureWaves(context, metric);
  const figure = metric.name as EntryFigureName;
  if (ENTRY_FIGURES[figure].counts === 'highest') return extremeOf(figure, context, metric);
  const unknown = build.entries.find(({ occupancyLimiter }) => occupancyLimiter === undefined);
  if (unknown) return { notMeasured: `no data sheet for ${unknown.arch || 'the architecture'}` };
  const answer = extremeOf(figure, context, metric);
  return 'value' in answer ? { ...answer, source: `ptxas and data sheet ${build.entries[0]!.arch}` } : answer;
};

/** The answer if a CTA needs more shared memory than any launch can have. The compiler's message names the size. */
function refusedSmem(
  { variant: { findings } }: GateContext,
  { smemRefusedBytes }: BuildResult,
): MetricAnswer | undefined {
  if (smemRefusedBytes <= 0) return undefined;
  const finding = findings.find(({ kind }) => kind === FindingKind.SMEM_LIMIT);
  return { value: smemRefusedBytes, detail: finding?.message ?? 'refused by the compiler', source: 'ptxas' };
}

function warnings({ diagnostics }: BuildResult): MetricAnswer {
  const found = diagnostics.filter(({ severity }) => severity === 'warning');
  return { value: found.length, detail: found[0] ? `the first: ${found[0].message}` : 'none', source: 'compilers' };
}

function extremeOf(figure: EntryFigureName, context: GateContext, metric: Metric): MetricAnswer {
  const { counts, of } = ENTRY_FIGURES[figure];
  const result = context.variant.build!;
  const { entries, shapes } = launchedEntries(context, metric);
  const [first, ...rest] = entries;
  if (!first) return { notMeasured: result.entriesMissing || 'the compiler reported no entry' };
  const worst = rest.reduce((a, b) => ((counts === 'highest' ? of(b) > of(a) : of(b) < of(a)) ? b : a), first);
  const explained = EXPLAIN[figure]?.(worst) ?? '';
  const others = result.entries.length - entries.length;
  const launched =
    others > 0 ? `; ${others} more ${others === 1 ? 'entry is' : 'entries are'} not launched for ${shapes}` : '';
  const among = rest.length > 0 ? `, the ${counts} of ${entries.length} entries` : '';
  return {
    value: of(worst),
    detail: `${explained === '' ? worst.entry : `${worst.entry}: ${explained}`}${among}${launched}`,
    source: `ptxas ${worst.arch}`,
  };
}

/** The shapes of a metric: the named ones, else the benchmarked ones, else the canonical ones. */
function shapesOf({ benchmarked, cases }: GateContext, { shape }: Metric): string[] {
  if (shape !== undefined) return shapesNamed(shape, cases).map(formatShape);
  return [...new Set((benchmarked.length > 0 ? benchmarked : cases.sets.canonical).map(formatShape))];
}

/** The entries that these shapes launch; all entries if the launches of the shapes are unknown. */
function launchedEntries(context: GateContext, metric: Metric): { entries: readonly EntryResources[]; shapes: string } {
  const { entries } = context.variant.build!;
  const shapes = shapesOf(context, metric);
  const launched = entries.filter((entry) => entry.shapes.some((shape) => shapes.includes(shape)));
  return { entries: launched.length > 0 ? launched : entries, shapes: shapes.join(', ') };
}

/** Uses the worst launch: the one with the most waves, or with the lowest efficiency. */
function measureWaves(context: GateContext, metric: Metric): MetricAnswer {
  const shapes = shapesOf(context, metric);
  const all = context.variant.build!.entries.flatMap((entry) =>
    entry.waves.filter(({ shape }) => shapes.includes(shape)).map((waves) => ({ waves, entry: entry.entry })),
  );
  const [first, ...rest] = all;
  if (!first)
    return {
      notMeasured:
        context.variant.build!.entriesMissing ||
        `how the launches for ${shapes.join(', ')} fill the device is not known`,
    };
  const valueOf = (each: typeof first): number =>
    metric.name === 'waves' ? each.waves.waves : -each.waves.tailEfficiencyPercent;
  const worst = rest.reduce((a, b) => (valueOf(b) > valueOf(a) ? b : a), first);
  return {
    value: Math.abs(valueOf(worst)),
    detail: `${worst.entry}, ${worst.waves.shape}: ${worst.waves.text}`,
    source: 'the launch, ptxas and the device',
    shape: worst.waves.shape,
  };
}
