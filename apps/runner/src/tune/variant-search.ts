import { availableParallelism } from 'node:os';
import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  HeldOutVerdict,
  Outcome,
  ShapeComparisonSchema,
  TuneResultSchema,
  TunedVariantSchema,
  Verdict,
  VerifyResultSchema,
  outcomeOfJob,
  type CaseResult,
  type ComparisonResult,
  type HeldOutResult,
  type JobResult,
  type Shape,
  type ShapeComparison,
  type TuneResult,
  type TunedVariant,
  type VerifyResult,
} from '@flashcore/shared/contract';
import { formatShape, type ResolvedVariant } from '@flashcore/shared/kernels';
import type { KernelBuild } from '../build/kernel-builder.ts';
import type { JobOutcome, JobPayload } from '../jobs/job-context.ts';
import { runBuild, stopsAfterBuild } from '../phases/build-phase.ts';
import { compareShape, comparisonPhase } from '../phases/comparison-phase.ts';
import { heldOutPhase } from '../phases/held-out-phase.ts';
import { nothingFound, variantFound, type JobFound } from '../phases/job-found.ts';
import { emitLog, variantServices, type JobServices, type VariantServices } from '../phases/job-services.ts';
import { noteSeeds, runVerify, type Verification } from '../phases/verify-phase.ts';
import { INPUTS_VERSION } from '../spec/benchmark-protocol.ts';
import type { TuneSpec } from '../spec/job-spec.ts';
import type { MeasuredSteps, StepKey } from '../store/measured-steps.ts';
import { overShapes, paretoFront, race, type Measured } from './race.ts';
import { stepKey } from './step-key.ts';

/** Rounds of the race; each has twice the samples of the one before. */
const ROUNDS = 3;
const FIRST_SAMPLES = 30;
const RACE_SECONDS = 3;

const RANKED_BY_TIME = 'median latency, by interleaved comparisons with the leader';
const RANKED_BY_RESOURCES = "registers, then shared memory: the emulator's times judge nothing";

interface Contender {
  readonly services: VariantServices;
  readonly row: TunedVariant;
  build?: KernelBuild;
  verify?: VerifyResult;
}

export interface TuneParts {
  readonly services: JobServices;
  readonly tune: TuneSpec;
  readonly steps: MeasuredSteps;
  /** Dollars that so many seconds of the device cost; undefined: no rate is known. */
  readonly costUsd: (seconds: number) => number | undefined;
  /** The job's result of what was found. */
  readonly resultOf: (found: JobFound, tune: TuneResult) => JobResult;
}

/**
 * The body of a tuning job: builds the variants in parallel, leaves out what ptxas says can't win, verifies the others
 * while builds go on, races them, and compares the winner with the champion. What was measured before, also by a job
 * that was cut off, is not measured again. A job that is stopped keeps what is known by then.
 */
export async function runTune(parts: TuneParts): Promise<JobOutcome> {
  const tuning = new Tuning(parts);
  try {
    await tuning.run();
  } catch (error) {
    parts.services.job.keep(tuning.result());
    throw error;
  }
  const result = tuning.result();
  return { ...tuning.ended(result), result };
}

class Tuning {
  readonly #parts: TuneParts;
  readonly #found = nothingFound();
  readonly #contenders: Contender[];
  readonly #started = performance.now();
  #winner: Contender | undefined;
  #raceComplete = true;
  #comparison: ComparisonResult | undefined;
  #heldOut: HeldOutResult | undefined;

