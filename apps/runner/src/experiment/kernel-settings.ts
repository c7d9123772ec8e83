import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { CaseSetSchema, FlashcoreError, type CaseSet, type GatePlan, type Shape } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText } from '@flashcore/shared/files';
import {
  parseCases,
  parseGates,
  planMessage,
  plannedGates,
  undecided,
  type Cases,
  type GatesFile,
  type Plan,
} from '@flashcore/shared/kernels';
import type { Logger } from '../log.ts';
import type { GatesText } from '../spec/judged-by.ts';

/** What GetHost says that jobs are judged by. */
export interface Judging {
  plans: GatePlan[];
  caseSets: CaseSet[];
  /** Of the shapes that the host keeps to itself the number. */
  heldOutShapes: number;
  /** Changes where a judgement made before does not hold any more; empty: not known. */
  judgingDigest: string;
}

interface JudgingParts {
  heldOutShapes: number;
  digest: (judgedWith: { cases: Cases; gates: GatesText }) => string;
  logger: Logger;
}

/** cases.yaml and gates.yaml, read anew when they change: an edited target counts at once. */
export class KernelSettings {
  readonly #folder: string;
  readonly #parsed = new Map<string, { text: string; value: unknown }>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  cases(): Cases {
    return this.#read('cases.yaml', parseCases);
  }

  gates(): GatesText {
    return this.#read('gates.yaml', (text, path) => ({ text, file: parseGates(text, path) }));
  }

  /** Errors: INVALID_MANIFEST. */
  canonicalShape(): Shape {
    return this.cases().sets.canonical[0]!;
  }

  /** Plans, the default first, and case sets; none where a file can't be read. */
  judging({ heldOutShapes, digest, logger }: JudgingParts): Judging {
    try {
      const [gates, cases] = [this.gates(), this.cases()];
      return { ...judgingOf(gates.file, cases), heldOutShapes, judgingDigest: digest({ cases, gates }) };
    } catch (error) {
      // An edited file that is wrong is told to whom starts an experiment; the host is described all the same.
      if (!(error instanceof FlashcoreError)) throw error;
      logger.warn({ reason: error.reason, message: error.message }, 'plans and case sets cannot be read');
      return { plans: [], caseSets: [], heldOutShapes, judgingDigest: '' };
    }
  }

  #read<Value>(name: string, parse: (text: string, path: string) => Value): Value {
    const text = readForeignText(join(this.#folder, name), HAND_WRITTEN_BYTES);
    const known = this.#parsed.get(name);
    if (known?.text === text) return known.value as Value;
    const value = parse(text, `kernels/${name}`);
    this.#parsed.set(name, { text, value });
    return value;
  }
}

function judgingOf(file: GatesFile, cases: Cases): { plans: GatePlan[]; caseSets: CaseSet[] } {
  const ofPlan = (plan: Plan): GatePlan => {
    const isDefault = plan.name === file.defaultPlan;
    const gates = plannedGates(file, { plan, own: [], arch: '' });
    return planMessage(plan, gates.map(undecided), isDefault);
  };
  const plans = [...file.plans.values()].map(ofPlan);
  return {
    plans: plans.toSorted((a, b) => Number(b.default) - Number(a.default)),
    caseSets: Object.entries(cases.sets).map(([name, shapes]) => create(CaseSetSchema, { name, shapes: [...shapes] })),
  };
}
