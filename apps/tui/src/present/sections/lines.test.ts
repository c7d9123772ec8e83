import { readFileSync } from 'node:fs';
import { create, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { measuredFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { GetJobResponseSchema, ProfileResultSchema } from '@flashcore/shared/contract';
import { plainLines } from '../plain/plain-painter.ts';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { jobBlocks } from './job.ts';
import { LINE_SORTS } from '../../state/app-state.ts';
import { hotBy, hottestLine, lineColumns, narrowColumns, oneLineText, shownLines } from './lines.ts';

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

test('a narrow pane leaves out the columns without a figure in its rows and their common indentation', () => {
  const lines = [
    { line: 1, instructions: 1n, globalSectors: 3n, text: 'load(a);' },
    { line: 2, instructions: 1n, sharedWavefronts: 2n, text: '      sum += a;  ' },
    { line: 3, instructions: 1n, text: '        store(a);' },
  ];
  const all = shownLines(create(ProfileResultSchema, { lines })).flatMap((file) => file.lines);
  const narrow = (shown: typeof all) => narrowColumns(lineColumns(all), { shown, by: 'wavefronts' });
  const sourceOf = (shown: typeof all) => {
    const { cell } = narrow(shown).find(({ title }) => title === 'source')!;
    return all.map((line) => cell(line));
  };
  expect(narrow(all).map(({ title }) => title)).toEqual(['line', 'instr.', 'wavefronts', 'sectors', 'lanes', 'source']);
  expect(narrow(all.slice(1)).map(({ title }) => title)).toEqual(['line', 'instr.', 'wavefronts', 'lanes', 'source']);
  expect([sourceOf(all), sourceOf(all.slice(1))]).toEqual([
    ['load(a);', '   sum += a;', '    store(a);'],
    ['load(a);', 'sum += a;', ' store(a);'],
  ]);
  // The figure that decides about the hottest line stays.
  expect(narrow(all).find(({ title }) => title === 'wavefronts')?.drop).toBe(0);
});

test('the lines of two different kernels are not compared', () => {
  const profile = (...texts: string[]) =>
    create(ProfileResultSchema, { lines: texts.map((text, line) => ({ line, text, instructions: 9n })) });
  const now = profile('load(a);', 'mma(a, b);', 'store(c);');
  const titles = (before: typeof now) =>
    lineColumns(
      shownLines(now).flatMap((file) => file.lines),
      before,
    ).map(({ title }) => title);
  expect(titles(profile('load(a);', 'for (;;) {', '}'))).not.toContain('to pinned');
  expect(titles(profile('load(a);', 'mma(a, b);', '}'))).toContain('to pinned');
});

const BOUND = create(ProfileResultSchema, {
  lines: [
    { line: 1, instructions: 9n, specialInstructions: 1n },
    { line: 2, instructions: 2n, specialInstructions: 7n, globalSectors: 8n },
    { line: 3, instructions: 3n, tensorInstructions: 4n, sharedWavefronts: 5n },
  ],
});
const hottestOf = (bottleneck: string, sort: (typeof LINE_SORTS)[number] = 'line') => {
  const lines = shownLines(BOUND).flatMap((file) => file.lines);
  return hottestLine(lines, hotBy({ ...BOUND, bottleneck }, sort))?.line.line;
};

test('the hottest line has the largest figure of the order shown', () => {
  const hottest = LINE_SORTS.map((sort) => [sort, hottestOf('', sort)]);
  expect(Object.fromEntries(hottest)).toMatchObject({ line: 1, instructions: 1, tensor: 3, special: 2 });
});

test('of two lines with equal figures, the hottest has more instructions', () => {
  const lines = [
    { line: 39, instructions: 12n, sharedWavefronts: 5n },
    { line: 127, instructions: 20n, sharedWavefronts: 5n },
  ];
  const shown = shownLines(create(ProfileResultSchema, { lines })).flatMap((file) => file.lines);
  expect(hottestLine(shown, 'wavefronts')?.line.line).toBe(127);
});

test('in the order of the file, the hottest line is the one that the bottleneck names', () => {
  const bound = ['instruction issue: its', 'shared memory: its', 'L1 cache: its', 'special functions: its'];
  expect(bound.map((bottleneck) => hottestOf(bottleneck))).toEqual([1, 3, 2, 2]);
  expect(['tensor cores: the', 'device memory: moving'].map((bottleneck) => hottestOf(bottleneck))).toEqual([3, 2]);
  expect(hottestOf('shared memory: its', 'special')).toBe(2);
});

test('if one line has almost all instructions, a note explains how code in headers is assigned to lines', () => {
  const profile = (share: bigint) =>
    create(ProfileResultSchema, {
      lines: [
        { file: 'k.cu', line: 43, instructions: share },
        { file: 'k.cu', line: 44, instructions: 100n - share },
      ],
    });
  expect(oneLineText(profile(99n))).toMatch(/^Line 43 of k\.cu stands for the functions of headers/);
  expect(oneLineText(profile(90n))).toBe('');
});
