import { Verdict, type CaseResult, type VerifyResult } from '../generated/flashcore/runner/v1/result_pb.js';

/** How many of the requested cases and probes passed. */
export interface ParityCounts {
  readonly passedCases: number;
  readonly cases: number;
  readonly passedProbes: number;
  readonly probes: number;
}

const passedOf = (results: readonly CaseResult[]): number =>
  results.filter(({ verdict }) => verdict === Verdict.PASS).length;

type Verified = Pick<VerifyResult, 'cases' | 'probes' | 'drawn'>;

/** The inputs other than the cases: probes that find known mistakes, and shapes drawn for the run. */
export const allProbes = ({ probes, drawn }: Pick<Verified, 'probes' | 'drawn'>): CaseResult[] => [...probes, ...drawn];

export const parityCounts = (verified: Verified): ParityCounts => ({
  passedCases: passedOf(verified.cases),
  cases: verified.cases.length,
  passedProbes: passedOf(allProbes(verified)),
  probes: allProbes(verified).length,
});

/** "7 of 7 cases", "7 of 7 cases and 1 of 2 probes": a kernel may be right in all cases and wrong on a probe. */
export function parityText({ passedCases, cases, passedProbes, probes }: ParityCounts): string {
  const ofCases = `${passedCases} of ${cases} case${cases === 1 ? '' : 's'}`;
  return probes === 0 ? ofCases : `${ofCases} and ${passedProbes} of ${probes} probe${probes === 1 ? '' : 's'}`;
}

/** "7/7" for a table; mentions the probes if one failed. */
export function parityShort({ passedCases, cases, passedProbes, probes }: ParityCounts): string {
  const ofCases = cases === 0 ? '-' : `${passedCases}/${cases}`;
  return passedProbes < probes ? `${ofCases}, ${passedProbes}/${probes} probes` : ofCases;
}

export const isParity = ({ passedCases, cases, passedProbes, probes }: ParityCounts): boolean =>
  passedCases === cases && passedProbes === probes;
