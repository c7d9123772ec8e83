import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ChampionDifferenceSchema,
  type BuildResult,
  type ChampionDifference,
  type ComparisonResult,
  type EntryResources,
  type FigureDifferenceSchema,
  type JobResult,
  type Metric,
  type ParameterDifferenceSchema,
  type ProfileResult,
  type SourceDifferenceSchema,
  Phase,
} from '@flashcore/shared/contract';
import { figureOfEntries, formatShape, type EntryFigureName, type ResolvedVariant } from '@flashcore/shared/kernels';
import { createTwoFilesPatch, structuredPatch } from 'diff';
import type { ResolvedKernel } from '../kernels.ts';
import type { VariantPhase } from './phase.ts';

type Figure = MessageInitShape<typeof FigureDifferenceSchema>;
type Parameter = MessageInitShape<typeof ParameterDifferenceSchema>;
type Source = MessageInitShape<typeof SourceDifferenceSchema>;

/** Candidate or champion. */
export interface DifferenceSide {
  label: string;
  kernel: ResolvedKernel;
  resolved: ResolvedVariant;
  build: BuildResult | undefined;
  profile: ProfileResult | undefined;
}

export interface Differing {
  champion: DifferenceSide;
  candidate: DifferenceSide;
  /** The job from which the champion was accepted; undefined if the request named the champion. */
  championJob: string | undefined;
  comparison: ComparisonResult | undefined;
}

/** Steps of the ladder name their main file after themselves, so main files are compared whatever their names. */
const MAIN_SOURCE = 'kernel.cu';
const MAX_FILE_BYTES = 512 * 1024;
const MAX_DIFF_CHARACTERS = 16 * 1024;
/** Limit of the patch search; beyond it a file is treated as completely changed. */
const MAX_EDITS = 5_000;

/** How a candidate differs from the champion: figures, parameters, source lines. */
export function championDifference(sides: Differing): ChampionDifference {
  const { champion, candidate, championJob } = sides;
  const parameters = parameterDifferences(champion.resolved, candidate.resolved);
  const sources = sourceDifferences(champion.kernel, candidate.kernel);
  const changes = parameters.length + sources.reduce((sum, { hunks = 0 }) => sum + hunks, 0);
  return create(ChampionDifferenceSchema, {
    champion: champion.label,
    ...(championJob !== undefined && { championJob }),
    figures: [...buildFigures(sides), ...counterFigures(sides), ...cycleFigures(sides.comparison)],
    parameters,
    sources,
    changes,
    ...(changes > 1 && {
      warning: `${changes} changes at once: ${changesText(parameters, sources)}; change one thing at a time`,
    }),
    ...(!champion.profile &&
      candidate.profile && { missing: 'the champion has no counters: its experiment did not profile it' }),
  });
}

function changesText(parameters: readonly Parameter[], sources: readonly Source[]): string {
  return [
    ...parameters.map(({ name, champion, candidate }) => `${name} ${champion ?? '-'} → ${candidate ?? '-'}`),
    ...sources.map(({ path, hunks }) => `${path} in ${hunks} place${hunks === 1 ? '' : 's'}`),
  ].join(', ');
}

const BUILD_FIGURES: readonly (readonly [EntryFigureName, unit: string])[] = [
  ['registers_per_thread', 'registers'],
  ['spill_bytes', 'B'],
  ['local_bytes', 'B'],
  ['smem_bytes_per_cta', 'B'],
  ['theoretical_ctas_per_sm', 'CTAs'],
  ['theoretical_occupancy_percent', '%'],
];

function buildFigures({ champion, candidate }: Differing): Figure[] {
  const [a, b] = [launched(champion.build), launched(candidate.build)];
  if (a.length === 0 && b.length === 0) return [];
  const source = `ptxas ${(b[0] ?? a[0])!.arch}`;
  return BUILD_FIGURES.map(([name, unit]) => {
    const [champion, candidate] = [figureOfEntries(name, a), figureOfEntries(name, b)];
    return {
      name,
      unit,
      source,
      ...(champion !== undefined && { champion }),
      ...(candidate !== undefined && { candidate }),
    };
  });
}

/** Entries that the job's shapes launch; all entries if that is not known. */
function launched(build: BuildResult | undefined): readonly EntryResources[] {
  const used = build?.entries.filter(({ shapes }) => shapes.length > 0) ?? [];
  return used.length > 0 ? used : (build?.entries ?? []);
}

/** Counters that differ or are known for only one side; the champion's come from its own experiment. */
function counterFigures({ champion, candidate, championJob }: Differing): Figure[] {
  const of = (side: DifferenceSide): readonly Metric[] => side.profile?.metrics ?? [];
  const before = new Map(of(champion).map((metric) => [metric.name, metric]));
  const origin = championJob === undefined ? '' : `; the champion's of ${championJob}`;
  return of(candidate).map(({ name, value, unit, source }) => {
    const found = before.get(name);
    return { name, unit, candidate: value, source: `${source}${origin}`, ...(found && { champion: found.value }) };
  });
}

/** Cycle ratios of the interleaved comparison: the champion's cycles, with the candidate's as 1. */
function cycleFigures(comparison: ComparisonResult | undefined): Figure[] {
  return (comparison?.shapes ?? []).flatMap(({ shape, cycles, simulated }) =>
    // The emulator counts a cycle a nanosecond, so that its cycles only repeat a time that is not a GPU's.
    cycles && shape && !simulated
      ? [
          {
            name: `cycles ${formatShape(shape)}`,
            champion: cycles.ratio,
            candidate: 1,
            unit: "x the candidate's",
            source: 'interleaved comparison, in SM cycles of the candidate',
          },
        ]
      : [],
  );
}

