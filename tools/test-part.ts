/**
 * `npm run test:part -- K/N`: runs part K of N of the long tests. Together, all N parts run what `npm run test:all`
 * runs beyond `npm test`. Options after K/N go to vitest.
 */
import { spawnSync } from 'node:child_process';
import { isLong, partOf, testFiles } from './long-tests.ts';

const [part = '', ...options] = process.argv.slice(2);
const [, index = 0, count = 0] = /^(\d+)\/(\d+)$/.exec(part)?.map(Number) ?? [];
if (index < 1 || index > count) {
  console.error(`The part must be K/N with 1 <= K <= N, got "${part}". For example: npm run test:part -- 2/10`);
  process.exit(2);
}
const long = testFiles().filter(({ path, text }) => isLong(path, text));
const files = partOf(
  long.map(({ path }) => path),
  index,
  count,
);
console.log(`Part ${part} of the long tests: ${files.length} of ${long.length} files`);
const { status } = spawnSync('npx', ['vitest', 'run', ...options, ...files], {
  stdio: 'inherit',
  env: { ...process.env, FLASHCORE_TESTS: 'all' },
});
process.exit(status ?? 1);
