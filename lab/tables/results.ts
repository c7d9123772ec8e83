/** lab/results as typed values. No other file knows the names of the files that the measuring programs write. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromJson, type JsonValue } from '@bufbuild/protobuf';
import {
  TimingMode,
  EntryResourcesSchema,
  GetJobResponseSchema,
  type BenchmarkResult,
  type EntryResources,
  type GetJobResponse,
  type VariantResult,
  withCurrentNames,
} from '@flashcore/shared/contract';
import { measuredFolder, RESULTS } from '@flashcore/shared/testing';

export { RESULTS };

/** A build of a kernel, measured hot on one shape. */
export interface LadderRow {
  kernel: string;
  /** Whether this is the USE_WMMA=0 build, which ran because one of the kernel's gates failed. */
  fallback: boolean;
  variant: VariantResult;
  benchmark: BenchmarkResult;
}

/** The folders that have experiments with the ladder, oldest first. Every other folder answers a single question. */
export function laddersMeasured(): string[] {
  const dated = foldersWith(/^run\..*\.json$/).map((name) => ({
    name,
    seconds: Number(experimentsOf(name, /^run\..*\.json$/)[0]?.result?.provenance?.time?.seconds ?? 0),
  }));
  return dated.toSorted((a, b) => a.seconds - b.seconds).map(({ name }) => name);
}

export function foldersWith(names: RegExp): string[] {
  if (!existsSync(RESULTS)) return [];
  const folders = readdirSync(RESULTS, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  return folders.filter((folder) => filesOf(folder, names).length > 0).sort();
}

export function experimentsOf(folder: string, names: RegExp): GetJobResponse[] {
  return filesOf(folder, names).flatMap((name) => experimentOf(folder, name) ?? []);
}

/** Reads an experiment. Undefined if the file is of another kind. */
export function experimentOf(folder: string, name: string): GetJobResponse | undefined {
  const json = withCurrentNames(jsonOf(folder, name)) as JsonValue;
  const isJob = typeof json === 'object' && json !== null && !Array.isArray(json) && 'job' in json && 'result' in json;
  return isJob ? fromJson(GetJobResponseSchema, json, { ignoreUnknownFields: true }) : undefined;
}

/** Path of a measured file; `folder` is a campaign of lab/results or a folder in one. */
function measuredPath(folder: string, name = ''): string {
  const [campaign = '', ...within] = folder.split('/');
  return join(measuredFolder(campaign), ...within, name);
}

export function filesOf(folder: string, names: RegExp): string[] {
  return readdirSync(measuredPath(folder))
    .filter((name) => names.test(name))
    .sort();
}

export function rowsOf(folder: string, names: RegExp): LadderRow[] {
  return experimentsOf(folder, names).flatMap(({ job, result }) =>
    result!.variants.flatMap((variant) =>
      variant.benchmarks
        .filter(({ mode, simulated }) => mode === TimingMode.HOT && !simulated)
        .map((benchmark): LadderRow => ({ kernel: job!.kernelId, fallback: variant.fallback, variant, benchmark })),
    ),
  );
}

/**
 * Says whether SDPA was measured in turns with the kernels. Otherwise the job reused the figures of another job, and
 * checked them with a few samples.
 */
export function sdpaInTurns(benchmarks: readonly BenchmarkResult[]): string {
  const compared = benchmarks.filter(({ sdpa }) => sdpa.length > 0);
  const reused = compared.filter(({ sdpa }) => sdpa.some((backend) => backend.reused)).length;
  const inTurns = 'in turns with the kernel, in the same job';
  if (reused === 0) return inTurns;
  return `${reused === compared.length ? '' : `${inTurns}, in ${compared.length - reused} of ${compared.length} measurements; in the others `}as an earlier job measured it in turns with another kernel, checked with a few samples`;
}

/** Reads a file as JSON. Undefined if the folder has no such file. */
export function jsonOf<T>(folder: string, name: string): T | undefined {
  const text = textOf(folder, name);
  return text === undefined ? undefined : (JSON.parse(text) as T);
}

/** Reads a file as text. Undefined if the folder has no such file. */
export function textOf(folder: string, name: string): string | undefined {
  const path = measuredPath(folder, name);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

/**
 * The newest result of `npm run ladder:verify`: the cases of each build on the emulator, and ptxas's figures for sm_89.
 */
export interface EmulatorRun {
  folder: string;
  tools: string[];
  builds: {
    kernel: string;
    label: string;
    sourceDigest: string;
    verdict: string;
    /** Empty for a kernel that is not for sm_89. */
    entries: EntryResources[];
    cases: { shape: string; verdict: string; seeds: number; maxAbsError: number }[];
    /** Absent in runs before 2026-11-22. */
    probes?: { shape: string; verdict: string; found: Record<string, string>; maxAbsError: number }[];
  }[];
  refusals: { kernel: string; shape: string; verdict: string }[];
}

export function emulatorRun(): EmulatorRun | undefined {
  const folder = foldersWith(/^ladder\.json$/).at(-1);
  if (folder === undefined) return undefined;
  const run = jsonOf<
    Omit<EmulatorRun, 'builds'> & {
      builds: (Omit<EmulatorRun['builds'][number], 'entries'> & { entries?: JsonValue[] })[];
    }
  >(folder, 'ladder.json')!;
  return {
    ...run,
    folder,
    builds: run.builds.map((build) => ({
      ...build,
      entries: (build.entries ?? [])
        .map((entry) => fromJson(EntryResourcesSchema, entry))
        .filter(({ arch }) => arch === 'sm_89'),
    })),
  };
}

/** compute-sanitizer's result for a kernel; undefined if it was not run. */
export function sanitizerOf(folder: string, kernel: string): string | undefined {
  const [job] = experimentsOf(folder, new RegExp(`^sanitize\\.${kernel}\\.json$`));
  const [variant] = job?.result?.variants ?? [];
  const told = textOf(folder, `sanitize.${kernel}.txt`) ?? '';
  return variant && sanitizerText(told, variant.findings.length);
}

/**
 * Combines the lines that a job printed while it ran with the number of findings in its result. The lines are needed
 * because a result without findings does not prove that the tool ran.
 */
export function sanitizerText(lines: string, findings: number): string {
  const tools = [...lines.matchAll(/compute-sanitizer (\w+) on \S+: (?:(\d+) errors|no answer)/g)].map(
    ([, name, errors]) => ({ name: name!, errors: errors === undefined ? undefined : Number(errors) }),
  );
  const silent = tools.filter(({ errors }) => errors === undefined).map(({ name }) => name);
  const errors = Math.max(
    findings,
    tools.reduce((sum, each) => sum + (each.errors ?? 0), 0),
  );
  const unanswered = silent.length > 0 ? `; no answer by ${silent.join(', ')}` : '';
  if (errors > 0) return `${errors} errors${unanswered}`;
  const answers = tools.length - silent.length;
  return answers === 0 ? 'no tool answered' : `clean (${answers} ${answers === 1 ? 'tool' : 'tools'})${unanswered}`;
}
