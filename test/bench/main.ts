/**
 * `npm run bench [-- --short] [-- --only ID,…] [-- --out FILE] [-- --compare FILE]`: what users feel, each as a ratio
 * to a yardstick of the same run. With --compare the exit code is 1 where a ratio is 1.3 times that of FILE in three
 * tries. --slow ID does the work of one twice, to see that a comparison notices.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { BENCH_IDS, openBenches } from './benches.ts';
import { compared, figureOf, ROUNDS, slowed, type Bench, type Figure } from './ratios.ts';

const SHORT_ROUNDS = 3;

const { out, compare, only, short, slow } = parseArgs({
  options: {
    out: { type: 'string' },
    compare: { type: 'string' },
    only: { type: 'string' },
    short: { type: 'boolean', default: false },
    slow: { type: 'string' },
  },
}).values;
const ids = only?.split(',') ?? BENCH_IDS;
const unknown = [...ids, ...(slow === undefined ? [] : [slow])].find((id) => !BENCH_IDS.includes(id));
if (unknown !== undefined) {
  console.error(`no bench ${JSON.stringify(unknown)}: must be one of ${BENCH_IDS.join(', ')}`);
  process.exit(2);
}
const rounds = short ? SHORT_ROUNDS : ROUNDS;
const earlier =
  compare === undefined ? undefined : (JSON.parse(readFileSync(compare, 'utf8')) as { figures: Figure[] }).figures;

const figures: Figure[] = [];
const worse: string[] = [];
{
  await using opened = await openBenches(ids);
  for (const each of opened.benches) {
    const bench = each.id === slow ? slowed(each) : each;
    const figure = await figureOf(bench, rounds);
    figures.push(figure);
    // Beside another yardstick (nvcc is there, or not) a ratio is another figure.
    const before = earlier?.find(({ id, yardstick }) => id === bench.id && yardstick === bench.yardstick)?.ratio;
    const comparable = before !== undefined && bench.notCompared === undefined;
    const found = comparable ? await compared(bench, { ratio: figure.ratio, earlier: before, rounds }) : undefined;
    if (found?.worse === true) worse.push(bench.id);
    console.log(`${lineOf(figure)}${comparisonText(bench, { before, found, figure })}`);
  }
}
const machine = { processor: cpus()[0]?.model ?? 'unknown', cores: cpus().length, node: process.version };
if (out !== undefined) writeFileSync(out, `${JSON.stringify({ machine, figures }, null, 2)}\n`);
if (worse.length > 0) console.log(`worse than in ${compare}: ${worse.join(', ')}`);
process.exit(worse.length > 0 ? 1 : 0);

function lineOf({ ratio, what, milliseconds, yardstick, yardstickMilliseconds }: Figure): string {
  const [ours, its] = [milliseconds, yardstickMilliseconds].map((each) => `${each.toPrecision(3)} ms`);
  return `${ratio.toFixed(2).padStart(8)} x  ${what}: ${ours}; ${yardstick}: ${its}`;
}

interface Comparison {
  before: number | undefined;
  found: { worse: boolean; least: number } | undefined;
  figure: Figure;
}

function comparisonText({ notCompared }: Bench, { before, found, figure: { ratio } }: Comparison): string {
  if (compare === undefined) return '';
  if (before === undefined || found === undefined) return ` (not compared: ${notCompared ?? 'no such figure before'})`;
  const tried = found.least === ratio ? '' : `, ${found.least.toFixed(2)} when tried again`;
  return ` (before ${before.toFixed(2)}${tried}${found.worse ? ': WORSE' : ''})`;
}
