/** Formats the matrix of a problem's mutants, and the reasons to refuse the problem. */
import type { CheckedGroup, MutantCell, ProblemCheck } from '../../worker/messages/checking.ts';

/** Reasons to refuse the problem, one line per mutant or correct answer; empty if it passes. */
export function refusals({ problem, mutants, groups }: ProblemCheck): string[] {
  if (mutants.length === 0) return [`${problem} has no mutants: add \`mutants\` to problem.yaml`];
  const wronged = groups.flatMap((group) =>
    group.wronged.map(
      (at) => `a right answer is called wrong on ${at.case}, ${at.distribution}: widen the tolerance \`parity\``,
    ),
  );
  const ofMutants = mutants.flatMap(({ name }, index) => {
    const cells = groups.flatMap((group) => group.cells[index]!.flat());
    if (cells.includes('found')) return [];
    return cells.includes('missed')
      ? [`${name} survives: add a case or distribution to cases.yaml that finds it`]
      : [`${name} changes nothing on any case: change or remove it, or add a case that it changes`];
  });
  return [...wronged, ...ofMutants];
}

const MARKS: Readonly<Record<MutantCell, string>> = { found: 'x', missed: '.', same: ' ' };
export const LEGEND = 'x found, . missed, blank unchanged';

/** One table per group of cases: a line for each mutant and case, a column for each distribution. */
export function matrixLines(check: ProblemCheck): string[] {
  return check.groups.flatMap((group) => (group.cases.length === 0 ? [] : ['', ...groupLines(check, group)]));
}

function groupLines({ mutants }: ProblemCheck, { name, cases, distributions, cells }: CheckedGroup): string[] {
  const nameWidth = Math.max(...mutants.map((mutant) => mutant.name.length), name.length);
  const caseWidth = Math.max(...cases.map((each) => each.length));
  const line = (first: string, second: string, marks: string[]): string =>
    [first.padEnd(nameWidth), second.padEnd(caseWidth), ...marks].join('  ').trimEnd();
  return [
    line(name, 'case', distributions),
    ...mutants.flatMap((mutant, index) =>
      cases.map((each, at) =>
        line(
          at === 0 ? mutant.name : '',
          each,
          cells[index]![at]!.map((cell, column) => MARKS[cell].padEnd(distributions[column]!.length)),
        ),
      ),
    ),
  ];
}
