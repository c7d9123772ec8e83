import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  Phase,
  Verdict,
  ComparisonProgressSchema,
  ComparisonResultSchema,
  DeviceConditionsSchema,
  type ComparedBuild,
  type ComparedBuildSchema,
  type ComparisonResult,
  type Finding,
  type Shape,
  type ShapeComparison,
  type VerifyResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { COMPARISON_RULE, describe, judgeComparison } from '@flashcore/shared/statistics';
import type { TimingModeName, WorkerNotice } from '../../worker/messages.ts';
import type { KernelBuild } from '../build/kernel-builder.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import { MODES } from './benchmark-phase.ts';
import { drawSeeds } from './benchmark-protocol.ts';
import { runBuild, stopsAfterBuild } from './build-phase.ts';
import { candidateFor } from './candidate.ts';
import { PER_BLOCK, runningRatio, shapeComparison } from './comparison-result.ts';
import { findingOf } from './fault-findings.ts';
import { emitFindings, startPhase, variantScope, type VariantScope } from './job-scope.ts';
import type { BenchmarkSpec, ChampionSpec } from './job-spec.ts';
import { runVerify } from './verify-phase.ts';

export interface Comparing {
  result: ComparisonResult;
  findings: Finding[];
}

/** Of a mode: the champion against itself, then against the candidate. */
const SERIES = 2;

interface Candidate {
  build: KernelBuild;
  image: string;
  verify: VerifyResult | undefined;
}

/**
 * Builds and verifies the champion, then measures both in interleaved blocks, shape by shape. The champion's own build
 * and cases are told in the result, not as the job's.
 */
export async function runComparison(
  scope: VariantScope,
  { champion, spec, candidate }: { champion: ChampionSpec; spec: BenchmarkSpec; candidate: Candidate },
): Promise<Comparing> {
  const {
    job,
    spec: { device },
  } = scope;
  const started = performance.now();
  startPhase(scope, Phase.COMPARE, spec.shapes.length * champion.modes.length);
  const rival = variantScope(
    {
      ...scope,
      job: onlyLogs(job),
      spec: { ...scope.spec, kernel: champion.kernel, arch: champion.arch, shapes: spec.shapes },
    },
    champion.resolved,
  );
  const build = await runBuild(rival);
  const verified = stopsAfterBuild(build)
    ? undefined
    : await runVerify(rival, { spec: { ...champion.verify, shapes: spec.shapes }, image: build.image!, races: false });
  const compared = {
    champion: comparedBuild(rival, build, verification(verified?.result, spec.shapes)),
    candidate: comparedBuild(scope, candidate.build, verification(candidate.verify, spec.shapes)),
  };
  const refusal = refusalOf(compared, build);
  const { shapes, findings } = refusal
    ? { shapes: [], findings: [] }
    : await compareShapes(scope, rival, {
        champion: build.image!,
        candidate: candidate.image,
        spec,
        modes: champion.modes,
      });
  const judgement = refusal
    ? { verdict: ComparisonVerdict.NOT_JUDGED, reason: `not judged: ${refusal}` }
    : judgeComparison(shapes, spec.shapes);
  const result = create(ComparisonResultSchema, {
    ...compared,
    shapes,
    ...judgement,
    rule: COMPARISON_RULE,
    simulated: device.simulated,
    seconds: (performance.now() - started) / 1000,
  });
  job.emit({ case: 'comparisonResult', value: result });
  emitFindings(job, findings);
  return { result, findings };
}

/** The champion's compiler and printf lines go to the job's log; its results are not the job's. */
function onlyLogs(job: JobContext): JobContext {
  return { ...job, emit: (payload) => payload.case === 'logLine' && job.emit(payload) };
}

/** Whether all of the shapes were verified, and right. */
function verification(
  verify: VerifyResult | undefined,
  shapes: readonly Shape[],
): { verified: Verdict; verifiedDetail: string } {
  if (!verify) return { verified: Verdict.NOT_MEASURED, verifiedDetail: 'not verified' };
  const cases = shapes.map((shape) =>
    verify.cases.find((each) => each.shape && formatShape(each.shape) === formatShape(shape)),
  );
  const wrong = cases.find((each) => each?.verdict === Verdict.FAIL);
  if (wrong) return { verified: Verdict.FAIL, verifiedDetail: `${formatShape(wrong.shape!)}: ${wrong.reason}` };
  const missing = shapes.filter((_, index) => cases[index]?.verdict !== Verdict.PASS);
  if (missing.length > 0)
    return { verified: Verdict.NOT_MEASURED, verifiedDetail: `not verified on ${missing.map(formatShape).join(', ')}` };
  const seeds = Math.min(...cases.map((each) => each!.seeds));
  return {
    verified: Verdict.PASS,
    verifiedDetail: `right on ${shapes.map(formatShape).join(', ')}, ${seeds} seed${seeds === 1 ? '' : 's'} each, against ${verify.reference}`,
  };
}

