import { create } from '@bufbuild/protobuf';
import {
  ComparisonVerdict,
  TimingMode,
  Verdict,
  StopReason,
  ComparisonResultSchema,
  ShapeComparisonSchema,
} from '@flashcore/shared/contract';
import { parseShape } from '@flashcore/shared/kernels';
import { COMPARISON_RULE, judgeComparison, judgeShape } from '@flashcore/shared/statistics';
import { expect, test } from 'vitest';
import { PLAIN } from '../../testing/result-fixtures.ts';
import { plainLines } from '../plain/plain-painter.ts';
import { comparisonBlocks } from './comparison.ts';

const ratio = (low: number, middle: number, high: number) => ({ low, ratio: middle, high });
const shape = create(ShapeComparisonSchema, {
  shape: parseShape('2x8x512x64'),
  mode: TimingMode.HOT,
  time: ratio(1.0688, 1.0712, 1.0735),
  cycles: ratio(1.068, 1.0709, 1.073),
  selfTime: ratio(0.9991, 1.0002, 1.0012),
  selfCycles: ratio(0.999, 1, 1.001),
  clockSource: 'clock64 over globaltimer, stamped before and after every sample',
  champion: { samples: 100, p50Us: 6.17 },
  candidate: { samples: 100, p50Us: 5.76 },
  blocks: 50,
  selfBlocks: 50,
  droppedBlocks: 1,
  stopReason: StopReason.CONVERGED,
  championOutputCheck: 'right after timing',
  candidateOutputCheck: 'right after timing',
});
Object.assign(shape, judgeShape(shape));

test('medians, ratios with intervals, the self-check, the rule and the verdict fit into 80 columns', async () => {
  const lines = plainLines(
    comparisonBlocks(
      create(ComparisonResultSchema, {
        champion: {
          label: 'flashcore_v10',
          buildId: 'ab'.repeat(32),
          verified: Verdict.PASS,
          verifiedDetail: 'right on 2x8x512x64, 1 seed each',
        },
        candidate: {
          label: 'flashcore_v11',
          buildId: 'cd'.repeat(32),
          verified: Verdict.NOT_MEASURED,
          verifiedDetail: 'not verified',
        },
        shapes: [shape],
        rule: COMPARISON_RULE,
        ...judgeComparison([shape], []),
      }),
    ),
    PLAIN,
  );
  await expect(lines.join('\n')).toMatchFileSnapshot('../goldens/comparison-report.txt');
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

test('the reason for a refused comparison does not say "not judged" twice', () => {
  const reason = "the champion's output is wrong: 1x2x64x64: NAN_OUTPUT";
  const lines = plainLines(
    comparisonBlocks(
      create(ComparisonResultSchema, {
        champion: { label: 'a' },
        candidate: { label: 'b' },
        verdict: ComparisonVerdict.NOT_JUDGED,
        reason,
      }),
    ),
    PLAIN,
  );
  expect(lines.at(-1)).toBe("  ○ not judged: the champion's output is wrong: 1x2x64x64: NAN_OUTPUT");
});

test('a ratio of one block has no interval', () => {
  const once = { ...shape, blocks: 1, selfBlocks: 1, droppedBlocks: 0, reason: '' };
  const text = plainLines(comparisonBlocks(create(ComparisonResultSchema, { shapes: [once] })), PLAIN).join('\n');
  expect(text).toMatch(/hot +6\.170 us +5\.760 us +- /);
  expect(text).toMatch(/samples +1 block, 1 of the self-check/);
  expect(text).not.toMatch(/\[1\.06/);
});

test('facts that all shapes of a comparison share appear once, and the emulator names what it can compare', () => {
  const other = { ...shape, shape: parseShape('1x4x128x64'), blocks: 40 };
  const comparison = create(ComparisonResultSchema, { shapes: [shape, other], simulated: true });
  const lines = plainLines(comparisonBlocks(comparison), PLAIN);
  expect(lines.filter((line) => line.includes('stamped before and after'))).toHaveLength(1);
  expect(lines.join(' ').replaceAll(/\s+/g, ' ')).toContain('all 2 shapes');
  expect(lines.join(' ').replaceAll(/\s+/g, ' ')).toContain('instructions that the emulator counts: fa-tui profile');
});
