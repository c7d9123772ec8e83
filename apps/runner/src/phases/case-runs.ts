import { create } from '@bufbuild/protobuf';
import { Verdict, InputResultSchema, VerifyProgressSchema, type Shape } from '@flashcore/shared/contract';
import { caseFlops, formatShape, problemCase, tensorElements, valuesOf } from '@flashcore/shared/kernels';
import type { WorkerNotice } from '../../worker/messages/channel.ts';
import type { Candidate, DeviceImage, SeededInput } from '../../worker/messages/launchable.ts';
import type { CaseReport, VerifyRequest } from '../../worker/messages/verifying.ts';
import { MAX_COMPARED_ELEMENTS, SdpaParity } from '../sdpa/sdpa-parity.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import { whyNotSdpa } from '../spec/sdpa-spec.ts';
import { candidateFor, judgementRules } from './candidate.ts';
import { judge, type CaseRun } from './case-judgement.ts';
import { inputsOn, type Probe } from './coming-verification.ts';
import type { VariantServices } from './job-services.ts';
import { endedByWatching, type Watching } from './race-check.ts';

interface CaseOptions {
  spec: VerifySpec;
  image: DeviceImage;
  shape: Shape;
  inputs: readonly SeededInput[];
  watching: Watching | undefined;
  probes: ProbeProgress;
  /** Whether to find what a wrong output resembles. */
  explain: boolean;
}

/** How many probes and drawn shapes of a verification have ended, and how many will run. */
export interface ProbeProgress {
  done: number;
  count: number;
}

export async function runCase(services: VariantServices, options: CaseOptions): Promise<CaseRun> {
  const { job, runtime } = services;
  const { spec, image, shape, inputs, watching, probes, explain } = options;
  const candidate = candidateFor(services, { image, shape });
  const parity = openParity(services, shape);
  const rules = await judgementRules(services, spec);
  const progress = {
    caseIndex: spec.shapes.indexOf(shape),
    caseCount: spec.shapes.length,
    seedCount: inputs.length,
    shape,
    probesDone: probes.done,
    probeCount: probes.count,
  };
  let seed = 0;
  const verify = (watched?: Candidate) =>
    runtime.request(
      {
        type: 'verify',
        candidate,
        watched,
        inputs: inputsOn(services, candidate.plan, { shape, inputs }),
        ...rules,
        checkDeterminism: isCheapTwice(services, shape),
        reportPlain: true,
        likeMutantsOf: explain ? mutantsFor(services) : undefined,
        tellOutputs: 'missing' in parity ? 0 : comparedInputs(services, inputs),
      },
      {
        signal: job.signal,
        onNotice: (notice) => {
          if (notice.type === 'output' && !('missing' in parity)) parity.add(notice.output);
          if (notice.type === 'seed') seed = notice.index;
          else if (notice.type !== 'launch') return;
          const launch = notice.type === 'launch' ? launchProgress(notice) : {};
          const value = create(VerifyProgressSchema, { ...progress, seedIndex: seed, ...launch });
          job.emit({ case: 'verifyProgress', value });
        },
      },
    );
  const watched = watching?.image
    ? candidateFor(services, { image: watching.image, shape, instrumented: true })
    : undefined;
  let outcome = await verify(watched);
  if (watching && watched) {
    const ended = seed === 0 && endedByWatching(outcome, shape);
    watching.outcomes.set(shape, ended ? outcome : { status: 'done', value: null });
    if (ended) {
      // The case runs again without the hooks, because the kernel may behave differently without them. Later cases also
      // run without them.
      watching.image = undefined;
      outcome = await verify();
    }
  }
  const run = judge(outcome, {
    shape,
    plan: candidate.plan,
    ...rules,
    tolerance: spec.tolerance,
    inputs,
    lastInput: seed,
    device: services.spec.device,
  });
  if (!('missing' in parity)) Object.assign(run.result, await parity.results());
  else if (parity.missing !== undefined) run.result.sdpaMissing = parity.missing;
  return run;
}

/** The forecast takes it that further blocks take as long as those that have begun. */
const launchProgress = ({ blocksBegun, blocks, seconds }: Extract<WorkerNotice, { type: 'launch' }>) => ({
  blocksBegun: BigInt(blocksBegun),
  blocks: BigInt(blocks),
  secondsLeft: blocksBegun > 0 ? (seconds * (blocks - blocksBegun)) / blocksBegun : 0,
});

/** On the emulator larger cases run only once, because a second run would take as long as the first. */
const SIMULATED_TWICE_FLOPS = 3e8;

function isCheapTwice({ spec: { device, kernel } }: VariantServices, shape: Shape): boolean {
  return !device.simulated || caseFlops(kernel.manifest.problem, shape) <= SIMULATED_TWICE_FLOPS;
}

function mutantsFor({ spec: { kernel } }: VariantServices): VerifyRequest['likeMutantsOf'] {
  const { problem } = kernel.manifest;
  return problem.mutants.length > 0 ? problem : undefined;
}

interface ProbeOptions {
  spec: VerifySpec;
  image: DeviceImage;
  probes: readonly Probe[];
  progress: ProbeProgress;
}

