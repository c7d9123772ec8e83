/** Runs kernels of the corpus on a runner and returns the document that is stored in lab/results. */
import { mkdtempSync, rmSync, existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { RunnerClient } from '@flashcore/shared/client';
import { waitFor } from '@flashcore/shared/testing';
import { nameOf, type Cheat, type Corpus, type CorpusKernel, type Honest } from './corpus.ts';
import { buildKernel, judgeKernel, verifyKernel, type Judgement } from './judge-kernel.ts';
import { repositoryRoot } from '../support/repository-root.ts';

export type JudgedCheat = Pick<Cheat, 'family' | 'name' | 'parameters' | 'rule' | 'passes'> &
  Judgement & { caught: boolean };
export type JudgedHonest = { kernel: string; parameters: CorpusKernel['parameters'] } & Judgement & {
    passed: boolean;
    /** The number of seeds on a tiny shape that followed the experiment. Absent if none were requested. */
    seeds?: number;
  };

export interface CorpusResult {
  device: string;
  simulated: boolean;
  date: string;
  cheats: JudgedCheat[];
  honest: JudgedHonest[];
}

export interface CorpusRun {
  cheats: readonly Cheat[];
  honest: readonly Honest[];
  /** The number of inputs on a tiny shape for each honest kernel. 0: only the experiment. */
  seeds: number;
  /** Address of an existing runner. If undefined, the program starts a runner. */
  address?: string | undefined;
  /**
   * The number of additional runners that compile all kernels beforehand, in parallel. 0: none. Used only if the
   * program starts the runner.
   */
  builders: number;
  onLine?: (line: string) => void;
  /** Called after each kernel with the results so far. */
  onKernel?: (soFar: CorpusResult) => void;
}

export async function runCorpus(run: CorpusRun): Promise<CorpusResult> {
  using cache = disposableFolder();
  if (run.address === undefined) await buildAhead([...run.cheats, ...run.honest], run.builders, cache.path);
  await using own = run.address === undefined ? await startOwnRunner(cache.path) : undefined;
  using client = await RunnerClient.connect({ address: run.address ?? own!.address, timeoutMs: 30_000 });
  const { name: device, simulated } = client.host.devices[0]!;
  const result: CorpusResult = { device, simulated, date: '', cheats: [], honest: [] };
  const tell = (line: string): void => {
    result.date = new Date().toISOString();
    run.onLine?.(line);
    run.onKernel?.(result);
  };
  for (const cheat of run.cheats) {
    const judgement = await judgeKernel(client, cheat);
    const { family, name, parameters, rule, passes } = cheat;
    // A cheat that does not compile tests no rule, except where the rule is that it must not compile.
    const isJudged = judgement.error === undefined || (rule === 'build' && judgement.outcome === 'COMPILE_FAILED');
    const caught = isJudged && judgement.findings.length > 0;
    result.cheats.push({ family, name, parameters, rule, passes, caught, ...judgement });
    const missed = isJudged ? 'PASSED' : 'NOT JUDGED';
    tell(`${caught ? 'caught' : missed}  ${cheat.family}/${cheat.name}: ${reasonOf(judgement)}`);
  }
  for (const kernel of run.honest) {
    const experiment = await judgeKernel(client, kernel);
    const judgement = run.seeds > 0 && clears(experiment) ? await verifyKernel(client, kernel, run.seeds) : experiment;
    const passed = clears(judgement);
    const { kernel: id, parameters } = kernel;
    const seconds = judgement === experiment ? experiment.seconds : experiment.seconds + judgement.seconds;
    result.honest.push({
      kernel: id,
      parameters,
      passed,
      ...(judgement !== experiment && { seeds: run.seeds }),
      ...experiment,
      ...judgement,
      checks: experiment.checks,
      seconds,
    });
    tell(`${passed ? 'passed' : 'ACCUSED'}  ${nameOf(kernel)}: ${reasonOf(judgement)}`);
  }
  return result;
}

/** Merges an earlier run on the same device with the kernels that have run again, in the corpus's order. */
export function merged(earlier: CorpusResult, now: CorpusResult, { cheats, honest }: Corpus): CorpusResult {
  if (earlier.device !== now.device)
    throw new Error(`A file is about one device, got ${earlier.device} and ${now.device}: name another file`);
  const newest = <Judged>(earlierOnes: Judged[], newOnes: Judged[], names: string[], of: (judged: Judged) => string) =>
    names.flatMap((name) => [...newOnes, ...earlierOnes].find((each) => of(each) === name) ?? []);
  return {
    ...now,
    cheats: newest(
      earlier.cheats,
      now.cheats,
      cheats.map(({ name }) => name),
      ({ name }) => name,
    ),
    honest: newest(earlier.honest, now.honest, honest.map(nameOf), nameOf),
  };
}

/** Whether the kernel was judged without an error and without findings. */
const clears = ({ error, findings, outcome }: Judgement): boolean =>
  error === undefined && findings.length === 0 && !['ERROR', 'CANCELLED', 'INTERRUPTED', 'TIMED_OUT'].includes(outcome);

const reasonOf = ({ findings, error, outcome }: Judgement): string =>
  error ?? findings.map(({ kind, message }) => `${kind}: ${message}`).at(0) ?? outcome;

/**
 * Compiles kernels with several runners into a folder, and returns the errors, each with its kernel's name. A run
 * reports them again when it judges the kernel.
 */
async function buildAhead(kernels: readonly CorpusKernel[], builders: number, cache: string): Promise<string[]> {
  const left = [...kernels];
  const errors: string[] = [];
  const build = async (): Promise<void> => {
    await using own = await startOwnRunner(cache);
    using client = await RunnerClient.connect({ address: own.address, timeoutMs: 30_000 });
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const { error } = await buildKernel(client, next);
      if (error !== undefined) errors.push(`${nameOf(next)}: ${error}`);
    }
  };
  await Promise.all(Array.from({ length: builders }, build));
  return errors;
}

/** Compiles kernels without running them, and returns the errors. */
export async function compileErrors(kernels: readonly CorpusKernel[]): Promise<string[]> {
  using cache = disposableFolder();
  return buildAhead(kernels, 1, cache.path);
}

function disposableFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'fc-builds-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

const START_LIMIT_MS = 300_000;

type OwnRunner = { address: string } & AsyncDisposable;

/**
 * Starts the bundled runner on loopback; its data folder is removed when it ends. `buildCache` is a folder of compiled
 * kernels. Errors: if the runner ends early; the error has the runner's log.
 */
async function startOwnRunner(buildCache?: string): Promise<OwnRunner> {
  const data = mkdtempSync(join(tmpdir(), 'fc-corpus-'));
  const main = join(repositoryRoot(), 'apps/runner/dist/main.js');
  const root = process.geteuid?.() === 0 ? ['--allow-root'] : [];
  const child = spawn(process.execPath, [main, 'serve', '--data', data, '--address', '127.0.0.1:0', ...root], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(buildCache !== undefined && { env: { ...process.env, FLASHCORE_BUILD_CACHE: buildCache } }),
  });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await exited;
    rmSync(data, { recursive: true, force: true });
  };
  const info = join(data, 'runner.json');
  try {
    await waitFor(
      'the runner to serve',
      () => {
        if (child.exitCode !== null) throw new Error(`The runner must serve, and has ended: ${log.slice(-2000)}`);
        return existsSync(info) || undefined;
      },
      START_LIMIT_MS,
    );
  } catch (error) {
    await stop();
    throw error;
  }
  const { address } = JSON.parse(readFileSync(info, 'utf8')) as { address: string };
  return { address, [Symbol.asyncDispose]: stop };
}
