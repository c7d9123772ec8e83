/**
 * `npm run front-ends [kernel …]`: every kernel of the ladder and every faulty one on the emulator's PTX engine, with
 * the PTX of nvcc and with that of clang on a host without a CUDA toolkit: verdicts of the covering builds, and
 * findings with their lines. Prints a line a build and writes docs/results/emulator-<date>/front-ends.json, from which
 * `npm run ladder` makes the table in docs/emulator.md. Exit code 1: clang's says something else than nvcc's.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FindingKind, Outcome, type GetJobResponse } from '@flashcore/shared/contract';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import type { FrontEndComparison } from '@flashcore/tools/front-ends-table';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { withoutToolkit } from '../support/front-ends.ts';
import { Home, ROOT } from '../support/home.ts';
import { coveringBuilds, fewShapesOf, shapesOf, variantArguments, type LadderBuild } from './builds.ts';

const LIMIT_MS = 600_000;
const FAULTY = join(ROOT, 'kernels/faulty');

const wanted = process.argv.slice(2);
const isWanted = (id: string): boolean => wanted.length === 0 || wanted.includes(id);

await using toolkit = new Home();
await using bare = new Home(withoutToolkit());
const runners = { nvcc: await serve(toolkit), clang: await serve(bare) };
type FrontEnd = keyof typeof runners;

const folder = join(ROOT, 'docs/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
mkdirSync(folder, { recursive: true });
const tools = { nvcc: toolsOf('nvcc'), clang: toolsOf('clang') };
const rows: FrontEndComparison[] = [];
for (const step of (await ladderSteps()).filter(({ id }) => isWanted(id))) {
  const [byDefault, ...others] = coveringBuilds(step);
  const parity = shapesOf(step).parity;
  compare(step.id, [byDefault!], [...fewShapesOf(step), ...parity]);
  compare(step.id, others, fewShapesOf(step).slice(0, 1));
}
for (const id of readdirSync(FAULTY).filter((name) => !name.includes('.') && isWanted(name))) {
  const path = join(FAULTY, id, 'kernel.yaml');
  const { faulty } = parseManifest(readFileSync(path, 'utf8'), path);
  const shape = formatShape(faulty!.shape);
  const found = (by: FrontEnd) =>
    findingsOf(ask(by, ['run', id, '--seeds', '2', '--shape', shape, '--max-seconds', '0.2']));
  add({ kernel: id, build: 'faulty', nvcc: found('nvcc'), clang: found('clang') });
}
if (rows.some(({ nvcc, clang }) => nvcc !== clang)) process.exitCode = 1;

async function serve(home: Home): Promise<{ home: Home; address: string }> {
  const { address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', 'ptx');
  return { home, address };
}

function ask(by: FrontEnd, args: string[]): GetJobResponse {
  const { home, address } = runners[by];
  return home.runJson([...args, '--runner', address], { timeoutMs: LIMIT_MS }).response;
}

function compare(id: string, builds: readonly LadderBuild[], shapes: readonly string[]): void {
  for (const build of builds) {
    const cases = shapes.flatMap((shape) => ['--shape', shape]);
    const verdict = (by: FrontEnd) => {
      const response = ask(by, ['verify', id, ...variantArguments(build), '--seeds', '1', ...cases]);
      return Outcome[response.job!.outcome];
    };
    const label = variantArguments(build)
      .filter((each) => each !== '--set')
      .join(' ');
    add({ kernel: id, build: label === '' ? 'default' : label, nvcc: verdict('nvcc'), clang: verdict('clang') });
  }
}

/** Kinds with their lines, in alphabetical order. */
function findingsOf({ result }: GetJobResponse): string {
  const found = result!.variants.flatMap(({ findings }) =>
    findings.map(({ kind, location }) => `${FindingKind[kind]}${location ? ` ${location.file}:${location.line}` : ''}`),
  );
  return [...new Set(found)].sort().join(', ') || 'none';
}

function toolsOf(by: FrontEnd): string[] {
  const { result } = ask(by, ['verify', 'fa_v1_baseline', '--seeds', '1', '--shape', '1x1x64x64']);
  return result!.provenance!.tools.map(({ name, version }) => `${name} ${version}`);
}

/** What was found so far is kept: a run takes a quarter of an hour. */
function add(row: FrontEndComparison): void {
  rows.push(row);
  const report = { command: 'npm run front-ends', tools, rows };
  writeFileSync(join(folder, 'front-ends.json'), `${JSON.stringify(report, undefined, 2)}\n`);
  console.log([row.kernel, row.build, row.nvcc, row.clang, row.nvcc === row.clang ? '' : 'DIFFER'].join(' | '));
}
