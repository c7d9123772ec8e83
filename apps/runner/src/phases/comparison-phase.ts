import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  Phase,
  Verdict,
  ComparisonProgressSchema,
  ComparisonResultSchema,
  type ComparedBuild,
  type ComparedBuildSchema,
  type ComparisonResult,
  type Finding,
  type Shape,
  type ShapeComparison,
  type VerifyResult,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { COMPARISON_RULE, describe, judgeComparison } from '@flashcore/shared/statistics';
import type { WorkerNotice } from '../../worker/messages/channel.ts';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { KernelBuild } from '../build/compiled-kernel.ts';
import type { JobContext } from '../jobs/job-context.ts';
import { describeOutcome } from '../workers/device-worker.ts';
import { drawSeed } from '../spec/benchmark-protocol.ts';
import { runBuild, stopsAfterBuild } from './build-phase.ts';
import { candidateFor, judgementRules } from './candidate.ts';
import { PER_BLOCK, runningRatio, shapeComparison } from './comparison-result.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { emitConditions, emitFindings, startPhase, variantServices, type VariantServices } from './job-services.ts';
import { type BenchmarkSpec, type ChampionSpec } from '../spec/job-spec.ts';
import type { VariantPhase } from './phase.ts';
import { noteSeeds, runVerify } from './verify-phase.ts';
import { trialsOn } from './trials.ts';

/**
 * Compares the candidate with the champion; a fallback is not compared. On a device whose times mean nothing, the
 * champion accepted for the device is only built, to show what differs.
 */
export const comparisonPhase: VariantPhase = {
  phase: Phase.COMPARE,
  wants: ({ spec }, { build, result }) =>
    spec.champion !== undefined && spec.benchmark !== undefined && build?.image !== undefined && !result.fallback,
  async run(services, found) {
    const { champion, benchmark, device } = services.spec;
    const { job, result, build } = found;
    if (champion!.accepted && device.simulated) {
      found.championBuild = (await runBuild(championServices(services, champion!))).result;
      return undefined;
    }
    const { comparison, findings } = await runComparison(services, {
      champion: champion!,
      spec: { ...benchmark!, shapes: champion!.shapes },
      candidate: { build: build!, image: build!.image!, verify: result.verify },
      onSeeds: (seeds) => noteSeeds(job, seeds),
    });
    found.championBuild = comparison.champion?.build;
    result.comparison = comparison;
    result.findings.unshift(...findings);
    return findings.length > 0 ? 'a kernel failed while both were compared' : undefined;
  },
};

/** Services that build and run the champion. Its log lines go to the job; its results do not. */
export function championServices(services: VariantServices, champion: ChampionSpec): VariantServices {
  const side = championVariant(services, champion);
  return { ...side, job: onlyLogs(side.job) };
}

/** The services with the champion in place of the job's kernel. */
export function championVariant<Services extends Pick<VariantServices, 'spec'>>(
  services: Services,
  { kernel, arch, shapes, resolved }: ChampionSpec,
): Services & Pick<VariantServices, 'resolved' | 'build' | 'frames'> {
  return variantServices({ ...services, spec: { ...services.spec, kernel, arch, shapes } }, resolved);
}

interface Comparing {
  comparison: ComparisonResult;
  findings: Finding[];
}

type SeedListener = (seeds: readonly string[]) => void;

interface BuiltCandidate {
  build: KernelBuild;
  image: DeviceImage;
  verify: VerifyResult | undefined;
}

interface Pairing {
  champion: ChampionSpec;
  spec: BenchmarkSpec;
  candidate: BuiltCandidate;
  onSeeds: SeedListener;
}

/**
 * Builds and verifies the champion, then measures both builds in interleaved blocks, shape by shape. The champion's own
 * build and cases are part of the comparison's result, not of the job's.
 */