function parameterDifferences(champion: ResolvedVariant, candidate: ResolvedVariant): Parameter[] {
  const [a, b] = [valuesOf(champion), valuesOf(candidate)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((name) => a.get(name) !== b.get(name))
    .map((name) => ({
      name,
      ...(a.has(name) && { champion: a.get(name)! }),
      ...(b.has(name) && { candidate: b.get(name)! }),
    }));
}

function valuesOf({ parameters, maxRegisters, fastMath, flags }: ResolvedVariant): Map<string, string> {
  return new Map([
    ...Object.entries(parameters).map(([name, value]) => [name, String(value)] as const),
    ['maxrregcount', String(maxRegisters)],
    ['fast_math', fastMath ? '1' : '0'],
    ['flags', flags.join(' ')],
  ]);
}

/** Files that differ between the two folders, except notes and the manifest's prose, which do not change the kernel. */
function sourceDifferences(champion: ResolvedKernel, candidate: ResolvedKernel): Source[] {
  const [a, b] = [digestsOf(champion), digestsOf(candidate)];
  return [...new Set([...a.keys(), ...b.keys()])]
    .sort()
    .filter((path) => a.get(path) !== b.get(path))
    .flatMap((path) => {
      const name = path === MAIN_SOURCE ? candidate.manifest.source : path;
      const [before, after] = [read(champion, path), read(candidate, path)];
      const difference = sourceDifference(name, renamed(before, champion, candidate), after);
      // Files that are not text differ without lines to show.
      return difference.hunks === 0 && before !== after ? [] : [difference];
    });
}

/** A copy of a kernel differs in its own names everywhere: the champion's source, with the candidate's names. */
function renamed(text: string, champion: ResolvedKernel, candidate: ResolvedKernel): string {
  const namesOf = ({ kernelId, manifest }: ResolvedKernel): string[] => [
    kernelId,
    ...manifest.launches.map(({ entry }) => entry),
  ];
  const names = namesOf(candidate);
  return namesOf(champion).reduce(
    (changed, name, index) => changed.replace(new RegExp(`\\b${name}\\b`, 'g'), names[index] ?? name),
    text,
  );
}

const digestsOf = ({ files, manifest }: ResolvedKernel): Map<string, string> =>
  new Map(
    files
      .filter(({ path }) => !/(^|\/)(NOTES\.md|kernel\.yaml)$/.test(path))
      .map(({ path, sha256 }) => [path === manifest.source ? MAIN_SOURCE : path, sha256]),
  );

function sourceDifference(path: string, before: string, after: string): Source & { hunks: number } {
  // Indentation follows from the length of names, and changes nothing.
  const options = { context: 0, maxEditLength: MAX_EDITS, ignoreWhitespace: true };
  const patch = structuredPatch(path, path, before, after, '', '', options);
  if (!patch) return { path, linesAdded: lines(after), linesRemoved: lines(before), hunks: 1, diff: '' };
  const all = patch.hunks.flatMap((hunk) => hunk.lines);
  const text =
    createTwoFilesPatch(path, path, before, after, 'champion', 'candidate', { ...options, context: 3 }) ?? '';
  return {
    path,
    linesAdded: all.filter((line) => line.startsWith('+')).length,
    linesRemoved: all.filter((line) => line.startsWith('-')).length,
    hunks: patch.hunks.length,
    diff: text.length > MAX_DIFF_CHARACTERS ? `${text.slice(0, MAX_DIFF_CHARACTERS)}\n…` : text,
  };
}

const lines = (text: string): number => (text === '' ? 0 : text.split('\n').length);

/** Empty if the file does not exist or is not readable source text. */
function read({ folder, manifest }: ResolvedKernel, path: string): string {
  const file = join(folder, path === MAIN_SOURCE ? manifest.source : path);
  if (!existsSync(file)) return '';
  const bytes = readFileSync(file);
  return bytes.length > MAX_FILE_BYTES || bytes.includes(0) ? '' : bytes.toString('utf8');
}

/** The profile of the requested variant in an experiment's result. */
export const profileOf = (result: JobResult | undefined): ProfileResult | undefined =>
  result?.variants.find(({ fallback }) => !fallback)?.profile;

/** Reports how the candidate differs from the champion, once both are built and the candidate is profiled. */
export const differencePhase: VariantPhase = {
  phase: Phase.COMPARE,
  wants: (_services, { championBuild, result }) => championBuild !== undefined && !result.fallback,
  evenStopped: true,
  run({ job, spec, resolved, decisions }, { result, championBuild }) {
    const champion = spec.champion!;
    const { kernel, accepted } = champion;
    const { label } = champion.resolved;
    const difference = championDifference({
      champion: {
        label: label === 'default' ? kernel.kernelId : `${kernel.kernelId} ${label}`,
        kernel,
        resolved: champion.resolved,
        build: championBuild,
        profile: accepted && profileOf(decisions.resultOf(accepted.job)),
      },
      candidate: { label: resolved.label, kernel: spec.kernel, resolved, build: result.build, profile: result.profile },
      championJob: accepted?.job,
      comparison: result.comparison,
    });
    result.difference = difference;
    job.emit({ case: 'championDifference', value: difference });
    return Promise.resolve(undefined);
  },
};
