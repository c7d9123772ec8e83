import { FindingKind, Verdict, type CaseResult, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape } from '@flashcore/shared/kernels';
import type { DeviceImage, SeededInput } from '../../worker/messages/launchable.ts';
import type { WorkerOutcome } from '../workers/worker-process.ts';
import { candidateFor } from './candidate.ts';
import { onInputs } from './case-judgement.ts';
import { findingOf } from '../findings/fault-findings.ts';
import { emitLog, emitWarning, type VariantServices } from './job-services.ts';

/** The module with the race hooks, or why there is none. */
type InstrumentedBuild = Promise<{ image: DeviceImage | undefined } | { error: unknown }>;

/** Compiles the module with the race hooks while the cases run. Never rejects, because the result may be used late. */
export function startInstrumentedBuild({ tools, build, job }: VariantServices): InstrumentedBuild {
  return tools.kernels.buildInstrumented(build, { signal: job.signal }).then(
    (image) => ({ image }),
    (error: unknown) => ({ error }),
  );
}

/**
 * Findings of the hooks on memory accesses. The hooks may also find errors that the plain module hides, such as a
 * misaligned scalar access.
 */
const TOLD: readonly FindingKind[] = [
  FindingKind.RACE,
  FindingKind.UNINITIALISED_READ,
  FindingKind.MISALIGNED_ADDRESS,
  FindingKind.OUT_OF_BOUNDS,
];

/** Whether race checking is fast enough for every case. */
export const watchesEveryCase = ({ tools }: Pick<VariantServices, 'tools'>): boolean =>
  tools.emulation().engine === 'ptx';

/** A verification that also race-checks the first input of its cases, until one of them faults. */
export interface Watching {
  image: DeviceImage | undefined;
  /** How the watched runs ended. */
  outcomes: Map<Shape, WorkerOutcome<unknown>>;
}

/**
 * True if the run failed because of the race hooks, rather than for a reason that also ends unwatched runs, such as a
 * deadlock or a dead process.
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
  /** Tried in this order until the first finding. */
  shapes: readonly Shape[];
  input: SeededInput;
  /** Outcomes of runs that were already watched. */
  watched?: ReadonlyMap<Shape, WorkerOutcome<unknown>> | undefined;
}

/** Runs cases on the emulator with race hooks on every memory access. */
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
    if (finding && TOLD.includes(finding.kind)) return [onInputs(finding, [input])];
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

/** The smallest shape that fails, else the smallest that ran; undefined if a fault already shows the error. */
export function raceShape(results: readonly CaseResult[]): Shape | undefined {
  const ran = results.filter(({ verdict }) => verdict !== Verdict.NOT_MEASURED);
  if (ran.some(({ verdict, elements }) => verdict === Verdict.FAIL && elements === 0n)) return undefined;
  return (ran.find(({ verdict }) => verdict === Verdict.FAIL) ?? ran[0])?.shape;
}

/** Every shape that ran, the most informative first; if race checking is slow, only the first of these. */
export function raceShapes(results: readonly CaseResult[], all: boolean): Shape[] {
  const first = raceShape(results);
  if (!first) return [];
  const others = results.flatMap(({ verdict, shape }) =>
    all && shape && shape !== first && verdict !== Verdict.NOT_MEASURED ? [shape] : [],
  );
  return [first, ...others];
}
