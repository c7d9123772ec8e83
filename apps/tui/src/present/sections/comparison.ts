/** Candidate against champion: both medians, speedups with intervals, the self-check and the verdict. */
import {
  Verdict,
  type ComparedBuild,
  type ComparisonResult,
  type LatencyStatistics,
  type RatioInterval,
  type Shape,
  type ShapeComparison,
  type TimingMode,
} from '@flashcore/shared/contract';
import {
  fact,
  facts,
  heading,
  notice,
  sharedFacts,
  tableOf,
  withoutFacts,
  type Block,
  type Column,
  type Fact,
} from '../blocks.ts';
import { counted, formatInterval, formatMicroseconds, formatPercent } from '../numbers.ts';
import { piece, type Piece } from '../roles.ts';
import { COMPARISON_MARKS, MODE_WORDS, caseText, comparisonAnswer } from '../words.ts';
import { caseColumns, sharedBlocks } from './case-columns.ts';

/** Figures of interleaved blocks so far. */
interface InterleavedPairs {
  readonly blocks: number;
  /** The champion's median divided by the candidate's. */
  readonly time?: RatioInterval | undefined;
  readonly champion?: LatencyStatistics | undefined;
  readonly candidate?: LatencyStatistics | undefined;
}

/** One shape in one timing mode; `result` is set once the shape was compared. */
export interface ShapePairs {
  readonly shape: Shape | undefined;
  readonly mode: TimingMode;
  readonly simulated: boolean;
  /** The self-check, which runs first. */
  readonly self?: InterleavedPairs | undefined;
  /** The samples of champion and candidate in alternating blocks. */
  readonly pairs?: InterleavedPairs | undefined;
  readonly result?: ShapeComparison | undefined;
}

/** A ratio of fewer blocks has no spread, so that its interval would be the ratio itself. */
const FEWEST_BLOCKS = 2;

/** A ratio with its interval; "-" if there are too few blocks for one. */
export const intervalText = (ratio: RatioInterval | undefined, blocks: number): string =>
  ratio === undefined || blocks < FEWEST_BLOCKS ? '-' : formatInterval(ratio);

const median = (latency: LatencyStatistics | undefined, like?: LatencyStatistics): Piece =>
  latency === undefined ? piece('-', 'dim') : piece(formatMicroseconds(latency.p50Us, like?.p50Us));

interface OfCase {
  readonly shape?: Shape | undefined;
}

export const pairColumns = (pairs: readonly OfCase[], width?: number): readonly Column<ShapePairs>[] => [
  ...caseColumns<OfCase>(pairs, { shape: ({ shape }) => shape, width }),
  ...PAIR_COLUMNS,
];

/** The speedup of blocks so far. */
export const pairsText = (pairs: InterleavedPairs | undefined): string => intervalText(pairs?.time, pairs?.blocks ?? 0);

const PAIR_COLUMNS: readonly Column<ShapePairs>[] = [
  { title: 'mode', cell: ({ mode }) => MODE_WORDS[mode] },
  { title: 'champion', align: 'right', drop: 2, cell: ({ pairs }) => median(pairs?.champion) },
  { title: 'candidate', align: 'right', drop: 2, cell: ({ pairs }) => median(pairs?.candidate, pairs?.champion) },
  { title: 'speedup [95 %]', align: 'right', cell: ({ pairs }) => pairsText(pairs) },
  {
    title: 'in cycles',
    align: 'right',
    drop: 4,
    cell: ({ result }) => intervalText(result?.cycles, result?.blocks ?? 0),
  },
  { title: 'self-check', align: 'right', drop: 5, cell: ({ self }) => piece(pairsText(self), 'dim') },
  { title: 'blocks', align: 'right', drop: 3, cell: blocksPiece },
  { title: 'candidate is', cell: answerPiece, cutLast: true },
];

function blocksPiece({ result, pairs, self }: ShapePairs): Piece {
  const dropped = result?.droppedBlocks ?? 0;
  return dropped > 0
    ? piece(`${pairs?.blocks ?? 0} ×${dropped}`, 'bad')
    : piece(String(pairs?.blocks ?? self?.blocks ?? 0));
}

