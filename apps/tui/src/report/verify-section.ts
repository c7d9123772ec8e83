import {
  Verdict,
  type CaseResult,
  type ElementError,
  type Tolerance,
  type VerifyResult,
} from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { count, figure, seconds, shapeText, small } from './numbers.ts';
import { sdpaSection } from './sdpa-section.ts';
import { table, type Cell } from './table.ts';
import { heading, paragraph } from './text.ts';
import { verdictCell } from './verdicts.ts';

/** The table of cases with largest and mean error, then why the failed ones failed. */
export function verifySection(verify: VerifyResult, format: ReportFormat): string[] {
  const total = verify.cases.length;
  return [
    ...heading('Verify', `${verify.passedCases} of ${count(total, 'case')} passed, ${seconds(verify.seconds)}`, format),
    ...paragraph(`${toleranceText(verify.tolerance)}; reference: ${verify.reference}`, format, 2, 'dim'),
    ...table(COLUMNS, verify.cases.map(caseRow), format),
    ...(verify.cases.some(({ fp16MaxAbsError }) => fp16MaxAbsError > 0)
      ? paragraph('max/fp16: max error over that of plain fp16 attention; 2 is allowed', format, 2, 'dim')
      : []),
    ...verify.cases.flatMap((result) => complaint(result, format)),
    ...sdpaSection(verify, format),
  ];
}

const COLUMNS = [
  { title: 'case BxHxSxD', shrinks: true },
  { title: 'seeds', align: 'right' as const },
  { title: 'max error', align: 'right' as const },
  { title: 'mean error', align: 'right' as const },
  { title: 'max/fp16', align: 'right' as const },
  { title: 'mismatches', align: 'right' as const },
  { title: 'verdict' },
];

function caseRow(result: CaseResult): Cell[] {
  const ran = result.verdict !== Verdict.NOT_MEASURED && result.elements > 0n;
  const measured = (text: string) => (ran ? text : '-');
  // Errors are over finite elements: where there is none, 0 would look like a perfect answer.
  const error = (text: string) => (result.nanCount + result.infCount < result.elements ? measured(text) : '-');
  return [
    shapeText(result.shape),
    String(result.seeds),
    error(small(result.maxAbsError)),
    error(small(result.meanAbsError)),
    error(fp16Ratio(result)),
    measured(String(result.mismatches)),
    verdictCell(result.verdict),
  ];
}

// The kernel's largest error over that of attention in plain fp16: FlashAttention's rule asks for at most 2.
const fp16Ratio = (result: CaseResult): string =>
  result.fp16MaxAbsError > 0 ? figure(result.maxAbsError / result.fp16MaxAbsError, 3) : '-';

function complaint(result: CaseResult, format: ReportFormat): string[] {
  if (result.verdict === Verdict.PASS)
    return result.deterministic !== false || result.seeds === 0
      ? []
      : paragraph(`${shapeText(result.shape)}: two runs on the same input differed in their bits`, format, 2, 'yellow');
  const counts = [
    result.nanCount > 0n ? `${result.nanCount} NaN` : '',
    result.infCount > 0n ? `${result.infCount} Inf` : '',
    result.unwrittenCount > 0n ? `${result.unwrittenCount} never written` : '',
  ].filter(Boolean);
  const suffix = counts.length > 0 ? ` (${counts.join(', ')} of ${result.elements} elements)` : '';
  const worst = result.worst && result.mismatches > 0n ? `; worst ${elementText(result.worst)}` : '';
  return paragraph(`${shapeText(result.shape)}: ${result.reason ?? 'no reason given'}${suffix}${worst}`, format, 2);
}

/** "O[b 0, h 3, s 17, d 5] got 0.5, want 0.25". */
export function elementText(element: ElementError): string {
  return `O[b ${element.batch}, h ${element.head}, s ${element.row}, d ${element.column}] got ${figure(element.got, 5)}, want ${figure(element.want, 5)}`;
}

function toleranceText(tolerance: Tolerance | undefined): string {
  if (!tolerance) return 'tolerance not named';
  const rule = `|out - ref| <= ${figure(tolerance.absolute ?? 0)} + ${figure(tolerance.relative ?? 0)} |ref|`;
  return tolerance.profile ? `${rule} (${tolerance.profile})` : rule;
}