function comparedBuild(
  { spec: { kernel }, resolved }: VariantScope,
  { result, sourceDigest }: KernelBuild,
  verified: { verified: Verdict; verifiedDetail: string },
): MessageInitShape<typeof ComparedBuildSchema> {
  return {
    label: resolved.label === 'default' ? kernel.kernelId : `${kernel.kernelId} ${resolved.label}`,
    kernelId: kernel.kernelId,
    buildId: result.buildId,
    sourceDigest,
    flagsDigest: result.flagsDigest,
    build: result,
    ...verified,
  } satisfies Partial<ComparedBuild>;
}

/**
 * Why two builds are not compared; undefined: they are. One that nobody verified is compared, and the result says so.
 */
function refusalOf(
  { champion, candidate }: Record<'champion' | 'candidate', MessageInitShape<typeof ComparedBuildSchema>>,
  build: KernelBuild,
): string | undefined {
  if (stopsAfterBuild(build))
    return `the champion ${champion.label} could not be built: ${build.findings[0]?.message ?? 'it does not compile'}`;
  if (champion.verified === Verdict.FAIL) return `the champion's output is wrong: ${champion.verifiedDetail}`;
  return candidate.verified === Verdict.FAIL
    ? `the candidate's output is wrong: ${candidate.verifiedDetail}`
    : undefined;
}

interface Images {
  champion: string;
  candidate: string;
  spec: BenchmarkSpec;
  modes: TimingModeName[];
}

async function compareShapes(
  scope: VariantScope,
  rival: VariantScope,
  images: Images,
): Promise<{ shapes: ShapeComparison[]; findings: Finding[] }> {
  const shapes: ShapeComparison[] = [];
  const findings: Finding[] = [];
  for (const shape of images.spec.shapes) {
    const measured = await compareShape(scope, rival, { ...images, shape });
    shapes.push(...measured.shapes);
    findings.push(...measured.findings);
    if (measured.shapes.length === 0) break;
  }
  return { shapes, findings };
}

async function compareShape(
  scope: VariantScope,
  rival: VariantScope,
  { champion, candidate, spec, modes, shape }: Images & { shape: Shape },
): Promise<{ shapes: ShapeComparison[]; findings: Finding[] }> {
  const {
    job,
    runtime,
    artifacts,
    seeds: used,
    spec: { device },
  } = scope;
  const seeds = drawSeeds(SERIES * modes.length);
  used.push(...seeds.seeds, ...seeds.freshSeeds);
  const live = new LivePairs(scope, shape);
  const outcome = await runtime.request(
    {
      type: 'compare',
      champion: candidateFor(rival, { image: champion, shape }),
      candidate: candidateFor(scope, { image: candidate, shape }),
      modes,
      ...seeds,
      tolerance: spec.tolerance,
      protocol: spec.protocol.sampling,
      ownProcesses: runtime.ownProcesses,
    },
    { signal: job.signal, onNotice: (notice) => live.receive(notice) },
  );
  if (outcome.status !== 'done') {
    const finding = findingOf(outcome, shape);
    if (!finding) throw new Error(`the worker could not compare on ${formatShape(shape)}: ${describeOutcome(outcome)}`);
    finding.message = `While champion and candidate were timed in turns, one of them failed: ${finding.message}`;
    return { shapes: [], findings: [finding] };
  }
  const shapes = outcome.value.map((report) =>
    shapeComparison(artifacts, { report, shape, simulated: device.simulated }),
  );
  for (const value of shapes) job.emit({ case: 'shapeComparison', value });
  return { shapes, findings: [] };
}

/** Blocks as they come, with the running ratio. */
class LivePairs {
  readonly #scope: VariantScope;
  readonly #shape: Shape;
  #series = '';
  #champion: number[] = [];
  #candidate: number[] = [];

  constructor(scope: VariantScope, shape: Shape) {
    this.#scope = scope;
    this.#shape = shape;
  }

  receive(notice: WorkerNotice): void {
    const {
      job,
      spec: { device },
    } = this.#scope;
    if (notice.type === 'conditions' && !device.simulated)
      job.emit({ case: 'deviceConditions', value: create(DeviceConditionsSchema, notice.conditions) });
    if (notice.type !== 'pairs') return;
    const { mode, selfCheck, championUs, candidateUs } = notice;
    const series = `${mode} ${selfCheck}`;
    if (series !== this.#series) this.#restart(series);
    this.#champion.push(...championUs.filter((us) => us > 0));
    this.#candidate.push(...candidateUs.filter((us) => us > 0));
    const blocks = this.#champion.length / PER_BLOCK;
    const time = runningRatio(this.#champion, this.#candidate);
    job.emit({
      case: 'comparisonProgress',
      value: create(ComparisonProgressSchema, {
        shape: this.#shape,
        mode: MODES[mode],
        selfCheck,
        championUs: [...championUs],
        candidateUs: [...candidateUs],
        blocks,
        simulated: device.simulated,
        ...(time && { time }),
        ...(blocks > 0 && { champion: describe(this.#champion), candidate: describe(this.#candidate) }),
      }),
    });
  }

  #restart(series: string): void {
    this.#series = series;
    this.#champion = [];
    this.#candidate = [];
  }
}
