/** docs/ranked-runs.md describes what the code enforces. Its tables are generated here from the code and compared. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseCases, parseGates } from '@flashcore/shared/kernels';
import { ROLES, ROLE_NAMES } from '../access/roles.ts';
import { FEWEST_SEEDS } from '../spec/ranked-run.ts';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { OVERRULES, type DecidedBy } from './current-champion.ts';

const page = readFileSync(join(REPOSITORY_ROOT, 'docs/ranked-runs.md'), 'utf8')
  .replace(/ +\|/g, ' |')
  .replace(/\| +/g, '| ');
const file = (name: string): string => readFileSync(join(REPOSITORY_ROOT, 'kernels', name), 'utf8');

const DECIDERS: readonly DecidedBy[] = ['themselves', 'a submitter', 'an admin', 'nobody known the role of'];

test("the page's table of roles matches the roles that acceptances are checked with", () => {
  const rows = ROLE_NAMES.map((role) => {
    const may: readonly string[] = ROLES[role];
    const own = may.includes('decide-own') ? 'themselves' : 'nobody';
    const accepts = may.includes('decide-any') ? 'anybody' : own;
    const replaces = DECIDERS.map((by) => {
      if (!OVERRULES[role].includes(by)) return 'no';
      return role === 'submitter' && by === 'a submitter' ? 'if faster' : 'yes';
    });
    return `| ${role} | ${accepts} | ${replaces.join(' | ')} |`;
  });
  expect(page).toContain(rows.join('\n'));
});

test("the page's table of plans matches kernels/gates.yaml and kernels/cases.yaml", () => {
  const { plans } = parseGates(file('gates.yaml'), 'kernels/gates.yaml');
  const { defaults, tolerances } = parseCases(file('cases.yaml'), 'kernels/cases.yaml');
  const rows = [...plans.values()].map(({ name, acceptable, cases, shapes, champion, gates }) => {
    const locked = [...gates].filter(([, { level }]) => level === 'hard').map(([id]) => id);
    return acceptable
      ? `| ${name} | yes | ${cases} | ${shapes} | ${champion ? 'yes' : 'no'} | ${locked.join(', ')} |`
      : `| ${name} | no | | | | |`;
  });
  expect(page).toContain(rows.join('\n'));
  expect(page).toContain(`at least ${Math.max(FEWEST_SEEDS, defaults.seeds)} seeds`);
  expect(page).toContain(`the tolerance \`${defaults.tolerance}\``);
  expect(Object.keys(tolerances)).toContain(defaults.tolerance);
});
