/**
 * The leaderboard as a self-contained page: the table and, for each row, the evidence and the command that repeats the
 * measurement.
 */
import {
  machineText,
  parityCounts,
  parityText,
  type GetJobResponse,
  type GetLeaderboardResponse,
  type LeaderboardEntry,
} from '@flashcore/shared/contract';
import { chapter, fact, facts, heading, notice, type Block } from '../present/blocks.ts';
import { htmlPage } from '../present/html/html-painter.ts';
import { formatInstant } from '../present/numbers.ts';
import { casesText, intervalText, leaderboardBlocks, placeText, rankText } from '../present/sections/leaderboard.ts';
import { askedVariant } from '../search/evaluation.ts';

interface PageOptions {
  /** Maximum number of rows. */
  readonly limit: number;
  /** The rows' jobs, by name. */
  readonly jobs: ReadonlyMap<string, GetJobResponse>;
}

export function leaderboardPage(board: GetLeaderboardResponse, { limit, jobs }: PageOptions): string {
  const title = `Leaderboard${board.place ? `, ${placeText(board.place)}` : ''}`;
  const rows = board.entries.slice(0, limit);
  return htmlPage(title, [
    chapter(title, 1),
    ...leaderboardBlocks(board, { limit }).slice(1),
    chapter('What each row rests on'),
    ...rows.flatMap((entry) => evidenceBlocks(entry, board.entries, jobs.get(entry.job))),
  ]);
}

function evidenceBlocks(
  entry: LeaderboardEntry,
  all: readonly LeaderboardEntry[],
  found: GetJobResponse | undefined,
): Block[] {
  const title = heading(`${rankText(entry, all)}  ${entry.label}`, entry.champion ? 'champion' : '');
  const result = found?.result;
  if (!result) return [title, notice(`the result of ${entry.job} is not there any more`, 'warn')];
  const { provenance, ranking } = result;
  const variant = askedVariant(result);
  const told = (label: string, value: string | undefined) => (value ? fact(label, value) : undefined);
  const command = entry.sdpaVersion === '' ? commandOf(found) : undefined;
  return [
    title,
    facts(
      told('job', entry.job),
      told('measured', formatInstant(entry.time)),
      told('by', entry.owner),
      told('interval', intervalText(entry)),
      told('shapes', casesText(entry)),
      told('ranked', ranking && (ranking.ranked ? 'yes' : `no: ${ranking.reasons.join('; ')}`)),
      told('plan', provenance?.plan),
      told('cases', variant?.verify && parityText(parityCounts(variant.verify))),
      told('seeds', provenance?.seeds.join(' ')),
      told('comparison', variant?.comparison?.reason),
      told('gates', provenance?.gatesDigest),
      told('rules', ranking?.rulesDigest),
      told('source', provenance?.sourceDigest),
      told('build', variant?.build?.buildId),
      told('device', provenance?.device && `${provenance.device.name}, driver ${provenance.device.driverVersion}`),
      told('host', provenance && machineText(provenance)),
      told('protocol', provenance?.protocol),
      told('runner', provenance?.runnerVersion),
      told('SDPA', entry.sdpaVersion),
      told('repeat it', command),
    ),
  ];
}

/** The command that repeats the row on the same runner, which still has the build. */
function commandOf({ result }: GetJobResponse): string | undefined {
  const buildId = askedVariant(result)?.build?.buildId;
  if (!buildId) return undefined;
  const plan = result?.provenance?.plan;
  return `fa-tui run ${buildId}${plan ? ` --plan ${plan}` : ''}`;
}
