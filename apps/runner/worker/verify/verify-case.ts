import { setTimeout as sleep } from 'node:timers/promises';
import type { ProblemCase } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { CudaError } from '../driver/cuda-error.ts';
import type { CudaDriver } from '../driver/cuda-driver.ts';
import { LoadedCandidate } from '../driver/loaded-candidate.ts';
import type { PreparedLaunches } from '../driver/arguments.ts';
import type { Reference } from '../driver/reference.ts';
import { outputOf, outputsOf, type OutputExtent, type TensorsByName } from '../driver/tensor-bits.ts';
import type { Candidate, SeededInput } from '../messages/launchable.ts';
import type { CaseReport, MismatchPlaces, OutputFigures, OutputReport, VerifyRequest } from '../messages/verifying.ts';
import type { Reporter } from '../reporter.ts';
import { GUARDS, RunBuffers } from './buffers.ts';
import { drawInputs } from './inputs.ts';
import {
  answersOf,
  compareOutputs,
  isWrong,
  judgeOutputs,
  roundingLimitOf,
  saturated,
  yardstickFor,
  type JudgedOutput,
} from './judgement.ts';
import { factorsOf, isKnown, mistakeOf, type Mistake } from './likeness.ts';
import type { Comparison } from './output-comparison.ts';
import type { ReferenceBook, Yardstick } from './reference-book.ts';
import { repeatedAnswers, repeatedTensors } from './repeated.ts';

/**
 * NaN patterns of 16 bits that no arithmetic produces: NaNs as fp16 and bf16, and as fp32 when repeated. Each run uses
 * a different one, so an element that was never written differs between two runs.
 */
export const POISONS = [0xffda, 0x7fbc] as const;

/**
 * Constant term of FlashAttention's rule: max|out - ref| <= 2 max|plain - ref| + this. The yardstick max|plain - ref|
 * is computed only for the first seed of each input rule, because it costs as much as the reference and differs little
 * between seeds of a rule.
 */
const FLASH_ATTENTION_ATOL = 1e-5;
/** Launches of at least so much work are reported on while they run: about a quarter of a second on the emulator. */
const LONG_FLOPS = 5e8;
const POLL_MS = 50;
const REPORT_MS = 1_000;
const REFERENCE_LIMIT_MS = 600_000;
const PREPARE_LIMIT_MS = 60_000;

interface SeedReport {
  /** In the problem's order. */
  outputs: [JudgedOutput, ...JudgedOutput[]];
  /** Undefined if plain attention does not apply to the case. */
  yardstick: Yardstick | undefined;
  deterministic?: boolean;
  /** Elements that become wrong when the bytes of the guards change. */
  straying: number;
  modified: string[];
  /** The known mistake that a wrong output resembles; undefined if none was looked for. */
  mistake?: Mistake | 'too large';
  /** By output. */
  factors?: OutputReport['factors'][];
}

/**
 * Runs one case over its inputs and judges each by the CPU reference. Stops after the first input that fails. Errors:
 * CudaError when the kernel faults.
 */
export async function verifyCase(
  driver: CudaDriver,
  { reference, book, separate }: References,
  request: VerifyRequest,
  reporter: Reporter,
): Promise<CaseReport> {
  const started = performance.now();
  let watched = request.watched && (await CandidateRun.open(driver, request.watched, reporter));
  const run = await CandidateRun.open(driver, request.candidate, reporter);
  const reports: SeedReport[] = [];
  const yardsticks = new Map<string, Yardstick>();
  for (const [index, input] of request.inputs.entries()) {
    await reporter.notice({ type: 'seed', index });
    const report = await verifySeed(run, reference, {
      request,
      first: watched ?? run,
      book,
      separate,
      input,
      yardsticks,
      checkDeterminism: request.checkDeterminism && index === 0,
      tellOutput: index < request.tellOutputs,
      explain: !reports.some(isExplained) && reports.filter(failed).length < MOST_EXPLAINED,
    });
    watched?.close();
    watched = undefined;
    reports.push(report);
    if (failed(report) && !request.allInputs) break;
  }
  run.close();
  return summarise(request.candidate.plan, reports, (performance.now() - started) / 1000);
}

