/**
 * `npm run bench [-- --short] [-- --only ID,…] [-- --out FILE]`: measures the delays that users feel. Each is a ratio
 * to a yardstick that is measured in the same run. --slow ID does the work of one bench twice. `against.ts` compares
 * this code with the code of a commit.
 */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { openBenches, wantedBenches } from './benches.ts';
import { figureOf, ROUNDS, slowed, type Figure } from './ratios.ts';

const SHORT_ROUNDS = 3;

const { out, only, short, slow } = parseArgs({
  options: {
    out: { type: 'string' },
    only: { type: 'string' },
    short: { type: 'boolean', default: false },
    slow: { type: 'string' },
  },
}).values;
const ids = wantedBenches(only);
const twice = slow === undefined ? [] : wantedBenches(slow);
const rounds = short ? SHORT_ROUNDS : ROUNDS;

const figures: Figure[] = [];
{
  await using opened = await openBenches(ids);
  for (const bench of opened.benches) {
    const figure = await figureOf(twice.includes(bench.id) ? slowed(bench) : bench, rounds);
    figures.push(figure);
    console.log(lineOf(figure));
  }
}
const machine = { processor: cpus()[0]?.model ?? 'unknown', cores: cpus().length, node: process.version };
if (out !== undefined) writeFileSync(out, `${JSON.stringify({ machine, figures }, null, 2)}\n`);
// Handles that the benches leave open would keep the program from ending.
process.exit(0);

function lineOf({ ratio, what, milliseconds, yardstick, yardstickMilliseconds }: Figure): string {
  const [ours, its] = [milliseconds, yardstickMilliseconds].map((each) => `${each.toPrecision(3)} ms`);
  return `${ratio.toFixed(2).padStart(8)} x  ${what}: ${ours}; ${yardstick}: ${its}`;
}
