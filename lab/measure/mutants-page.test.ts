import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { installedProblem, installedProblems } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';

test('docs/mutants.md has the mutants of every problem, as `npm run mutants:page` writes them', () => {
  const page = readFileSync(fileURLToPath(new URL('../../docs/mutants.md', import.meta.url)), 'utf8');
  const sections = new Map(page.split(/^## /m).map((text) => [text.split('\n', 1)[0], text] as const));
  const problems = installedProblems().map(installedProblem);
  const mutants = problems.filter((problem) => problem.mutants.length > 0);
  expect([...sections.keys()].slice(1)).toEqual(mutants.map(({ id }) => id).toSorted());
  for (const { id, mutants: wanted } of mutants) {
    const section = sections.get(id)!;
    expect([...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)).toEqual(wanted.map(({ name }) => name));
    expect(section).toMatch(
      new RegExp(`\\n${id}: the cases find all ${wanted.length} mutants, and (the|all .*) symmetr`),
    );
  }
});