/** The CPU reference, with the answers that it has computed ahead. */
export interface References {
  reference: Reference;
  book: ReferenceBook;
  /** Whether candidates run in separate processes, which share no memory with this one. */
  separate: boolean;
}

interface SeedOptions {
  request: VerifyRequest;
  /** The candidate that runs the input first, perhaps an instrumented one; a second run uses the candidate itself. */
  first: CandidateRun;
  book: ReferenceBook;
  separate: boolean;
  input: SeededInput;
  /** Yardsticks by the name of the input rule. */
  yardsticks: Map<string, Yardstick>;
  checkDeterminism: boolean;
  tellOutput: boolean;
  /** Whether to find what a wrong output resembles. */
  explain: boolean;
}

async function verifySeed(run: CandidateRun, reference: Reference, options: SeedOptions): Promise<SeedReport> {
  const kind = run.candidate.plan;
  await run.reporter.step('the CPU reference', REFERENCE_LIMIT_MS);
  const drawnCase = options.input.repeats ?? kind;
  const repeating = { from: drawnCase, to: kind };
  const ahead = await options.book.take(drawnCase, options.input);
  const drawn = ahead?.inputs ?? drawInputs(drawnCase, options.input, reference);
  const inputs = repeatedTensors(drawn, repeating);
  const rule = options.input.rule.name;
  const wantsYardstick = options.request.reportPlain && !options.yardsticks.has(rule);
  const beside = ahead || !options.separate ? undefined : options.book.beside(drawnCase, drawn, wantsYardstick);
  // A fault of the candidate comes first; an error of this promise is reported where it is awaited.
  beside?.catch(() => undefined);
  const outputs = await options.first.once(inputs, POISONS[0], options.input.seed);
  const modified = options.first.buffers.modified(inputs);
  const again = options.checkDeterminism
    ? await run.once(inputs, POISONS[1], options.input.seed, GUARDS[1])
    : undefined;
  // The reference is computed after the candidate's runs, or earlier but in memory that was never the device's. A
  // kernel that returns stale memory must not find the right answer there.
  await run.reporter.step('the CPU reference', REFERENCE_LIMIT_MS);
  const known = ahead ?? (await beside);
  const drawnAnswers = saturated(
    drawnCase,
    known?.answers ?? (await answersOf(reference, drawnCase, { inputs: drawn, own: options.request.ownReference })),
  );
  const answers = repeatedAnswers(drawnAnswers, repeating);
  const compared = outputsOf(kind);
  const plainError = () => yardstickFor(reference, drawnCase, { inputs: drawn, answers: drawnAnswers });
  let yardstick = options.yardsticks.get(rule) ?? known?.yardstick ?? (wantsYardstick ? plainError() : undefined);
  // A kernel's NaN in e4m3 can have the bits of the poison. An output that is the same with another poison was written.
  const written = new Set(
    compared
      .map(({ name }) => name)
      .filter((name) => again && sameBits(entryOf(outputs, name)!, entryOf(again, name)!)),
  );
  const judge = (tensors: TensorsByName, poison: number): Comparison[] =>
    compareOutputs(reference, tensors, { outputs: compared, answers, poison, written, limits: options.request });
  const first = judge(outputs, POISONS[0]);
  const deterministic = again && written.size === compared.length;
  const second = again && !deterministic && wrongElements(first) === 0 ? judge(again, POISONS[1]) : undefined;
  const wrongAgain = second === undefined ? 0 : wrongElements(second);
  // The second run is wrong. If a run with the first guard bytes is correct again, the guards are the cause; otherwise
  // the error came by chance.
  const byGuards =
    wrongAgain > 0 && wrongElements(judge(await run.once(inputs, POISONS[0], options.input.seed), POISONS[0])) === 0;
  const comparisons = second && wrongAgain > 0 && !byGuards ? second : first;
  const judged = (by: Yardstick | undefined) =>
    judgeOutputs(reference, outputs, {
      outputs: compared,
      answers,
      comparisons,
      roundingLimit: roundingLimitOf(by, kind),
      limits: options.request,
    });
  let judgement = judged(yardstick);
  if (!yardstick && judgement.some(({ beyondRounding }) => beyondRounding)) {
    yardstick = plainError();
    judgement = judged(yardstick);
  }
  if (yardstick) options.yardsticks.set(rule, yardstick);
  const report: SeedReport = {
    outputs: judgement,
    straying: byGuards ? wrongAgain : 0,
    yardstick,
    modified,
    ...(deterministic !== undefined && { deterministic }),
  };
  // Where a second run differs, the first output is not what was judged.
  const isWrongFirst = wrongElements(first) > 0 || (comparisons === first && judgement.some(isWrong));
  if (options.explain && isWrongFirst && first.every(isWhole) && drawnCase === kind) {
    report.factors = compared.map((output, index) =>
      first[index]!.mismatches === 0
        ? undefined
        : factorsOf(entryOf(outputs, output.name)!, answers.get(output.name)!.want, output),
    );
    const { likeMutantsOf: problem, ownReference: own } = options.request;
    const wrong = { kind, inputs, outputs, answers, limits: options.request, own };
    if (problem && report.factors[0] === undefined) report.mistake = await mistakeOf(problem, wrong, reference);
  }
  if (options.tellOutput && !failed(report)) {
    const { name, dtype } = outputOf(kind);
    const { maxAbsError: most, sumAbsError, elements } = report.outputs[0].comparison;
    await run.reporter.notice({
      type: 'output',
      output: {
        dtype,
        inputs,
        output: entryOf(outputs, name)!,
        reference: answers.get(name)!.want,
        maxAbsError: most,
        meanAbsError: sumAbsError / elements,
      },
    });
  }
  return report;
}

