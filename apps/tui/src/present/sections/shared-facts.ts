/** Facts that several results share, so that a report says them once. */
import type { Fact } from '../blocks.ts';

const isSame = (a: Fact, b: Fact): boolean => a.label === b.label && a.value === b.value;

/** The facts that are the same in all results, in their order; empty for a single result. */
export function sharedFacts(results: readonly (readonly Fact[])[]): readonly Fact[] {
  const [first = [], ...others] = results;
  return others.length === 0
    ? []
    : first.filter((each) => others.every((facts) => facts.some((fact) => isSame(fact, each))));
}

export const withoutFacts = (facts: readonly Fact[], shared: readonly Fact[]): Fact[] =>
  facts.filter((each) => !shared.some((fact) => isSame(fact, each)));
