/**
 * `npm run test:part -- K/N`: runs part K of N of the long tests. Together, all N parts run what `npm run test:all`
 * runs beyond `npm test`.
 * `npm run test:part -- packages`: runs the files of `npm test` in which the bare roots skip a test.
 * Further options go to vitest.
 */
import { spawnSync } from 'node:child_process';
import { isLeftOut, isLong, longSeconds, needsPackages, partOf, testFiles } from './long-tests.ts';

const [part = '', ...options] = process.argv.slice(2);
const { files, of, env } = part === 'packages' ? filesWithPackages() : longFiles(part);
console.log(`Part ${part} of ${of}: ${files.length} files`);
const { status } = spawnSync('npx', ['vitest', 'run', ...options, ...files], {
  stdio: 'inherit',
  env: { ...process.env, ...env },
});
process.exit(status ?? 1);

interface Part {
  readonly files: readonly string[];
  readonly of: string;
  readonly env?: Readonly<Record<string, string>>;
}

function filesWithPackages(): Part {
  const short = testFiles().filter(({ path }) => !isLeftOut(path));
  const files = short.filter(({ text }) => needsPackages(text));
  return { files: files.map(({ path }) => path), of: `the ${short.length} files of npm test` };
}

function longFiles(text: string): Part {
  const [, index = 0, count = 0] = /^(\d+)\/(\d+)$/.exec(text)?.map(Number) ?? [];
  if (index < 1 || index > count) {
    console.error(
      `The part must be "packages" or K/N with 1 <= K <= N, got "${text}". For example: npm run test:part -- 2/10`,
    );
    process.exit(2);
  }
  const long = testFiles()
    .filter(({ path, text: source }) => isLong(path, source))
    .map(({ path }) => path);
  return {
    files: partOf(long, { index, count, secondsOf: longSeconds }),
    of: `the ${long.length} files of the long tests`,
    env: { FLASHCORE_TESTS: 'all' },
  };
}
