/**
 * `npm run front-ends [-- --with nvcc,nvrtc,clang] [-- --few] [kernel …]`: runs every kernel of the ladder and every
 * faulty one on the emulator's PTX engine, with PTX from each front end that is installed, or from those that `--with`
 * names (nvrtc: as on a host that has only NVRTC's library and CUDA's headers; clang: as on a host without a toolkit).
 * Compares the verdicts of the covering builds, and the findings with their lines. `--few`: two small cases per build
 * instead of the parity cases. Prints a line per build and writes lab/results/emulator-<date>/front-ends.<front
 * end>.json, from which `npm run ladder` makes the table in docs/emulator.md. If that file is from the same day and the
 * same compilers, the rows of other kernels stay in it. Exit code 1: a front end's result differs from that of the
 * first front end.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { FindingKind, Outcome, type GetJobResponse } from '@flashcore/shared/contract';
import { formatShape, parseManifest } from '@flashcore/shared/kernels';
import { FRONT_ENDS, type FrontEndName, type FrontEndReport } from '../tables/front-ends-table.ts';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import {
  nvrtcFolder,
  withNvrtcOnly,
  withoutToolkit,
  coveringBuilds,
  fewShapesOf,
  shapesOf,
  variantArguments,
  type LadderBuild,
} from '@flashcore/test/builds';
import { Home, ROOT } from '@flashcore/test/support/home';

const LIMIT_MS = 600_000;
const FAULTY = join(ROOT, 'kernels/faulty');

interface FrontEnd {
  name: FrontEndName;
  address: string;
  home: Home;
  report: FrontEndReport;
}

const { values: options, positionals: wanted } = parseArgs({
  options: { with: { type: 'string' }, few: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const isWanted = (id: string): boolean => wanted.length === 0 || wanted.includes(id);

const folder = join(ROOT, 'lab/results', `emulator-${new Date().toISOString().slice(0, 10)}`);
mkdirSync(folder, { recursive: true });
await using homes = new AsyncDisposableStack();
const frontEnds: FrontEnd[] = [];
for (const name of chosen()) frontEnds.push(await serve(name));
let differ = false;

for (const step of (await ladderSteps()).filter(({ id }) => isWanted(id))) {
  const [byDefault, ...others] = coveringBuilds(step);
  const few = fewShapesOf(step);
  verify(step.id, [byDefault!], options.few ? few.slice(0, 2) : [...few, ...shapesOf(step).parity]);
  verify(step.id, others, few.slice(0, options.few ? 2 : 1));
}
for (const id of readdirSync(FAULTY).filter((name) => !name.includes('.') && isWanted(name))) {
  const path = join(FAULTY, id, 'kernel.yaml');
  const shape = formatShape(parseManifest(readFileSync(path, 'utf8'), path).faulty!.shape);
  const args = ['run', id, '--seeds', '2', '--shape', shape, '--max-seconds', '0.2'];
  compare(id, 'faulty', (by) => findingsOf(ask(by, args)));
}
if (differ) process.exitCode = 1;

function chosen(): FrontEndName[] {
  const here = FRONT_ENDS.filter(isHere);
  if (options.with === undefined) return here;
  const names = options.with.split(',');
  const wrong = names.find((name) => !here.some((each) => each === name));
  if (wrong !== undefined) {
    console.error(`--with ${wrong}: must be one that this machine has: ${here.join(', ') || 'it has none'}`);
    process.exit(2);
  }
  return FRONT_ENDS.filter((name) => names.includes(name));
}

function isHere(name: FrontEndName): boolean {
  if (name === 'nvrtc') return nvrtcFolder() !== undefined;
  const programs = { nvcc: ['nvcc'], clang: ['clang++', 'clang++-19'] }[name];
  return programs.some((program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0);
}

async function serve(name: FrontEndName): Promise<FrontEnd> {
  const home = homes.use(new Home());
  if (name === 'clang') Object.assign(home.env, withoutToolkit());
  if (name === 'nvrtc') Object.assign(home.env, withNvrtcOnly(home.path));
  const { address } = await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', 'ptx');
  const command = ['npm run front-ends', ...(options.few ? ['-- --few'] : [])].join(' ');
  const cases = options.few ? 'two small ones' : 'small and parity ones of the default builds, a small one of others';
  const tools = toolsOf({ home, address });
  const before = existsSync(fileOf(name))
    ? (JSON.parse(readFileSync(fileOf(name), 'utf8')) as FrontEndReport)
    : undefined;
  const goesOn = wanted.length > 0 && before?.cases === cases && before.tools.join() === tools.join();
  return { name, address, home, report: { frontEnd: name, command, cases, tools, rows: goesOn ? before.rows : [] } };
}

function fileOf(name: FrontEndName): string {
  return join(folder, `front-ends.${name}.json`);
}

function ask({ home, address }: Pick<FrontEnd, 'home' | 'address'>, args: string[]): GetJobResponse {
  return home.runJson([...args, '--runner', address], { timeoutMs: LIMIT_MS }).response;
}

function verify(id: string, builds: readonly LadderBuild[], shapes: readonly string[]): void {
  for (const build of builds) {
    const variant = variantArguments(build);
    const args = ['verify', id, ...variant, '--seeds', '1', ...shapes.flatMap((shape) => ['--shape', shape])];
    const label = variant.filter((each) => each !== '--set').join(' ');
    compare(id, label === '' ? 'default' : label, (by) => verdictOf(ask(by, args)));
  }
}

function verdictOf(response: GetJobResponse): string {
  const found = findingsOf(response);
  const outcome = Outcome[response.job!.outcome];
  return outcome === 'PASSED' && found === 'none' ? outcome : `${outcome}: ${found}`;
}

/** Compares the front ends on one build. Saves the result at once, because a whole run takes a quarter of an hour. */
function compare(kernel: string, build: string, outcomeOf: (by: FrontEnd) => string): void {
  const outcomes = frontEnds.map((by) => {
    const outcome = outcomeOf(by);
    const { rows } = by.report;
    const known = rows.findIndex((row) => row.kernel === kernel && row.build === build);
    rows.splice(known < 0 ? rows.length : known, 1, { kernel, build, outcome });
    writeFileSync(fileOf(by.name), `${JSON.stringify(by.report, undefined, 2)}\n`);
    return outcome;
  });
  const same = outcomes.every((outcome) => outcome === outcomes[0]);
  differ ||= !same;
  console.log([kernel, build, ...outcomes, same ? '' : 'DIFFER'].join(' | '));
}

/** The findings' kinds and lines, in alphabetical order. */
function findingsOf({ result }: GetJobResponse): string {
  const found = result!.variants.flatMap(({ findings }) =>
    findings.map(({ kind, location }) => `${FindingKind[kind]}${location ? ` ${location.file}:${location.line}` : ''}`),
  );
  return [...new Set(found)].sort().join(', ') || 'none';
}

function toolsOf(by: Pick<FrontEnd, 'home' | 'address'>): string[] {
  const { result } = ask(by, ['verify', 'fa_v1_baseline', '--seeds', '1', '--shape', '1x1x64x64']);
  return result!.provenance!.tools.map(({ name, version }) => `${name} ${version}`);
}