function answerPiece({ result, pairs, simulated }: ShapePairs): Piece {
  if (result === undefined) return piece(pairs === undefined ? '● self-check' : '● measuring', 'accent');
  if (simulated) return piece('not judged: simulated', 'dim');
  const { mark, word, role } = COMPARISON_MARKS[result.verdict];
  return piece(`${mark} ${word}`, role);
}

/** The emulator's comparison of two kernels. */
const COMPARE_COUNTS =
  'to compare the instructions that the emulator counts: fa-tui profile with each kernel, then fa-tui compare with both jobs';

export function comparisonBlocks(comparison: ComparisonResult): Block[] {
  const { champion, candidate, shapes, verdict } = comparison;
  const { mark, role } = COMPARISON_MARKS[verdict];
  const factsOf = shapes.map(shapeFacts);
  const shared = sharedFacts(factsOf);
  return [
    heading(
      `Comparison: ${candidate?.label ?? 'the candidate'} against its champion ${champion?.label ?? ''}`.trimEnd(),
      'medians of interleaved blocks in one process; above 1 the candidate is faster',
    ),
    facts(champion && fact('champion', buildText(champion)), candidate && fact('candidate', buildText(candidate))),
    ...sharedBlocks(shapes.map(({ shape }) => shape)),
    ...(shapes.length === 0 ? [] : [tableOf(pairColumns(shapes), shapes.map(pairsOf))]),
    ...shapes.flatMap((shape, index) => {
      const own = withoutFacts(factsOf[index] ?? [], shared);
      return own.length === 0 ? [] : [facts(fact(caseText(shape.shape), MODE_WORDS[shape.mode], 'title'), ...own)];
    }),
    ...(shared.length === 0 ? [] : [facts(fact('all', counted(shapes.length, 'shape'), 'title'), ...shared)]),
    facts(fact('rule', ruleText(comparison))),
    notice(comparisonAnswer(comparison), role, mark),
    ...(comparison.simulated ? [notice(COMPARE_COUNTS, 'dim')] : []),
  ];
}

export const pairsOf = (result: ShapeComparison): ShapePairs => ({
  shape: result.shape,
  mode: result.mode,
  simulated: result.simulated,
  self: { blocks: result.selfBlocks, time: result.selfTime },
  pairs: { blocks: result.blocks, time: result.time, champion: result.champion, candidate: result.candidate },
  result,
});

function buildText({ label, buildId, verified, verifiedDetail }: ComparedBuild): string {
  const words: Partial<Record<Verdict, string>> = { [Verdict.PASS]: '', [Verdict.FAIL]: 'WRONG OUTPUT: ' };
  return `${label}, build ${buildId.slice(0, 12)}; ${words[verified] ?? 'NOT VERIFIED: '}${verifiedDetail}`;
}

function shapeFacts(shape: ShapeComparison): Fact[] {
  const { time, selfTime, selfCycles, cycles, clockSource, droppedBlocks, blocks, selfBlocks } = shape;
  const dropped = droppedBlocks > 0 ? `, ${droppedBlocks} dropped (throttled, or the clock fell)` : '';
  const withSelfCheck = (ratio: RatioInterval | undefined, self: RatioInterval | undefined): string =>
    `${intervalText(ratio, blocks)}; self-check ${intervalText(self, selfBlocks)}`;
  return facts(
    fact('samples', `${counted(blocks, 'block')}, ${selfBlocks} of the self-check${dropped}`),
    fact('speedup', withSelfCheck(time, selfTime)),
    fact('in cycles', cycles === undefined ? clockSource : withSelfCheck(cycles, selfCycles)),
    cycles === undefined ? undefined : fact('clock', clockSource),
    fact('checked', checkText(shape)),
    fact('why', shape.reason),
  ).facts.slice();
}

function checkText({ championOutputCheck, candidateOutputCheck }: ShapeComparison): string {
  return championOutputCheck === candidateOutputCheck
    ? `both ${championOutputCheck}`
    : `champion ${championOutputCheck}; candidate ${candidateOutputCheck}`;
}

function ruleText({ rule }: ComparisonResult): string {
  if (!rule) return '';
  return `faster: lower end of the 95 % interval at least ${rule.acceptRatio} in time and in cycles, and no shape below ${rule.floorRatio}; where the champion is more than ±${formatPercent(100 * rule.noiseLimit)} from itself, its distance counts against the answer`;
}
