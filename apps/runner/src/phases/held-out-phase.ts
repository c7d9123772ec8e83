import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  FindingKind,
  FlashcoreError,
  HeldOutResultSchema,
  HeldOutVerdict,
  Phase,
  Verdict,
  asFlashcoreError,
  type ComparisonResult,
  type HeldOutResult,
  type Shape,
} from '@flashcore/shared/contract';
import { checkShape } from '@flashcore/shared/kernels';
import { judgeComparison } from '@flashcore/shared/statistics';
import type { JobContext } from '../jobs/job-context.ts';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import { runBuild } from './build-phase.ts';
import { championServices, compareShape } from './comparison-phase.ts';
import { emitLog, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import { runVerify } from './verify-phase.ts';

/**
 * A candidate that leads a search is verified, and timed against the champion, on shapes that no client sees, so a
 * search can't overfit to them. Only a verdict comes out: no shape, no figure, and no line that the kernel prints
 * meanwhile.
 */
export const heldOutPhase: VariantPhase = {
  phase: Phase.COMPARE,
  wants: ({ spec }, { result, build }) =>
    spec.heldOut.length > 0 && spec.champion !== undefined && build?.image !== undefined && leads(result.comparison),
  async run(services, { result, build }) {
    const silent = { ...services, job: silenced(services.job) };
    const { runtime, job } = services;
    runtime.hold(silent.job);
    try {
      const heldOut = await judgeHeldOut(silent, build!.image!);
      result.heldOut = heldOut;
      emitLog(job, 'runner', heldOut.detail);
    } catch (thrown) {
      job.signal.throwIfAborted();
      // The error's text may name a shape, so only the runner's log gets it.
      const { reason } = asFlashcoreError(thrown);
      throw new FlashcoreError(reason, {}, 'The runner could not try the held-out shapes', { cause: thrown });
    } finally {
      // Retires the worker, because a line that a kernel printed may arrive after the answer.
      runtime.retireWorker();
      runtime.hold(job);
    }
    return undefined;
  },
};

/** The emulator judges no times, so any correct candidate may lead there. */
const leads = (comparison: ComparisonResult | undefined): boolean =>
  comparison !== undefined &&
  (comparison.verdict === ComparisonVerdict.FASTER ||
    (comparison.simulated && comparison.candidate?.verified === Verdict.PASS && comparison.shapes.length > 0));

const silenced = (job: JobContext): JobContext => ({ ...job, emit: () => undefined, keep: () => undefined });

const TEXTS = {
  [HeldOutVerdict.PASSED]: 'held-out: passed',
  [HeldOutVerdict.SLOWER]: 'held-out: slower than the champion',
  [HeldOutVerdict.WRONG]: 'held-out: wrong',
  [HeldOutVerdict.NOT_JUDGED]: 'held-out: not judged',
} as const;

async function judgeHeldOut(services: VariantServices, image: DeviceImage): Promise<HeldOutResult> {
  const { champion, device, heldOut } = services.spec;
  const championSide = championServices(services, champion!);
  // Every shape that the champion takes must be computed: narrowing the candidate's manifest must not hide shapes.
  const shapes = heldOut.filter((shape) => !checkShape(champion!.kernel.manifest, champion!.resolved, shape));
  const answer = (verdict: keyof typeof TEXTS, why = ''): HeldOutResult =>
    // Reports how many shapes are held out, not how many of them the champion takes: the champion's manifest may come
    // from the client, who could vary its limits to learn the lengths of the secret shapes.
    create(HeldOutResultSchema, { verdict, detail: `${TEXTS[verdict]}${why}`, shapes: heldOut.length });
  if (shapes.length === 0) return answer(HeldOutVerdict.NOT_JUDGED, ': the champion takes none of the shapes');
  const verified = await verifiedOn(services, shapes, image);
  if (verified !== 'right') return answer(verified);
  if (device.simulated) return answer(HeldOutVerdict.PASSED, ': right; the emulator’s times judge nothing');
  return answer(await timedOn(services, { championSide, shapes, image }));
}

type Fault = HeldOutVerdict.WRONG | HeldOutVerdict.NOT_JUDGED;

async function verifiedOn(
  services: VariantServices,
  shapes: readonly Shape[],
  image: DeviceImage,
): Promise<Fault | 'right'> {
  const { kernel, champion } = services.spec;
  if (shapes.some((shape) => checkShape(kernel.manifest, services.resolved, shape))) return HeldOutVerdict.WRONG;
  const { findings, result } = await runVerify(services, {
    spec: { ...champion!.verify, shapes: [...shapes] },
    image,
    races: false,
    onSeeds: () => undefined,
  });
  if (findings.some(({ kind }) => kind === FindingKind.OUT_OF_MEMORY)) return HeldOutVerdict.NOT_JUDGED;
  return findings.length === 0 && result.passedCases === shapes.length ? 'right' : HeldOutVerdict.WRONG;
}

interface Timed {
  championSide: VariantServices;
  shapes: readonly Shape[];
  image: DeviceImage;
}

/** Slower if one shape is slower. If either build fails while it is timed, the verdict is WRONG. */
async function timedOn(services: VariantServices, { championSide, shapes, image }: Timed): Promise<keyof typeof TEXTS> {
  const { benchmark, champion } = services.spec;
  const build = await runBuild(championSide);
  if (build.image === undefined) return HeldOutVerdict.NOT_JUDGED;
  const images = { champion: build.image, candidate: image, spec: benchmark!, modes: champion!.modes };
  const measured = [];
  for (const shape of shapes) {
    const { shapes: compared, findings } = await compareShape(services, championSide, {
      ...images,
      onSeeds: () => undefined,
      shape,
    });
    if (findings.length > 0) return HeldOutVerdict.WRONG;
    measured.push(...compared);
  }
  const { verdict } = judgeComparison(measured, shapes);
  if (verdict === ComparisonVerdict.SLOWER) return HeldOutVerdict.SLOWER;
  return verdict === ComparisonVerdict.NOT_JUDGED ? HeldOutVerdict.NOT_JUDGED : HeldOutVerdict.PASSED;
}
