import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import {
  BenchmarkProtocolSchema,
  FlashcoreError,
  type BenchmarkSettings,
  type Device,
  type ProfileSettings,
  type VerifySettings,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import {
  findPlan,
  gateNeeds,
  loosenedGates,
  parseGates,
  plannedGates,
  shapesNamed,
  type Cases,
  type GateNeeds,
  type GatesFile,
  type Manifest,
  type Plan,
  type PlannedGate,
} from '@flashcore/shared/kernels';
import type { JobRequests } from '../jobs/job-context.ts';

/** A gates file as read. */
export interface GatesText {
  text: string;
  file: GatesFile;
}

/** The plan and gates that judge an experiment. */
export interface JudgedBy {
  plan: Plan;
  isDefault: boolean;
  /** The file's gates in order, then the kernel's own. */
  gates: PlannedGate[];
  /** The gates file, as text. */
  text: string;
  /** Whether the gates file came with the request. */
  clientGates: boolean;
  /** Locked gates that the kernel's manifest loosens. */
  loosened: string[];
  needs: GateNeeds;
  /** SHA-256 over the gates file, the plan and the kernel's own gates. */
  digest: string;
  /** The origin of the gates, in words. */
  source: string;
}

interface JudgedKernel {
  manifest: Manifest;
  arch: string;
  cases: Cases;
  gates: () => GatesText;
}

/**
 * The plan that a request names, from its own gates file or the runner's. Errors: INVALID_MANIFEST for the file,
 * INVALID_REQUEST for an unknown plan, case set or shape.
 */
export function judgedBy(
  request: JobRequests['runExperiment'],
  { manifest, arch, cases, gates: runnerGates }: JudgedKernel,
): JudgedBy {
  const own = request.gatesYaml !== '';
  const { text, file } = own
    ? { text: request.gatesYaml, file: parseGates(request.gatesYaml, "the request's gates file") }
    : runnerGates();
  const plan = findPlan(file, request.plan);
  const judged = { plan, own: manifest.gates, arch };
  const gates = plannedGates(file, judged);
  checkShapes(gates, cases);
  return {
    plan,
    isDefault: plan.name === file.defaultPlan,
    gates,
    text,
    clientGates: own,
    loosened: loosenedGates(file, judged),
    needs: gateNeeds(gates, cases),
    digest: createHash('sha256')
      .update(JSON.stringify([text, plan.name, manifest.gates]))
      .digest('hex'),
    source: `${own ? "the client's gates file" : 'kernels/gates.yaml'}${manifest.gates.length > 0 ? `, and ${manifest.id}'s own` : ''}`,
  };
}

/** Errors: INVALID_REQUEST naming a gate whose shape is neither a case set nor a shape. */
function checkShapes(gates: readonly PlannedGate[], cases: Cases): void {
  for (const { id, metric } of gates) {
    if (metric.shape === undefined) continue;
    try {
      shapesNamed(metric.shape, cases);
    } catch (cause) {
      if (!(cause instanceof FlashcoreError)) throw cause;
      const sets = Object.keys(cases.sets).join(', ');
      const description = `gate ${id}: shape must be one of ${sets}, or a shape such as 2x8x512x64, got "${metric.shape}"`;
      throw new FlashcoreError('INVALID_REQUEST', { gate: id, shape: metric.shape }, description, {
        violations: [{ field: 'gates_yaml', description }],
        cause,
      });
    }
  }
}

interface Settings {
  verify: Partial<VerifySettings>;
  benchmark?: Partial<BenchmarkSettings>;
  profile?: Partial<ProfileSettings>;
}

/** The request's settings; settings that it leaves open come from the plan and its gates. */
export function plannedSettings(
  { verify, benchmark, profile }: JobRequests['runExperiment'],
  { plan, needs }: JudgedBy,
  { simulated }: Device,
): Settings {
  const asked = (benchmark?.shapes.length ?? 0) > 0 || (benchmark?.shapeSet ?? '') !== '';
  const benchmarks = asked || plan.shapes !== 'none' || needs.shapes.length > 0 || benchmark?.champion !== undefined;
  const metricSet = profile?.metricSet || plan.metricSet;
  const counters = [...new Set([...(profile?.counters ?? []), ...needs.counters])];
  const profiles = metricSet !== 'none' || counters.length > 0;
  return {
    verify: { ...verify, caseSet: verify?.caseSet || (verify?.shapes.length ? '' : plan.cases) },
    ...(benchmarks && { benchmark: plannedBenchmark(benchmark, { plan, needs, asked: asked || simulated }) }),
    ...(profiles && { profile: { ...profile, metricSet: metricSet === 'none' ? 'roofline' : metricSet, counters } }),
  };
}

interface BenchmarkNeeds {
  plan: Plan;
  needs: GateNeeds;
  asked: boolean;
}

function plannedBenchmark(
  benchmark: BenchmarkSettings | undefined,
  { plan, needs, asked }: BenchmarkNeeds,
): Partial<BenchmarkSettings> {
  const modes = benchmark?.protocol?.modes ?? [];
  const planned = [...new Set([...plan.modes, ...needs.modes])].map((mode) => TIMING_MODES[mode]);
  return {
    ...benchmark,
    ...(!asked && { shapeSet: plan.shapes === 'none' ? '' : plan.shapes }),
    protocol: {
      ...(benchmark?.protocol ?? create(BenchmarkProtocolSchema)),
      modes: modes.length > 0 ? modes : planned,
    },
    legacyLoop: (benchmark?.legacyLoop ?? false) || needs.legacyLoop,
  };
}
