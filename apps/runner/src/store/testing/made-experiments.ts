import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  HeldOutVerdict,
  JobKind,
  TimingMode,
  Verdict,
  JobResultSchema,
  type JobResult,
  type Outcome,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { openDatabase, type Database } from '../database.ts';
import { HistoryStore } from '../history.ts';
import { JobTable } from '../job-table.ts';

export const MEASURED_SHAPE = parseShape('2x8x512x64');
export const CURRENT_PROTOCOL = 'flashcore-protocol 3';

/** The hot measurements of a made-up experiment; its cold times are a tenth of the hot ones. */
export interface Measured {
  p50: number;
  simulated?: boolean;
  valid?: boolean;
  correct?: boolean;
  speedups?: number[];
  protocol?: string;
  dtype?: string;
  device?: string;
  /** Registers of its two entries; the shape launches the first. */
  registers?: [number, number];
  /** Digest of its sources; default: a digest that no other experiment has. */
  sources?: string;
  /** Number of cases that the kernel does not take. */
  refused?: number;
  /** The finding of a phase after the verification that makes the result wrong. */
  wrong?: 'while compared' | 'on held-out shapes';
  /** Whether the run was ranked; undefined: from before ranked runs. Default: true. */
  ranked?: boolean | undefined;
}

export interface MadeExperiment {
  kernelId: string;
  outcome: Outcome;
  measured: Measured;
  owner?: string;
  labels?: string;
}

function resultOf({
  p50,
  simulated = false,
  valid = true,
  correct = true,
  speedups = [],
  protocol = CURRENT_PROTOCOL,
  dtype = 'fp16',
  device = 'NVIDIA L4',
  registers,
  refused = 0,
  sources = `source ${p50}`,
  wrong,
  ...run
}: Measured): JobResult {
  const ranked = 'ranked' in run ? run.ranked : true;
  return create(JobResultSchema, {
    ...(ranked !== undefined && { ranking: { ranked, reasons: ranked ? [] : ['client gates'] } }),
    lineage: ['below'],
    provenance: {
      device: { name: device, simulated },
      hostName: `node ${p50}`,
      schedulerJob: String(p50),
      sourceDigest: sources,
      protocol,
      dtype,
    },
    variants: [
      {
        label: 'USE_WMMA=1',
        ...(registers && {
          build: {
            succeeded: true,
            entries: registers.map((registersPerThread, index) => ({
              registersPerThread,
              shapes: index === 0 ? ['2x8x512x64'] : [],
            })),
          },
        }),
        verify: {
          passedCases: correct ? 1 : 0,
          cases: [
            { verdict: correct ? Verdict.PASS : Verdict.FAIL, maxAbsError: 0.25 },
            ...Array.from({ length: refused }, () => ({ verdict: Verdict.NOT_MEASURED })),
          ],
        },
        benchmarks: [
          {
            shape: MEASURED_SHAPE,
            mode: TimingMode.COLD,
            simulated,
            valid,
            latency: { samples: 9, p50Us: p50 / 10 },
          },
          {
            shape: MEASURED_SHAPE,
            mode: TimingMode.HOT,
            simulated,
            valid,
            latency: { samples: 9, p50Us: p50 },
            sdpa: speedups.map((speedup) => ({ name: 'sdpa/flash', speedup })),
          },
        ],
        ...(wrong === 'while compared' && { findings: [{ kind: FindingKind.WRONG_RESULT }] }),
        ...(wrong === 'on held-out shapes' && { heldOut: { verdict: HeldOutVerdict.WRONG } }),
        gates: [
          { verdict: Verdict.PASS, level: 'hard' },
          { verdict: Verdict.NOT_MEASURED, level: 'hard' },
          { verdict: Verdict.NOT_MEASURED, level: 'warn' },
        ],
      },
    ],
  });
}

interface MadeJob {
  name: string;
  kernelId: string;
  owner?: string;
  labels?: string;
}

/** Stores a job that results can refer to. */
export function storeJob(database: Database, { name, kernelId, owner = 'ada', labels = '{}' }: MadeJob): number {
  return new JobTable(database).insert({
    name,
    kind: JobKind.EXPERIMENT,
    label: '',
    kernel_id: kernelId,
    device_id: 'gpu0',
    request_id: null,
    request_digest: null,
    create_ms: 0,
    owner,
    labels,
    code_digest: '',
  });
}

/** A database in which these experiments have ended; the first is jobs/0. */
export function databaseOf(...experiments: MadeExperiment[]): Database {
  const database = openDatabase(':memory:');
  const history = new HistoryStore(database);
  experiments.forEach(({ kernelId, outcome, measured, owner, labels }, index) => {
    const jobName = `jobs/${index}`;
    const jobId = storeJob(database, { name: jobName, kernelId, owner, labels });
    history.record({ jobId, jobName, kernelId, outcome, endMs: 1000, result: resultOf(measured) });
  });
  return database;
}
