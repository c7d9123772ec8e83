import { readFileSync } from 'node:fs';
import { create, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { GetJobResponseSchema, ProfileResultSchema } from '@flashcore/shared/contract';
import { plainLines } from '../plain/plain-painter.ts';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { jobBlocks } from './job.ts';
import { LINE_SORTS } from '../../state/app-state.ts';
import { hottestLine, lineColumns, shownLines } from './lines.ts';

const FILE = `${measuredFolder('emulator-2026-11-22')}/profile.bank_conflict_32way.json`;
const { job, result } = fromJson(GetJobResponseSchema, JSON.parse(readFileSync(FILE, 'utf8')) as JsonValue);
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

test('lines are compared with the same lines of another job, wherever an edit has moved them', () => {
  const profile = (...lines: [number, string, bigint][]) =>
    create(ProfileResultSchema, { lines: lines.map(([line, text, instructions]) => ({ line, text, instructions })) });
  const before = profile([10, 'load(a);', 100n], [11, 'sum += a;', 400n], [20, 'load(a);', 50n]);
  const now = profile(
    [10, 'prefetch(b);', 30n],
    [11, '  load(a);', 100n],
    [12, 'sum += a;', 300n],
    [21, 'load(a);', 75n],
  );
  const lines = shownLines(now).flatMap((file) => file.lines);
  const changes = (column = lineColumns(lines, before).find(({ title }) => title === 'to pinned')) =>
    lines.map((line) => column?.cell(line));
  expect(changes()).toMatchObject([{ text: 'new' }, { text: '' }, { text: '-25 %' }, { text: '+50 %' }]);
  expect(lineColumns(lines).map(({ title }) => title)).not.toContain('to pinned');
});

test('the hottest line has the largest figure of the order shown', () => {
  const lines = shownLines(
    create(ProfileResultSchema, {
      lines: [
        { line: 1, instructions: 9n, specialInstructions: 1n },
        { line: 2, instructions: 2n, specialInstructions: 7n },
        { line: 3, instructions: 3n, tensorInstructions: 4n },
      ],
    }),
  ).flatMap((file) => file.lines);
  const hottest = LINE_SORTS.map((sort) => [sort, hottestLine(lines, sort)?.line.line]);
  expect(Object.fromEntries(hottest)).toMatchObject({ line: 1, instructions: 1, tensor: 3, special: 2 });
});
