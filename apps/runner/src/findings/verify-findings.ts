import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { CaseReport, WrongElement } from '../../worker/messages.ts';

/** What is wrong with a case's output, worst first; empty: nothing. */
export function caseFindings(report: CaseReport, shape: Shape): Finding[] {
  const of = (kind: FindingKind, message: string, remedy: string): Finding =>
    create(FindingSchema, { kind, message: `${formatShape(shape)}: ${message}`, remedy, shape });
  const findings: Finding[] = [];
  const notFinite = report.nanCount + report.infCount;
  const wrong = report.mismatches - notFinite - report.unwrittenCount;
  const first = report.firstMismatches[0];
  const share = (count: number): string => `${count} of ${report.elements} elements`;
  if (report.modified.length > 0) {
    findings.push(
      of(
        FindingKind.INPUT_MODIFIED,
        `the kernel changed ${report.modified.join(', ')}`,
        'Write to O and to the workspace only; check the indices of every store',
      ),
    );
  }
  if (report.straying > 0) {
    findings.push(
      of(
        FindingKind.OUT_OF_BOUNDS,
        `right by luck: with other bytes before and after the tensors ${share(report.straying)} are outside the tolerance`,
        'The kernel reads beyond a tensor: check the guards of its loads, at the first and the last rows',
      ),
    );
  }
  if (report.unwrittenCount > 0) {
    findings.push(
      of(
        FindingKind.UNWRITTEN_OUTPUT,
        `${share(report.unwrittenCount)} were never written${first ? `, first ${elementText(first)}` : ''}`,
        'Check the guards of the stores and the grid against the shape',
      ),
    );
  }
  if (notFinite > 0) {
    findings.push(
      of(
        FindingKind.NAN_OUTPUT,
        `${share(report.nanCount)} are NaN and ${report.infCount} Inf${first ? `, first ${elementText(first)}` : ''}`,
        'A row that is masked whole needs a finite running maximum; -inf - -inf and 0 / 0 are NaN; shared memory that was never written reads as NaN here',
      ),
    );
  }
  if (wrong > 0) {
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `${share(wrong)} are outside the tolerance, the largest error is ${report.maxAbsError.toExponential(2)}${report.worst ? ` ${elementText(report.worst)}` : ''}`,
        'The error map shows where: whole tiles point at indexing or a missing barrier, whole rows at the running maximum and sum',
      ),
    );
  }
  if (report.trivialNorm && findings.length === 0) {
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        "the output is within the tolerance, but its norm is less than half of the reference's",
        'Small values must be computed too',
      ),
    );
  }
  return findings;
}

function elementText({ batch, head, row, column, got, want }: WrongElement): string {
  return `at b=${batch} h=${head} s=${row} d=${column} (got ${got.toPrecision(4)}, want ${want.toPrecision(4)})`;
}

/** One finding of each kind: the first, for the cases that follow say the same again. */
export function distinctFindings(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.toReversed().map((finding) => [finding.kind, finding])).values()].toReversed();
}
