import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Shape } from '@flashcore/shared/contract';
import { type LaunchPlan } from '@flashcore/shared/kernels';
import type { DeviceImage } from '../../worker/messages/launchable.ts';
import type { ProfileOnceJob } from '../../worker/messages/profiling.ts';
import { makeTemporary } from '../store/temporary.ts';
import { runProgram } from '../sandbox/run.ts';
import { workerProgram } from '../sandbox/child.ts';
import { toolEnvironment } from './profiler.ts';
import { parseSanitizerReport, type SanitizerError } from './sanitizer-report.ts';

export const SANITIZER_TOOLS = ['memcheck', 'racecheck', 'synccheck', 'initcheck'] as const;
export type SanitizerTool = (typeof SANITIZER_TOOLS)[number];

export interface SanitizerOptions {
  /** Path of compute-sanitizer. */
  program: string;
  library: string;
  ordinal: number;
  dataDirectory: string;
}

export type SanitizerAnswer = { errors: SanitizerError[] } | { missing: string };

const LIMIT_MS = 120_000;
const SEED = '666c617368';
/** compute-sanitizer's exit status if it found an error. */
const FOUND_STATUS = 86;

interface SanitizerRun {
  tool: SanitizerTool;
  image: DeviceImage;
  shape: Shape;
  plan: LaunchPlan;
  signal: AbortSignal;
  onLine: (line: string) => void;
}

/** Runs a kernel once under one of compute-sanitizer's tools. Errors: the signal's reason. */
export async function runSanitizer(
  { program, library, ordinal, dataDirectory }: SanitizerOptions,
  run: SanitizerRun,
): Promise<SanitizerAnswer> {
  using folder = makeTemporary(dataDirectory, 'sanitize');
  const job: ProfileOnceJob = {
    library,
    deviceOrdinal: ordinal,
    candidate: {
      image: run.image,
      plan: run.plan,
      launchLimitMs: 0,
    },
    seed: SEED,
    runs: 1,
  };
  const file = join(folder.path, 'job.json');
  writeFileSync(file, JSON.stringify(job));
  const args = [
    '--tool',
    run.tool,
    '--error-exitcode',
    String(FOUND_STATUS),
    '--print-limit',
    '16',
    '--show-backtrace',
    'no',
    process.execPath,
    workerProgram('profile-once', 'profile-once.ts'),
    file,
  ];
  const { exitCode, lines } = await runProgram(program, args, {
    environment: toolEnvironment(),
    limitMs: LIMIT_MS,
    signal: run.signal,
    onLine: run.onLine,
  });
  const errors = parseSanitizerReport(lines);
  if (errors.length > 0 || exitCode === 0) return { errors };
  return {
    missing: `compute-sanitizer's ${run.tool} ${exitCode === undefined ? 'was killed' : `ended with exit status ${exitCode}`}: ${lines.findLast((line) => line.trim() !== '') ?? 'it said nothing'}`,
  };
}
