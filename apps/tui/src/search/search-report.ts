import { formatBytes } from '../present/numbers.ts';
import { bestOf, cellOf, elitesOf, islandOf, islandsOf, ranked } from './population.ts';
import type { SearchPlan } from './search-store.ts';
import { spent } from './evolve.ts';
import { isRight, type Trial } from './trial.ts';

/** The figures of an island. Trial 0 is not counted, because it belongs to all islands. */
interface IslandSummary {
  readonly island: number;
  readonly trials: number;
  readonly valid: number;
  /** The best correct trial, including guests. */
  readonly best: { readonly trial: number; readonly score: number };
  /** Trials that came from the previous island. */
  readonly guests: readonly number[];
}

/** The figures of a search, for --json and for the report. */
export interface SearchSummary {
  readonly version: 1;
  readonly search: string;
  readonly kernel: string;
  readonly config: string;
  readonly seed: number;
  /** Number of trials without the root. */
  readonly trials: number;
  readonly accepted: number;
  readonly valid: number;
  /** Share of correct trials; null before the first trial. */
  readonly validity_rate: number | null;
  readonly best: {
    readonly trial: number;
    readonly name: string;
    readonly score: number;
    /**
     * Trial 0's hot median divided by this trial's, each from its own job; null if one of the trials was not timed.
     * Trials are ranked by score, not by this ratio.
     */
    readonly median_ratio: number | null;
    readonly parameters: Trial['parameters'];
  };
  readonly islands: readonly IslandSummary[];
  /** The best correct trial of every cell, best first. */
  readonly archive: readonly { readonly cell: string; readonly trial: number; readonly score: number }[];
  /** Score of the best accepted trial so far, after each trial from 0. */
  readonly best_so_far: readonly number[];
  readonly device_seconds: number;
  /** Null if the device's rate is unknown and the proposer reported no cost. */
  readonly cost_usd: number | null;
  /** Null if the proposer did not report any. */
  readonly tokens: { readonly input: number; readonly output: number } | null;
  /** True if times are simulated and cannot be judged, so that no trial can be accepted. */
  readonly simulated: boolean;
  readonly lineage: readonly Trial[];
}

/** `trials` begins with the root. */
export function summaryOf(plan: SearchPlan, trials: readonly Trial[]): SearchSummary {
  const made = trials.slice(1);
  const right = made.filter(isRight);
  const best = bestOf(trials);
  const { deviceSeconds } = spent(trials);
  const costs = trials.flatMap(({ evaluation, proposerUsd }) => [evaluation?.metrics['cost_usd'], proposerUsd]);
  const tokens = trials.flatMap((trial) => (trial.tokens ? [trial.tokens] : []));
  return {
    version: 1,
    search: plan.id,
    kernel: plan.kernelId,
    config: plan.config,
    seed: plan.seed,
    trials: made.length,
    accepted: made.filter(({ status }) => status === 'accepted').length,
    valid: right.length,
    validity_rate: made.length === 0 ? null : right.length / made.length,
    best: {
      trial: best.trial,
      name: best.name,
      score: best.score,
      median_ratio: medianRatio(trials[0], best),
      parameters: best.parameters,
    },
    islands: islandsOf(trials, plan.islands).map((members, index) => islandSummary(members, index + 1, plan.islands)),
    archive: elitesOf(trials).map((trial) => ({ cell: cellOf(trial), trial: trial.trial, score: trial.score })),
    best_so_far: trials.map((_, index) => bestOf(trials.slice(0, index + 1)).score),
    device_seconds: deviceSeconds,
    cost_usd: costs.every((usd) => usd === undefined) ? null : spent(trials).usd,
    tokens:
      tokens.length === 0
        ? null
        : {
            input: tokens.reduce((sum, { input }) => sum + input, 0),
            output: tokens.reduce((sum, { output }) => sum + output, 0),
          },
    simulated: trials[0]?.evaluation?.provenance['simulated'] === true,
    lineage: trials,
  };
}

function islandSummary(members: readonly Trial[], island: number, islands: number): IslandSummary {
  const own = members.filter(({ trial }) => trial > 0 && islandOf(trial, islands) === island);
  const guests = members.flatMap(({ trial }) => (trial > 0 && islandOf(trial, islands) !== island ? [trial] : []));
  const [{ trial, score }] = ranked(members) as [Trial];
  return { island, trials: own.length, valid: own.filter(isRight).length, best: { trial, score }, guests };
}

function medianRatio(root: Trial | undefined, best: Trial): number | null {
  const [first, own] = [root, best].map((trial) => trial?.evaluation?.metrics['median_us']);
  return first === undefined || own === undefined ? null : first / own;
}

/** The line that reports a trial when the trial has ended. */
export function trialLine({ trial, island, status, score, name, parents, why }: Trial): string {
  const on = island === undefined ? '' : ` on island ${island}`;
  const from = parents.length > 0 ? ` from ${parents.join(' and ')}` : '';
  const times = status === 'accepted' || status === 'valid' ? ` ${score.toFixed(3)}x` : '';
  return `trial ${trial}${on}${from}: ${status}${times}${name ? `, ${name}` : ''}${why ? `: ${why}` : ''}`;
}

