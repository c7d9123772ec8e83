/**
 * Runs the dishonest and the honest kernels of kernels/corpus/corpus.yaml on a runner.
 *   node corpus.js --out FILE [--runner HOST:PORT] [--only NAME,…] [--side cheats|honest] [--seeds N]
 *     [--rest] [--builders N] [--folder FOLDER]
 * --runner: without it, the program starts a runner on the host's first device. --only: names of cheats, families, or
 * kernels. --seeds: number of inputs on a tiny shape for each honest kernel, after the experiment. --builders: number
 * of runners that compile everything beforehand in parallel, for hosts with many processors. FILE gets one JSON
 * document, written after each kernel. If FILE exists, kernels that run again are replaced in it. --rest: run only
 * kernels that FILE does not have. --folder: judge the kernels below FOLDER, all as cheats, instead of the corpus. Exit
 * code: 0 if every cheat is caught, gains nothing or is listed as passing, and every honest kernel passes; 1 otherwise.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { cheatsInFolder, isAnswered, nameOf, readCorpus, type Corpus, type CorpusKernel } from './corpus.ts';
import { merged, runCorpus, type CorpusResult } from './run-corpus.ts';

const { values: options } = parseArgs({
  options: {
    out: { type: 'string' },
    runner: { type: 'string' },
    only: { type: 'string' },
    side: { type: 'string' },
    seeds: { type: 'string', default: '0' },
    builders: { type: 'string', default: '0' },
    rest: { type: 'boolean', default: false },
    folder: { type: 'string' },
  },
});
const { out, side } = options;
if (out === undefined) throw new Error('Give --out FILE');
if (side !== undefined && side !== 'cheats' && side !== 'honest')
  throw new Error(`--side must be cheats or honest, got ${side}`);
const corpus: Corpus =
  options.folder === undefined
    ? readCorpus()
    : { families: {}, rules: {}, cheats: cheatsInFolder(options.folder), honest: [] };
const only = options.only?.split(',');
const unknown = only?.find((name) => !isKnown(name));
if (unknown !== undefined) throw new Error(`--only must name cheats, families or honest kernels, got ${unknown}`);
const wanted = (...names: string[]): boolean => only === undefined || names.some((name) => only.includes(name));

const earlier = existsSync(out) ? (JSON.parse(readFileSync(out, 'utf8')) as CorpusResult) : undefined;
/** True if only the rest is wanted and an earlier run already has this kernel. */
const isDone = (name: string): boolean =>
  options.rest &&
  [...(earlier?.cheats ?? []), ...(earlier?.honest ?? []).map(named)].some((each) => each.name === name);
const now = await runCorpus({
  cheats: side === 'honest' ? [] : corpus.cheats.filter(({ family, name }) => wanted(family, name) && !isDone(name)),
  honest:
    side === 'cheats'
      ? []
      : corpus.honest.map(named).filter(({ name }) => wanted(name, name.split(' ')[0]!) && !isDone(name)),
  seeds: wholeNumber('seeds', options.seeds, 0),
  builders: wholeNumber('builders', options.builders, 0),
  address: options.runner,
  onLine: console.log,
  onKernel: (soFar) =>
    writeFileSync(out, `${JSON.stringify(earlier ? merged(earlier, soFar, corpus) : soFar, null, 1)}\n`),
});
const place = now.simulated ? 'emulator' : 'gpu';
const passing = now.cheats.filter((each) => !isAnswered(each, place));
const accused = now.honest.filter(({ passed }) => !passed);
console.log(
  `${now.cheats.length - passing.length} of ${now.cheats.length} cheats are caught, gain nothing or are known, ` +
    `${now.honest.length - accused.length} of ${now.honest.length} honest kernels pass`,
);
process.exitCode = passing.length + accused.length === 0 ? 0 : 1;

function named<Kernel extends CorpusKernel>(kernel: Kernel): Kernel & { name: string } {
  return { ...kernel, name: nameOf(kernel) };
}

function isKnown(name: string): boolean {
  const { families, cheats, honest } = corpus;
  return (
    Object.hasOwn(families, name) ||
    cheats.some((cheat) => cheat.name === name) ||
    honest.some((kernel) => [nameOf(kernel), nameOf(kernel).split(' ')[0]].includes(name))
  );
}

function wholeNumber(flag: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new Error(`--${flag} must be a whole number from ${least} on, got ${text}`);
}