/** Whether every element was written and is finite. */
const isWhole = ({ nanCount, infCount, unwrittenCount }: Comparison): boolean =>
  nanCount + infCount + unwrittenCount === 0;

const wrongElements = (comparisons: readonly Comparison[]): number =>
  comparisons.reduce((sum, { mismatches }) => sum + mismatches, 0);

/** A candidate with its buffers on the device. It can be run repeatedly. */
export class CandidateRun {
  readonly candidate: Candidate;
  readonly buffers: RunBuffers;
  readonly reporter: Reporter;
  readonly #driver: CudaDriver;
  readonly #loaded: LoadedCandidate;
  readonly #prepared: PreparedLaunches;

  private constructor(driver: CudaDriver, candidate: Candidate, reporter: Reporter) {
    this.#driver = driver;
    this.candidate = candidate;
    this.reporter = reporter;
    this.#loaded = new LoadedCandidate(driver, candidate);
    this.buffers = new RunBuffers(driver, candidate.plan);
    this.#prepared = this.#loaded.prepare(this.buffers.addresses);
  }

  static async open(driver: CudaDriver, candidate: Candidate, reporter: Reporter): Promise<CandidateRun> {
    await reporter.step('loading the module', PREPARE_LIMIT_MS);
    return new CandidateRun(driver, candidate, reporter);
  }

  /**
   * Runs all launches once. Outputs are filled with `poison` beforehand, and the buffers are surrounded by bytes of
   * `guard`.
   */
  async once(inputs: TensorsByName, poison: number, seed: string, guard: number = GUARDS[0]): Promise<TensorsByName> {
    this.buffers.guard(guard);
    this.buffers.upload(inputs);
    this.buffers.poison(poison);
    await this.reporter.step('the kernel', this.candidate.launchLimitMs);
    this.#driver.limitLaunches(this.candidate.launchLimitMs, this.candidate.stallLimitMs);
    try {
      const begunBefore = this.candidate.plan.flops < LONG_FLOPS ? undefined : this.#driver.blocksBegun();
      this.#loaded.enqueue(this.#prepared);
      if (begunBefore !== undefined) await this.#report(begunBefore);
      this.#driver.synchronize();
    } catch (error) {
      throw error instanceof CudaError ? this.#placed(error, seed) : error;
    }
    // Timed launches have no such limit.
    this.#driver.limitLaunches(0);
    await this.reporter.step('reading the output', PREPARE_LIMIT_MS);
    return this.buffers.outputs();
  }

