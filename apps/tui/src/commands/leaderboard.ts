import { GetLeaderboardResponseSchema, TimingMode } from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { leaderboardBlocks } from '../present/sections/leaderboard.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { jsonOf } from './json.ts';
import { integer, type GlobalOptions } from './options.ts';

export interface LeaderboardCommandOptions extends GlobalOptions {
  readonly device?: string;
  readonly shape?: string;
  readonly mode?: 'hot' | 'cold';
  readonly protocol?: string;
  readonly limit?: string;
}

const MODES = { hot: TimingMode.HOT, cold: TimingMode.COLD } as const;
const DEFAULT_LIMIT = 50;

/**
 * `fa-tui leaderboard`: the best valid result of each kernel variant and of SDPA; what is not asked the runner fills
 * in.
 */
export function showLeaderboard(options: LeaderboardCommandOptions, context: CommandContext): Promise<ExitCode> {
  const { device = '', shape, mode, protocol = '' } = options;
  const limit = integer('--limit', options.limit, 1, 1000) ?? DEFAULT_LIMIT;
  const request = {
    deviceName: device,
    protocol,
    ...(shape !== undefined && { shape: parseShape(shape) }),
    ...(mode !== undefined && { mode: MODES[mode] }),
  };
  return context.withRunner(async ({ client }) => {
    const board = await client.getLeaderboard(request);
    if (context.options.json) context.document(jsonOf(GetLeaderboardResponseSchema, board));
    else context.show(leaderboardBlocks(board, { limit }));
    return ExitCode.PASSED;
  });
}
