import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ComparisonVerdict,
  HeldOutVerdict,
  Outcome,
  TimingMode,
  Verdict,
  ExperimentSummarySchema,
  LeaderboardEntrySchema,
  ProvenanceSchema,
  allProbes,
  countedProbes,
  outcomeOfVariant,
  type BenchmarkResult,
  type ComparisonResult,
  type ExperimentSummary,
  type JobResult,
  type LeaderboardEntry,
  type VariantResult,
} from '@flashcore/shared/contract';
import { formatShape, recordedDtype, recordedProblem } from '@flashcore/shared/kernels';
import { isSdpa } from '@flashcore/shared/rivals';
import type { Database } from './database.ts';
import { labelConditions, type JobQuery } from './job-table.ts';

/** An ended experiment. */
export interface EndedExperiment {
  jobId: number;
  jobName: string;
  kernelId: string;
  outcome: Outcome;
  endMs: number;
  result: JobResult;
}

/** Filters a list: experiments older than the job `before`, of a kernel, with labels. */
export type HistoryQuery = Omit<JobQuery, 'state'>;

/** Results of ended experiments: the history, and the measurements for the leaderboard. */
export class HistoryStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Stores an ended experiment; part of the transaction that ends its job. */
  record(experiment: EndedExperiment): void {
    const { jobId, kernelId, result } = experiment;
    this.#database
      .prepare('INSERT INTO experiments (job_id, kernel_id, summary) VALUES (?, ?, ?)')
      .run(jobId, kernelId, toBinary(ExperimentSummarySchema, summarise(result)));
    for (const variant of result.variants) {
      for (const benchmark of variant.benchmarks) this.#recordMeasurement(experiment, variant, benchmark);
    }
  }

  /** Stores a job's SDPA measurements, by device and software; part of the transaction that ends the job. */
  recordSdpa({ jobId, jobName, endMs, result }: Omit<EndedExperiment, 'kernelId' | 'outcome'>): void {
    const { device, protocol = '' } = result.provenance ?? {};
    if (!device || device.simulated) return;
    const dtype = recordedDtype(result.provenance?.dtype);
    const problem = recordedProblem(result.provenance?.problem);
    const beside = result.variants.flatMap(({ benchmarks }) => benchmarks).filter(({ valid }) => valid);
    const alone = result.sdpaBenchmarks.map(({ shape, mode, backends }) => ({ shape, mode, sdpa: backends }));
    for (const { shape, mode, sdpa } of [...beside, ...alone]) {
      if (!shape) continue;
      for (const { name, latency, version, tflops, rooflinePercent } of sdpa) {
        if (!latency) continue;
        const entry = create(LeaderboardEntrySchema, {
          label: name,
          latency,
          job: jobName,
          time: timestampFromMs(endMs),
          sdpaVersion: version,
          ...machineOf(result),
          ...(tflops !== undefined && { tflops }),
          ...(rooflinePercent !== undefined && { rooflinePercent }),
        });
        this.#database
          .prepare(
            `INSERT INTO sdpa_measurements (job_id, device_name, version, backend, problem, shape, dtype, mode, protocol, p50_us, entry)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
          )
          .run(
            jobId,
            device.name,
            version,
            name,
            problem,
            formatShape(shape),
            dtype,
            mode,
            protocol,
            latency.p50Us,
            toBinary(LeaderboardEntrySchema, entry),
          );
      }
    }
  }

  /** Ended experiments, newest first, older than the job `before`; their `job` is left empty. */
  list({ limit, before, kernelId, labels = {} }: HistoryQuery): { jobId: number; summary: ExperimentSummary }[] {
    const labelled = labelConditions(labels);
    const conditions = ['job_id < ?'];
    if (kernelId) conditions.push('kernel_id = ?');
    if (labelled.conditions.length > 0)
      conditions.push(`job_id IN (SELECT id FROM jobs WHERE ${labelled.conditions.join(' AND ')})`);
    const values = [before ?? Number.MAX_SAFE_INTEGER, ...(kernelId ? [kernelId] : []), ...labelled.values, limit];
    const rows = this.#database
      .prepare(`SELECT job_id, summary FROM experiments WHERE ${conditions.join(' AND ')} ORDER BY job_id DESC LIMIT ?`)
      .all(...values);
    return rows.map((row) => {
      const summary = fromBinary(ExperimentSummarySchema, row['summary'] as Uint8Array);
      summary.dtype = recordedDtype(summary.dtype);
      return { jobId: Number(row['job_id']), summary };
    });
  }

  #recordMeasurement(experiment: EndedExperiment, variant: VariantResult, benchmark: BenchmarkResult): void {
    const { latency, shape } = benchmark;
    if (!latency || latency.samples === 0 || !shape) return;
    const provenance = experiment.result.provenance;
    const simulated = benchmark.simulated || provenance?.device?.simulated !== false;
    const valid = benchmark.valid && isCorrect(variant);
    const accepted = valid && experiment.outcome === Outcome.PASSED;
    const entry = leaderboardEntry(experiment, variant, benchmark);
    this.#database
      .prepare(
        `INSERT INTO measurements (job_id, kernel_id, label, device_name, simulated, problem, shape, dtype, mode, valid, ranked, accepted, p50_us, source_digest, protocol, entry)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(
        experiment.jobId,
        experiment.kernelId,
        variant.label,
        provenance?.device?.name ?? '',
        Number(simulated),
        recordedProblem(provenance?.problem),
        formatShape(shape),
        recordedDtype(provenance?.dtype),
        benchmark.mode,
        Number(valid),
        Number(experiment.result.ranking?.ranked ?? false),
        Number(accepted),
        latency.p50Us,
        provenance?.sourceDigest ?? '',
        provenance?.protocol ?? '',
        toBinary(LeaderboardEntrySchema, entry),
      );
  }
}

/** Outcomes that a variant with correct output can have; FAILED means that it missed a gate. */
const CORRECT: readonly Outcome[] = [Outcome.PASSED, Outcome.FAILED];

/**
 * Whether a variant was verified and passed every case and probe that ran, and nothing found it wrong afterwards: the
 * race checker, the comparison, held-out shapes. Cases that the kernel does not take make no difference.
 */
function isCorrect(variant: VariantResult): boolean {
  const { verify, heldOut } = variant;
  return (
    verify !== undefined &&
    heldOut?.verdict !== HeldOutVerdict.WRONG &&
    CORRECT.includes(outcomeOfVariant(variant)) &&
    verify.passedCases > 0 &&
    [...allProbes(verify), ...verify.cases].every(
      ({ verdict }) => verdict === Verdict.PASS || verdict === Verdict.NOT_MEASURED,
    )
  );
}

function leaderboardEntry(
  experiment: EndedExperiment,
  variant: VariantResult,
  benchmark: BenchmarkResult,
): LeaderboardEntry {
  // Figures reused from an earlier job were not measured in turns with this kernel.
  const inTurns = benchmark.sdpa.filter((each) => isSdpa(each) && !each.reused);
  const speedups = inTurns.map(({ speedup }) => speedup);
  return create(LeaderboardEntrySchema, {
    label: `${experiment.kernelId} ${variant.label}`.trim(),
    kernelId: experiment.kernelId,
    ...(benchmark.latency && { latency: benchmark.latency }),
    job: experiment.jobName,
    time: timestampFromMs(experiment.endMs),
    // The speedup over the fastest backend is the smallest.
    ...(speedups.length > 0 && { speedup: Math.min(...speedups), sdpaInTurns: true }),
    ...(benchmark.tflops !== undefined && { tflops: benchmark.tflops }),
    ...(benchmark.rooflinePercent !== undefined && { rooflinePercent: benchmark.rooflinePercent }),
    ...(benchmark.rooflineUnits !== undefined && { rooflineUnits: benchmark.rooflineUnits }),
    registers: registersOf(variant, [benchmark]),
    lineage: experiment.result.lineage,
    sourceDigest: experiment.result.provenance?.sourceDigest ?? '',
    ...machineOf(experiment.result),
  });
}

/** The machine that a result is from and, in a cluster, its pilot. */
const machineOf = ({ provenance: { hostName = '', schedulerJob } = create(ProvenanceSchema) }: JobResult) => ({
  hostName,
  ...(schedulerJob !== undefined && { schedulerJob }),
});

/** Maximum over the entries that the timed shapes launch; undefined if the compiler did not report it. */
function registersOf({ build }: VariantResult, timed: readonly BenchmarkResult[]): number | undefined {
  const entries = build?.entries ?? [];
  const shapes = new Set(timed.flatMap(({ shape }) => (shape ? [formatShape(shape)] : [])));
  const launched = entries.filter((entry) => entry.shapes.some((shape) => shapes.has(shape)));
  const registers = (launched.length > 0 ? launched : entries).map(({ registersPerThread }) => registersPerThread);
  return registers.length > 0 ? Math.max(...registers) : undefined;
}

/** The smallest ratio over the shapes; absent if the comparison was refused. */
function comparisonOf(comparison: ComparisonResult | undefined): { champion?: string; speedupOverChampion?: number } {
  if (!comparison) return {};
  const ratios = comparison.shapes.flatMap(({ time }) => (time ? [time.ratio] : []));
  const judged = comparison.verdict !== ComparisonVerdict.NOT_JUDGED && ratios.length > 0;
  return {
    ...(comparison.champion && { champion: comparison.champion.label }),
    ...(judged && { speedupOverChampion: Math.min(...ratios) }),
  };
}

/** The history's line for an experiment, about the requested variant. */
function summarise(result: JobResult): ExperimentSummary {
  const variant = result.variants[0];
  const cases = variant?.verify?.cases ?? [];
  const probes = variant?.verify ? countedProbes(variant.verify) : [];
  const gates = (verdict: Verdict): number => (variant?.gates ?? []).filter((gate) => gate.verdict === verdict).length;
  const hard = (variant?.gates ?? []).filter(({ level }) => level === 'hard');
  const timed = (variant?.benchmarks ?? []).filter(isTold);
  const hot = timed.find(({ mode }) => mode === TimingMode.HOT);
  return create(ExperimentSummarySchema, {
    deviceName: result.provenance?.device?.name ?? '',
    simulated: result.provenance?.device?.simulated ?? false,
    dtype: recordedDtype(result.provenance?.dtype),
    passedCases: variant?.verify?.passedCases ?? 0,
    cases: cases.length,
    passedProbes: probes.filter(({ verdict }) => verdict === Verdict.PASS).length,
    probes: probes.length,
    maxAbsError: Math.max(0, ...cases.map(({ maxAbsError }) => maxAbsError)),
    ...(hot?.latency && { p50Us: hot.latency.p50Us, samples: hot.latency.samples }),
    ...(result.costUsd !== undefined && { costUsd: result.costUsd }),
    ...comparisonOf(variant?.comparison),
    ...(result.plan && { plan: result.plan.name }),
    hardGates: hard.length,
    hardGatesPassed: hard.filter(({ verdict }) => verdict === Verdict.PASS).length,
    hardGatesToDo: hard.filter(({ verdict }) => verdict === Verdict.NOT_JUDGED).length,
    gatesPassed: gates(Verdict.PASS),
    gatesFailed: gates(Verdict.FAIL),
    gatesNotMeasured: gates(Verdict.NOT_MEASURED) + gates(Verdict.NOT_JUDGED),
    sourceDigest: result.provenance?.sourceDigest ?? '',
    ...(result.ranking && { ranking: result.ranking }),
    ...machineOf(result),
    registersPerThread: variant && registersOf(variant, variant.benchmarks),
    timings: timed.flatMap(({ shape, mode, latency }) =>
      latency === undefined || shape === undefined ? [] : [{ shape, mode, p50Us: latency.p50Us }],
    ),
  });
}

/** Lists leave out invalid times, whose reason is in the result; the emulator's times are listed and marked. */
const isTold = ({ valid, simulated }: BenchmarkResult): boolean => valid || simulated;