  /** Reports how far the launches have come, until they end or reach their limit. */
  async #report(begunBefore: number): Promise<void> {
    const { plan, launchLimitMs } = this.candidate;
    const blocks = plan.launches.reduce((sum, { grid: [x, y, z] }) => sum + x * y * z, 0);
    const started = performance.now();
    const elapsedMs = (): number => performance.now() - started;
    for (let nextMs = REPORT_MS; !this.#driver.isIdle() && elapsedMs() < launchLimitMs;) {
      await sleep(POLL_MS);
      if (elapsedMs() < nextMs) continue;
      nextMs = elapsedMs() + REPORT_MS;
      const blocksBegun = (this.#driver.blocksBegun() ?? begunBefore) - begunBefore;
      await this.reporter.notice({ type: 'launch', blocksBegun, blocks, seconds: elapsedMs() / 1000 });
      await this.reporter.step('the kernel', launchLimitMs);
    }
  }

  /** Adds the buffer at the faulting address, because only this process knows the buffers. */
  #placed(error: CudaError, seed: string): CudaError {
    const { emulator } = error.fault;
    const address = emulator?.kind === 'RACE' ? undefined : emulator?.address;
    const buffer = address && /^0x[0-9a-f]+$/i.test(address) ? this.buffers.nameOf(BigInt(address)) : undefined;
    return new CudaError({ ...error.fault, seed, ...(buffer && { buffer }) });
  }

  close(): void {
    this.buffers.free();
    this.#loaded.unload();
  }
}

function sameBits(a: TensorsByName[string], b: TensorsByName[string]): boolean {
  return Buffer.compare(Buffer.from(a.buffer), Buffer.from(b.buffer)) === 0;
}

/** Limit on the inputs that are tried to explain a failure; some inputs hide the mistake. */
const MOST_EXPLAINED = 3;

const isExplained = ({ mistake, factors = [] }: SeedReport): boolean =>
  factors.some((each) => each !== undefined) || (mistake !== undefined && mistake !== 'too large' && isKnown(mistake));

const mistakesOf = (reports: readonly SeedReport[]): Mistake[] =>
  reports.flatMap(({ mistake }) => (mistake === undefined || mistake === 'too large' ? [] : mistake));

const failed = ({ outputs, modified, straying }: SeedReport): boolean =>
  straying > 0 || modified.length > 0 || outputs.some(isWrong);

function summarise(kind: ProblemCase, reports: readonly SeedReport[], seconds: number): CaseReport {
  const deterministic = reports[0]?.deterministic;
  const [first, ...others] = outputsOf(kind);
  const reported = (output: OutputExtent, index: number): OutputReport => ({
    ...outputReport(
      output,
      reports.map((report) => report.outputs[index]!),
    ),
    factors: reports.flatMap(({ factors }) => factors?.[index] ?? [])[0],
  });
  return {
    figures: {
      seeds: reports.length,
      fp16MaxAbsError: Math.max(...reports.map(({ yardstick }) => yardstick?.maxAbsError ?? 0)),
      ...(deterministic !== undefined && { deterministic }),
      seconds,
    },
    outputs: [
      { ...reported(first, 0), wrongKeys: mistakesOf(reports).flatMap(({ wrongKeys }) => wrongKeys ?? [])[0] },
      ...others.map((output, index) => reported(output, index + 1)),
    ],
    inputs: reports.map((report) => ({
      failed: failed(report),
      maxAbsError: Math.max(...report.outputs.map(({ comparison }) => comparison.maxAbsError)),
      roundingRatio: Math.max(...report.outputs.map(({ rounding }) => rounding?.ratio ?? 0)),
    })),
    isAttention: kind.operation !== 'own',
    flashAttentionRule: flashAttentionRule(reports),
    likeMutants: mistakesOf(reports).flatMap(({ likeMutants }) => likeMutants),
    tooLargeToExplain: reports.some(({ mistake }) => mistake === 'too large'),
    modified: [...new Set(reports.flatMap((report) => report.modified))],
    straying: reports.reduce((sum, report) => sum + report.straying, 0),
  };
}

