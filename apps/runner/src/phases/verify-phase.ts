import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  Phase,
  Verdict,
  CaseResultSchema,
  InputResultSchema,
  FlashcoreError,
  VerifyProgressSchema,
  VerifyResultSchema,
  type CaseResult,
  type Finding,
  type Shape,
  type VerifyResult,
} from '@flashcore/shared/contract';
import {
  attentionFlops,
  checkShape,
  formatShape,
  type LaunchPlan,
  type Probes,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import type { Candidate, CaseReport, PreparedCase, SeededInput } from '../../worker/messages.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import type { DeviceImage } from '../build/device-image.ts';
import { candidateFor } from './candidate.ts';
import { findingOf } from '../findings/fault-findings.ts';
import type { JobFound } from './job-found.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import { comparedInputs, openParity } from './parity.ts';
import type { VariantPhase } from './phase.ts';
import {
  checkRaces,
  endedByWatching,
  startInstrumentedBuild,
  watchesEveryCase,
  watchFirstInputs,
  type Watching,
} from './race-check.ts';
import { sanitize } from './sanitize.ts';
import { caseFindings, distinctFindings } from '../findings/verify-findings.ts';

/** Compares the output with the reference, case by case. */
export const verifyPhase: VariantPhase = {
  phase: Phase.VERIFY,
  wants: ({ spec }, { build }) => spec.verify !== undefined && build?.image !== undefined,
  async run(services, found) {
    const { job, result, build, judging } = found;
    const { method, verify } = services.spec;
    const verification = await runVerify(services, {
      spec: verify!,
      image: build!.image!,
      inputs: found.inputs,
      races: method === 'verify' || method === 'runExperiment',
      onSeeds: (seeds) => noteSeeds(job, seeds),
      onCase: (soFar) => {
        result.verify = soFar;
        judging?.look();
      },
    });
    result.verify = verification.result;
    result.findings.unshift(...verification.findings);
    return verification.passed ? undefined : 'verification failed';
  },
};

/** Seeds of a request are drawn once and used by every variant. */
export function noteSeeds({ seeds: used }: JobFound, seeds: readonly string[]): void {
  used.push(...seeds.filter((seed) => !used.includes(seed)));
}

export interface Verification {
  result: VerifyResult;
  findings: Finding[];
  passed: boolean;
}

interface VerifyOptions {
  spec: VerifySpec;
  /** What the device loads. */
  image: DeviceImage;
  /** Default: new ones. */
  inputs?: readonly SeededInput[] | undefined;
  /** Look for data races too, on the emulator. */
  races: boolean;
  /** Told the seeds before the first case. */
  onSeeds: (seeds: readonly string[]) => void;
  /** Told after each case what is known so far. */
  onCase?: (soFar: VerifyResult) => void;
}

/**
 * Runs every case that the kernel takes, the smallest first, so that what is wrong shows soon; the result has them in
 * the order asked for.
 */
export async function runVerify(services: VariantServices, options: VerifyOptions): Promise<Verification> {
  const {
    job,
    spec: { kernel, device },
  } = services;
  const { spec, image } = options;
  const started = performance.now();
  startPhase(services, Phase.VERIFY, spec.shapes.length);
  const instrumented = options.races && device.simulated ? startInstrumentedBuild(services) : undefined;
  const inputs = options.inputs ?? drawSeeds(services, spec);
  options.onSeeds(inputs.map(({ seed }) => seed));
  const watching = instrumented && watchesEveryCase(services) ? await watchFirstInputs(instrumented) : undefined;
  const results = new Map<Shape, CaseResult>();
  const findings: Finding[] = [];
  let stopped: string | undefined;
  const probes = spec.probes ? await runProbes(services, { spec, image, seed: inputs[0]!.seed }) : [];
  for (const { result, findings: found, ends } of probes) {
    findings.push(...found);
    if (ends) stopped = `${FindingKind[found[0]?.kind ?? 0]} on ${formatShape(result.shape!)} stopped the run`;
  }
  const probed = probes.map(({ result }) => result);
  for (const shape of smallestFirst(spec)) {
    const refused = checkShape(kernel.manifest, services.resolved, shape);
    const skipped = refused
      ? `the kernel does not take it: it requires ${refused.require}, because ${refused.because}`
      : stopped;
    const ran =
      skipped === undefined
        ? await runCase(services, { spec, image, shape, inputs, watching })
        : { result: notRun(shape, skipped), findings: [], ends: false };
    if (ran.ends) stopped = `${FindingKind[ran.findings[0]?.kind ?? 0]} on ${formatShape(shape)} stopped the run`;
    findings.push(...ran.findings);
    results.set(shape, ran.result);
    job.emit({ case: 'caseResult', value: ran.result });
    options.onCase?.(verifyResult(spec, results, { inputs, started, probed }));
  }
  const raced =
    instrumented &&
    (await checkRaces(services, {
      instrumented,
      shapes: raceShapes([...results.values()], watchesEveryCase(services)),
      input: inputs[0]!,
      watched: watching?.outcomes,
    }));
  const sanitized = spec.sanitize
    ? await sanitize(services, {
        image,
        shape:
          [...results.values()].find(({ verdict }) => verdict === Verdict.FAIL)?.shape ??
          raceShape([...results.values()]),
      })
    : [];
  const distinct = distinctFindings([...(raced ?? []), ...sanitized, ...findings]);
  emitFindings(services, distinct);
  const result = verifyResult(spec, results, { inputs, started, probed });
  job.emit({ case: 'verifyResult', value: result });
  return { result, findings: distinct, passed: distinct.length === 0 && result.passedCases > 0 };
}

interface VerifySoFar {
  inputs: readonly SeededInput[];
  started: number;
  probed: CaseResult[];
}

function verifyResult(
  { shapes, tolerance }: VerifySpec,
  results: ReadonlyMap<Shape, CaseResult>,
  { inputs, started, probed }: VerifySoFar,
): VerifyResult {
  return create(VerifyResultSchema, {
    cases: shapes.map((shape) => results.get(shape) ?? notRun(shape, 'the job ended before it')),
    passedCases: [...results.values()].filter(({ verdict }) => verdict === Verdict.PASS).length,
    tolerance,
    reference: 'fp64 on the CPU',
    seconds: (performance.now() - started) / 1000,
    seeds: inputs.map(({ seed }) => seed),
    probes: probed,
  });
}

interface CaseRun {
  result: CaseResult;
  findings: Finding[];
  /** The kernel did not come to an end: running it on larger shapes would only take longer. */
  ends: boolean;
}

interface CaseOptions {
  spec: VerifySpec;
  image: DeviceImage;
  shape: Shape;
  inputs: readonly SeededInput[];
  watching: Watching | undefined;
}

interface ProbeOptions {
  spec: VerifySpec;
  image: DeviceImage;
  seed: string;
}

const smallestFirst = ({ shapes }: VerifySpec): Shape[] =>
  shapes.toSorted((a, b) => attentionFlops(a) - attentionFlops(b));

interface Probe {
  shape: Shape;
  inputs: SeededInput[];
}

/**
 * The first probe that the kernel takes without a mask, and the first with one, on every input that breaks a known
 * mistake; and the long one where it is wanted.
 */
function probesOf(
  { resolved, cases: { probes }, spec: { kernel } }: VariantServices,
  { longProbes }: VerifySpec,
  seed: string,
): Probe[] {
  const first = ({ shapes, distributions }: Pick<Probes, 'shapes' | 'distributions'>, causal: boolean): Probe[] => {
    const shape = shapes.find(
      (each) => each.causal === causal && checkShape(kernel.manifest, resolved, each) === undefined,
    );
    return shape && distributions.length > 0 ? [{ shape, inputs: distributions.map((rule) => ({ seed, rule })) }] : [];
  };
  return [...first(probes, false), ...first(probes, true), ...(longProbes ? first(probes.long, false) : [])];
}

/** What a verification will run, in its order. */
export interface ComingVerification {
  inputs: SeededInput[];
  cases: PreparedCase[];
}

/** Every shape that a verification may launch. */
export const verifiedShapes = (services: VariantServices, spec: VerifySpec): Shape[] => [
  ...spec.shapes,
  ...(spec.probes ? probesOf(services, spec, '').map(({ shape }) => shape) : []),
];

/** Draws the seeds of a verification before the kernel is built. */
export function comingVerification(services: VariantServices, spec: VerifySpec): ComingVerification {
  const { kernel } = services.spec;
  const inputs = drawSeeds(services, spec);
  const cases = smallestFirst(spec)
    .filter((shape) => checkShape(kernel.manifest, services.resolved, shape) === undefined)
    .map((shape) => ({ shape, inputs }));
  const probes = spec.probes ? probesOf(services, spec, inputs[0]!.seed) : [];
  const { inputs: dtype } = kernel.manifest.math;
  return {
    inputs,
    cases: [...probes, ...cases].map((each) => ({
      kind: { shape: plainShape(each.shape), dtype },
      inputs: each.inputs,
    })),
  };
}

const plainShape = ({ batch, heads, sequenceLength, headDim, causal }: Shape): ShapeFields => ({
  batch,
  heads,
  sequenceLength,
  headDim,
  causal,
});

/** Runs probes up to one that does not come to an end. */
async function runProbes(services: VariantServices, { spec, image, seed }: ProbeOptions): Promise<CaseRun[]> {
  const { job, runtime } = services;
  const runs: CaseRun[] = [];
  for (const { shape, inputs } of probesOf(services, spec, seed)) {
    if (runs.some(({ ends }) => ends)) break;
    const candidate = candidateFor(services, { image, shape });
    const outcome = await runtime.request(
      {
        type: 'verify',
        candidate,
        inputs,
        tolerance: { absolute: spec.tolerance.absolute, relative: spec.tolerance.relative },
        checkDeterminism: true,
        allInputs: true,
        tellOutputs: 0,
      },
      { signal: job.signal },
    );
    const run = judge(outcome, { shape, tileRows: tileRowsOf(candidate.plan, shape), tolerance: spec.tolerance });
    runs.push(outcome.status === 'done' ? withInputs(run, { shape, inputs, found: outcome.value.inputs }) : run);
  }
  return runs;
}

interface ProbedInputs {
  shape: Shape;
  inputs: readonly SeededInput[];
  found: CaseReport['inputs'];
}

/** Says of each input what was found on it, and in texts on which the kernel was wrong. */
function withInputs(run: CaseRun, { shape, inputs, found }: ProbedInputs): CaseRun {
  run.result.inputs = inputs.map(({ rule }, index) =>
    create(InputResultSchema, {
      distribution: rule.name,
      verdict: found[index]!.failed ? Verdict.FAIL : Verdict.PASS,
      maxAbsError: found[index]!.maxAbsError,
    }),
  );
  const failed = inputs.filter((_, index) => found[index]!.failed).map(({ rule }) => rule.name);
  for (const finding of run.findings)
    finding.message = finding.message.replace(formatShape(shape), `${formatShape(shape)} on ${failed.join(', ')}`);
  return run;
}

async function runCase(services: VariantServices, options: CaseOptions): Promise<CaseRun> {
  const { job, runtime } = services;
  const { spec, image, shape, inputs, watching } = options;
  const { absolute, relative } = spec.tolerance;
  const candidate = candidateFor(services, { image, shape });
  const parity = openParity(services, shape);
  const progress = {
    caseIndex: spec.shapes.indexOf(shape),
    caseCount: spec.shapes.length,
    seedCount: inputs.length,
    shape,
  };
  let seed = 0;
  const verify = (watched?: Candidate) =>
    runtime.request(
      {
        type: 'verify',
        candidate,
        watched,
        inputs: [...inputs],
        tolerance: { absolute, relative },
        checkDeterminism: isCheapTwice(services, shape),
        tellOutputs: 'missing' in parity ? 0 : comparedInputs(services, inputs),
      },
      {
        signal: job.signal,
        onNotice: (notice) => {
          if (notice.type === 'output' && !('missing' in parity)) parity.add(notice.output);
          if (notice.type !== 'seed') return;
          seed = notice.index;
          job.emit({ case: 'verifyProgress', value: create(VerifyProgressSchema, { ...progress, seedIndex: seed }) });
        },
      },
    );
  const watched = watching?.image
    ? candidateFor(services, { image: watching.image, shape, instrumented: true })
    : undefined;
  let outcome = await verify(watched);
  if (watching && watched) {
    const ended = seed === 0 && endedByWatching(outcome, shape);
    watching.outcomes.set(shape, ended ? outcome : { status: 'done', value: null });
    if (ended) {
      // What it does when nobody watches is another question. The cases to come are watched if that is asked for.
      watching.image = undefined;
      outcome = await verify();
    }
  }
  const run = judge(outcome, { shape, tileRows: tileRowsOf(candidate.plan, shape), tolerance: spec.tolerance });
  Object.assign(run.result, 'missing' in parity ? { sdpaMissing: parity.missing } : await parity.results());
  return run;
}

/**
 * Rows of S that a CTA computes: S over the CTAs of a head in the last launch, to whole fragments of 8 rows; 0 when the
 * heads do not share the grid evenly.
 */
function tileRowsOf({ launches }: LaunchPlan, { batch, heads, sequenceLength }: Shape): number {
  const ctas = launches.at(-1)?.grid.reduce((product, extent) => product * extent, 1) ?? 0;
  const tiles = ctas / (batch * heads);
  return Number.isInteger(tiles) && tiles > 0 ? Math.ceil(sequenceLength / tiles / 8) * 8 : 0;
}

/** On the emulator a second run of every case would take as long as the first. */
const SIMULATED_TWICE_FLOPS = 3e8;

function isCheapTwice({ spec: { device } }: VariantServices, shape: Shape): boolean {
  return !device.simulated || attentionFlops(shape) <= SIMULATED_TWICE_FLOPS;
}

interface JudgedCase {
  readonly shape: Shape;
  readonly tileRows: number;
  readonly tolerance: VerifySpec['tolerance'];
}

function judge(outcome: WorkerOutcome<CaseReport>, { shape, tileRows, tolerance }: JudgedCase): CaseRun {
  if (outcome.status === 'done') {
    const findings = caseFindings(outcome.value, shape);
    return { result: caseResult(outcome.value, { shape, tileRows, tolerance }, findings), findings, ends: false };
  }
  if (outcome.status === 'failed')
    throw new FlashcoreError(
      'INTERNAL',
      { shape: formatShape(shape) },
      `The worker could not verify ${formatShape(shape)}: ${outcome.message}`,
    );
  const finding = findingOf(outcome, shape)!;
  const result = create(CaseResultSchema, { shape, verdict: Verdict.FAIL, reason: reasonOf([finding], shape) });
  return { result, findings: [finding], ends: true };
}

/** "NAN_OUTPUT: 8192 of 8192 elements are NaN": findings of a case, whose shape stands beside them. */
const reasonOf = (findings: readonly Finding[], shape: Shape): string =>
  findings
    .map(({ kind, message }) => `${FindingKind[kind]}: ${message.replace(`${formatShape(shape)}: `, '')}`)
    .join('; ');

function caseResult(
  { figures, flashAttentionRule }: CaseReport,
  { shape, tileRows, tolerance }: JudgedCase,
  findings: readonly Finding[],
): CaseResult {
  const right = findings.length === 0;
  return create(CaseResultSchema, {
    ...figures,
    shape,
    ...worstOfLimit(figures.worst, tolerance),
    // Which head is wrong says where to look; of a case that passes nobody asks.
    errorMap: { ...figures.errorMap, tileRows, ...(right && { headMaxAbsError: [] }) },
    verdict: right ? Verdict.PASS : Verdict.FAIL,
    ...(!right && { reason: reasonOf(findings, shape) }),
    flashAttentionRule: flashAttentionRule ? Verdict.PASS : Verdict.FAIL,
  });
}

/** Where the reference or the output is not finite there is no share to tell. */
function worstOfLimit(
  worst: CaseReport['figures']['worst'],
  { absolute, relative }: VerifySpec['tolerance'],
): { worstOfLimit?: number } {
  if (worst === undefined || worst === null) return {};
  const share = Math.abs(worst.got - worst.want) / (absolute + relative * Math.abs(worst.want));
  return Number.isFinite(share) ? { worstOfLimit: share } : {};
}

const notRun = (shape: Shape, reason: string): CaseResult =>
  create(CaseResultSchema, { shape, verdict: Verdict.NOT_MEASURED, reason });

/** The smallest shape that fails, else the smallest that ran; undefined when a fault already says what is wrong. */
function raceShape(results: readonly CaseResult[]): Shape | undefined {
  const ran = results.filter(({ verdict }) => verdict !== Verdict.NOT_MEASURED);
  if (ran.some(({ verdict, elements }) => verdict === Verdict.FAIL && elements === 0n)) return undefined;
  return (ran.find(({ verdict }) => verdict === Verdict.FAIL) ?? ran[0])?.shape;
}

/** Every shape that ran, the one that says most first; only that one where watching is slow. */
function raceShapes(results: readonly CaseResult[], all: boolean): Shape[] {
  const first = raceShape(results);
  if (!first) return [];
  const others = results.flatMap(({ verdict, shape }) =>
    all && shape && shape !== first && verdict !== Verdict.NOT_MEASURED ? [shape] : [],
  );
  return [first, ...others];
}

/**
 * The first input is N(0, 1); those after it walk through the other distributions of cases.yaml. Seeds are drawn here,
 * where no kernel can know them, and are
 * reported afterwards.
 */
function drawSeeds({ cases }: VariantServices, { seeds, seedCount }: VerifySpec): SeededInput[] {
  const chosen = seeds.length > 0 ? seeds : Array.from({ length: seedCount }, () => randomBytes(8).toString('hex'));
  const names = [
    cases.defaults.distribution,
    ...Object.keys(cases.distributions).filter((name) => name !== cases.defaults.distribution),
  ];
  return chosen.map((seed, index) => ({ seed, rule: cases.distributions[names[index % names.length]!]! }));
}
