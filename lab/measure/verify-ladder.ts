/**
 * `npm run ladder:verify [-- [--engine ptx|fibres] [kernel …]]`: verifies every build of every kernel on one of the
 * emulator's engines (default: ptx) with five seeds per case. Fibres cannot run the kernels for Hopper, so these are
 * left out. The default build runs through `fa-tui run --json` on the parity shapes; every build runs through `fa-tui
 * verify --json` on lengths that no tile divides and on the probes. Shapes beyond a limit must be refused. Prints a
 * line per build and writes the results to lab/results/emulator-ladder-<date>/ladder.json. If kernels are named, their
 * results replace those in the newest of these files. Exit code 0: every result is as expected.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { toJson } from '@bufbuild/protobuf';
import {
  Outcome,
  Verdict,
  EntryResourcesSchema,
  type EntryResources,
  type GetJobResponse,
} from '@flashcore/shared/contract';
import { formatShape, type Manifest } from '@flashcore/shared/kernels';
import { ladderSteps } from '@flashcore/tools/ladder-steps';
import { foldersWith, jsonOf, RESULTS } from '../tables/results.ts';
import { Home } from '@flashcore/test/support/home';
import { buildsOf, refusedShapes, shapesOf, variantArguments, type LadderBuild } from '@flashcore/test/builds';

const SEEDS = 5;
const BENCHMARK_SECONDS = 0.2;
const RUN_LIMIT_MS = 600_000;

interface BuildReport {
  kernel: string;
  label: string;
  sourceDigest: string;
  /** "passed": every case passed. "fails as documented": the build failed, and the manifest says why. */
  verdict: 'passed' | 'fails as documented' | 'failed';
  outcome: string;
  summary: string;
  seconds: number;
  /** ptxas's figures for sm_89, or for sm_90a if the kernel is for Hopper. Empty without nvcc. */
  entries: ReturnType<typeof resources>;
  cases: {
    shape: string;
    verdict: string;
    reason?: string;
    seeds: number;
    maxAbsError: number;
    meanAbsError: number;
    fp16Rule: string;
    deterministic?: boolean;
  }[];
  /** Small cases on the inputs that reveal known mistakes. */
  probes: { shape: string; verdict: string; found: Record<string, string>; maxAbsError: number }[];
}

interface Refusal {
  kernel: string;
  shape: string;
  verdict: 'refused' | 'failed';
  message: string;
}

/** The provenance of the last run, because all builds have the same. */
let provenance: { device?: string; tools?: string[]; protocol?: string } = {};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { engine: { type: 'string', default: 'ptx' } },
});
const { engine } = values;
if (engine !== 'ptx' && engine !== 'fibres') throw new Error(`--engine ${engine}: must be ptx or fibres`);

const home = new Home();
try {
  await home.startDaemonAt(`unix:${join(home.path, 'runner.sock')}`, '--emulator-engine', engine);
  process.exitCode = await verifyLadder(positionals);
} finally {
  await home[Symbol.asyncDispose]();
}

async function verifyLadder(wanted: string[]): Promise<number> {
  const steps = (await ladderSteps()).filter(({ id }) => wanted.length === 0 || wanted.includes(id));
  const started = new Date();
  const emulated = steps.filter((step) => step.emulated === true || (step.emulated === 'ptx' && engine === 'ptx'));
  const builds: BuildReport[] = [];
  for (const step of emulated) {
    for (const build of buildsOf(step)) {
      const report = runBuild(step, build);
      builds.push(report);
      console.log(
        `${report.kernel} ${report.label}: ${report.verdict}, ${passed(report.cases)} cases, ${passed(report.probes)} probes, ${report.seconds.toFixed(1)} s${report.verdict === 'failed' ? `\n  ${report.summary}` : ''}`,
      );
    }
  }
  const refusals = emulated.flatMap(refuse);
  for (const { kernel, shape, verdict, message } of refusals) console.log(`${kernel} ${shape}: ${verdict}: ${message}`);
  const notEmulated = steps.filter((step) => !emulated.includes(step)).map(({ id }) => id);
  const failed = failures({ builds, refusals });
  console.log(
    `${builds.length} builds, ${builds.flatMap(({ cases }) => cases).length} cases, ${refusals.length} refusals: ${failed} not as wanted; not on this engine: ${notEmulated.join(', ') || 'none'}`,
  );
  const report: Report = {
    command: engine === 'ptx' ? 'npm run ladder:verify' : `npm run ladder:verify -- --engine ${engine}`,
    started: started.toISOString(),
    seconds: (Date.now() - started.getTime()) / 1000,
    seedsPerCase: SEEDS,
    ...provenance,
    failed,
    builds,
    refusals,
    gpuOnly: notEmulated,
  };
  if (wanted.length === 0) write(`emulator-ladder-${report.started.slice(0, 10)}`, report);
  else renew(report);
  return failed === 0 ? 0 : 1;
}

interface Report {
  /** The tools that the build's last job used. */
  tools?: string[];
  command: string;
  started: string;
  seconds: number;
  seedsPerCase: number;
  failed: number;
  builds: BuildReport[];
  refusals: Refusal[];
  gpuOnly: string[];
  /** The kernels that were verified again later, each with the date. */
  renewed?: Record<string, string>;
}

function passed(all: readonly { verdict: string }[]): string {
  return `${all.filter(({ verdict }) => verdict === 'PASS').length} of ${all.length}`;
}