/** Combines an output's results over all seeds. */
function outputReport({ name, dtype, tolerance }: OutputExtent, judged: readonly JudgedOutput[]): OutputReport {
  const comparisons = judged.map(({ comparison }) => comparison);
  const total = (pick: (comparison: Comparison) => number): number =>
    comparisons.reduce((sum, comparison) => sum + pick(comparison), 0);
  const most = (pick: (comparison: Comparison) => number): number => Math.max(...comparisons.map(pick));
  const worst = comparisons.reduce((a, b) => (badness(b) > badness(a) ? b : a));
  const counted = Math.max(
    1,
    total((c) => c.elements - c.nanCount - c.infCount - c.unwrittenCount),
  );
  return {
    name,
    dtype,
    tolerance,
    figures: {
      maxAbsError: most((c) => c.maxAbsError),
      meanAbsError: total((c) => c.sumAbsError) / counted,
      rmsError: Math.sqrt(total((c) => c.sumSquareError) / counted),
      maxRelError: most((c) => c.maxRelError),
      p999AbsError: most((c) => c.p999AbsError),
      mismatches: BigInt(total((c) => c.mismatches)),
      nanCount: BigInt(total((c) => c.nanCount)),
      infCount: BigInt(total((c) => c.infCount)),
      unwrittenCount: BigInt(total((c) => c.unwrittenCount)),
      elements: BigInt(total((c) => c.elements)),
      ...(worst.worst && { worst: worst.worst }),
      ...(worst.worstOfLimit !== undefined && { worstOfLimit: worst.worstOfLimit }),
      firstMismatches: (comparisons.find((c) => c.mismatches > 0) ?? worst).firstMismatches,
      rounding: worstRounding(judged),
      errorMap: worst.errorMap,
    },
    mismatchPlaces: placesOfAll(judged),
    beyondRounding: judged.some(({ beyondRounding }) => beyondRounding),
    trivialNorm: judged.some(({ trivialNorm }) => trivialNorm),
  };
}

/** The places that are wrong on any seed; undefined if those of a seed are not known. */
function placesOfAll(judged: readonly JudgedOutput[]): MismatchPlaces | undefined {
  const wrong = judged.filter(({ comparison, beyondRounding }) => comparison.mismatches > 0 || beyondRounding);
  const known = wrong.flatMap(({ places }) => places ?? []);
  const [first] = known;
  if (first === undefined || known.length < wrong.length) return undefined;
  const all = (of: (places: MismatchPlaces) => readonly number[]): number[] => {
    const lists = known.map(of);
    // An empty list means too many.
    return lists.some(({ length }) => length === 0) ? [] : [...new Set(lists.flat())].sort((a, b) => a - b);
  };
  return {
    ...first,
    heads: all(({ heads }) => heads),
    rows: all(({ rows }) => rows),
    columns: all(({ columns }) => columns),
  };
}

/**
 * Whether FlashAttention's rule holds for the first output; undefined if plain attention does not apply to the case.
 */
function flashAttentionRule(reports: readonly SeedReport[]): boolean | undefined {
  if (reports.some(({ yardstick }) => yardstick === undefined)) return undefined;
  return reports.every(
    ({ outputs: [{ comparison: c }], yardstick }) =>
      c.nanCount + c.infCount + c.unwrittenCount === 0 &&
      c.maxAbsError <= 2 * yardstick!.maxAbsError + FLASH_ATTENTION_ATOL,
  );
}

function worstRounding(judged: readonly JudgedOutput[]): OutputFigures['rounding'] {
  const all = judged.flatMap(({ rounding }) => rounding ?? []);
  return all.toSorted((a, b) => b.ratio / b.limit - a.ratio / a.limit)[0];
}

function badness(comparison: Comparison): number {
  const notFinite = comparison.nanCount + comparison.infCount + comparison.unwrittenCount;
  return notFinite > 0 ? Number.MAX_VALUE : comparison.worstOfLimit;
}
