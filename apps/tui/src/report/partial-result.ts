import { create } from '@bufbuild/protobuf';
import { JobResultSchema, VariantResultSchema, VerifyResultSchema, Verdict, type JobEvent, type JobResult, type VariantResult } from '@flashcore/shared';

/** What a job found out before it was cut off, put together from its events: an interrupted job has no result of its own. */
export class PartialResult {
  readonly #result = create(JobResultSchema);

  add({ payload }: JobEvent): void {
    const result = this.#result;
    switch (payload.case) {
      case 'phaseStarted':
        if (payload.value.variant && result.variants.at(-1)?.label !== payload.value.variant) this.#beginVariant(payload.value.variant);
        break;
      case 'precheck':
        result.prechecks.push(payload.value);
        break;
      default:
        addToVariant(result.variants.at(-1) ?? this.#beginVariant(''), payload);
    }
  }

  /** Undefined while nothing has been found out. */
  get(): JobResult | undefined {
    const { prechecks, variants } = this.#result;
    return prechecks.length > 0 || variants.some(isTelling) ? this.#result : undefined;
  }

  #beginVariant(label: string): VariantResult {
    const { variants } = this.#result;
    // Before the build the variant may have no label yet.
    const unnamed = variants.at(-1);
    if (unnamed?.label === '' && !isTelling(unnamed)) return Object.assign(unnamed, { label });
    const variant = create(VariantResultSchema, { label, fallback: variants.length > 0 });
    variants.push(variant);
    return variant;
  }
}

function addToVariant(variant: VariantResult, payload: JobEvent['payload']): void {
  switch (payload.case) {
    case 'buildResult':
      variant.build = payload.value;
      break;
    case 'caseResult':
      variant.verify ??= create(VerifyResultSchema, { reference: 'the job was cut off' });
      variant.verify.cases.push(payload.value);
      if (payload.value.verdict === Verdict.PASS) variant.verify.passedCases++;
      break;
    case 'verifyResult':
      variant.verify = payload.value;
      break;
    case 'benchmarkResult':
      variant.benchmarks.push(payload.value);
      break;
    case 'comparisonResult':
      variant.comparison = payload.value;
      break;
    case 'profileResult':
      variant.profile = payload.value;
      break;
    case 'gateResult':
      variant.gates.push(payload.value);
      break;
    case 'finding':
      variant.findings.push(payload.value);
      break;
    default: // Progress, log lines, warnings: nothing that a result keeps.
  }
}

const isTelling = ({ build, verify, benchmarks, profile, gates, findings }: VariantResult): boolean =>
  build !== undefined || verify !== undefined || profile !== undefined || benchmarks.length + gates.length + findings.length > 0;