/** The figures, the best score over the trials, the best correct trials, islands, the archive, and the tree. */
export function searchLines(summary: SearchSummary, { unicode }: { readonly unicode: boolean }): string[] {
  const { lineage, best, best_so_far: curve, trials, valid, accepted } = summary;
  const parameters = Object.entries(best.parameters).map(([name, value]) => `${name}=${value}`);
  return [
    `Search ${summary.search}: ${summary.kernel}, ${summary.config}, seed ${summary.seed}`,
    `  ${trials} trials, ${valid} right (${summary.validity_rate === null ? 'none yet' : `${(100 * summary.validity_rate).toFixed(0)} %`}), ${accepted} accepted`,
    `  best: trial ${best.trial}, ${best.score.toFixed(3)}x trial 0${best.name ? `, ${best.name}` : ''}${parameters.length > 0 ? ` (${parameters.join(' ')})` : ''}`,
    ...scoreNotes(summary),
    `  ${summary.device_seconds.toFixed(1)} device seconds; cost ${summary.cost_usd === null ? 'not known' : `${summary.cost_usd.toFixed(4)} USD`}; tokens ${summary.tokens ? `${summary.tokens.input} in, ${summary.tokens.output} out` : 'not told'}`,
    ...(summary.simulated
      ? [
          '  The emulator’s times judge nothing: no trial can be accepted; right ones rank by registers and shared memory',
        ]
      : []),
    '',
    `Best so far  ${sparkline(curve, unicode)}  1.000x to ${Math.max(...curve).toFixed(3)}x`,
    '',
    'Right, best first',
    ...ranked(lineage).slice(0, 10).map(rankLine),
    '',
    ...(summary.islands.length > 1 ? ['Islands', ...summary.islands.map(islandLine), ''] : []),
    // With only one cell, the archive would repeat the best trial.
    ...(summary.archive.length > 1 ? ['Archive, the best of each kind', ...summary.archive.map(cellLine), ''] : []),
    'Lineage',
    ...tree(lineage, unicode),
  ];
}

/**
 * Explains why the two ratios differ: in a comparison both builds run under the same conditions, in two jobs they do
 * not.
 */
function scoreNotes({ best: { trial, median_ratio: ratio } }: SearchSummary): string[] {
  if (trial === 0 || ratio === null) return [];
  return [
    `  scores: ratios of the interleaved comparisons, multiplied from trial 0 on; by the hot medians of their own jobs trial ${trial} is ${ratio.toFixed(3)}x trial 0`,
  ];
}

function rankLine({ trial, status, score, name, evaluation }: Trial): string {
  const { median_us: us, median_low_us: low, median_high_us: high } = evaluation?.metrics ?? {};
  const { registers, smem_bytes: smem } = evaluation?.metrics ?? {};
  const interval = low === undefined || high === undefined ? '' : ` [${low.toPrecision(4)}, ${high.toPrecision(4)}]`;
  const figures = [
    us === undefined ? 'not timed' : `${us.toPrecision(4)} us${interval}`,
    registers === undefined ? '' : `${registers} registers`,
    smem === undefined ? '' : `${formatBytes(smem)} shared`,
  ].filter(Boolean);
  return `  ${String(trial).padStart(3)} ${score.toFixed(3)}x ${status.padEnd(8)} ${figures.join(', ')}  ${name}`;
}

function islandLine({ island, trials, valid, best, guests }: IslandSummary): string {
  const came = guests.length > 0 ? `; came to it: ${guests.join(', ')}` : '';
  return `  ${String(island).padStart(3)} ${trials} trials, ${valid} right, best: trial ${best.trial}, ${best.score.toFixed(3)}x${came}`;
}

const cellLine = ({ cell, trial, score }: SearchSummary['archive'][number]): string =>
  `  ${String(trial).padStart(3)} ${score.toFixed(3)}x ${cell}`;

const BLOCKS = ['▁▂▃▄▅▆▇█', '_.-=+*#@'] as const;

function sparkline(values: readonly number[], unicode: boolean): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const blocks = BLOCKS[unicode ? 0 : 1];
  return values
    .map((value) => blocks[high === low ? 0 : Math.round(((value - low) / (high - low)) * (blocks.length - 1))])
    .join('');
}

/** The trials as a tree, each below its base. */
function tree(trials: readonly Trial[], unicode: boolean): string[] {
  const [branch, last, bar] = unicode ? ['├─ ', '└─ ', '│  '] : ['|- ', '`- ', '|  '];
  const children = new Map<number, Trial[]>();
  for (const trial of trials.slice(1)) {
    const [base = 0] = trial.parents;
    children.set(base, [...(children.get(base) ?? []), trial]);
  }
  const below = (trial: number, indent: string): string[] =>
    (children.get(trial) ?? []).flatMap((child, index, all) => {
      const isLast = index === all.length - 1;
      return [
        `${indent}${isLast ? last : branch}${nodeText(child)}`,
        ...below(child.trial, indent + (isLast ? '   ' : bar)),
      ];
    });
  return [`  ${nodeText(trials[0]!)}`, ...below(0, '  ')];
}

const nodeText = ({ trial, status, score, name, operator, parents }: Trial): string =>
  `${trial} ${status}${score > 0 ? ` ${score.toFixed(3)}x` : ''}${name ? ` ${name}` : ''}${parents.length > 1 ? ` (${operator} with ${parents.slice(1).join(', ')})` : ''}`;
