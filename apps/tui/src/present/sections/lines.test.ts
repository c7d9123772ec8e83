import { readFileSync } from 'node:fs';
import { fromJson, type JsonValue } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GetJobResponseSchema } from '@flashcore/shared/contract';
import { plainLines } from '../plain/plain-painter.ts';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { jobBlocks } from './job.ts';

const FILE = '../../../../../docs/results/emulator-2026-11-22/profile.bank_conflict_32way.json';
const { job, result } = fromJson(
  GetJobResponseSchema,
  JSON.parse(readFileSync(new URL(FILE, import.meta.url), 'utf8')) as JsonValue,
);
const report = (lines: boolean): string[] => plainLines(jobBlocks({ job: job!, result }, { lines }), PLAIN);

test('source lines have their share, conflicts and text, and columns without figures are left out', () => {
  const lines = report(true);
  expect(lines.find((line) => line.includes('524,288'))).toMatch(
    /^ +34 +32\.2 % +458,752 +524,288 +65,536 +const float2 q =/,
  );
  expect(lines.find((line) => /^ +line +instr/.test(line))).not.toContain('tensor');
});

test('a report contains no source lines unless they were requested', () => {
  expect(report(false).filter((line) => line.startsWith('Lines of'))).toEqual([]);
});
