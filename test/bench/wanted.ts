import { BENCH_IDS } from './benches.ts';

/** The benches of a list with commas, or all. Ends the program with exit code 2 where it names what is none. */
export function wantedBenches(list: string | undefined): readonly string[] {
  const ids = list?.split(',') ?? BENCH_IDS;
  const unknown = ids.find((id) => !BENCH_IDS.includes(id));
  if (unknown === undefined) return ids;
  console.error(`no bench ${JSON.stringify(unknown)}: must be one of ${BENCH_IDS.join(', ')}`);
  process.exit(UNKNOWN_BENCH);
}

export const UNKNOWN_BENCH = 2;
