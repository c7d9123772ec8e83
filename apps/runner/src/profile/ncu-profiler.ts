import { existsSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { ArtifactKind, ArtifactSchema } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import { withScratch } from '../../worker/messages/launchable.ts';
import { WARM_UP_ENTRY, type ProfileOnceJob } from '../../worker/messages/profiling.ts';
import type { ArtifactStore } from '../store/artifacts.ts';
import { makeTemporary } from '../store/temporary.ts';
import { explainFailure, ncuArguments, ncuImportArguments, parseProgress } from './ncu-command.ts';
import { readProgram, type ProgramOutput } from '../sandbox/run.ts';
import { workerProgram } from '../sandbox/child.ts';
import { toolEnvironment, notMeasured, type Profiler } from './profiler.ts';
import { parseNcuCsv } from './ncu-report.ts';
import { profileResult } from './profile-result.ts';

export interface NcuProfilerOptions {
  /** Path of ncu. */
  ncu: string;
  /** The driver's library, and the device's ordinal in it. */
  library: string;
  ordinal: number;
  artifacts: ArtifactStore;
  dataDirectory: string;
}

/** ncu takes seconds to start, and its full set takes dozens of passes. */
const LIMIT_MS = { gates: 120_000, full: 300_000 };
/** How long ncu waits for its build: the longest time of a build and a verification. */
const WAIT_LIMIT_MS = 30 * 60_000;
const SEED = '666c617368';
const LOOK_EVERY_MS = 5;
/** One run to warm the caches, then the measured one. */
const RUNS = 2;

/** Reads counters with Nsight Compute while a separate process launches the kernel. */
export function ncuProfiler({ ncu, library, ordinal, artifacts, dataDirectory }: NcuProfilerOptions): Profiler {
  return {
    async profile(request, { signal, onProgress, built, onLaunched }) {
      const { device, shape, plan, metricSet, counters = [] } = request;
      const [referenceLibrary, warmUp] = await Promise.all([request.referenceLibrary?.(), request.clockStamp?.()]);
      using folder = makeTemporary(dataDirectory, 'ncu');
      const waits = built instanceof Promise;
      const job: ProfileOnceJob = {
        library,
        deviceOrdinal: ordinal,
        candidate: {
          image: waits ? '' : built.image,
          plan: waits ? plan : withScratch(plan, built.image),
          launchLimitMs: 0,
        },
        seed: SEED,
        runs: RUNS,
        ...(referenceLibrary !== undefined && { referenceLibrary }),
        ...(warmUp !== undefined && { warmUp }),
        ...(waits && { waitFor: join(folder.path, 'go') }),
        ...(onLaunched && { done: join(folder.path, 'done') }),
      };
      writeFileSync(join(folder.path, 'job.json'), JSON.stringify(job));
      const report = join(folder.path, 'report');
      const args = ncuArguments({
        arch: device.arch,
        metricSet,
        counters,
        report,
        program: [process.execPath, workerProgram('profile-once', 'profile-once.ts'), join(folder.path, 'job.json')],
      });
      onProgress({ message: 'starting ncu', passesDone: 0, passes: 0 });
      const onLine = (line: string): void => {
        const progress = parseProgress(line);
        if (progress && progress.kernel !== WARM_UP_ENTRY)
          onProgress({ message: `profiled ${progress.kernel}`, passesDone: progress.passes, passes: progress.passes });
      };
      const ended = new AbortController();
      if (waits)
        void built.then(({ image }) => {
          if (ended.signal.aborted) return;
          // Renamed at the end, so the file is complete when it appears.
          writeFileSync(`${job.waitFor!}.part`, JSON.stringify(image));
          renameSync(`${job.waitFor!}.part`, job.waitFor!);
        });
      const stopLooking = onceThere(job.done, onLaunched);
      const { exitCode, lines, output } = await readProgram(ncu, args, {
        environment: toolEnvironment(),
        limitMs: (metricSet === 'full' ? LIMIT_MS.full : LIMIT_MS.gates) + (waits ? WAIT_LIMIT_MS : 0),
        signal,
        onLine,
        maxBytes: MAX_CSV_BYTES,
      }).finally(() => {
        ended.abort();
        stopLooking();
      });
      const file = `${report}.ncu-rep`;
      if (!existsSync(file)) return notMeasured({ shape, plan }, explainFailure(lines, exitCode));
      const kept = create(ArtifactSchema, {
        sha256: artifacts.putFile(file),
        kind: ArtifactKind.NCU_REPORT,
        fileName: `${plan.launches[0]!.entry}.${formatShape(shape)}.ncu-rep`,
        sizeBytes: BigInt(statSync(file).size),
      });
      // If ncu printed nothing while writing its report, ncu runs again to print the report, which takes half a second.
      const printed =
        output !== undefined && parseNcuCsv(output).length > 0
          ? { csv: output }
          : await readNcuReport(ncu, ncuImportArguments(report), signal);
      const all = 'csv' in printed ? parseNcuCsv(printed.csv) : [];
      const launches = all[0]?.kernel === WARM_UP_ENTRY ? all.slice(1) : all;
      const result =
        launches.length > 0
          ? profileResult({
              arch: device.arch,
              deviceName: device.name,
              shape,
              computed: plan,
              accumulate: request.accumulate,
              launches,
              counters,
              waves: (await built).waves,
              sourceHas: request.sourceHas,
            })
          : notMeasured({ shape, plan }, 'csv' in printed ? explainFailure(lines, exitCode) : printed.missing);
      // Kept even if this ncu can't read the report, because another version may.
      result.artifacts.push(kept);
      return result;
    },
  };
}

/** Polls until a file exists; returns a function that stops the polling. */
function onceThere(path: string | undefined, told: (() => void) | undefined): () => void {
  const looking = setInterval(() => {
    if (path === undefined || !existsSync(path)) return;
    clearInterval(looking);
    told?.();
  }, LOOK_EVERY_MS);
  return () => clearInterval(looking);
}

const MAX_CSV_BYTES = 64 * 1024 * 1024;
const IMPORT_LIMIT_MS = 60_000;
const MAX_WORDS = 300;

/**
 * ncu's output for a stored report, or why there is none: an interrupted launch, a full disk, too much output, or a run
 * of more than a minute. Errors: the signal's reason.
 */
async function readNcuReport(
  ncu: string,
  args: readonly string[],
  signal: AbortSignal,
): Promise<{ csv: string } | { missing: string }> {
  const end = await readProgram(ncu, args, {
    limitMs: IMPORT_LIMIT_MS,
    maxBytes: MAX_CSV_BYTES,
    signal,
    environment: toolEnvironment(),
  });
  const { exitCode, output } = end;
  if (exitCode === 0 && output !== undefined) return { csv: output };
  return { missing: `ncu could not read its report: ${importFailure(end)}` };
}

function importFailure({ exitCode, signalName, timedOut, output, lines }: ProgramOutput): string {
  if (timedOut) return `killed after ${IMPORT_LIMIT_MS / 1000} s`;
  if (output === undefined) return `it is longer than ${MAX_CSV_BYTES / 1024 ** 2} MiB`;
  if (signalName !== undefined) return `ended by ${signalName}`;
  const words = (lines.length > 0 ? lines : output.split('\n')).findLast((line) => line.trim() !== '');
  const status = `exit status ${exitCode}`;
  return words === undefined ? status : `${status}, ${words.trim().slice(0, MAX_WORDS)}`;
}