async function runComparison(
  services: VariantServices,
  { champion, spec, candidate, onSeeds }: Pairing,
): Promise<Comparing> {
  const {
    job,
    spec: { device },
  } = services;
  const started = performance.now();
  startPhase(services, Phase.COMPARE, spec.shapes.length * champion.modes.length);
  const championSide = championServices(services, champion);
  const build = await runBuild(championSide);
  const verified = stopsAfterBuild(build)
    ? undefined
    : await runVerify(championSide, {
        spec: { ...champion.verify, shapes: spec.shapes },
        image: build.image!,
        races: false,
        onSeeds,
      });
  const compared = {
    champion: comparedBuild(championSide, build, verification(verified?.result, spec.shapes)),
    candidate: comparedBuild(services, candidate.build, verification(candidate.verify, spec.shapes)),
  };
  const refusal = refusalOf(compared, build);
  const { shapes, findings } = refusal
    ? { shapes: [], findings: [] }
    : await compareShapes(services, championSide, {
        champion: build.image!,
        candidate: candidate.image,
        spec,
        modes: champion.modes,
        onSeeds,
      });
  const judgement = refusal
    ? { verdict: ComparisonVerdict.NOT_JUDGED, reason: refusal }
    : judgeComparison(shapes, spec.shapes);
  const comparison = create(ComparisonResultSchema, {
    ...compared,
    shapes,
    ...judgement,
    rule: COMPARISON_RULE,
    simulated: device.simulated,
    seconds: (performance.now() - started) / 1000,
  });
  job.emit({ case: 'comparisonResult', value: comparison });
  emitFindings(services, findings);
  return { comparison, findings };
}

/** Passes the champion's compiler and printf lines to the job's log, and drops its results. */
function onlyLogs(job: JobContext): JobContext {
  return { ...job, emit: (payload) => payload.case === 'logLine' && job.emit(payload) };
}

/** Whether all shapes were verified and passed. */
function verification(
  verify: VerifyResult | undefined,
  shapes: readonly Shape[],
): { verified: Verdict; verifiedDetail: string } {
  if (!verify) return { verified: Verdict.NOT_MEASURED, verifiedDetail: 'not verified' };
  const cases = shapes.map((shape) =>
    verify.cases.find((each) => each.shape && formatShape(each.shape) === formatShape(shape)),
  );
  const wrong = cases.find((each) => each?.verdict === Verdict.FAIL);
  if (wrong)
    return { verified: Verdict.FAIL, verifiedDetail: `${formatShape(wrong.shape!)}: ${wrong.reason ?? 'wrong'}` };
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
  { spec: { kernel }, resolved }: VariantServices,
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
 * Why two builds are not compared; undefined if they are. An unverified build is compared, and the result says that it
 * is unverified.
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

export interface Images {
  champion: DeviceImage;
  candidate: DeviceImage;
  spec: BenchmarkSpec;
  modes: TimingModeName[];
  onSeeds: SeedListener;
}

async function compareShapes(
  services: VariantServices,
  championSide: VariantServices,
  images: Images,
): Promise<{ shapes: ShapeComparison[]; findings: Finding[] }> {
  const shapes: ShapeComparison[] = [];
  const findings: Finding[] = [];
  for (const shape of images.spec.shapes) {
    const measured = await compareShape(services, championSide, { ...images, shape });
    shapes.push(...measured.shapes);
    findings.push(...measured.findings);
    if (measured.shapes.length === 0) break;
  }
  return { shapes, findings };
}

/** Measures candidate and champion on a shape in each mode; returns findings if one of them failed. */
export async function compareShape(
  services: VariantServices,
  championSide: VariantServices,
  { champion, candidate, spec, modes, onSeeds, shape }: Images & { shape: Shape },
): Promise<{ shapes: ShapeComparison[]; findings: Finding[] }> {
  const {
    job,
    runtime,
    artifacts,
    spec: { device },
  } = services;
  const seed = drawSeed();
  onSeeds([seed]);
  const live = new LivePairs(services, shape);
  const outcome = await runtime.request(
    {
      type: 'compare',
      champion: candidateFor(championSide, { image: champion, shape }),
      candidate: candidateFor(services, { image: candidate, shape }),
      modes,
      seed,
      trials: trialsOn(services, shape),
      ...(await judgementRules(services, spec)),
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

/** Emits the samples of the interleaved A B B A blocks as they arrive, with the running ratio. */
class LivePairs {
  readonly #services: VariantServices;
  readonly #shape: Shape;
  #series = '';
  #champion: number[] = [];
  #candidate: number[] = [];

  constructor(services: VariantServices, shape: Shape) {
    this.#services = services;
    this.#shape = shape;
  }

  receive(notice: WorkerNotice): void {
    const {
      job,
      spec: { device },
    } = this.#services;
    emitConditions(this.#services, notice);
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
        mode: TIMING_MODES[mode],
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