  constructor(parts: TuneParts) {
    this.#parts = parts;
    this.#contenders = parts.tune.plan.variants.map((resolved) => ({
      services: variantServices({ ...parts.services, job: quiet(parts.services.job) }, resolved),
      row: rowOf(resolved),
    }));
  }

  async run(): Promise<void> {
    const { services } = this.#parts;
    const { runtime, job, spec } = services;
    emitLog(job, 'runner', this.#announcement());
    await allSettled([this.#buildAndVerify(), runtime.warmUp(job.signal)]);
    await this.#takeSpilledWhereNothingElseIs();
    const right = this.#contenders.filter(({ row }) => row.verified === Verdict.PASS);
    if (spec.device.simulated) this.#rankByResources(right);
    else await this.#race(right);
    await this.#compareWinner();
  }

  result(): JobResult {
    return this.#parts.resultOf(this.#found, this.#tuneResult());
  }

  ended(result: JobResult): Pick<JobOutcome, 'outcome' | 'summary'> {
    const { row } = this.#winner ?? {};
    if (!row) {
      const why = this.#raceComplete ? '' : ': the budget was used up';
      return { outcome: Outcome.FAILED, summary: `none of ${this.#contenders.length} variants is right${why}` };
    }
    const champion = this.#comparison
      ? `; against ${this.#comparison.champion?.label}: ${this.#comparison.reason}`
      : '';
    const figure = row.p50Us === undefined ? `${row.registers} registers, not timed` : `${row.p50Us.toPrecision(4)} us`;
    const heldOut = this.#heldOut ? `; ${this.#heldOut.detail}` : '';
    // A champion that stays ahead is a result of the search, no failure of it.
    const outcome = outcomeOfJob(
      [],
      result.variants.map((variant) => ({ ...variant, comparison: undefined })),
    );
    return {
      outcome: this.#heldOut?.verdict === HeldOutVerdict.WRONG ? Outcome.FAILED : outcome,
      summary: `best of ${this.#contenders.length} variants: ${row.label}, ${figure}${champion}${heldOut}`,
    };
  }

  #announcement(): string {
    const { plan } = this.#parts.tune;
    return `${plan.variants.length} variants of ${plan.combinations} combinations${plan.drawn ? ', drawn at random' : ''}`;
  }

  /** Builds on all cores; each variant is verified as soon as it is built and the device is free. */
  async #buildAndVerify(): Promise<void> {
    const queue = [...this.#contenders];
    const verified: Promise<void>[] = [];
    // One at a time has the device: a verification waits for the one before it, and one that fails ends all.
    const verifyAfter = async (before: Promise<void> | undefined, contender: Contender): Promise<void> => {
      await before;
      if (this.#withinBudget()) await this.#verify(contender);
      else this.#leaveOut(contender);
    };
    const build = async (): Promise<void> => {
      try {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          await this.#build(next);
          this.#tell(next);
          if (next.row.dropped === undefined) verified.push(handled(verifyAfter(verified.at(-1), next)));
        }
      } finally {
        queue.length = 0;
      }
    };
    const builders = Math.max(1, Math.min(availableParallelism(), queue.length));
    await allSettled(Array.from({ length: builders }, build));
    await allSettled(verified);
  }

  async #build(contender: Contender): Promise<void> {
    const { row, services } = contender;
    const build = await runBuild(services);
    contender.build = build;
    const { entries, buildId } = build.result;
    Object.assign(row, { buildId, ...resourcesOf(entries) });
    if (stopsAfterBuild(build)) row.dropped = build.findings[0]?.message ?? 'it does not compile';
    else if (entries.some(({ ctasPerSm }) => ctasPerSm === 0)) row.dropped = 'no CTA of it fits on a multiprocessor';
    else if (row.spillBytes > 0) row.dropped = `${row.spillBytes} bytes of registers spilled`;
  }

  #leaveOut(contender: Contender): void {
    this.#raceComplete = false;
    contender.row.dropped = 'the budget was used up before it was verified';
    this.#tell(contender);
  }

  /** Where all variants spill, spilling drops none. */
  async #takeSpilledWhereNothingElseIs(): Promise<void> {
    if (this.#contenders.some(({ row }) => row.verified === Verdict.PASS)) return;
    for (const contender of this.#contenders.filter(({ row }) => row.spillBytes > 0)) {
      if (!this.#withinBudget()) return this.#leaveOut(contender);
      delete contender.row.dropped;
      await this.#verify(contender);
      this.#tell(contender);
    }
  }

  async #verify(contender: Contender): Promise<void> {
    const { services, row, build } = contender;
    const { spec } = this.#parts.services;
    const verify = spec.verify!;
    const of = [
      row.buildId!,
      verify.seedCount,
      INPUTS_VERSION,
      `${verify.probes} ${verify.longProbes}`,
      ...verify.shapes.map(formatShape),
    ];
    const key = this.#key(['verify', ...of]);
    const known = this.#known(VerifyResultSchema, key);
    const { result, findings, passed } = known
      ? { result: known, findings: [], passed: !firstWrong(known) && known.passedCases > 0 }
      : await this.#verifyNow(services, build!, key);
    contender.verify = result;
    row.reused ||= known !== undefined;
    row.verified = passed ? Verdict.PASS : Verdict.FAIL;
    const wrong = firstWrong(result);
    if (wrong) row.dropped = `wrong on ${formatShape(wrong.shape!)}: ${wrong.reason}`;
    else if (!passed)
      row.dropped = findings[0]
        ? `${FindingKind[findings[0].kind]}: ${findings[0].message}`
        : 'it takes none of the cases';
    this.#tell(contender);
  }

  async #verifyNow(services: VariantServices, build: KernelBuild, key: StepKey): Promise<Verification> {
    const verification = await runVerify(services, {
      spec: services.spec.verify!,
      image: build.image!,
      races: services.spec.device.simulated,
      onSeeds: (seeds) => noteSeeds(this.#found, seeds),
    });
    // A race is a finding alone: the result without it would say that the variant is right.
    if (verification.passed || firstWrong(verification.result))
      this.#parts.steps.keep(VerifyResultSchema, key, verification.result);
    return verification;
  }

  #rankByResources(right: readonly Contender[]): void {
    const order = right.toSorted((a, b) => a.row.registers - b.row.registers || a.row.smemBytes - b.row.smemBytes);
    order.forEach(({ row }, index) => (row.rank = index + 1));
    this.#winner = order[0];
    for (const contender of order) this.#tell(contender);
  }

  async #race(right: readonly Contender[]): Promise<void> {
    const { standing, complete } = await race({
      contenders: right,
      samples: FIRST_SAMPLES,
      rounds: ROUNDS,
      measure: (leader, contender, samples) => this.#measure(leader, contender, samples),
      mayGoOn: () => this.#withinBudget(),
      onDropped: (contender, why) => {
        contender.row.dropped = why;
        this.#tell(contender);
      },
    });
    this.#raceComplete &&= complete;
    standing.forEach(({ contender: { row } }, index) => (row.rank = index + 1));
    this.#winner = standing[0]?.contender;
    for (const { contender } of standing) this.#tell(contender);
  }

  /** Leader and contender in interleaved blocks on every shape; undefined: one of them failed. */
  async #measure(leader: Contender, contender: Contender, samples: number): Promise<Measured | undefined> {
    const ratios: Measured[] = [];
    for (const [index, shape] of this.#shapes().entries()) {
      const comparison = await this.#compare(leader, contender, { shape, samples });
      if (!comparison?.time) return undefined;
      ratios.push(comparison.time);
      // The table has the first shape's times.
      if (index > 0) continue;
      this.#noteTimes(leader, comparison.champion, comparison);
      this.#noteTimes(contender, comparison.candidate, comparison);
      contender.row.ratio = comparison.time;
    }
    this.#tell(contender);
    return overShapes(ratios);
  }

  #noteTimes({ row }: Contender, latency: ShapeComparison['candidate'], { mode }: ShapeComparison): void {
    if (latency)
      Object.assign(row, {
        p50Us: latency.p50Us,
        p50LowUs: latency.p50LowUs,
        p50HighUs: latency.p50HighUs,
        mode,
        samples: latency.samples,
      });
  }

  async #compare(
    leader: Contender,
    contender: Contender,
    { shape, samples }: { shape: Shape; samples: number },
  ): Promise<ShapeComparison | undefined> {
    const key = this.#key(['compare', leader.row.buildId!, contender.row.buildId!, formatShape(shape), samples]);
    const known = this.#known(ShapeComparisonSchema, key);
    if (known) {
      contender.row.reused = true;
      return known;
    }
    const { benchmark } = this.#parts.services.spec;
    const sampling = {
      ...benchmark!.protocol.sampling,
      minSamples: samples,
      maxSamples: samples,
      maxSeconds: RACE_SECONDS,
      samplesAsked: true,
    };
    const { shapes } = await compareShape(contender.services, leader.services, {
      champion: leader.build!.image!,
      candidate: contender.build!.image!,
      spec: { ...benchmark!, protocol: { ...benchmark!.protocol, sampling } },
      modes: ['hot'],
      onSeeds: (seeds) => noteSeeds(this.#found, seeds),
      shape,
    });
    const [comparison] = shapes;
    if (comparison) this.#parts.steps.keep(ShapeComparisonSchema, key, comparison);
    return comparison;
  }

  /** The winner, built and verified, is the job's variant; the champion is compared with it by the whole protocol. */
  async #compareWinner(): Promise<void> {
    const { services } = this.#parts;
    const winner = this.#winner;
    if (!winner) return;
    const found = variantFound(this.#found, winner.services.resolved, { fallback: false });
    found.build = winner.build!;
    Object.assign(found.result, { build: winner.build!.result, verify: winner.verify });
    Object.assign(this.#found.birth, {
      buildSources: winner.build!.sourceDigest,
      flagsDigest: winner.build!.result.flagsDigest,
    });
    const whole = variantServices(services, winner.services.resolved);
    if (this.#isChampion(winner) || !comparisonPhase.wants(whole, found)) return;
    await comparisonPhase.run(whole, found);
    this.#comparison = found.result.comparison;
    if (!heldOutPhase.wants(whole, found)) return;
    await heldOutPhase.run(whole, found);
    this.#heldOut = found.result.heldOut;
  }

  /** Nothing is compared with itself. */
  #isChampion({ services: { resolved } }: Contender): boolean {
    const { champion, kernel } = this.#parts.services.spec;
    return champion?.kernel.sourceDigest === kernel.sourceDigest && champion.resolved.label === resolved.label;
  }

  #shapes(): readonly Shape[] {
    return this.#parts.services.spec.benchmark!.shapes;
  }

  #withinBudget(): boolean {
    const { tune, costUsd } = this.#parts;
    const seconds = (performance.now() - this.#started) / 1000;
    if (tune.maxSeconds > 0 && seconds >= tune.maxSeconds) return false;
    return tune.maxUsd === 0 || (costUsd(seconds) ?? 0) < tune.maxUsd;
  }

  #known<Schema extends typeof VerifyResultSchema | typeof ShapeComparisonSchema>(schema: Schema, key: StepKey) {
    return this.#parts.tune.remeasure ? undefined : this.#parts.steps.find(schema, key);
  }

  #key(of: StepKey): StepKey {
    const { spec, cases, tools } = this.#parts.services;
    return stepKey(of, { device: spec.device, cases, emulation: () => tools.emulation() });
  }

  #tell({ row }: Contender): void {
    const { job } = this.#parts.services;
    job.emit({ case: 'tunedVariant', value: create(TunedVariantSchema, row) });
    job.keep(this.result());
  }

  #tuneResult(): TuneResult {
    const { services, tune } = this.#parts;
    const { simulated } = services.spec.device;
    const rows = this.#contenders.map(({ row }) => row);
    const figures = rows.map((row) =>
      row.verified === Verdict.PASS ? [simulated ? row.smemBytes : row.p50Us, row.registers] : [undefined],
    );
    return create(TuneResultSchema, {
      variants: rows.toSorted((a, b) => (a.rank || Infinity) - (b.rank || Infinity)),
      pareto: paretoFront(figures.map((row) => (row.length === 2 ? row : [undefined, undefined]))).map(
        (place) => rows[place]!.label,
      ),
      ...(this.#winner && { winner: this.#winner.row.label }),
      rankedBy: simulated ? RANKED_BY_RESOURCES : RANKED_BY_TIME,
      paretoOf: simulated ? 'shared memory and registers' : 'median latency and registers',
      simulated,
      combinations: tune.plan.combinations,
      drawn: tune.plan.drawn,
      complete: this.#raceComplete && this.#winner !== undefined,
    });
  }
}

