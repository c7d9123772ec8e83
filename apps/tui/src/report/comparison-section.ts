import {
  ComparisonVerdict,
  TimingMode,
  Verdict,
  type ComparedBuild,
  type ComparisonResult,
  type RatioInterval,
  type ShapeComparison,
} from '@flashcore/shared/contract';
import { SIMULATED } from './benchmark-section.ts';
import type { ReportFormat, StyleName } from './format.ts';
import { inUnit, shapeText, timeUnit } from './numbers.ts';
import { table, type Cell } from './table.ts';
import { heading, labelled, paragraph } from './text.ts';

const WORDS: Record<ComparisonVerdict, { text: string; style: StyleName }> = {
  [ComparisonVerdict.UNSPECIFIED]: { text: '-', style: 'dim' },
  [ComparisonVerdict.FASTER]: { text: 'faster', style: 'green' },
  [ComparisonVerdict.WITHIN_MARGIN]: { text: 'within margin', style: 'cyan' },
  [ComparisonVerdict.SLOWER]: { text: 'SLOWER', style: 'red' },
  [ComparisonVerdict.NOT_JUDGED]: { text: 'not judged', style: 'yellow' },
};

/**
 * The candidate against its champion: medians of both, ratios with intervals in time and in cycles, the champion
 * against itself, and the verdict.
 */
export function comparisonSection(comparison: ComparisonResult, format: ReportFormat): string[] {
  const { champion, candidate, shapes, verdict, reason, simulated } = comparison;
  const word = WORDS[verdict] ?? WORDS[ComparisonVerdict.UNSPECIFIED];
  return [
    ...heading(
      `Comparison: ${candidate?.label ?? 'the candidate'} against ${champion?.label ?? 'the champion'}`,
      'blocks A B B A in one process; above 1 the candidate is faster',
      format,
    ),
    ...(simulated ? paragraph(SIMULATED, format, 2, 'yellow') : []),
    ...buildLines('champion', champion, format),
    ...buildLines('candidate', candidate, format),
    ...(shapes.length > 0 ? shapeTable(shapes, format) : []),
    ...shapes.flatMap((shape) => shapeLines(shape, format)),
    ...labelled('rule', ruleText(comparison), format),
    ...labelled('verdict', `${word.text}: ${reason}`, format),
  ];
}

function buildLines(name: string, build: ComparedBuild | undefined, format: ReportFormat): string[] {
  if (!build) return [];
  const verified =
    build.verified === Verdict.PASS
      ? build.verifiedDetail
      : build.verified === Verdict.FAIL
        ? `WRONG OUTPUT: ${build.verifiedDetail}`
        : `NOT VERIFIED: ${build.verifiedDetail}`;
  return labelled(name, `${build.label}, build ${build.buildId.slice(0, 12)}; ${verified}`, format);
}

function shapeTable(shapes: readonly ShapeComparison[], format: ReportFormat): string[] {
  const right = (title: string) => ({ title, align: 'right' as const });
  return table(
    [{ title: 'shape' }, right('champion'), right('candidate'), right('time'), right('cycles'), { title: 'answer' }],
    shapes.map(shapeRow),
    format,
  );
}

function shapeRow({ shape, mode, champion, candidate, time, cycles, verdict }: ShapeComparison): Cell[] {
  const unit = timeUnit(champion?.p50Us ?? 0);
  const median = (p50Us: number | undefined): string =>
    p50Us === undefined ? '-' : `${inUnit(p50Us, unit)} ${unit.name}`;
  return [
    `${shapeText(shape)} ${mode === TimingMode.COLD ? 'cold' : 'hot'}`,
    median(champion?.p50Us),
    median(candidate?.p50Us),
    ratio(time),
    ratio(cycles),
    WORDS[verdict] ?? '-',
  ];
}

function shapeLines(shape: ShapeComparison, format: ReportFormat): string[] {
  const { time, cycles, selfTime, selfCycles, blocks, droppedBlocks, selfBlocks, clockSource, verdict } = shape;
  const counted = `${blocks} blocks, ${selfBlocks} of the champion against itself${droppedBlocks > 0 ? `, ${droppedBlocks} dropped (throttled, or the clock fell)` : ''}`;
  return [
    ...paragraph(shapeText(shape.shape), format, 2),
    ...labelled('time', `${interval(time)}; champion against itself ${interval(selfTime)}`, format, 4),
    ...labelled(
      'cycles',
      cycles ? `${interval(cycles)}; champion against itself ${interval(selfCycles)}` : clockSource,
      format,
      4,
    ),
    ...labelled('samples', counted, format, 4),
    ...(cycles ? labelled('clock', clockSource, format, 4) : []),
    ...labelled('checked', checkText(shape), format, 4),
    ...(verdict === ComparisonVerdict.NOT_JUDGED ? labelled('why', shape.reason, format, 4) : []),
  ];
}

function checkText({ championOutputCheck, candidateOutputCheck }: ShapeComparison): string {
  return championOutputCheck === candidateOutputCheck
    ? `both ${championOutputCheck}`
    : `champion ${championOutputCheck}; candidate ${candidateOutputCheck}`;
}

const ratio = (value: RatioInterval | undefined): string => (value === undefined ? '-' : value.ratio.toFixed(4));
const interval = (value: RatioInterval | undefined): string =>
  value === undefined ? 'not measured' : `${ratio(value)} [${value.low.toFixed(4)}, ${value.high.toFixed(4)}]`;

function ruleText({ rule }: ComparisonResult): string {
  if (!rule) return 'none';
  return `faster: lower end of the 95 % interval at least ${rule.acceptRatio} in time and in cycles, and no shape below ${rule.floorRatio}; the champion must be within ±${(100 * rule.noiseLimit).toFixed(1)} % of itself`;
}
