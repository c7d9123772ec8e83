import {
  Phase,
  Verdict,
  type Finding,
  type Shape,
  type VerifyResult,
  FindingKind,
  VerifyResultSchema,
  type CaseResult,
} from '@flashcore/shared/contract';
import { checkShape, formatShape, type Manifest, type ManifestArgument } from '@flashcore/shared/kernels';
import { create } from '@bufbuild/protobuf';
import type { DeviceImage, SeededInput } from '../../worker/messages/launchable.ts';
import { IS_LIKE, SEE_THE_MAP, TOO_LARGE, TO_REPEAT, distinctFindings } from '../findings/verify-findings.ts';
import { inputsThatHide, whatFails } from '../findings/what-fails.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import { notRun, type CaseRun } from './case-judgement.ts';
import { runCase, runProbes, type ProbeProgress } from './case-runs.ts';
import { drawSeeds, drawnShapes, probesOf, smallestFirst } from './coming-verification.ts';
import { runDrawn } from './drawn-runs.ts';
import type { JobFound } from './job-found.ts';
import { emitFindings, startPhase, type VariantServices } from './job-services.ts';
import type { VariantPhase } from './phase.ts';
import {
  checkRaces,
  raceShape,
  raceShapes,
  startInstrumentedBuild,
  watchesEveryCase,
  watchFirstInputs,
} from './race-check.ts';
import { sanitize } from './sanitize.ts';

/** Compares the output with the reference, case by case. */
export const verifyPhase: VariantPhase = {
  phase: Phase.VERIFY,
  wants: ({ spec }, { build }) => spec.verify !== undefined && build?.image !== undefined,
  async run(services, found) {
    const { job, result, build, judging } = found;
    const { method, verify } = services.spec;
    const verification = await runVerify(services, {
      spec: verify!,
      image: build!.image!,
      inputs: found.inputs,
      races: method === 'verify' || method === 'runExperiment',
      onSeeds: (seeds) => noteSeeds(job, seeds),
      onCase: (soFar) => {
        result.verify = soFar;
        judging?.look();
      },
    });
    result.verify = verification.result;
    result.findings.unshift(...verification.findings);
    return verification.passed ? undefined : 'verification failed';
  },
};

/** Seeds of a request are drawn once and used by every variant. */
export function noteSeeds({ seeds: used }: JobFound, seeds: readonly string[]): void {
  used.push(...seeds.filter((seed) => !used.includes(seed)));
}

export interface Verification {
  result: VerifyResult;
  findings: Finding[];
  passed: boolean;
}

interface VerifyOptions {
  spec: VerifySpec;
  /** The module that the device loads. */
  image: DeviceImage;
  /** Default: newly drawn inputs. */
  inputs?: readonly SeededInput[] | undefined;
  /** Whether to look for data races, too; only on the emulator. */
  races: boolean;
  /** Called with the seeds before the first case. */
  onSeeds: (seeds: readonly string[]) => void;
  /** Called after each case with the result so far. */
  onCase?: (soFar: VerifyResult) => void;
}

/**
 * Runs every case that the kernel takes, the smallest first, so that errors show early. The result has the cases in the
 * requested order.
 */
export async function runVerify(services: VariantServices, options: VerifyOptions): Promise<Verification> {
  const { job } = services;
  const { spec, image } = options;
  startPhase(services, Phase.VERIFY, spec.shapes.length);
  const instrumented = options.races && services.spec.device.simulated ? startInstrumentedBuild(services) : undefined;
  const inputs = options.inputs ?? drawSeeds(services, spec);
  options.onSeeds([...inputs.map(({ seed }) => seed), ...(spec.drawn?.seeds ?? [])]);
  const soFar = new VerificationSoFar(spec, inputs);
  const watching = instrumented && watchesEveryCase(services) ? await watchFirstInputs(instrumented) : undefined;
  const probes = spec.probes ? probesOf(services, spec, inputs[0]!.seed) : [];
  const progress: ProbeProgress = { done: 0, count: probes.length + drawnShapes(services, spec).length };
  for (const run of await runProbes(services, { spec, image, probes, progress })) soFar.addProbe(run);
  let unexplained = 0;
  for (const shape of smallestFirst(services, spec)) {
    const skipped = refusalOf(services, shape) ?? soFar.stopped;
    const run =
      skipped === undefined
        ? await runCase(services, {
            ...{ spec, image, shape, inputs, watching, probes: progress },
            // Only the first finding of a kind is reported, with the first explanation.
            explain:
              unexplained < MOST_UNEXPLAINED && soFar.findings.every(({ remedy }) => !remedy.startsWith(IS_LIKE)),
          })
        : notRun(shape, skipped);
    if (run.result.verdict === Verdict.FAIL) unexplained += 1;
    soFar.addCase(run, shape);
    if (soFar.findings.length > 0) progress.count = probes.length;
    job.emit({ case: 'caseResult', value: run.result });
    options.onCase?.(soFar.result());
  }
  // After a failed case the kernel is already wrong, so drawn shapes are skipped.
  if (soFar.findings.length === 0)
    for (const run of await runDrawn(services, { spec, image, progress })) soFar.addDrawn(run);
  const { cases } = soFar;
  const raced = instrumented
    ? await checkRaces(services, {
        instrumented,
        shapes: raceShapes(cases, watchesEveryCase(services)),
        input: inputs[0]!,
        watched: watching?.outcomes,
      })
    : [];
  const wrong = cases.find(({ verdict }) => verdict === Verdict.FAIL)?.shape;
  const sanitized = spec.sanitize ? await sanitize(services, { image, shape: wrong ?? raceShape(cases) }) : [];
  const distinct = distinctFindings([...raced, ...sanitized, ...soFar.findings]);
  const result = soFar.result();
  addLikeness(distinct, soFar.findings);
  // A race or a bad access explains wrong results better than the shapes do.
  if (raced.length + sanitized.length === 0) addWhatFails(services, distinct, result);
  emitFindings(services, distinct);
  job.emit({ case: 'verifyResult', value: result });
  return { result, findings: distinct, passed: distinct.length === 0 && result.passedCases > 0 };
}

