/** A table of compute-sanitizer's reports on the faulty kernels, next to the findings that flashcore must report. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FindingKind } from '@flashcore/shared/contract';
import { parseManifest } from '@flashcore/shared/kernels';
import { markdownTable } from './markdown.ts';
import { filesOf, foldersWith, RESULTS, textOf } from './results.ts';

const FAULTY = join(RESULTS, '../../kernels/faulty');
const REPORT = /^sanitizer\.(\w+)\.(\w+)\.txt$/;

/** The table, from the newest report of each kernel and tool. */
export function sanitizerMarkdown(): string {
  const newest = new Map<string, string>(); // file name → folder
  for (const folder of foldersWith(REPORT).toSorted(byDate))
    for (const name of filesOf(folder, REPORT)) newest.set(name, folder);
  const rows = [...newest].flatMap(([name, folder]) => {
    const [, tool, kernel] = REPORT.exec(name)!;
    const manifest = join(FAULTY, kernel!, 'kernel.yaml');
    if (!existsSync(manifest)) return [];
    const { faulty } = parseManifest(readFileSync(manifest, 'utf8'), manifest);
    const finding = faulty!.finding === FindingKind.UNSPECIFIED ? 'none' : FindingKind[faulty!.finding];
    const report = textOf(folder, name)!;
    return [[kernel!, finding, tool!, firstErrorOf(report)]];
  });
  if (rows.length === 0) return '';
  return markdownTable(
    ['kernel', 'the emulator finds', 'tool', 'compute-sanitizer says first'],
    rows.toSorted(([a, , b], [c, , d]) => a!.localeCompare(c!) || b!.localeCompare(d!)),
  );
}

/** Sorts names like "h200-sanitizer-2026-11-22" by date, then by name. */
const byDate = (a: string, b: string): number => a.slice(-10).localeCompare(b.slice(-10)) || a.localeCompare(b);

/** The first error in the report, and the source line that it names. */
function firstErrorOf(report: string): string {
  const lines = report.split('\n').map((line) => line.replace(/^=+ ?/, ''));
  const index = lines.findIndex((line) =>
    /^(Error|Warning|Invalid|Misaligned|Barrier|Uninitialized|Program hit)/.test(line),
  );
  if (index < 0) return 'nothing';
  const place = /\bin ([\w.]+:\d+)/.exec(lines.slice(index, index + 3).join(' '))?.[1];
  const text = lines[index]!.replace(/ at .*$/, '')
    .replace(/^Error: /, '')
    .trim();
  return place ? `\`${text}\`, ${place}` : `\`${text}\``;
}
