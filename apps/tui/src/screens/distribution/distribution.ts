/**
 * The distribution of one measurement: histogram and ECDF over one axis, the samples in order with dropped ones marked,
 * the last runs, and facts.
 */
import { TimingMode } from '@flashcore/shared/contract';
import { FEWEST_SAMPLES } from '@flashcore/shared/kernels';
import { fact, facts, notice, type Fact } from '../../present/blocks.ts';
import { sampleStrip, sparkline } from '../../present/cells/bars.ts';
import { blockRows } from '../../present/cells/cells-painter.ts';
import { ecdf } from '../../present/cells/ecdf.ts';
import { counted, formatMicroseconds } from '../../present/numbers.ts';
import { histogram, histogramData, type HistogramData } from '../../present/cells/histogram.ts';
import { fitRow, flowRows, run, textRow, type Row } from '../../present/cells/row.ts';
import type { AppState } from '../../state/app-state.ts';
import type { BenchmarkView } from '../../state/job-view.ts';
import { attachedJob, hasDistribution, lastRunsOf } from '../../state/selectors.ts';
import { STOP_WORDS, marksOf, spreadFacts } from '../../present/sections/timings.ts';
import { notMeasured, MODE_WORDS, caseText } from '../../present/words.ts';
import { beside, pageOf, type Size } from '../pane/view.ts';
import { mirroredAxis, mirroredHistogram } from '../../present/cells/mirrored.ts';

const SIDE_BY_SIDE = 76;
const LEAST_PLOT = 5;
const MOST_PLOT = 16;

export function distributionRows(state: AppState, chosen: BenchmarkView, { width, height }: Size): Row[] {
  const title = titleRow(chosen);
  const bins = histogramData(chosen.histogram);
  const facts = [...resultFacts(chosen, width), ...stripRows(chosen, width), ...lastRuns(state, chosen, width)];
  if (bins === undefined) return [title, textRow('no samples yet', 'dim'), ...facts].slice(0, height);
  const { samples = 0, minUs = 0, maxUs = 0 } = chosen.latency ?? {};
  if (!hasDistribution(chosen))
    return [
      title,
      textRow(
        `${samples} sample${samples === 1 ? '' : 's'}, ${formatMicroseconds(minUs, maxUs)} to ${formatMicroseconds(maxUs)}: a distribution needs ${FEWEST_SAMPLES.interval}`,
        'dim',
      ),
      ...facts,
    ].slice(0, height);
  // Facts come first. If all of them would leave the plot too few rows, they are split into pages.
  const factRows = Math.min(facts.length, Math.max(3, Math.floor(height / 4)), Math.max(0, height - 1 - LEAST_PLOT));
  const shown = pageOf(facts, { height: factRows, page: state.ui.view === 'latency' ? state.ui.detail : 0 });
  const plots = Math.min(2 * MOST_PLOT, height - 1 - shown.length);
  return [title, ...shown, ...plotRows(chosen, bins, { width, height: plots, plot: state.ui.distribution })];
}

function titleRow(view: BenchmarkView): Row {
  const { shape, mode, subject, latency } = view;
  return [
    run(`${caseText(shape)} ${MODE_WORDS[mode]}`, 'title'),
    run(subject === 'candidate' ? '' : ` ${subject}`),
    ...(latency === undefined || latency.samples === 0
      ? []
      : [run('  p50 ', 'dim'), run(formatMicroseconds(latency.p50Us), 'title')]),
    run(liveText(view), 'accent'),
  ];
}

function liveText({ warmUp, result, subject }: BenchmarkView): string {
  if (warmUp) return '  warming up: these samples do not count';
  return result === undefined && subject === 'candidate' ? '  live' : '';
}

/**
 * Histogram and ECDF side by side in a wide pane, and one below the other in a tall one. Other panes show only the
 * histogram.
 */
function plotRows(
  { latency }: BenchmarkView,
  bins: HistogramData,
  { width, height, plot }: Size & { plot: AppState['ui']['distribution'] },
): Row[] {
  const marks = marksOf(latency);
  const drawHistogram = (size: Size): Row[] => histogram(bins, { ...size, marks, counts: true });
  const drawEcdf = (size: Size): Row[] => ecdf([{ data: bins, role: 'bar' }], size);
  const alone = { width, height: Math.min(height, MOST_PLOT) };
  if (plot === 'histogram') return drawHistogram(alone);
  if (plot === 'ecdf') return drawEcdf(alone);
  if (width >= SIDE_BY_SIDE) {
    const left = Math.floor(width / 2) - 1;
    return beside(drawHistogram({ ...alone, width: left }), drawEcdf({ ...alone, width: width - left - 2 }), {
      leftWidth: left,
    });
  }
  if (height < 2 * LEAST_PLOT + 1) return drawHistogram(alone);
  const upper = Math.ceil(height / 2);
  return [...drawHistogram({ width, height: upper }), ...drawEcdf({ width, height: height - upper })];
}

