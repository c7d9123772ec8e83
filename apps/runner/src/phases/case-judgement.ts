import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  Verdict,
  CaseResultSchema,
  FindingInputSchema,
  FlashcoreError,
  OutputResultSchema,
  type CaseResult,
  type Device,
  type Finding,
  type Shape,
} from '@flashcore/shared/contract';
import { formatShape, toleranceOfOutput, type LaunchPlan } from '@flashcore/shared/kernels';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import type { CaseReport, OutputReport, VerifyRequest } from '../../worker/messages/verifying.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { areNamed, caseFindings } from '../findings/verify-findings.ts';
import { memoryText } from '../spec/device-memory.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import { reasonOfFailure } from '../workers/device-worker.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';

export interface CaseRun {
  result: CaseResult;
  findings: Finding[];
  /** False if the kernel did not finish: larger shapes would only take longer. */
  ends: boolean;
}

interface JudgedCase {
  readonly shape: Shape;
  readonly plan: LaunchPlan;
  readonly tolerance: VerifySpec['tolerance'];
  /** Tolerances of outputs that declare one. */
  readonly ownTolerances: VerifyRequest['ownTolerances'];
  readonly inputs: readonly SeededInput[];
  /** Index of the last input that began. */
  readonly lastInput: number;
  readonly device: Device;
}

/**
 * Result and findings of a case's run. Errors: INVALID_MANIFEST if the problem's own reference failed, INTERNAL if the
 * worker could not verify the case for another reason.
 */
export function judge(outcome: WorkerOutcome<CaseReport>, judged: JudgedCase): CaseRun {
  const { shape, inputs, lastInput } = judged;
  if (outcome.status === 'done') {
    const failed = inputs.filter((_, index) => outcome.value.inputs[index]?.failed);
    const findings = caseFindings(outcome.value, shape).map((finding) => onInputs(finding, failed));
    return { result: caseResult(outcome.value, judged, findings), findings, ends: false };
  }
  if (outcome.status === 'failed')
    throw new FlashcoreError(
      reasonOfFailure(outcome),
      { shape: formatShape(shape) },
      `The worker could not verify ${formatShape(shape)}: ${outcome.message}`,
    );
  const finding = onInputs(findingOf(outcome, shape)!, inputs.slice(lastInput, lastInput + 1));
  if (finding.kind === FindingKind.OUT_OF_MEMORY) finding.message += `: ${memoryText(judged.device, judged.plan)}`;
  const result = create(CaseResultSchema, { shape, verdict: Verdict.FAIL, reason: reasonOf([finding], shape) });
  return { result, findings: [finding], ends: true };
}

/** Names the inputs on which a finding was seen. */
export function onInputs(finding: Finding, inputs: readonly SeededInput[]): Finding {
  finding.inputs = inputs.map(({ seed, rule }) => create(FindingInputSchema, { seed, distribution: rule.name }));
  return finding;
}

/** "NAN_OUTPUT: 8192 of 8192 elements are NaN": findings of a case, without its shape, which is shown next to them. */
const reasonOf = (findings: readonly Finding[], shape: Shape): string =>
  findings
    .map(({ kind, message }) => `${FindingKind[kind]}: ${message.replace(`${formatShape(shape)}: `, '')}`)
    .join('; ');

function caseResult(report: CaseReport, judged: JudgedCase, findings: readonly Finding[]): CaseResult {
  const { figures, outputs, flashAttentionRule } = report;
  const right = findings.length === 0;
  const shown = outputs.find(isWrong) ?? outputs[0];
  return create(CaseResultSchema, {
    ...figures,
    ...outputFigures(shown, judged, right),
    shape: judged.shape,
    verdict: right ? Verdict.PASS : Verdict.FAIL,
    ...(!right && { reason: reasonOf(findings, judged.shape) }),
    flashAttentionRule: ruleVerdict(flashAttentionRule),
    ...(areNamed(outputs, judged.shape) && { output: shown.name }),
    ...(outputs.length > 1 && {
      outputs: outputs.map((output) =>
        create(OutputResultSchema, {
          ...outputFigures(output, judged, !isWrong(output)),
          name: output.name,
          dtype: output.dtype,
          tolerance: { profile: output.tolerance ?? judged.tolerance.profile, ...toleranceOfOutput(output, judged) },
          verdict: isWrong(output) ? Verdict.FAIL : Verdict.PASS,
        }),
      ),
    }),
  });
}

const isWrong = ({ figures, beyondRounding, trivialNorm }: OutputReport): boolean =>
  figures.mismatches > 0n || beyondRounding || trivialNorm;

/** Head figures show where to look for an error, so they are kept only for a wrong output. */
const outputFigures = (output: OutputReport, { plan }: JudgedCase, right: boolean) => ({
  ...output.figures,
  errorMap: {
    ...output.figures.errorMap,
    tileRows: tileRowsOf(plan, output.name),
    ...(right && { headMaxAbsError: [] }),
  },
});

function ruleVerdict(holds: boolean | undefined): Verdict {
  if (holds === undefined) return Verdict.NOT_MEASURED;
  return holds ? Verdict.PASS : Verdict.FAIL;
}

/** The result of a case that did not run, with the reason. */
export const notRun = (shape: Shape, reason: string): CaseRun => ({
  result: create(CaseResultSchema, { shape, verdict: Verdict.NOT_MEASURED, reason }),
  findings: [],
  ends: false,
});

/** Rows of an output that a CTA computes, by the grid of the last launch; 0 if the grid does not show it. */
function tileRowsOf({ launches, tensors }: LaunchPlan, output: string): number {
  const ctas = launches.at(-1)?.grid.reduce((product, extent) => product * extent, 1) ?? 0;
  const dims = tensors.find(({ name }) => name === output)?.dims ?? [];
  const heads = dims.slice(0, -2).reduce((product, extent) => product * extent, 1);
  return rowsPerTile(dims.at(-2) ?? 1, ctas / heads);
}

/**
 * Rows of each of `tiles` tiles over `rows` rows, the last of which may be shorter: the only number that gives as many
 * tiles or, if there are several, the power of two among them. 0 if neither exists.
 */
export function rowsPerTile(rows: number, tiles: number): number {
  if (!Number.isInteger(tiles) || tiles < 1 || tiles > rows) return 0;
  const least = Math.ceil(rows / tiles);
  const most = tiles === 1 ? rows : Math.ceil(rows / (tiles - 1)) - 1;
  const power = 2 ** Math.ceil(Math.log2(least));
  if (least >= most) return least === most ? least : 0;
  return power <= most ? power : 0;
}
