/**
 * `npm run bench:against -- COMMIT [--short] [--only ID,…]`: measures on this machine the delays that users feel, with
 * the code of a commit and with this code. A bench that looks slower is measured again with both codes in turns. The
 * exit code is 1 if something takes 1.3 times as long as with the commit's code in three tries. --slow ID does the work
 * of one bench twice, to check that the slowdown is reported.
 */
import { parseArgs } from 'node:util';
import { compared, type Figure } from './ratios.ts';
import { earlierCode, thisCode, type MeasuredCode } from './measured-code.ts';
import { wantedBenches } from './benches.ts';

const { values, positionals } = parseArgs({
  options: {
    only: { type: 'string' },
    short: { type: 'boolean', default: false },
    slow: { type: 'string' },
  },
  allowPositionals: true,
});
const [commit, ...others] = positionals;
if (commit === undefined || others.length > 0) {
  console.error('one commit to compare with is needed: npm run bench:against -- HEAD');
  process.exit(2);
}
const ids = wantedBenches(values.only);
const rounds = values.short ? ['--short'] : [];

const worse: string[] = [];
{
  using earlier = earlierCode(commit, rounds);
  const now = thisCode([...rounds, ...(values.slow === undefined ? [] : ['--slow', values.slow])]);
  const firsts = { before: earlier.figures(ids), now: now.figures(ids) };
  for (const id of ids) {
    const first = { before: firsts.before.get(id), now: firsts.now.get(id)! };
    const { text, isWorse } = comparison(id, first, { earlier, now });
    console.log(`${id.padEnd(14)} ${text}`);
    if (isWorse) worse.push(id);
  }
}
if (worse.length > 0) console.log(`slower than the code of ${commit}: ${worse.join(', ')}`);
process.exit(worse.length > 0 ? 1 : 0);

interface Codes {
  earlier: MeasuredCode;
  now: MeasuredCode;
}

/** A bench's figures of the first try; without `before` if the earlier code has no such bench. */
interface FirstTry {
  before: Figure | undefined;
  now: Figure;
}

function comparison(id: string, first: FirstTry, codes: Codes): { text: string; isWorse: boolean } {
  const { before, now } = first;
  if (before?.what !== now.what)
    return { text: `${now.what}: not compared, the earlier code measures something else`, isWorse: false };
  const { quotients, worse: isWorse } = compared((attempt) =>
    attempt === 0 ? now.milliseconds / before.milliseconds : quotientAgain(id, codes, attempt),
  );
  const [ours, its] = [now, before].map(({ milliseconds }) => milliseconds.toPrecision(3));
  const told = quotients.map((each) => `${each.toFixed(2)} x`).join(', then ');
  return { text: `${now.what}: ${ours} ms, before ${its}: ${told}${isWorse ? ': WORSE' : ''}`, isWorse };
}

/** Alternates which code is measured first, because the machine may be busier during the first measurement. */
function quotientAgain(id: string, { earlier, now }: Codes, attempt: number): number {
  const inTurn = attempt % 2 === 1 ? [now, earlier] : [earlier, now];
  const taken = new Map(inTurn.map((code) => [code, code.figures([id]).get(id)!.milliseconds]));
  return taken.get(now)! / taken.get(earlier)!;
}
