import { writeFileSync } from 'node:fs';
import type { RunnerClient } from '@flashcore/shared/client';
import {
  FlashcoreError,
  GetLeaderboardResponseSchema,
  type GetJobResponse,
  type GetLeaderboardResponse,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import { parseCase } from '@flashcore/shared/kernels';
import { leaderboardPage } from '../handover/leaderboard-page.ts';
import { requireWritable } from '../named-files.ts';
import { leaderboardBlocks } from '../present/sections/leaderboard.ts';
import { type CommandContext, jsonOf } from './context.ts';
import { integer, type GlobalOptions } from './options.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

export interface LeaderboardCommandOptions extends GlobalOptions {
  readonly device?: string;
  readonly problem?: string;
  readonly shape?: string;
  /** Name of the case set over which the geometric mean ranks the entries. */
  readonly cases?: string;
  readonly dtype?: string;
  readonly mode?: 'hot' | 'cold';
  readonly protocol?: string;
  readonly limit?: string;
  /** File for a page with the evidence for each row. */
  readonly export?: string;
}

const DEFAULT_LIMIT = 50;

/**
 * `fa-tui leaderboard`: the best valid result of each kernel variant and of SDPA. The runner chooses values for missing
 * options.
 */
export function showLeaderboard(options: LeaderboardCommandOptions, context: CommandContext): Promise<ExitCode> {
  const { device = '', problem = '', shape, cases = '', dtype = '', mode, protocol = '' } = options;
  if (shape !== undefined && cases !== '')
    throw new UsageError('--shape and --cases: give one of them, a shape or the set to rank by the mean over');
  requireWritable({ '--export': options.export });
  const limit = integer('--limit', options.limit, 1, 1000) ?? DEFAULT_LIMIT;
  const request = {
    deviceName: device,
    problem,
    protocol,
    dtype,
    caseSet: cases,
    ...(shape !== undefined && { shape: parseCase(shape) }),
    ...(mode !== undefined && { mode: TIMING_MODES[mode] }),
  };
  return context.withRunner(async ({ client }) => {
    const board = await client.getLeaderboard(request);
    if (options.export !== undefined) {
      const jobs = await jobsOf(board, limit, client);
      writeFileSync(options.export, leaderboardPage(board, { limit, jobs }));
      context.note(`${options.export}: ${Math.min(limit, board.entries.length)} rows with their evidence`);
    }
    if (context.options.json) context.document(jsonOf(GetLeaderboardResponseSchema, board));
    else context.show(leaderboardBlocks(board, { limit }));
    return ExitCode.PASSED;
  });
}

/** The jobs behind the rows. A job that no longer exists is left out. */
async function jobsOf(
  { entries }: GetLeaderboardResponse,
  limit: number,
  client: RunnerClient,
): Promise<Map<string, GetJobResponse>> {
  const jobs = new Map<string, GetJobResponse>();
  for (const { job } of entries.slice(0, limit)) {
    if (jobs.has(job)) continue;
    try {
      jobs.set(job, await client.getJob({ name: job }));
    } catch (error) {
      if (!(error instanceof FlashcoreError) || error.reason !== 'JOB_NOT_FOUND') throw error;
    }
  }
  return jobs;
}
