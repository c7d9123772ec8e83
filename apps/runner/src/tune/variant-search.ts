import { availableParallelism } from 'node:os';
import { clone } from '@bufbuild/protobuf';
import {
  TunedVariantSchema,
  Verdict,
  type ComparisonResult,
  type HeldOutResult,
  type JobResult,
  type Shape,
  type ShapeComparison,
  type TuneResult,
} from '@flashcore/shared/contract';
import { counted } from '@flashcore/shared/text';
import type { JobOutcome } from '../jobs/job-context.ts';
import { comparisonPhase } from '../phases/comparison-phase.ts';
import { heldOutPhase } from '../phases/held-out-phase.ts';
import { nothingFound, variantFound, type JobFound } from '../phases/job-found.ts';
import { emitLog, variantServices, type JobServices } from '../phases/job-services.ts';
import { noteSeeds } from '../phases/verify-phase.ts';
import type { TuneSpec } from '../spec/job-spec.ts';
import { keptText } from '../spec/tune-variants.ts';
import type { MeasuredSteps } from '../store/measured-steps.ts';
import { buildContender, contenderOf, isDroppedForSpills, type Contender } from './contender.ts';
import { KeptMeasurements } from './kept-measurements.ts';
import { overShapes, race, type Measured } from './race.ts';
import { endOfTune, tuneResultOf, type SearchFound } from './tune-result.ts';

/** Rounds of the race; each takes twice the samples of the previous one. */
const ROUNDS = 3;
const FIRST_SAMPLES = 30;

export interface TuneParts {
  readonly services: JobServices;
  readonly tune: TuneSpec;
  readonly steps: MeasuredSteps;
  /** Cost of device seconds in dollars; undefined if no rate is known. */
  readonly costUsd: (seconds: number) => number | undefined;
  /** Makes the job's result from the findings. */
  readonly resultOf: (found: JobFound, tune: TuneResult) => JobResult;
}

/**
 * The body of a tuning job: builds the variants in parallel, drops those that can't win according to ptxas, verifies
 * the others while builds continue, races them, and compares the winner with the champion. Earlier measurements, also
 * of an interrupted job, are reused. A stopped job keeps its results so far.
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
  return { ...endOfTune(tuning.searched(), result), result };
}

class Tuning {
  readonly #parts: TuneParts;
  readonly #found = nothingFound();
  readonly #contenders: Contender[];
  readonly #measurements: KeptMeasurements;
  readonly #started = performance.now();
  #winner: Contender | undefined;
  #raceComplete = true;
  #comparison: ComparisonResult | undefined;
  #heldOut: HeldOutResult | undefined;

  constructor(parts: TuneParts) {
    this.#parts = parts;
    const { services, steps, tune } = parts;
    this.#contenders = tune.plan.variants.map((resolved) => contenderOf(services, resolved));
    this.#measurements = new KeptMeasurements({
      services,
      steps,
      remeasure: tune.remeasure,
      onSeeds: (seeds) => noteSeeds(this.#found, seeds),
    });
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
    const { services, tune, resultOf } = this.#parts;
    return resultOf(this.#found, tuneResultOf(this.searched(), tune.plan, services.spec.device.simulated));
  }

  searched(): SearchFound {
    return {
      rows: this.#contenders.map(({ row }) => row),
      winner: this.#winner?.row,
      complete: this.#raceComplete,
      comparison: this.#comparison,
      heldOut: this.#heldOut,
    };
  }

  #announcement(): string {
    const { plan } = this.#parts.tune;
    return `${counted(plan.variants.length, 'variant')} of ${counted(plan.combinations, 'combination')}${plan.drawn ? ', drawn at random' : ''}${keptText(plan.kept)}`;
  }

  /** Builds on all cores; each variant is verified as soon as it is built and the device is free. */
  async #buildAndVerify(): Promise<void> {
    const queue = [...this.#contenders];
    const verified: Promise<void>[] = [];
    // The device runs one verification at a time: each waits for the previous one, and a failure ends the rest.
    const verifyAfter = async (before: Promise<void> | undefined, contender: Contender): Promise<void> => {
      await before;
      if (this.#withinBudget()) await this.#verify(contender);
      else this.#leaveOut(contender);
    };
    const build = async (): Promise<void> => {
      try {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
          await buildContender(next);
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

  #leaveOut(contender: Contender): void {
    this.#raceComplete = false;
    contender.row.dropped = 'the budget was used up before it was verified';
    this.#tell(contender);
  }

  /** Readmits variants that were dropped for spills if no other variant is correct. */
  async #takeSpilledWhereNothingElseIs(): Promise<void> {
    if (this.#contenders.some(({ row }) => row.verified === Verdict.PASS)) return;
    for (const contender of this.#contenders.filter(isDroppedForSpills)) {
      if (!this.#withinBudget()) return this.#leaveOut(contender);
      delete contender.row.dropped;
      await this.#verify(contender);
    }
  }

  async #verify(contender: Contender): Promise<void> {
    await this.#measurements.verify(contender);
    this.#tell(contender);
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

  /** Times leader and contender in interleaved blocks on every shape; undefined if one of them failed. */
  async #measure(leader: Contender, contender: Contender, samples: number): Promise<Measured | undefined> {
    const ratios: Measured[] = [];
    for (const [index, shape] of this.#shapes().entries()) {
      const comparison = await this.#measurements.compare(leader, contender, { shape, samples });
      if (!comparison?.time) return undefined;
      ratios.push(comparison.time);
      // The table shows the times of the first shape.
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

  /** The built and verified winner becomes the job's variant; the champion is compared with it by the full protocol. */
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

  /** If the winner is the champion itself, there is no comparison. */
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

  #tell({ row }: Contender): void {
    const { job } = this.#parts.services;
    job.emit({ case: 'tunedVariant', value: clone(TunedVariantSchema, row) });
    job.keep(this.result());
  }
}

/** Waits until all have settled, so that nothing continues after the job; throws the first failure. */
async function allSettled(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find((each) => each.status === 'rejected');
  if (failed) throw failed.reason;
}

/** Marks a promise that is awaited later, so that its failure until then is not an unhandled rejection. */
function handled(work: Promise<void>): Promise<void> {
  work.catch(() => undefined);
  return work;
}
