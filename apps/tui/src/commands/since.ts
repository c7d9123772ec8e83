import { entryOf } from '@flashcore/shared/text';
import { UsageError } from '../usage-error.ts';

const UNIT_SECONDS: Record<string, number> = { m: 60, h: 3600, d: 86_400, w: 7 * 86_400 };

/**
 * `--since` as seconds since 1970, from a day or an instant (2026-11-21, 2026-11-21T10:30Z) or an age (90m, 12h, 3d,
 * 2w). 0 without the option. Errors: UsageError.
 */
export function sinceSeconds(text: string | undefined, now = Date.now()): number {
  if (text === undefined) return 0;
  const ago = /^(\d{1,5})([mhdw])$/.exec(text);
  if (ago) return now / 1000 - Number(ago[1]) * entryOf(UNIT_SECONDS, ago[2]!)!;
  const instant = /^\d{4}-\d\d-\d\d([T ][\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isFinite(instant))
    throw new UsageError(
      `--since ${text}: must be a day (2026-11-21), an instant (2026-11-21T10:30Z) or an age (12h, 3d)`,
    );
  return instant / 1000;
}