/** Waits for all to settle, so that nothing goes on behind the job's back; throws what the first that failed threw. */
async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find((each) => each.status === 'rejected');
  if (failed) throw failed.reason;
}

/** Marks a promise that is awaited later: until then its failure is no unhandled one. */
function handled(work: Promise<void>): Promise<void> {
  work.catch(() => undefined);
  return work;
}

/** Probes count as cases do. */
const firstWrong = ({ probes, cases }: VerifyResult): CaseResult | undefined =>
  [...probes, ...cases].find(({ verdict }) => verdict === Verdict.FAIL);

const rowOf = ({ label, parameters }: ResolvedVariant): TunedVariant =>
  create(TunedVariantSchema, {
    label,
    parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)])),
    verified: Verdict.NOT_MEASURED,
  });

/** The highest of the entries that the shapes launch. */
function resourcesOf(
  entries: KernelBuild['result']['entries'],
): Pick<TunedVariant, 'registers' | 'smemBytes' | 'spillBytes' | 'ctasPerSm'> {
  const most = (value: (entry: (typeof entries)[number]) => number): number => Math.max(0, ...entries.map(value));
  return {
    registers: most(({ registersPerThread }) => registersPerThread),
    smemBytes: most(({ staticSmemBytes, dynamicSmemBytes }) => staticSmemBytes + dynamicSmemBytes),
    spillBytes: most(({ spillStoreBytes, spillLoadBytes }) => spillStoreBytes + spillLoadBytes),
    ctasPerSm: entries.length === 0 ? 0 : Math.min(...entries.map(({ ctasPerSm }) => ctasPerSm)),
  };
}

const TOLD: ReadonlySet<JobPayload['case']> = new Set<JobPayload['case']>([
  'logLine',
  'comparisonProgress',
  'deviceConditions',
]);

/** A variant's own build, cases and findings are in its row; the job's events would say them as the job's. */
const quiet = (job: JobServices['job']): JobServices['job'] => ({
  ...job,
  emit: (payload) => {
    if (TOLD.has(payload.case)) job.emit(payload);
  },
});