/** The last samples in order. */
function stripRows({ recent, latency }: BenchmarkView, width: number): Row[] {
  if (recent.length < 2) return [];
  const dropped = latency?.dropped ?? 0;
  const label = 'in order ';
  const tail = dropped > 0 ? `  × ${dropped} dropped` : '';
  return [[run(label, 'dim'), ...sampleStrip(recent, width - label.length - tail.length), run(tail, 'bad')]];
}

const MOST_RUNS = 24;

function lastRuns(state: AppState, { mode, subject, simulated }: BenchmarkView, width: number): Row[] {
  const job = attachedJob(state);
  const runs = job === undefined || subject !== 'candidate' ? [] : lastRunsOf(state, job).slice(-MOST_RUNS);
  const [first, last] = [runs[0], runs.at(-1)];
  if (first === undefined || last === undefined || runs.length < 2 || mode !== TimingMode.HOT) return [];
  return [
    ...flowRows(
      [
        [
          run(`last ${runs.length} runs `, 'dim'),
          run(sparkline(runs, MOST_RUNS), 'bar'),
          run(` ${formatMicroseconds(first, last)} → ${formatMicroseconds(last)}`),
          run(simulated ? ', simulated' : ', hot, first shape', simulated ? 'warn' : 'dim'),
        ],
      ],
      width,
    ),
  ];
}

/** Explains the numbers at the ends of the histogram's axis. */
function beyondFacts({ histogram: bins }: Pick<BenchmarkView, 'histogram'>): Fact[] {
  const { underflow = 0, overflow = 0 } = bins ?? {};
  return [
    ...(underflow > 0 ? [fact(`<${underflow}`, `${counted(underflow, 'sample')} below the axis`)] : []),
    ...(overflow > 0 ? [fact(`>${overflow}`, `${counted(overflow, 'sample')} above the axis`)] : []),
  ];
}

function resultFacts({ result, latency, histogram: bins }: BenchmarkView, width: number): Row[] {
  const figures = facts(
    ...spreadFacts({ latency }),
    ...beyondFacts({ histogram: bins }),
    result && fact('stopped', STOP_WORDS[result.stopReason]),
    result && fact('output', result.outputCheck),
  );
  return blockRows(
    [
      result?.valid === false && notice(`not for a leaderboard: ${result.invalidReason ?? 'no reason given'}`, 'warn'),
      result?.sdpaMissing !== undefined && notice(`sdpa ${notMeasured(result.sdpaMissing)}`, 'dim'),
      figures.facts.length > 0 && figures,
      result?.conditions?.notMeasured && notice(`clocks ${notMeasured(result.conditions.notMeasured)}`, 'dim'),
    ].filter((block) => typeof block === 'object'),
    width,
  );
}

/** Fewest rows in which both plots fit. */
const LEAST_BOTH = 16;
const MOST_A_PLOT = 17;

interface Distributions {
  upper: HistogramData;
  lower: HistogramData;
  medians: readonly [number, number];
  /** The names of the two distributions, the upper one first. */
  names: readonly [string, string];
}

/**
 * Two distributions over one axis: mirrored histograms and, if there is room, both ECDFs below them. `upper` is drawn
 * above the axis; medians in the same order, microseconds.
 */
export function twoDistributions({ upper, lower, medians, names }: Distributions, { width, height }: Size): Row[] {
  if (height < LEAST_BOTH) return mirroredHistogram({ upper, lower }, { width, height, medians });
  const mirrored = Math.min(MOST_A_PLOT, Math.ceil(height * 0.55));
  const { axis, margin } = mirroredAxis({ upper, lower }, width);
  const curves = ecdf(
    [
      { data: upper, role: 'bar' },
      { data: lower, role: 'barAlternative', isDotted: true },
    ],
    { width: width - margin, height: Math.min(MOST_A_PLOT, height - mirrored - 1), axis },
  );
  return [
    ...mirroredHistogram({ upper, lower }, { width, height: mirrored, medians }),
    fitRow(
      [
        run(' '.repeat(margin)),
        run('⠤⠤⠤ ', 'bar'),
        run(names[0], 'dim'),
        run('   ⠄⠄⠄ ', 'barAlternative'),
        run(names[1], 'dim'),
        run('   share of samples up to a time', 'dim'),
      ],
      width,
    ),
    ...curves.map((row): Row => [run(' '.repeat(margin)), ...row]),
  ];
}
