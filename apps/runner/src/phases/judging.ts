import { clone, create, equals } from '@bufbuild/protobuf';
import {
  GatePlanAnnouncedSchema,
  GateResultSchema,
  Verdict,
  VariantResultSchema,
  type GateResult,
  type VariantResult,
} from '@flashcore/shared/contract';
import {
  evaluateGate,
  evaluateGroup,
  planMessage,
  undecided,
  type GateContext,
  type PlannedGate,
} from '@flashcore/shared/kernels';
import type { JudgedBy } from '../spec/judged-by.ts';
import { rankingMessage } from '../spec/ranked-run.ts';
import type { VariantServices } from './job-services.ts';

/** Gates of these phases stay unmeasured when a variant is stopped early. */
const LATER: readonly string[] = ['benchmark', 'profile', 'history'];

/**
 * The gates of one variant during its measurement: announced before the first phase, each decided and reported as soon
 * as its data is there.
 */
export class Judging {
  readonly #services: VariantServices;
  readonly #judged: JudgedBy;
  readonly #variant: VariantResult;
  readonly #told = new Map<string, GateResult>();

  constructor(services: VariantServices, judged: JudgedBy, variant: VariantResult) {
    this.#services = services;
    this.#judged = judged;
    this.#variant = variant;
  }

  announce(): void {
    const { plan, gates, isDefault } = this.#judged;
    const { ranking, kernel } = this.#services.spec;
    this.#services.job.emit({
      case: 'gatePlan',
      value: create(GatePlanAnnouncedSchema, {
        plan: planMessage(plan, gates.map(undecided), { isDefault, problem: kernel.manifest.problem.id }),
        variant: this.#services.resolved.label,
        ...(ranking && { ranking: rankingMessage(ranking) }),
      }),
    });
  }

  /** Decides the gates whose data is complete. */
  look(): void {
    const context = this.#context();
    const known = new Map<string, GateResult>(this.#told);
    for (const gate of this.#judged.gates) {
      if (gate.phase === 'group' || this.#told.has(gate.id)) continue;
      const { result, partial } = evaluateGate(gate, context);
      if (partial || result.verdict === Verdict.NOT_MEASURED) continue;
      this.#tell(result);
      known.set(gate.id, result);
    }
    for (const gate of this.#judged.gates) {
      if (gate.phase !== 'group' || this.#told.has(gate.id) || !membersKnown(gate, known)) continue;
      this.#tell(evaluateGroup(gate, known));
    }
  }

  /** The final result of every gate, in the order of the plan; `stopped`: why later phases did not run. */
  finish(stopped: string | undefined): GateResult[] {
    const context = this.#context();
    const answers = new Map<string, GateResult>();
    for (const gate of this.#judged.gates)
      if (gate.phase !== 'group') answers.set(gate.id, this.#last(gate, context, stopped));
    for (const gate of this.#judged.gates)
      if (gate.phase === 'group') answers.set(gate.id, evaluateGroup(gate, answers));
    const results = this.#judged.gates.map(({ id }) => answers.get(id)!);
    for (const result of results) this.#tell(result);
    return results;
  }

  #last(gate: PlannedGate, context: GateContext, stopped: string | undefined): GateResult {
    const { result } = evaluateGate(gate, context);
    // For a phase skipped because the output is wrong, report that reason rather than just "not measured".
    if (stopped !== undefined && result.verdict === Verdict.NOT_MEASURED && LATER.includes(gate.phase))
      result.detail = stopped;
    return result;
  }

  /** Reports a gate's result; reports a later result only if it differs. */
  #tell(result: GateResult): void {
    const before = this.#told.get(result.gateId);
    if (before && equals(GateResultSchema, before, result)) return;
    this.#told.set(result.gateId, result);
    this.#services.job.emit({ case: 'gateResult', value: result });
  }

  #context(): GateContext {
    const { cases, spec } = this.#services;
    return {
      variant: clone(VariantResultSchema, this.#variant),
      cases,
      undocumented: spec.kernel.undocumented,
      noChampion: this.#variant.fallback ? 'a fallback is not compared' : spec.noChampion,
      verified: spec.verify?.shapes ?? [],
      benchmarked: spec.benchmark?.shapes ?? [],
    };
  }
}

const membersKnown = ({ anyOf }: PlannedGate, known: ReadonlyMap<string, GateResult>): boolean =>
  anyOf.every((id) => known.has(id)) || anyOf.some((id) => known.get(id)?.verdict === Verdict.PASS);