/** Maximum failing cases whose mistake is searched for. A search may take a second of the host's time. */
const MOST_UNEXPLAINED = 2;

const WRONG_OUTPUT = [FindingKind.WRONG_RESULT, FindingKind.NAN_OUTPUT, FindingKind.UNWRITTEN_OUTPUT];

/** A mistake that explains a wrong output of a later shape explains the first, which was too large to compare. */
export function addLikeness(findings: readonly Finding[], all: readonly Finding[]): void {
  const like = all.find(({ kind, remedy }) => kind === FindingKind.WRONG_RESULT && remedy.startsWith(IS_LIKE));
  const finding = findings.find(({ kind }) => kind === FindingKind.WRONG_RESULT);
  if (like?.shape === undefined || finding?.remedy.startsWith(SEE_THE_MAP) !== true) return;
  const [mistake] = like.remedy.split(TO_REPEAT);
  const [, repeat] = finding.remedy.split(TO_REPEAT);
  finding.remedy = `On ${formatShape(like.shape)}: ${mistake}${repeat === undefined ? '' : `${TO_REPEAT}${repeat}`}`;
}

/**
 * Begins the remedy of the first wrong output with what all failing shapes share, and shows the line that reads it. If
 * they share nothing, with the inputs that hide the mistake.
 */
function addWhatFails(
  { frames, cases: { probes: rules }, spec: { kernel } }: VariantServices,
  findings: readonly Finding[],
  { cases, probes, drawn }: VerifyResult,
): void {
  const finding = findings.find(({ kind }) => WRONG_OUTPUT.includes(kind));
  if (finding === undefined) return;
  const found = whatFails(kernel.manifest.problem, { cases, probes: [...probes, ...drawn] });
  if (found === undefined) {
    const hiding = inputsThatHide([...probes, ...drawn]).map((name) => {
      const about = rules.distributions.find((rule) => rule.name === name)?.about;
      return about === undefined ? `"${name}"` : `"${name}" (${about})`;
    });
    if (hiding.length > 0)
      finding.remedy = `Right on ${hiding.length === 1 ? 'input' : 'inputs'} ${hiding.join(' and ')}, wrong on all other inputs: look at what these hide. ${finding.remedy}`;
    return;
  }
  const places = found.names.flatMap((name) =>
    frames.placesOfUse(kernel.manifest.source, [name, ...numbersFrom(kernel.manifest, name)]),
  );
  const last = places.at(-1);
  const at = last === undefined ? '' : ` (${last.file}:${places.map(({ line }) => line).join(', ')})`;
  const [said = '', repeat] = finding.remedy.split(TO_REPEAT);
  const smallerAt = said.indexOf(TOO_LARGE);
  const smaller = smallerAt < 0 ? '' : `. ${said.slice(smallerAt)}`;
  const end = repeat === undefined ? '' : `${TO_REPEAT}${repeat}`;
  const map = `${SEE_THE_MAP}${smaller}${end}${smaller === '' && end === '' ? '.' : ''}`;
  const rest = finding.remedy.startsWith(SEE_THE_MAP) ? map : finding.remedy;
  finding.remedy = `${found.text.charAt(0).toUpperCase()}${found.text.slice(1)}: look at ${found.lookAt}${at}. ${rest}`;
  if (last !== undefined) finding.frame ??= frames.frameAt(last);
}

/** The numbers that launches pass and that depend on an attribute, such as how far a mask's diagonal is moved. */
function numbersFrom({ problem, constants, launches }: Manifest, name: string): string[] {
  if (!problem.attributes.some((attribute) => attribute.name === name)) return [];
  const passed = launches.flatMap((launch) => launch.arguments.flatMap(namesIn));
  return constants
    .filter((each) => passed.includes(each.name) && each.value.names.includes(name))
    .map((each) => each.name);
}

function namesIn(argument: ManifestArgument): readonly string[] {
  if (argument.kind === 'struct') return argument.fields.flatMap(({ value }) => namesIn(value));
  return 'value' in argument ? argument.value.names : [];
}

/** Why the kernel does not take a shape; undefined if it does. */
function refusalOf({ spec: { kernel }, resolved }: VariantServices, shape: Shape): string | undefined {
  const refused = checkShape(kernel.manifest, resolved, shape);
  return refused && `the kernel does not take it: it requires ${refused.require}, because ${refused.because}`;
}

/**
 * A correct result without its error map: a run has some forty probes and drawn shapes, whose maps were more than half
 * of a stored job. A wrong result keeps its map, which shows where the output is wrong.
 */
function withoutMap(result: CaseResult): CaseResult {
  if (result.verdict !== Verdict.PASS) return result;
  for (const { errorMap } of [result, ...result.outputs])
    if (errorMap)
      Object.assign(errorMap, { rows: 0, columns: 0, maxAbsError: [], worstIndex: [], worstGot: [], worstWant: [] });
  return result;
}

/** Results of the probes and cases of a verification so far. */
class VerificationSoFar {
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
    this.#probes.push(withoutMap(run.result));
    this.#note(run, run.result.shape!);
  }

  addDrawn(run: CaseRun): void {
    this.#drawn.push(withoutMap(run.result));
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
