/** A file's name says what it is: no two files of an app share a name, except for deliberate pairs. */
import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

interface Pair {
  readonly folders: readonly [string, string];
  /** If set, the only file name that both folders may have. */
  readonly only?: string;
  readonly why: string;
}
const BLOCKS: Omit<Pair, 'folders'> = { why: 'blocks of results, and the screen that draws them in cells' };
const COMMAND: Omit<Pair, 'folders'> = { why: 'a command line, and what it does' };
const PAIRS: readonly Pair[] = [
  { folders: ['apps/runner/src', 'apps/runner/worker'], only: 'main', why: 'where each of the two processes begins' },
  { folders: ['apps/tui/src/present/sections', 'apps/tui/src/screens'], ...BLOCKS },
  { folders: ['apps/tui/src/present/cells', 'apps/tui/src/screens'], ...BLOCKS },
  { folders: ['apps/tui/src/present/sections', 'apps/tui/src/commands'], why: 'what a plain command prints' },
  { folders: ['apps/tui/src/components', 'apps/tui/src/screens'], why: 'rows, and the component that puts them out' },
  { folders: ['apps/tui/src/commands', 'apps/tui/src/search'], ...COMMAND },
  { folders: ['apps/tui/src/commands', 'apps/tui/src/handover'], ...COMMAND },
  { folders: ['libs/shared/src', 'libs/shared/src'], only: 'index', why: 'what a folder exports' },
];

const nameOf = (file: string): string => basename(file).replace(/\.tsx?$/, '');
const isIn = (file: string, folder: string): boolean => file.startsWith(`${folder}/`);
/** True if the two files are a deliberate pair, one in each of the pair's folders. */
const isPair = (a: string, b: string): boolean =>
  PAIRS.some(
    ({ folders: [one, other], only = nameOf(a) }) =>
      nameOf(a) === only && ((isIn(a, one) && isIn(b, other)) || (isIn(a, other) && isIn(b, one))),
  );

/** Files of one app that have the same base name and are not a deliberate pair. */
function namesakes(files: readonly string[]): string[] {
  const byName = Object.groupBy(files, nameOf);
  return Object.values(byName).flatMap((sharing = []) =>
    sharing.flatMap((a, index) =>
      sharing.slice(index + 1).flatMap((b) => (isPair(a, b) ? [] : [`${a} and ${b}: rename one to what it is`])),
    ),
  );
}

test.each(['apps/runner', 'apps/tui', 'libs/shared', 'tools'])('no two files of %s share a base name', (app) => {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', app], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  // Ignores the probes that lint-rules.test.ts, which may run at the same time, puts with the same name into many
  // folders.
  const files = listed
    .split('\n')
    .filter((file) => /(?<!\.test|\.d)\.tsx?$/.test(file) && !/generated|-rule-probe/.test(file));
  expect(files.length).toBeGreaterThan(5);
  expect(namesakes(files)).toEqual([]);
});

test('a new pair of files with the same name is refused, and a deliberate pair is allowed', () => {
  expect(namesakes(['apps/runner/src/build/tokens.ts', 'apps/runner/src/access/tokens.ts'])).toHaveLength(1);
  expect(namesakes(['apps/runner/src/rpc/tune.ts', 'apps/runner/worker/tune.ts'])).toHaveLength(1);
  expect(namesakes(['apps/tui/src/screens/host.ts', 'apps/tui/src/screens/runner/host.ts'])).toHaveLength(1);
  expect(namesakes(['apps/tui/src/screens/gates/gates.ts', 'apps/tui/src/present/sections/gates.ts'])).toEqual([]);
  expect(namesakes(['apps/runner/src/main.ts', 'apps/runner/worker/main.ts'])).toEqual([]);
});
