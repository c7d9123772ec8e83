import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuMs, growth, REPEATED } from '@flashcore/shared/testing';
import { afterAll, expect, test } from 'vitest';
import { parseGnuDiagnostics, parseNvccDiagnostics } from './build/diagnostics.ts';
import { emulatorUnit } from './build/emulator-unit.ts';
import { parsePtxasReport, parseSmemExcess } from './build/ptxas-report.ts';
import { sharedBuffers } from './build/shared-buffers.ts';
import { shownLine, snapshotSources } from './build/source-snapshot.ts';
import { readSourceText, unescaped } from './build/source-text.ts';
import { cleanLogLine } from './jobs/log-text.ts';
import { parseNcuCsv } from './profile/ncu-report.ts';
import { parseSanitizerReport } from './profile/sanitizer-report.ts';

const folder = mkdtempSync(join(tmpdir(), 'flashcore-linear-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lines = (text: string): string[] => text.match(/[^]{1,4096}/g) ?? [];
const file = (text: string) => ({ path: 'kernel/k.cu', text });

// Whatever reads sources, or what compilers and tools print about them.
const READERS: Record<string, (text: string) => unknown> = {
  'readSourceText()': (text) => readSourceText(text).lineAt(text.length),
  'unescaped()': unescaped,
  'snapshotSources()': (text) => {
    writeFileSync(join(folder, 'k.cu'), text);
    return snapshotSources({ folder, source: 'k.cu', kernelsFolder: folder });
  },
  'sharedBuffers()': (text) => sharedBuffers([file(text)], {}),
  'emulatorUnit()': (text) =>
    emulatorUnit({
      cxx: { name: 'g++', path: '/usr/bin/g++', version: '12.2.0' } as never,
      files: [file(text)],
      emulatorFiles: [],
      unit: 'kernel/k.cu',
      name: 'k',
      defines: [],
      entries: [],
      instrumented: false,
    }),
  'diagnostics of nvcc': (text) => parseNvccDiagnostics(lines(text)),
  'diagnostics of g++': (text) => parseGnuDiagnostics(lines(text)),
  'parsePtxasReport()': (text) => [parsePtxasReport(lines(text)), parseSmemExcess(lines(text))],
  'shownLine()': shownLine,
  'cleanLogLine()': cleanLogLine,
  'parseNcuCsv()': (text) => parseNcuCsv(`"${text}`),
  'parseSanitizerReport()': (text) => parseSanitizerReport(lines(text).map((line) => `========= ${line}`)),
};

test.each(Object.entries(READERS))('%s reads foreign text in time that grows with its length', (_, read) => {
  const slow = REPEATED.flatMap((piece) => {
    const found = growth((length) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length), read);
    return found === undefined ? [] : [`${JSON.stringify(piece)}: ${found}`];
  });
  expect(slow).toEqual([]);
});

test.each([
  ['400 KB of carriage returns', '\r'.repeat(400_000)],
  ['400 KB of blanks after extern __shared__', `extern __shared__ ${' '.repeat(400_000)}`],
  ['400 KB of extern __shared__', 'extern __shared__ '.repeat(22_000)],
])('a source of %s is read within a second', (_, text) => {
  const started = cpuMs();
  for (const name of ['snapshotSources()', 'sharedBuffers()', 'emulatorUnit()']) READERS[name]!(text);
  expect(cpuMs() - started).toBeLessThan(1_000);
});

test('the sources of a job include at most 4,000 files by name', () => {
  writeFileSync(join(folder, 'k.cu'), '#include "k.h"\n'.repeat(5_000));
  const { problems } = snapshotSources({ folder, source: 'k.cu', kernelsFolder: folder });
  expect(problems.map(({ line, message }) => ({ line, message }))).toEqual([
    { line: 4_001, message: 'more than 4000 includes are not read' },
  ]);
});