function failures({ builds, refusals }: Pick<Report, 'builds' | 'refusals'>): number {
  return [...builds, ...refusals].filter(({ verdict }) => verdict === 'failed').length;
}

function write(folder: string, report: Report): void {
  mkdirSync(join(RESULTS, folder), { recursive: true });
  writeFileSync(join(RESULTS, folder, 'ladder.json'), `${JSON.stringify(report, null, 1)}\n`);
}

function engineIn({ tools }: { tools?: string[] }): string | undefined {
  return tools?.find((tool) => tool.startsWith('emulator '));
}

/** Replaces the results of the kernels that were verified again. */
function renew(part: Report): void {
  const folder = foldersWith(/^ladder\.json$/).at(-1);
  if (folder === undefined) return;
  const whole = jsonOf<Report>(folder, 'ladder.json')!;
  if (engineIn(whole) !== engineIn(part)) {
    console.log(`not kept: ${folder} is of another engine (${engineIn(whole) ?? 'not told'}); verify all kernels`);
    return;
  }
  const merge = <T extends { kernel: string }>(all: T[], fresh: T[]): T[] => {
    const places = [...Map.groupBy(all, ({ kernel }) => kernel)];
    return places.flatMap(([kernel, old]) =>
      fresh.some((each) => each.kernel === kernel) ? fresh.filter((each) => each.kernel === kernel) : old,
    );
  };
  const merged = { builds: merge(whole.builds, part.builds), refusals: merge(whole.refusals, part.refusals) };
  const renewed = { ...whole.renewed, ...Object.fromEntries(part.builds.map(({ kernel }) => [kernel, part.started])) };
  write(folder, { ...whole, ...merged, failed: failures(merged), renewed });
}

/**
 * Runs the default build through a whole experiment on the parity shapes with the probes, and then on odd lengths. Any
 * other build runs only on the probes and on odd lengths.
 */
function runBuild(step: Manifest, build: LadderBuild): BuildReport {
  const { odd } = shapesOf(step);
  const isDefault = Object.keys(build.parameters).length === 0;
  const started = performance.now();
  const probed = isDefault
    ? runJson(['run', step.id, '--seeds', String(SEEDS), '--max-seconds', String(BENCHMARK_SECONDS), '--no-fallback'])
    : runJson(['verify', step.id, ...variantArguments(build), '--seeds', '1', '--cases', 'probes']);
  const verification = runJson([
    'verify',
    step.id,
    ...variantArguments(build),
    '--seeds',
    String(SEEDS),
    ...odd.flatMap((shape) => ['--shape', shape]),
  ]);
  const { job, result } = verification;
  const { device, tools, protocol, sourceDigest } = result!.provenance!;
  provenance = { device: device!.name, tools: tools.map(({ name, version }) => `${name} ${version ?? ''}`), protocol };
  const cases = [...(isDefault ? [probed] : []), verification]
    .flatMap((response) => response.result!.variants[0]?.verify?.cases ?? [])
    .map(({ shape, verdict, reason, seeds, maxAbsError, meanAbsError, flashAttentionRule, deterministic }) => ({
      shape: formatShape(shape!),
      verdict: Verdict[verdict],
      ...(reason !== undefined && { reason }),
      seeds,
      maxAbsError,
      meanAbsError,
      fp16Rule: Verdict[flashAttentionRule],
      ...(deterministic !== undefined && { deterministic }),
    }));
  const probes = (probed.result!.variants[0]?.verify?.probes ?? []).map(({ shape, verdict, inputs, maxAbsError }) => ({
    shape: formatShape(shape!),
    verdict: Verdict[verdict],
    found: Object.fromEntries(inputs.map((input) => [input.distribution, Verdict[input.verdict]])),
    maxAbsError,
  }));
  const wanted = odd.length + (isDefault ? shapesOf(step).parity.length : 0);
  return {
    kernel: step.id,
    label: result!.variants[0]?.label ?? '',
    sourceDigest,
    verdict: verdictOf({ cases, probes }, wanted, build),
    outcome: Outcome[job!.outcome],
    summary: job!.summary,
    seconds: (performance.now() - started) / 1000,
    entries: resources(result!.variants[0]?.build?.entries ?? []),
    cases,
    probes,
  };
}

function resources(entries: EntryResources[]) {
  return entries.map((entry) => toJson(EntryResourcesSchema, entry, { alwaysEmitImplicit: true }));
}

/**
 * Considers only cases and probes, because an experiment that a hard gate rejects (for its registers, say) may still
 * have correct outputs.
 */
function verdictOf(
  { cases, probes }: Pick<BuildReport, 'cases' | 'probes'>,
  wanted: number,
  build: LadderBuild,
): BuildReport['verdict'] {
  const passes =
    cases.length === wanted && probes.length > 0 && [...cases, ...probes].every(({ verdict }) => verdict === 'PASS');
  if (build.failsBecause) return passes ? 'failed' : 'fails as documented';
  return passes ? 'passed' : 'failed';
}

function runJson(args: string[]): GetJobResponse {
  return home.runJson(args, { timeoutMs: RUN_LIMIT_MS }).response;
}

function refuse(step: Manifest): Refusal[] {
  return refusedShapes(step).map(({ shape, because }) => {
    const { exitCode, stderr } = home.faTui(['verify', step.id, '--shape', shape]);
    const refused = exitCode === 2 && stderr.includes(because);
    return {
      kernel: step.id,
      shape,
      verdict: refused ? 'refused' : 'failed',
      message: stderr.trim().split('\n').at(-1) ?? '',
    };
  });
}