/** Reports that a probe or a drawn shape runs. */
export const emitProbe = ({ job }: VariantServices, { spec, shape, progress }: RunningProbe): void =>
  job.emit({
    case: 'verifyProgress',
    value: create(VerifyProgressSchema, {
      caseCount: spec.shapes.length,
      shape,
      probesDone: progress.done,
      probeCount: progress.count,
    }),
  });

interface RunningProbe {
  spec: VerifySpec;
  shape: Shape;
  progress: ProbeProgress;
}

/**
 * Runs probes until one does not finish. Drawn shapes no longer count once there is a finding, because they are then
 * skipped.
 */
export async function runProbes(
  services: VariantServices,
  { spec, image, probes, progress }: ProbeOptions,
): Promise<CaseRun[]> {
  const runs: CaseRun[] = [];
  for (const { shape, inputs } of probes) {
    if (runs.some(({ ends }) => ends)) break;
    emitProbe(services, { spec, shape, progress });
    progress.done += 1;
    const run = await runOnce(services, { spec, image, shape, inputs, checkDeterminism: true, explain: true });
    runs.push(run);
    if (run.findings.length > 0) progress.count = probes.length;
  }
  return runs;
}

interface OnceOptions extends Omit<CaseOptions, 'watching' | 'probes'> {
  checkDeterminism: boolean;
}

/** Runs a shape on all inputs, each judged by itself. */
export async function runOnce(services: VariantServices, options: OnceOptions): Promise<CaseRun> {
  const { job, runtime } = services;
  const { spec, image, shape, inputs, checkDeterminism, explain } = options;
  const candidate = candidateFor(services, { image, shape });
  const rules = await judgementRules(services, spec);
  let lastInput = 0;
  const outcome = await runtime.request(
    {
      type: 'verify',
      candidate,
      inputs: inputsOn(services, candidate.plan, { shape, inputs }),
      ...rules,
      checkDeterminism,
      allInputs: true,
      reportPlain: false,
      likeMutantsOf: explain ? mutantsFor(services) : undefined,
      tellOutputs: 0,
    },
    {
      signal: job.signal,
      onNotice: (notice) => {
        if (notice.type === 'seed') lastInput = notice.index;
      },
    },
  );
  const run = judge(outcome, {
    shape,
    plan: candidate.plan,
    ...rules,
    tolerance: spec.tolerance,
    inputs,
    lastInput,
    device: services.spec.device,
  });
  return outcome.status === 'done' ? withInputs(run, { shape, inputs, found: outcome.value.inputs }) : run;
}

interface ProbedInputs {
  shape: Shape;
  inputs: readonly SeededInput[];
  found: CaseReport['inputs'];
}

/** Records the findings of each input; their texts name the inputs on which the kernel was wrong. */
export function withInputs(run: CaseRun, { shape, inputs, found }: ProbedInputs): CaseRun {
  run.result.inputs = inputs.map(({ rule }, index) =>
    create(InputResultSchema, {
      distribution: rule.name,
      verdict: found[index]!.failed ? Verdict.FAIL : Verdict.PASS,
      maxAbsError: found[index]!.maxAbsError,
      roundingRatio: found[index]!.roundingRatio,
    }),
  );
  const failed = inputs.filter((_, index) => found[index]!.failed).map(({ rule }) => rule.name);
  const names = inputsText(failed, inputs.length);
  for (const finding of run.findings)
    finding.message = finding.message.replace(formatShape(shape), `${formatShape(shape)} on ${names}`);
  return run;
}

const MOST_NAMED = 3;

/** Names the inputs while they are few; view 2 lists them all. */
function inputsText(failed: readonly string[], count: number): string {
  if (failed.length > 1 && failed.length === count) return `all ${count} inputs`;
  if (failed.length > MOST_NAMED) return `${failed.length} of ${count} inputs, first "${failed[0]}"`;
  return `${failed.length === 1 ? 'input' : 'inputs'} ${failed.map((name) => `"${name}"`).join(', ')}`;
}

/**
 * Compares a case's outputs with PyTorch's SDPA, or says why that is impossible. Undefined for problems other than
 * attention, which SDPA does not compute.
 */
function openParity(
  { job, runtime, spec, resolved }: VariantServices,
  shape: Shape,
): SdpaParity | { missing: string | undefined } {
  const { sdpa, sdpaMissing, dataDirectory } = runtime.instruments;
  const { problem } = spec.kernel.manifest;
  const kind = problemCase(problem, valuesOf(shape), resolved.dtype);
  if (kind.operation !== 'attention') return { missing: undefined };
  if (!sdpa) return { missing: sdpaMissing };
  const missing = whyNotSdpa(problem, shape, resolved.dtype);
  if (missing !== undefined) return { missing };
  const elements = tensorElements(problem, shape);
  if (elements > MAX_COMPARED_ELEMENTS)
    return {
      missing: `tensors of ${elements} elements; up to ${MAX_COMPARED_ELEMENTS} are compared with SDPA`,
    };
  return new SdpaParity(sdpa, { kind, signal: job.signal, dataDirectory });
}

/**
 * Number of inputs compared with SDPA. An experiment compares only each case's first input, N(0, 1), because a user
 * waits for it at every save of a source. A verification compares all.
 */
function comparedInputs({ spec }: VariantServices, inputs: readonly SeededInput[]): number {
  return spec.method === 'verify' ? inputs.length : 1;
}
