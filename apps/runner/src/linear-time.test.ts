import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  JobOptionsSchema,
  KernelReferenceSchema,
  VariantSchema,
  VerifySettingsSchema,
} from '@flashcore/shared/contract';
import { cpuMs, slowPieces } from '@flashcore/shared/testing';
import { parseTraceParent } from '@flashcore/shared/trace';
import { afterAll, expect, test } from 'vitest';
import { parseGnuDiagnostics, parseNvccDiagnostics } from './build/diagnostics.ts';
import { emulatorUnit } from './build/emulator-unit.ts';
import { parsePtxasReport, parseSmemExcess } from './build/ptxas-report.ts';
import { sharedBuffers } from './build/shared-buffers.ts';
import { shownLine, snapshotSources } from './build/source-snapshot.ts';
import { readSourceText, unescaped } from './build/source-text.ts';
import { cleanLogLine } from './jobs/job-recorder.ts';
import { parseNcuCsv } from './profile/ncu-report.ts';
import { parseSanitizerReport } from './profile/sanitizer-report.ts';
import { checkJobOptions } from './rpc/start-job.ts';
import { checkKernelReference, checkVariant } from './rpc/validate/kernel.ts';
import { checkVerifySettings } from './rpc/validate/settings.ts';
import { Violations } from './rpc/validate/violations.ts';
import { plainDeviceId } from './spec/choose-device.ts';

const folder = mkdtempSync(join(tmpdir(), 'flashcore-linear-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lines = (text: string): string[] => text.match(/[^]{1,4096}/g) ?? [];
const file = (text: string) => ({ path: 'kernel/k.cu', text });

// Every reader of sources, of compiler and tool output about them, and of clients' data.
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
  parseTraceParent,
  'the validation of a request': (text) => {
    const violations = new Violations();
    const labels = { [text]: text, note: text };
    checkJobOptions(create(JobOptionsSchema, { requestId: text, deviceId: text, labels }), violations);
    checkVariant(create(VariantSchema, { parameters: { [text]: 1n }, config: text, arch: text }), violations);
    checkVerifySettings('settings', create(VerifySettingsSchema, { caseSet: text, seeds: [text] }), violations);
    const files = [{ path: text, sha256: text, sizeBytes: 1n }];
    for (const source of [
      { case: 'kernelId' as const, value: text },
      { case: 'buildId' as const, value: text },
      { case: 'tree' as const, value: { files, git: { repository: text, branch: text, commit: text } } },
    ])
      checkKernelReference(create(KernelReferenceSchema, { source }), violations);
    return [violations, plainDeviceId(text)];
  },
};

test.each(Object.entries(READERS))('%s reads foreign text in time proportional to its length', (_, read) => {
  expect(slowPieces(read)).toEqual([]);
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

test('at most 4,000 #include lines of the sources are read', () => {
  writeFileSync(join(folder, 'k.cu'), '#include "k.h"\n'.repeat(5_000));
  const { problems } = snapshotSources({ folder, source: 'k.cu', kernelsFolder: folder });
  expect(problems.map(({ line, message }) => ({ line, message }))).toEqual([
    { line: 4_001, message: 'more than 4000 includes are not read' },
  ]);
});
