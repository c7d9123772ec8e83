import { join } from 'node:path';
import type { Shape } from '@flashcore/shared/contract';
import { problemCase, toleranceOfOutput, valuesOf, type LaunchPlan } from '@flashcore/shared/kernels';
import type { TimingModeName } from '../../worker/messages/measuring.ts';
import type { JudgementRules } from '../../worker/messages/verifying.ts';
import type { SdpaShape } from '../sdpa/sdpa-shape.ts';
import type { BenchmarkSpec } from '../spec/job-spec.ts';
import { makeTemporary } from '../store/temporary.ts';
import { whyNotSdpa } from '../spec/sdpa-spec.ts';
import type { VariantServices } from './job-services.ts';
import type { LiveSamples } from './live-samples.ts';

export type SdpaTurns = SdpaShape | { missing: string };

interface TimedShape {
  spec: BenchmarkSpec;
  shape: Shape;
  live: LiveSamples;
  plan: LaunchPlan;
  rules: JudgementRules;
}

/**
 * The rivals that are timed in turns with the candidate on a shape: SDPA, prepared before the candidate runs, or the
 * rivals that the request names. Rivals are prepared in the first turn, because they are checked on an input that the
 * worker draws.
 */
export class RivalTurns implements Disposable {
  #turns: SdpaTurns;
  readonly #prepare: ((path: string) => Promise<SdpaTurns>) | undefined;
  readonly #folder: ReturnType<typeof makeTemporary> | undefined;
  #prepared = false;

  private constructor(turns: SdpaTurns, services?: VariantServices, prepare?: (path: string) => Promise<SdpaTurns>) {
    this.#turns = turns;
    this.#prepare = prepare;
    this.#folder = services && makeTemporary(services.runtime.instruments.workerFolder(), 'rivals');
  }

  /** Errors: the job's signal's reason. */
  static async open(services: VariantServices, { spec, shape, live, plan, rules }: TimedShape): Promise<RivalTurns> {
    const { job, runtime, resolved } = services;
    const { sdpa, sdpaMissing } = runtime.instruments;
    const { problem } = services.spec.kernel.manifest;
    const names = spec.rivals;
    const missing = names.length > 0 ? undefined : whyNotSdpa(problem, shape, resolved.dtype);
    if (missing !== undefined) return new RivalTurns({ missing });
    if (!sdpa) return new RivalTurns({ missing: sdpaMissing });
    const options = {
      modes: spec.modes,
      keeping: { job: job.name, reuse: spec.reuseSdpa },
      signal: job.signal,
      onSamples: (mode: TimingModeName, subject: string, samplesUs: readonly number[]) =>
        live.add({ mode, subject, samplesUs, warmUp: false }),
    };
    if (names.length === 0) {
      const kind = problemCase(problem, valuesOf(shape), resolved.dtype);
      return new RivalTurns(await sdpa.openShape(kind, { ...options, backends: spec.sdpaBackends }));
    }
    const tolerances = Object.fromEntries(
      plan.tensors.flatMap(({ name, direction, dtype, tolerance }) =>
        direction === 'in' || dtype === 'int32' ? [] : [[name, toleranceOfOutput({ dtype, tolerance }, rules)]],
      ),
    );
    return new RivalTurns({ missing: 'the rivals had no turn' }, services, (path) =>
      sdpa.openShape(plan, { ...options, rivals: { names, drawn: { path, tolerances } } }),
    );
  }

  get sdpa(): SdpaTurns {
    return this.#turns;
  }

  /** Whether the worker has to stop between its samples, so that SDPA or a rival gets its turns. */
  get takesTurns(): boolean {
    return this.#prepare !== undefined || 'turn' in this.#turns;
  }

  /** The file that the worker has to write before the first turn; undefined if none is needed. */
  get drawnFile(): string | undefined {
    return this.#folder && join(this.#folder.path, 'drawn');
  }

  /** Errors: the job's signal's reason. */
  async turn(mode: TimingModeName): Promise<void> {
    if (this.#prepare && !this.#prepared) {
      this.#prepared = true;
      this.#turns = await this.#prepare(this.drawnFile!);
    } else if ('turn' in this.#turns) await this.#turns.turn(mode);
  }

  [Symbol.dispose](): void {
    this.#folder?.[Symbol.dispose]();
  }
}
