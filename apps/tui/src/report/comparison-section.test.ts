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
import { comparisonSection } from './comparison-section.ts';
import { plainStyle } from './format.ts';

const PLAIN = { width: 80, unicode: true, style: plainStyle };
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

test('medians, ratios with intervals, the champion against itself, the rule and the verdict in 80 columns', () => {
  const lines = comparisonSection(
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
    PLAIN,
  );
  expect(lines).toEqual([
    'Comparison: flashcore_v11 against flashcore_v10',
    '  blocks A B B A in one process; above 1 the candidate is faster',
    '  champion   flashcore_v10, build abababababab; right on 2x8x512x64, 1 seed each',
    '  candidate  flashcore_v11, build cdcdcdcdcdcd; NOT VERIFIED: not verified',
    '  shape           champion  candidate    time  cycles  answer',
    '  2x8x512x64 hot  6.170 us   5.760 us  1.0712  1.0709  faster',
    '  2x8x512x64',
    '    time       1.0712 [1.0688, 1.0735]; champion against itself 1.0002 [0.9991,',
    '               1.0012]',
    '    cycles     1.0709 [1.0680, 1.0730]; champion against itself 1.0000 [0.9990,',
    '               1.0010]',
    '    samples    50 blocks, 50 of the champion against itself, 1 dropped',
    '               (throttled, or the clock fell)',
    '    clock      clock64 over globaltimer, stamped before and after every sample',
    '    checked    both right after timing',
    '  rule       faster: lower end of the 95 % interval at least 1.03 in time and in',
    '             cycles, and no shape below 0.99; the champion must be within ±1.5 %',
    '             of itself',
    '  verdict    faster: 2x8x512x64: 1.0712 [1.0688, 1.0735] in time, 1.0709',
    '             [1.0680, 1.0730] in cycles: both lower ends reach 1.03',
  ]);
});

test('a refusal says why, without saying "not judged" twice', () => {
  const reason = "the champion's output is wrong: 1x2x64x64: NAN_OUTPUT";
  const lines = comparisonSection(
    create(ComparisonResultSchema, {
      champion: { label: 'a' },
      candidate: { label: 'b' },
      verdict: ComparisonVerdict.NOT_JUDGED,
      reason,
    }),
    PLAIN,
  );
  expect(lines.at(-1)).toBe("  verdict    not judged: the champion's output is wrong: 1x2x64x64: NAN_OUTPUT");
});
