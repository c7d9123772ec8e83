/** A search as a page: its cost, the race, the best correct trials, and every trial with its parents. */
import { chapter, fact, facts, notice, plot, tableOf, type Block, type Column, type Plot } from '../present/blocks.ts';
import { formatCost, formatMicroseconds, formatPercent, formatSeconds } from '../present/numbers.ts';
import { p50IntervalText } from '../present/sections/timings.ts';
import { shortName } from '../present/words.ts';
import { ranked } from '../search/population.ts';
import type { SearchSummary } from '../search/search-report.ts';
import { isRight, type Trial } from '../search/trial.ts';
import type { Report } from './report-formats.ts';

const MOST_RANKED = 10;

export function searchReport(summary: SearchSummary): Report {
  const title = `Search ${summary.search}`;
  const race = racePlot(summary);
  const device = summary.lineage[0]?.evaluation?.provenance['device'];
  return {
    template: 'search',
    title,
    blocks: [
      chapter(title, 1),
      ...(summary.simulated
        ? [notice('simulated: the emulator’s times judge nothing, no trial can be accepted', 'warn')]
        : []),
      facts(
        fact('kernel', summary.kernel),
        fact('device', typeof device === 'string' ? device : 'not told'),
        fact('configuration', `${summary.config}, seed ${summary.seed}`),
        fact('trials', trialsText(summary)),
        fact('best', bestText(summary)),
        fact('device time', formatSeconds(summary.device_seconds)),
        fact('cost', summary.cost_usd === null ? 'not known' : formatCost(summary.cost_usd)),
        fact('tokens', summary.tokens ? `${summary.tokens.input} in, ${summary.tokens.output} out` : 'not told'),
      ),
      chapter('The race'),
      notice('Scores are times as fast as trial 0: ratios of comparisons with the bases, multiplied.'),
      race,
      chapter('Right, best first'),
      rankedTable(ranked(summary.lineage).slice(0, MOST_RANKED)),
      chapter('Every trial'),
      tableOf(TRIAL_COLUMNS, summary.lineage),
    ],
    data: { search: summary },
    plots: [race],
  };
}

function racePlot({ search, best_so_far: best, lineage, simulated }: SearchSummary): Plot {
  const trials = lineage
    .filter((trial) => isRight(trial) && trial.score > 0)
    .map(({ trial, score, status }) => ({ trial, value: score, good: status === 'accepted' || status === 'root' }));
  return plot(`Best score so far, search ${search}${simulated ? ' (simulated)' : ''}`, { type: 'race', best, trials });
}

const trialsText = ({ trials, valid, validity_rate: rate, accepted }: SearchSummary): string =>
  `${trials}, ${valid} right${rate === null ? '' : ` (${formatPercent(100 * rate)})`}, ${accepted} accepted`;

function bestText({ best, lineage }: SearchSummary): string {
  const parameters = Object.entries(best.parameters).map(([name, value]) => `${name}=${value}`);
  const job = lineage.find(({ trial }) => trial === best.trial)?.evaluation?.experiment;
  const parts = [best.name, parameters.join(' '), job ? `job ${shortName(job)}` : ''].filter((part) => part !== '');
  return `trial ${best.trial}, ${best.score.toFixed(3)} x trial 0${parts.length > 0 ? ` (${parts.join('; ')})` : ''}`;
}

const jobOf = ({ evaluation }: Trial): string => (evaluation?.experiment ? shortName(evaluation.experiment) : 'none');

const RANKED_COLUMNS: readonly Column<Trial>[] = [
  { title: 'trial', align: 'right', cell: ({ trial }) => String(trial) },
  { title: 'score', align: 'right', cell: ({ score }) => `${score.toFixed(3)} x` },
  { title: 'status', cell: ({ status }) => status },
  {
    title: 'p50',
    align: 'right',
    cell: ({ evaluation }) => {
      const us = evaluation?.metrics['median_us'];
      return us === undefined ? 'not timed' : formatMicroseconds(us);
    },
  },
  { title: 'registers', align: 'right', cell: ({ evaluation }) => String(evaluation?.metrics['registers'] ?? '-') },
  { title: 'name', cell: ({ name }) => name },
  { title: 'job', cell: jobOf },
];

/** Older searches stored no intervals. */
function rankedTable(trials: readonly Trial[]): Block {
  const known = trials.some((trial) => intervalText(trial) !== '-');
  const after = RANKED_COLUMNS.findIndex(({ title }) => title === 'p50') + 1;
  return tableOf(known ? RANKED_COLUMNS.toSpliced(after, 0, INTERVAL_COLUMN) : RANKED_COLUMNS, trials);
}

function intervalText({ evaluation }: Trial): string {
  const { median_us: p50Us, median_low_us: p50LowUs, median_high_us: p50HighUs } = evaluation?.metrics ?? {};
  return p50Us === undefined || p50LowUs === undefined || p50HighUs === undefined
    ? '-'
    : p50IntervalText({ p50Us, p50LowUs, p50HighUs });
}

const INTERVAL_COLUMN: Column<Trial> = { title: '95 % interval', align: 'right', cell: intervalText };

const TRIAL_COLUMNS: readonly Column<Trial>[] = [
  { title: 'trial', align: 'right', cell: ({ trial }) => String(trial) },
  { title: 'parents', cell: ({ parents }) => parents.join(', ') },
  { title: 'status', cell: ({ status }) => status },
  { title: 'score', align: 'right', cell: ({ score }) => (score > 0 ? `${score.toFixed(3)} x` : '-') },
  { title: 'name', cell: ({ name }) => name },
  { title: 'thought', cell: ({ thought }) => thought },
  { title: 'why', cell: ({ why }) => why },
  { title: 'job', cell: jobOf },
];
