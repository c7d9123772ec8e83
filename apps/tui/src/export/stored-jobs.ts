/** What stored jobs measured of one build on a GPU. */
import { timestampDate } from '@bufbuild/protobuf/wkt';
import { JobState, TimingMode, Verdict, type GetJobResponse } from '@flashcore/shared/contract';
import type { RunnerClient } from '@flashcore/shared/client';
import { formatShape } from '@flashcore/shared/kernels';
import type { MeasuredShape } from './exported-kernel.ts';

const MOST_JOBS = 50;

/** Of the newest jobs of the kernel; the newest measurement of a shape counts. */
export async function measuredShapes(
  client: RunnerClient,
  kernelId: string,
  buildId: string,
): Promise<MeasuredShape[]> {
  const { jobs } = await client.listJobs({ kernelId, state: JobState.ENDED, pageSize: MOST_JOBS });
  const found = new Map<string, MeasuredShape>();
  for (const { name } of jobs)
    for (const each of shapesOf(await client.getJob({ name }), buildId))
      if (!found.has(each.shape)) found.set(each.shape, each);
  return [...found.values()];
}

/** Shapes that are right in the job, valid, hot and not simulated, with sdpa/math beside them. */
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

/** "PyTorch 2.11.0+cu130, cuDNN 9.19.0" as names with versions. */
const librariesOf = (version: string): Record<string, string> =>
  Object.fromEntries(
    version.split(', ').flatMap((each) => {
      const at = each.lastIndexOf(' ');
      return at > 0 ? [[each.slice(0, at).toLowerCase().replace('pytorch', 'torch'), each.slice(at + 1)]] : [];
    }),
  );
