import { create } from '@bufbuild/protobuf';
import { TuneResultSchema, Verdict } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { tuneBlocks } from './tuned.ts';

const tune = create(TuneResultSchema, {
  variants: [
    {
      label: 'TILE=64',
      rank: 1,
      registers: 96,
      smemBytes: 16384,
      ctasPerSm: 4,
      verified: Verdict.PASS,
      p50Us: 9.6,
      p50LowUs: 9.5,
      p50HighUs: 9.7,
    },
    { label: 'TILE=256', verified: Verdict.NOT_MEASURED, dropped: 'it does not compile' },
  ],
  winner: 'TILE=64',
  pareto: ['TILE=64'],
  paretoOf: 'median latency and registers',
  rankedBy: 'median latency',
  combinations: 9,
  drawn: true,
  complete: true,
});

test('a search has a table with the reasons why variants were dropped, the best variant and the Pareto front', () => {
  expect(plainLines(tuneBlocks(tune), { ...PLAIN, width: 100 })).toEqual([
    'Search over variants  2 of 9 combinations, drawn at random',
    '  ranked by median latency',
    '  #   variant   registers    SMEM  CTAs/SM        p50         95 % interval  x leader  correct',
    '  1*  TILE=64          96  16 KiB        4   9.600 us  9.500 us to 9.700 us         -  yes',
    '  -   TILE=256          ?       ?        ?  not timed                     -         -  not known',
    '    it does not compile',
    '  ✓ Best: TILE=64',
    '  * Pareto front of median latency and registers: TILE=64',
  ]);
});

test('a stopped search says that it was stopped, and without a correct variant there is no best one', () => {
  const stopped = create(TuneResultSchema, { ...tune, variants: [], complete: false, pareto: [] });
  delete stopped.winner;
  const open = create(TuneResultSchema, { ...stopped, variants: [tune.variants[0]!] });
  delete open.winner;
  expect(plainLines(tuneBlocks(open), PLAIN)).toContain('  ⚠ Best: not decided');
  const text = plainLines(tuneBlocks(stopped), PLAIN).join('\n');
  expect(text).toMatch(/not decided: stopped before the end[^]*Best: none is right[^]*nothing was measured/);
});

test('a search whose variants were not timed has no best one', () => {
  const text = plainLines(tuneBlocks(create(TuneResultSchema, { ...tune, simulated: true })), PLAIN).join('\n');
  expect(text).toContain('First by resources, not timed on a GPU: TILE=64');
  expect(text).not.toContain('Best:');
});
