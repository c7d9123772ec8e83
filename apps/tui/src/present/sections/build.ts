/** The compilers' report on a build: runs, resources of each entry, diagnostics with their places, and artifacts. */
import {
  ArtifactKind,
  type Artifact,
  type BuildResult,
  type CompilerRun,
  type Diagnostic,
  type EntryResources,
} from '@flashcore/shared/contract';
import { ENTRY_FIGURES } from '@flashcore/shared/kernels';
import { fact, heading, notice, tableOf, type Block, type Column, type Fact } from '../blocks.ts';
import { formatBytes, formatPercent, formatSeconds } from '../numbers.ts';
import { piece, type Piece } from '../roles.ts';
import { notMeasured } from '../words.ts';

const warnsAbove = (limit: number, value: number, text: string): Piece =>
  piece(text, value > limit ? 'warn' : undefined);
const { of: smemOf } = ENTRY_FIGURES.smem_bytes_per_cta;
const { of: spillsOf } = ENTRY_FIGURES.spill_bytes;

/** True if a shape of the job launches the entry. Other entries have no occupancy. */
export const isLaunched = ({ occupancyPercent }: EntryResources): boolean => occupancyPercent > 0;

// The name is never cut because it distinguishes the entries.
export const ENTRY_COLUMNS: readonly Column<EntryResources>[] = [
  { title: 'entry', cell: ({ entry }) => entry },
  {
    title: 'regs/thread',
    align: 'right',
    cell: ({ registersPerThread }) => warnsAbove(64, registersPerThread, String(registersPerThread)),
  },
  {
    title: 'SMEM/CTA',
    align: 'right',
    cell: (entry) => warnsAbove(49_152, smemOf(entry), formatBytes(smemOf(entry))),
  },
  { title: 'dynamic', align: 'right', drop: 4, cell: ({ dynamicSmemBytes }) => formatBytes(dynamicSmemBytes) },
  {
    title: 'spills',
    align: 'right',
    cell: (entry) => warnsAbove(0, spillsOf(entry), formatBytes(spillsOf(entry))),
  },
  {
    title: 'stack',
    align: 'right',
    drop: 3,
    cell: ({ stackBytes }) => warnsAbove(0, stackBytes, formatBytes(stackBytes)),
  },
  { title: 'barriers', align: 'right', drop: 6, cell: ({ barriers }) => String(barriers) },
  { title: 'constant', align: 'right', drop: 7, cell: ({ constantBytes }) => formatBytes(constantBytes) },
  { title: 'threads', align: 'right', drop: 5, cell: ({ threadsPerCta }) => String(threadsPerCta) },
  { title: 'CTAs/SM', align: 'right', cell: ({ ctasPerSm }) => String(ctasPerSm) },
  { title: 'occupancy', align: 'right', drop: 1, cell: ({ occupancyPercent }) => formatPercent(occupancyPercent) },
  {
    title: 'bound by',
    drop: 2,
    cell: ({ occupancyLimiter }) => (occupancyLimiter ?? '-').replace('shared memory', 'SMEM'),
  },
];

const MOST_DIAGNOSTICS = 20;

/** A look-up that takes longer waited for the compilers, because the build had been started for another job. */
const LOOKED_UP_IN_S = 3;

/** Says where a build that compiles came from, and the time that the job spent on it. */
export function builtText({ cacheHit, seconds }: Pick<BuildResult, 'cacheHit' | 'seconds'>): string {
  const took = formatSeconds(seconds);
  if (!cacheHit) return `built in ${took}`;
  return seconds < LOOKED_UP_IN_S ? `from the cache in ${took}` : `waited ${took} for a build that was under way`;
}

export function buildBlocks(build: BuildResult): Block[] {
  return [
    heading('Build', build.succeeded ? builtText(build) : `does not compile, ${formatSeconds(build.seconds)}`),
    { kind: 'facts', facts: [...build.runs.map(runFact), ...ptxasFacts(build)] },
    ...(build.entries.length === 0 ? [] : [tableOf(ENTRY_COLUMNS, build.entries)]),
    ...diagnosticBlocks(build.diagnostics),
    ...(build.artifacts.length === 0
      ? []
      : [{ kind: 'facts', facts: build.artifacts.map(artifactFact) } satisfies Block]),
  ];
}

function runFact({ compiler, version, target, seconds, cacheHit, exitCode, parts }: CompilerRun): Fact {
  const took = `${formatSeconds(seconds)}${inParts(parts)}`;
  const how = cacheHit ? `from the cache (compiling took ${took})` : took;
  return fact(compiler, `${version} for ${target}, ${how}${exitCode === 0 ? '' : `, exit status ${exitCode}`}`);
}

/**
 * Says in how many parts a kernel was compiled, if its entries were compiled separately. The compile time is that of
 * the longest part.
 */
export const inParts = (parts: number): string => (parts > 1 ? ` in ${parts} parts` : '');

function ptxasFacts({ entries, entriesMissing }: BuildResult): Fact[] {
  if (entries.length > 0) return [fact('ptxas', [...new Set(entries.map(({ arch }) => arch))].join(', '))];
  return !entriesMissing ? [] : [fact('ptxas', notMeasured(entriesMissing), 'dim')];
}

function diagnosticBlocks(list: readonly Diagnostic[]): Block[] {
  const more = list.length - MOST_DIAGNOSTICS;
  return [
    ...list
      .slice(0, MOST_DIAGNOSTICS)
      .flatMap((each): Block[] => [
        diagnosticNotice(each),
        ...(each.frame === undefined ? [] : [{ kind: 'code', file: each.file, frame: each.frame } satisfies Block]),
      ]),
    ...(more > 0 ? [notice(`and ${more} more`, 'dim')] : []),
  ];
}

function diagnosticNotice(diagnostic: Diagnostic): Block {
  const place = diagnosticPlace(diagnostic);
  const text = `${place === '' ? '' : `${place}: `}${diagnostic.severity}: ${diagnostic.message} (${diagnostic.tool})`;
  return diagnostic.severity === 'error' ? notice(text, 'bad', '✗') : notice(text, 'warn', '⚠');
}

/** Text such as "flashcore_v6.cu:31:7", a form that editors accept; empty if the message has no place. */
const diagnosticPlace = ({ file, line, column }: Pick<Diagnostic, 'file' | 'line' | 'column'>): string =>
  [file, line || '', line && column ? column : ''].filter((part) => part !== '').join(':');

const ARTIFACT_WORDS: Partial<Record<ArtifactKind, string>> = {
  [ArtifactKind.CUBIN]: 'cubin',
  [ArtifactKind.PTX]: 'PTX',
  [ArtifactKind.SASS]: 'SASS',
  [ArtifactKind.EMULATOR_MODULE]: 'module',
  [ArtifactKind.SOURCE]: 'source',
};

/** Text such as "flashcore_v6.sm_89.cubin 12.4 KiB 0123…" with the whole digest, for use with `fa-tui artifact`. */
export const artifactText = ({ fileName, sizeBytes, sha256 }: Artifact): string =>
  `${fileName} ${formatBytes(Number(sizeBytes))} ${sha256}`;

const artifactFact = (artifact: Artifact): Fact =>
  fact(ARTIFACT_WORDS[artifact.kind] ?? 'artifact', artifactText(artifact));
