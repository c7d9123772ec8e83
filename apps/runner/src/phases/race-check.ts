import { FindingKind, Verdict, type CaseResult, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { DeviceImage, SeededInput } from '../../worker/messages/launchable.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { candidateFor } from './candidate.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { emitLog, emitWarning, type VariantServices } from './job-services.ts';

/** The module with the race hooks, or why there is none. */
type InstrumentedBuild = Promise<{ image: DeviceImage | undefined } | { error: unknown }>;

/**
 * Compiles the module with the race hooks while the cases run; settles without rejecting, for its user may come late.
 */
export function startInstrumentedBuild({ tools, build, job }: VariantServices): InstrumentedBuild {
  return tools.kernels.buildInstrumented(build, { signal: job.signal }).then(
    (image) => ({ image }),
    (error: unknown) => ({ error }),
  );
}

/**
 * What the hooks that every memory access goes through find; they may also find what the plain module hides, a
 * misaligned scalar access for one.
 */
const TOLD: readonly FindingKind[] = [
  FindingKind.RACE,
  FindingKind.UNINITIALISED_READ,
  FindingKind.MISALIGNED_ADDRESS,
  FindingKind.OUT_OF_BOUNDS,
];

/** Whether a run that looks for races is fast enough for every case. */
export const watchesEveryCase = ({ tools }: Pick<VariantServices, 'tools'>): boolean =>
  tools.emulation().engine === 'ptx';

/** A verification whose cases have their first input watched in passing, until one of them faults. */
export interface Watching {
  image: DeviceImage | undefined;
  /** How these runs ended. */
  outcomes: Map<Shape, WorkerOutcome<unknown>>;
}

/**
 * Whether a watched run ended for another reason than one that it ends for when nobody watches: a deadlock, say, or a
 * process that died.
 */
export function endedByWatching(outcome: WorkerOutcome<unknown>, shape: Shape): boolean {
  if (outcome.status === 'done' || outcome.status === 'crashed') return false;
  const kind = findingOf(outcome, shape)?.kind;
  return outcome.status !== 'fault' || kind === undefined || TOLD.includes(kind);
}

export async function watchFirstInputs(instrumented: InstrumentedBuild): Promise<Watching> {
  const built = await instrumented;
  return { image: 'image' in built ? built.image : undefined, outcomes: new Map() };
}

interface RaceCheckOptions {
  instrumented: InstrumentedBuild;
  /** Tried in this order, up to the first finding. */
  shapes: readonly Shape[];
  input: SeededInput;
  /** How runs ended that were watched already. */
  watched?: ReadonlyMap<Shape, WorkerOutcome<unknown>> | undefined;
}

/** Runs cases on the emulator with every access to memory watched. */
export async function checkRaces(services: VariantServices, options: RaceCheckOptions): Promise<Finding[]> {
  const { job, runtime } = services;
  const built = await options.instrumented;
  if ('error' in built) throw built.error;
  const { shapes, input, watched } = options;
  if (!built.image && shapes.length > 0)
    emitWarning(job, 'Data races were not looked for: the instrumented module does not compile');
  if (!built.image) return [];
  for (const shape of shapes) {
    const candidate = candidateFor(services, { image: built.image, shape, instrumented: true });
    const outcome =
      watched?.get(shape) ?? (await runtime.request({ type: 'run-once', candidate, input }, { signal: job.signal }));
    const finding = findingOf(outcome, shape);
    if (finding && TOLD.includes(finding.kind)) return [finding];
    if (outcome.status === 'done') continue;
    emitWarning(
      job,
      `Data races were not looked for on ${formatShape(shape)}: ${finding?.message ?? 'the instrumented run failed'}`,
    );
    return [];
  }
  if (shapes.length > 0)
    emitLog(
      job,
      'runner',
      `race check on ${shapes.map(formatShape).join(', ')}: every access to ${watchesEveryCase(services) ? 'memory' : 'shared memory'} watched, no race found`,
    );
  return [];
}

/** The smallest shape that fails, else the smallest that ran; undefined when a fault already says what is wrong. */
export function raceShape(results: readonly CaseResult[]): Shape | undefined {
  const ran = results.filter(({ verdict }) => verdict !== Verdict.NOT_MEASURED);
  if (ran.some(({ verdict, elements }) => verdict === Verdict.FAIL && elements === 0n)) return undefined;
  return (ran.find(({ verdict }) => verdict === Verdict.FAIL) ?? ran[0])?.shape;
}

/** Every shape that ran, the one that says most first; only that one where watching is slow. */
export function raceShapes(results: readonly CaseResult[], all: boolean): Shape[] {
  const first = raceShape(results);
  if (!first) return [];
  const others = results.flatMap(({ verdict, shape }) =>
    all && shape && shape !== first && verdict !== Verdict.NOT_MEASURED ? [shape] : [],
  );
  return [first, ...others];
}
