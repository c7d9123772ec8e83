import { create } from '@bufbuild/protobuf';
import { BenchmarkResultSchema, VariantResultSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { emulatorSentence } from './emulator-page.ts';
import { latencyTable } from './ladder-tables.ts';
import { sanitizerText, type EmulatorRun, type LadderRow } from './results.ts';
import { ladderSteps } from '@flashcore/tools/ladder-steps';

const told = (...answers: [tool: string, answer: string][]): string =>
  answers.map(([tool, answer]) => `  runner: compute-sanitizer ${tool} on 1x2x113x64c: ${answer}\n`).join('');

test.each([
  ['no tool answered', '', 0],
  ['no tool answered', told(['memcheck', 'no answer']), 0],
  ['clean (1 tool); no answer by racecheck', told(['memcheck', '0 errors'], ['racecheck', 'no answer']), 0],
  ['clean (2 tools)', told(['memcheck', '0 errors'], ['racecheck', '0 errors']), 0],
  ['3 errors', told(['memcheck', '2 errors'], ['racecheck', '1 errors']), 2],
  ['1 errors', '', 1],
])('the results of compute-sanitizer are summed up as: %s', (text, lines, findings) => {
  expect(sanitizerText(lines, findings)).toBe(text);
});

const STEPS = (await ladderSteps()).slice(0, 2);

function row(index: number, p50Us: number, invalidReason?: string): LadderRow {
  const benchmark = create(BenchmarkResultSchema, {
    latency: { p50Us },
    valid: invalidReason === undefined,
    invalidReason,
  });
  return { kernel: STEPS[index]!.id, fallback: false, variant: create(VariantResultSchema), benchmark };
}

/** The last three cells of each row, without the header. */
const ends = (table: string): (string | undefined)[][] =>
  table
    .trim()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .split('|')
        .map((cell) => cell.trim())
        .slice(-4, -1),
    );

test('an invalid measurement is marked as invalid, and no ratio is computed from its times', () => {
  expect(ends(latencyTable(STEPS, [row(0, 100), row(1, 50)]))).toEqual([
    ['-', '', ''],
    ['-', '2.00', '2.00'],
  ]);
  expect(ends(latencyTable(STEPS, [row(0, 100, 'too noisy'), row(1, 50)]))).toEqual([
    ['', '', '**not valid**: too noisy'],
    ['-', '-', ''],
  ]);
  expect(latencyTable(STEPS, [row(0, 100, 'too noisy'), row(1, 50, 'too noisy')])).toMatch(
    /Every row is \*\*not valid\*\*: too noisy\.\n$/,
  );
});

test('the sentence on the emulator counts correct kernels, names wrong kernels, and has the drawn seeds', () => {
  const build = (label: string, verdict: string, seeds: number) => ({
    kernel: 'k',
    label,
    verdict,
    sourceDigest: '',
    entries: [],
    cases: [{ shape: '1x1x64x64', verdict: '', seeds, maxAbsError: 0 }],
  });
  const run: EmulatorRun = {
    folder: 'emulator-1',
    tools: [],
    builds: [
      build('A=1', 'passed', 3),
      build('A=2', 'passed', 5),
      build('A=3', 'failed', 1),
      build('B=1 A=4', 'fails as documented', 1),
    ],
    refusals: [
      { kernel: 'k', shape: '1x1x1x65', verdict: 'refused' },
      { kernel: 'k', shape: '1x1x1x66', verdict: 'failed' },
    ],
  };
  expect(emulatorSentence(run)).toBe(
    'On the emulator 2 builds of 1 kernels are right in all of their 2 cases, 3 to 5 seeds each, and 1 shapes outside of the limits are refused; **wrong: k A=3**; **not refused: k 1x1x1x66**; ' +
      'k A=4 fails parity, as its manifest says: [all cases](../lab/results/emulator-1), `npm run ladder:verify`.\n',
  );
});
