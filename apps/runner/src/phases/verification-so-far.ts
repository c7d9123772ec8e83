import { create } from '@bufbuild/protobuf';
import {
  FindingKind,
  Verdict,
  VerifyResultSchema,
  type CaseResult,
  type Finding,
  type Shape,
  type VerifyResult,
} from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import { notRun, type CaseRun } from './case-judgement.ts';

/** Results of the probes and cases of a verification so far. */
export class VerificationSoFar {
  readonly findings: Finding[] = [];
  readonly #spec: VerifySpec;
  readonly #inputs: readonly SeededInput[];
  readonly #started = performance.now();
  readonly #probes: CaseResult[] = [];
  readonly #drawn: CaseResult[] = [];
  /** In order of execution. */
  readonly #cases = new Map<Shape, CaseResult>();
  #stopped: string | undefined;

  constructor(spec: VerifySpec, inputs: readonly SeededInput[]) {
    this.#spec = spec;
    this.#inputs = inputs;
  }

  /** Why no further case should run; undefined if one may. */
  get stopped(): string | undefined {
    return this.#stopped;
  }

  /** In order of execution. */
  get cases(): CaseResult[] {
    return [...this.#cases.values()];
  }

  addProbe(run: CaseRun): void {
    this.#probes.push(run.result);
    this.#note(run, run.result.shape!);
  }

  addDrawn(run: CaseRun): void {
    this.#drawn.push(run.result);
    this.#note(run, run.result.shape!);
  }

  addCase(run: CaseRun, shape: Shape): void {
    this.#cases.set(shape, run.result);
    this.#note(run, shape);
  }

  #note({ findings, ends }: CaseRun, shape: Shape): void {
    this.findings.push(...findings);
    if (ends) this.#stopped = `${FindingKind[findings[0]?.kind ?? 0]} on ${formatShape(shape)} stopped the run`;
  }

  /** The result, with the cases in the requested order. */
  result(): VerifyResult {
    const { shapes, tolerance } = this.#spec;
    return create(VerifyResultSchema, {
      cases: shapes.map((shape) => this.#cases.get(shape) ?? notRun(shape, 'the job ended before it').result),
      passedCases: this.cases.filter(({ verdict }) => verdict === Verdict.PASS).length,
      tolerance,
      reference: 'fp64 on the CPU',
      seconds: (performance.now() - this.#started) / 1000,
      seeds: this.#inputs.map(({ seed }) => seed),
      probes: this.#probes,
      drawn: this.#drawn,
    });
  }
}
