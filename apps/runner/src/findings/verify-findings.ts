import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding, type Shape, type ElementError } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { Plain } from '../../worker/messages/plain.ts';
import type { CaseReport } from '../../worker/messages/verifying.ts';

/** What is wrong with a case's output, worst first; empty: nothing. */
export function caseFindings(report: CaseReport, shape: Shape): Finding[] {
  const of = (kind: FindingKind, message: string, remedy: string): Finding =>
    create(FindingSchema, { kind, message: `${formatShape(shape)}: ${message}`, remedy, shape });
  const { figures } = report;
  const findings: Finding[] = [];
  const notFinite = figures.nanCount + figures.infCount;
  const wrong = figures.mismatches - notFinite - figures.unwrittenCount;
  const first = figures.firstMismatches[0];
  const share = (count: number | bigint): string => `${count} of ${figures.elements} elements`;
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
  if (figures.unwrittenCount > 0) {
    findings.push(
      of(
        FindingKind.UNWRITTEN_OUTPUT,
        `${share(figures.unwrittenCount)} were never written${first ? `, first ${elementText(first)}` : ''}`,
        'Check the guards of the stores and the grid against the shape',
      ),
    );
  }
  if (notFinite > 0) {
    findings.push(
      of(
        FindingKind.NAN_OUTPUT,
        `${share(figures.nanCount)} are NaN and ${figures.infCount} Inf${first ? `, first ${elementText(first)}` : ''}`,
        'A row that is masked whole needs a finite running maximum; -inf - -inf and 0 / 0 are NaN; shared memory that was never written reads as NaN here',
      ),
    );
  }
  if (wrong > 0) {
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `${share(wrong)} are outside the tolerance, the largest error is ${figures.maxAbsError.toExponential(2).replace('e+0', '').replace('e+', 'e')}${figures.worst ? ` ${elementText(figures.worst)}` : ''}`,
        'Look where it is wrong, on the error map of fa-tui verify or of view 2: whole tiles point at indexing or a missing barrier, whole rows at the running maximum and sum',
      ),
    );
  }
  if (report.beyondRounding && figures.rounding && findings.length === 0) {
    const { ratio, limit } = figures.rounding;
    findings.push(
      of(
        FindingKind.WRONG_RESULT,
        `each element is within the tolerance, but over 16 rows of a head the error is ${ratio.toPrecision(3)} times what rounding to the dtype explains (limit ${limit.toPrecision(3)})`,
        'Keep Q, K, V and the weights in the dtype of the tensors, and sums and logits in fp32: a format of 8 bits, keys left out of long rows and sums in fp16 look like this',
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

function elementText({ batch, head, row, column, got, want }: Plain<ElementError>): string {
  return `at b=${batch} h=${head} s=${row} d=${column} (got ${got.toPrecision(4)}, want ${want.toPrecision(4)})`;
}

/** One finding of each kind: the first, for the cases that follow say the same again. */
export function distinctFindings(findings: readonly Finding[]): Finding[] {
  return [...new Map(findings.toReversed().map((finding) => [finding.kind, finding])).values()].toReversed();
}
