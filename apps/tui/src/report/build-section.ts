import {
  ArtifactKind,
  type Artifact,
  type BuildResult,
  type CompilerRun,
  type Diagnostic,
  type EntryResources,
} from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { formatBytes } from '../present/numbers.ts';
import { figure, seconds } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { heading, labelled, paragraph, printable } from './text.ts';
import { codeFrameLines } from './code-frame-lines.ts';
import { notMeasured } from '../present/words.ts';

const MOST_DIAGNOSTICS = 20;

/** The compilers' answer: runs, what ptxas says of every entry, diagnostics with their places, artifacts. */
export function buildSection(build: BuildResult, format: ReportFormat): string[] {
  const verdict = build.succeeded ? (build.cacheHit ? 'cached' : 'compiled') : 'does not compile';
  return [
    ...heading('Build', `${verdict}, ${seconds(build.seconds)}`, format),
    ...build.runs.flatMap((run) => labelled(run.compiler, runText(run), format)),
    ...entriesTable(build.entries, format),
    ...(build.entries.length === 0 && build.entriesMissing
      ? labelled('ptxas', notMeasured(build.entriesMissing), format)
      : []),
    ...diagnostics(build.diagnostics, format),
    ...artifacts(build.artifacts, format),
  ];
}

function runText(run: CompilerRun): string {
  const how = run.cacheHit ? `cached (first took ${seconds(run.seconds)})` : seconds(run.seconds);
  const exit = run.exitCode === 0 ? '' : `, exit status ${run.exitCode}`;
  return `${run.version} for ${run.target}, ${how}${exit}`;
}

function entriesTable(entries: readonly EntryResources[], format: ReportFormat): string[] {
  if (entries.length === 0) return [];
  const columns = [
    { title: 'entry', shrinks: true },
    ...['regs', 'SMEM B', 'spill B', 'stack B', 'CTAs/SM', 'occupancy'].map((title) => ({
      title,
      align: 'right' as const,
    })),
    { title: 'bound by' },
  ];
  return [
    ...labelled('ptxas', [...new Set(entries.map(({ arch }) => arch))].join(', '), format),
    ...table(columns, entries.map(entryRow), format),
  ];
}

function entryRow(entry: EntryResources): Cell[] {
  const spills = entry.spillStoreBytes + entry.spillLoadBytes;
  const alarming = (value: number): Cell => (value > 0 ? { text: String(value), style: 'red' } : '0');
  return [
    entry.entry,
    String(entry.registersPerThread),
    String(entry.staticSmemBytes + entry.dynamicSmemBytes),
    alarming(spills),
    alarming(entry.stackBytes),
    String(entry.ctasPerSm),
    `${figure(entry.occupancyPercent, 3)} %`,
    (entry.occupancyLimiter ?? '-').replace('shared memory', 'SMEM'),
  ];
}

function diagnostics(list: readonly Diagnostic[], format: ReportFormat): string[] {
  const shown = list.slice(0, MOST_DIAGNOSTICS).flatMap((diagnostic) => diagnosticLines(diagnostic, format));
  const more = list.length - MOST_DIAGNOSTICS;
  return more > 0 ? [...shown, `  and ${more} more`] : shown;
}

function diagnosticLines(diagnostic: Diagnostic, format: ReportFormat): string[] {
  const style = diagnostic.severity === 'error' ? 'red' : diagnostic.severity === 'warning' ? 'yellow' : 'dim';
  const place = diagnosticPlace(diagnostic);
  const head = [format.style(style, diagnostic.severity), printable(place), format.style('dim', diagnostic.tool)]
    .filter(Boolean)
    .join('  ');
  return [`  ${head}`, ...paragraph(diagnostic.message, format, 4), ...codeFrameLines(diagnostic.frame, format)];
}

/** "flashcore_v6.cu:31:7", as editors take it; empty when the message has no place. */
export function diagnosticPlace({ file, line, column }: Diagnostic): string {
  return [file, line || '', line && column ? column : ''].filter(Boolean).join(':');
}

const KINDS: Partial<Record<ArtifactKind, string>> = {
  [ArtifactKind.CUBIN]: 'cubin',
  [ArtifactKind.PTX]: 'PTX',
  [ArtifactKind.SASS]: 'SASS',
  [ArtifactKind.EMULATOR_MODULE]: 'module',
};

function artifacts(list: readonly Artifact[], format: ReportFormat): string[] {
  return list.flatMap((artifact) => labelled(KINDS[artifact.kind] ?? 'artifact', artifactText(artifact), format));
}

/** "flashcore_v6.sm_89.cubin 12.4 KiB 0123…": the whole digest, which `fa-tui artifact` takes. */
export const artifactText = ({ fileName, sizeBytes, sha256 }: Artifact): string =>
  `${fileName} ${formatBytes(Number(sizeBytes))} ${sha256}`;
