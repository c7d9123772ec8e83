import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  CaseSetSchema,
  FlashcoreError,
  ToleranceSchema,
  type CaseSet,
  type GatePlan,
} from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, readForeignText } from '@flashcore/shared/files';
import {
  DEFAULT_PROBLEM,
  attention,
  casesSource,
  installedProblem,
  parseCases,
  parseGates,
  planMessage,
  plannedGates,
  undecided,
  type Cases,
  type GatesFile,
  type Plan,
  type Problem,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Judging, RankedCases } from '../jobs/job-context.ts';
import type { Logger } from '../log.ts';
import type { GatesText } from '../spec/judged-by.ts';
import { digestOfRules } from '../spec/ranked-run.ts';

/** How many files are kept in parsed form. */
const MAX_PARSED = 64;

interface JudgingParts {
  heldOutShapes: number;
  digest: (judgedWith: { cases: Cases; gates: GatesText }) => string;
  logger: Logger;
}

interface ReadFile<Value> {
  text: string;
  /** The file's path in error messages. */
  path: string;
  parse: (text: string, path: string) => Value;
  /** The problem that the file is parsed for. If the problem changes, the file is parsed again. */
  of?: Problem;
}

/** The last parsed values by file name, shared by the runners of a process. A changed text is parsed again. */
const parsed = new Map<string, { text: string; of: Problem | undefined; value: unknown }>();

/** cases.yaml and gates.yaml. They are parsed again when they have changed, so that an edit takes effect at once. */
export class KernelSettings {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The cases of a problem. Attention's are in the kernels folder, where the runner's owner edits them; any other
   * problem's are next to its problem.yaml. Errors: INVALID_MANIFEST.
   */
  cases(problem = attention()): Cases {
    if (problem.id === DEFAULT_PROBLEM) return this.#read('cases.yaml', (text, path) => parseCases(text, path));
    const parse = (text: string, path: string): Cases => parseCases(text, path, problem);
    return this.#parse(`problems/${problem.id}`, { ...casesSource(problem), parse, of: problem });
  }

  gates(): GatesText {
    return this.#read('gates.yaml', (text, path) => ({ text, file: parseGates(text, path) }));
  }

  /** Errors: INVALID_MANIFEST. */
  rankedCases(problem: string): RankedCases {
    const cases = this.cases(installedProblem(problem));
    return { canonicalShape: cases.sets.canonical[0]!, caseSets: caseSetsOf(cases) };
  }

  /** Digest of the current rules of a plan for a problem. Errors: INVALID_MANIFEST. */
  rulesDigest(plan: string, problem: string): string {
    const installed = installedProblem(problem);
    return digestOfRules({
      gates: this.gates().text,
      plan,
      casesDigest: this.cases(installed).digest,
      problem: installed,
    });
  }

  /** The plans, the default one first, and the case sets; none if a file can't be read. */
  judging({ heldOutShapes, digest, logger }: JudgingParts): Judging {
    try {
      const [gates, cases] = [this.gates(), this.cases()];
      return { ...judgingOf(gates.file, cases), heldOutShapes, judgingDigest: digest({ cases, gates }) };
    } catch (error) {
      // An error in an edited file must not prevent the description of the host; it is reported when an experiment
      // starts.
      if (!(error instanceof FlashcoreError)) throw error;
      logger.warn({ reason: error.reason, message: error.message }, 'plans and case sets cannot be read');
      return { plans: [], caseSets: [], tolerances: [], heldOutShapes, judgingDigest: '' };
    }
  }

  #read<Value>(name: string, parse: (text: string, path: string) => Value): Value {
    const text = readForeignText(join(this.#folder, name), HAND_WRITTEN_BYTES);
    return this.#parse(name, { text, path: `kernels/${name}`, parse });
  }

  #parse<Value>(key: string, { text, path, parse, of }: ReadFile<Value>): Value {
    const known = parsed.get(key);
    if (known?.text === text && known.of === of) return known.value as Value;
    const value = parse(text, path);
    // Clients can send any number of problems, each with its own id.
    if (parsed.size >= MAX_PARSED) parsed.clear();
    parsed.set(key, { text, of, value });
    return value;
  }
}

const caseSetsOf = ({ sets, weights }: Cases): CaseSet[] =>
  Object.entries(sets).map(([name, shapes]) =>
    create(CaseSetSchema, { name, shapes: [...shapes], weights: [...entryOf(weights, name)!] }),
  );

function judgingOf(file: GatesFile, cases: Cases): Pick<Judging, 'plans' | 'caseSets' | 'tolerances'> {
  const ofPlan = (plan: Plan): GatePlan => {
    const isDefault = plan.name === file.defaultPlan;
    const gates = plannedGates(file, { plan, own: [], arch: '' });
    return planMessage(plan, gates.map(undecided), { isDefault });
  };
  const plans = [...file.plans.values()].map(ofPlan);
  const isDefault = (name: string): boolean => name === cases.defaults.tolerance;
  return {
    plans: plans.toSorted((a, b) => Number(b.default) - Number(a.default)),
    caseSets: caseSetsOf(cases),
    tolerances: Object.entries(cases.tolerances)
      .toSorted(([a], [b]) => Number(isDefault(b)) - Number(isDefault(a)))
      .map(
        ([
          profile,
          {
            fp16: { atol: absolute, rtol: relative },
          },
        ]) => create(ToleranceSchema, { profile, absolute, relative }),
      ),
  };
}
