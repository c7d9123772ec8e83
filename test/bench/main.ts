/**
 * `npm run bench [-- --out FILE] [-- --compare FILE]`: what users feel, each as a ratio to a yardstick of the same run.
 * With --compare the exit code is 1 where a ratio is 1.3 times that of FILE in three tries.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { openBenches } from './benches.ts';
import { figureOf, isWorse, type Figure } from './ratios.ts';

const { out, compare } = parseArgs({ options: { out: { type: 'string' }, compare: { type: 'string' } } }).values;
const earlier =
  compare === undefined ? undefined : (JSON.parse(readFileSync(compare, 'utf8')) as { figures: Figure[] }).figures;

const figures: Figure[] = [];
const worse: string[] = [];
{
  await using opened = await openBenches();
  for (const bench of opened.benches) {
    const figure = await figureOf(bench);
    figures.push(figure);
    const before = earlier?.find(({ id }) => id === bench.id)?.ratio;
    const compared = before === undefined ? '' : `, before ${before.toFixed(2)}`;
    console.log(
      `${figure.ratio.toFixed(2).padStart(8)} x${compared}  ${figure.what}: ${figure.milliseconds.toFixed(3)} ms; ` +
        `${figure.yardstick}: ${figure.yardstickMilliseconds.toFixed(3)} ms`,
    );
    if (before !== undefined && (await isWorse(bench, figure, before))) worse.push(bench.id);
  }
}
const machine = { processor: cpus()[0]?.model ?? 'unknown', cores: cpus().length, node: process.version };
if (out !== undefined) writeFileSync(out, `${JSON.stringify({ machine, figures }, null, 2)}\n`);
if (worse.length > 0) console.log(`worse than in ${compare}: ${worse.join(', ')}`);
process.exit(worse.length > 0 ? 1 : 0);
