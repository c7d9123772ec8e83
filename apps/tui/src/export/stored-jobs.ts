/** The stored jobs of an exported build: its GPU measurements and its last verdict. */
import { timestampDate } from '@bufbuild/protobuf/wkt';
import {
  JobState,
  Outcome,
  TimingMode,
  Verdict,
  outcomeOfVariant,
  type GetJobResponse,
  type VariantResult,
} from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import { formatShape, type Manifest } from '@flashcore/shared/kernels';
import { entryOf, plainLine } from '@flashcore/shared/text';
import type { LastVerdict, MeasuredShape } from './exported-kernel.ts';

const MOST_JOBS = 50;

/** The newest ended jobs of the kernel, newest first. */
export async function storedJobs(client: RunnerClient, kernelId: string): Promise<GetJobResponse[]> {
  const { jobs } = await client.listJobs({ kernelId, state: JobState.ENDED, pageSize: MOST_JOBS });
  const found: GetJobResponse[] = [];
  for (const { name } of jobs) found.push(await client.getJob({ name }));
  return found;
}

/** The newest measurement of each shape. */
export function measuredShapes(jobs: readonly GetJobResponse[], buildId: string): MeasuredShape[] {
  const found = new Map<string, MeasuredShape>();
  for (const each of jobs.flatMap((job) => shapesOf(job, buildId)))
    if (!found.has(each.shape)) found.set(each.shape, each);
  return [...found.values()];
}

interface JudgedSource {
  readonly manifest: Pick<Manifest, 'parameters'>;
  readonly buildId: string;
  readonly sourceDigest: string;
  readonly parameters: Readonly<Record<string, number>>;
}

/**
 * The newest verdict on these sources with these parameters, on any target, because a kernel that was wrong on the
 * emulator is wrong everywhere. A wrong verdict stays until the shapes that failed have passed in a later job: a pass
 * of other shapes does not show that the kernel is right. Parameters that follow from a device may differ. Undefined if
 * no job judged them.
 */
export function lastVerdict(jobs: readonly GetJobResponse[], source: JudgedSource): LastVerdict | undefined {
  let newest: LastVerdict | undefined;
  const passed = new Set<string>();
  for (const { job, result } of jobs) {
    const sameSource = source.sourceDigest !== '' && result?.provenance?.sourceDigest === source.sourceDigest;
    for (const variant of result?.variants ?? []) {
      const same = variant.build?.buildId === source.buildId || (sameSource && sameParameters(variant, source));
      const outcome = same ? judgedOutcome(variant) : undefined;
      if (outcome === undefined) continue;
      const right = outcome === Outcome.PASSED;
      const verdict = { right, outcome: Outcome[outcome], job: plainLine(job?.name ?? '') };
      newest ??= verdict;
      if (!right && failedShapes(variant).some((shape) => !passed.has(shape))) return verdict;
      for (const shape of passedShapes(variant)) passed.add(shape);
    }
  }
  return newest;
}

const shapesWith =
  (wanted: (verdict: Verdict) => boolean) =>
  ({ verify }: VariantResult): string[] =>
    (verify?.cases ?? []).flatMap(({ shape, verdict }) => (shape && wanted(verdict) ? [formatShape(shape)] : []));
const failedShapes = shapesWith((verdict) => verdict === Verdict.FAIL);
const passedShapes = shapesWith((verdict) => verdict === Verdict.PASS);

const sameParameters = ({ parameters }: VariantResult, { manifest, parameters: ours }: JudgedSource): boolean =>
  Object.entries(ours).every(
    ([name, value]) =>
      entryOf(manifest.parameters, name)?.ofDevice !== undefined || Number(entryOf(parameters, name)) === value,
  );

const WRONG: ReadonlySet<Outcome> = new Set([Outcome.WRONG_RESULT, Outcome.CRASHED, Outcome.TIMED_OUT]);

/** PASSED if every case is correct, regardless of the gates; undefined if no verification ended. */
function judgedOutcome(variant: VariantResult): Outcome | undefined {
  const outcome = outcomeOfVariant({ ...variant, gates: [], comparison: undefined });
  if (WRONG.has(outcome)) return outcome;
  const { cases = [], passedCases = 0 } = variant.verify ?? {};
  return outcome === Outcome.PASSED && cases.length > 0 && passedCases === cases.length ? outcome : undefined;
}

/** Shapes that the job found correct and for which it has a valid hot GPU time, measured together with sdpa/math's. */
export function shapesOf({ job, result }: GetJobResponse, buildId: string): MeasuredShape[] {
  const provenance = result?.provenance;
  return (result?.variants ?? [])
    .filter(({ build }) => build?.buildId === buildId)
    .flatMap(({ benchmarks, verify }) =>
      benchmarks.flatMap(({ mode, simulated, valid, shape, latency, sdpa }): MeasuredShape[] => {
        const math = sdpa.find(({ name }) => name === 'sdpa/math');
        const text = shape ? formatShape(shape) : '';
        const right = verify?.cases.find(
          (each) => each.verdict === Verdict.PASS && each.shape && formatShape(each.shape) === text,
        );
        if (mode !== TimingMode.HOT || simulated || !valid || !latency || !math?.latency || !right) return [];
        return [
          {
            shape: text,
            job: job?.name ?? '',
            device: provenance?.device?.name ?? '',
            protocol: provenance?.protocol ?? '',
            libraries: librariesOf(math.version),
            time: provenance?.time ? timestampDate(provenance.time).toISOString() : '',
            us: latency.p50Us,
            referenceUs: math.latency.p50Us,
            maxAbsoluteError: right.maxAbsError,
            maxRelativeError: right.maxRelError,
          },
        ];
      }),
    );
}

/** Splits text such as "PyTorch 2.11.0+cu130, cuDNN 9.19.0" into names and versions. */
const librariesOf = (version: string): Record<string, string> =>
  Object.fromEntries(
    version.split(', ').flatMap((each) => {
      const at = each.lastIndexOf(' ');
      return at > 0 ? [[each.slice(0, at).toLowerCase().replace('pytorch', 'torch'), each.slice(at + 1)]] : [];
    }),
  );
