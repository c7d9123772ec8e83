import { BENCH_IDS } from './benches.ts';

/** The benches named in a comma-separated list, or all. Ends the program with exit code 2 if a name is unknown. */
export function wantedBenches(list: string | undefined): readonly string[] {
  const ids = list?.split(',') ?? BENCH_IDS;
  const unknown = ids.find((id) => !BENCH_IDS.includes(id));
  if (unknown === undefined) return ids;
  console.error(`no bench ${JSON.stringify(unknown)}: must be one of ${BENCH_IDS.join(', ')}`);
  process.exit(UNKNOWN_BENCH);
}

export const UNKNOWN_BENCH = 2;
