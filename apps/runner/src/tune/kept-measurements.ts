import {
  FindingKind,
  ShapeComparisonSchema,
  Verdict,
  VerifyResultSchema,
  allProbes,
  type CaseResult,
  type Shape,
  type ShapeComparison,
  type VerifyResult,
  type Device,
} from '@flashcore/shared/contract';
import { formatShape, type Cases } from '@flashcore/shared/kernels';
import type { Emulation } from '../build/emulation.ts';
import { compareShape } from '../phases/comparison-phase.ts';
import type { JobServices } from '../phases/job-services.ts';
import { runVerify, type Verification } from '../phases/verify-phase.ts';
import { INPUTS_VERSION, PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import type { MeasuredSteps, StepKey } from '../store/measured-steps.ts';
import type { Contender } from './contender.ts';

const RACE_SECONDS = 3;

interface KeptMeasurementsOptions {
  readonly services: JobServices;
  readonly steps: MeasuredSteps;
  /** Whether to measure everything again, ignoring earlier measurements. */
  readonly remeasure: boolean;
  readonly onSeeds: (seeds: readonly string[]) => void;
}

/** Measurements of contenders. Earlier measurements, including those of an interrupted job, are reused. */
export class KeptMeasurements {
  readonly #options: KeptMeasurementsOptions;

  constructor(options: KeptMeasurementsOptions) {
    this.#options = options;
  }

  /** Verifies a built contender, and drops it if it is wrong. */
  async verify(contender: Contender): Promise<void> {
    const { row } = contender;
    const { spec } = this.#options.services;
    const verify = spec.verify!;
    const of = [
      row.buildId!,
      verify.seedCount,
      INPUTS_VERSION,
      `${verify.probes} ${verify.longProbes}`,
      ...verify.shapes.map(formatShape),
    ];
    const key = this.#key(['verify', ...of]);
    const known = this.#known(VerifyResultSchema, key);
    const { result, findings, passed } = known
      ? { result: known, findings: [], passed: !firstWrong(known) && known.passedCases > 0 }
      : await this.#verifyNow(contender, key);
    contender.verify = result;
    row.reused ||= known !== undefined;
    row.verified = passed ? Verdict.PASS : Verdict.FAIL;
    const wrong = firstWrong(result);
    if (wrong) row.dropped = `wrong on ${formatShape(wrong.shape!)}: ${wrong.reason}`;
    else if (!passed)
      row.dropped = findings[0]
        ? `${FindingKind[findings[0].kind]}: ${findings[0].message}`
        : 'it takes none of the cases';
  }

  async #verifyNow({ services, build }: Contender, key: StepKey): Promise<Verification> {
    const verification = await runVerify(services, {
      spec: services.spec.verify!,
      image: build!.image!,
      races: services.spec.device.simulated,
      onSeeds: this.#options.onSeeds,
    });
    // Not kept if the only fault is a race: races are in the findings, so the kept result would say that the variant is
    // correct.
    if (verification.passed || firstWrong(verification.result))
      this.#options.steps.keep(VerifyResultSchema, key, verification.result);
    return verification;
  }

  /** Times leader and contender in interleaved blocks; undefined if one of them failed. */
  async compare(
    leader: Contender,
    contender: Contender,
    { shape, samples }: { shape: Shape; samples: number },
  ): Promise<ShapeComparison | undefined> {
    const key = this.#key(['compare', leader.row.buildId!, contender.row.buildId!, formatShape(shape), samples]);
    const known = this.#known(ShapeComparisonSchema, key);
    if (known) {
      contender.row.reused = true;
      return known;
    }
    const { benchmark } = this.#options.services.spec;
    const sampling = {
      ...benchmark!.protocol.sampling,
      minSamples: samples,
      maxSamples: samples,
      maxSeconds: RACE_SECONDS,
      samplesAsked: true,
    };
    const { shapes } = await compareShape(contender.services, leader.services, {
      champion: leader.build!.image!,
      candidate: contender.build!.image!,
      spec: { ...benchmark!, protocol: { ...benchmark!.protocol, sampling } },
      modes: ['hot'],
      onSeeds: this.#options.onSeeds,
      shape,
    });
    const [comparison] = shapes;
    if (comparison) this.#options.steps.keep(ShapeComparisonSchema, key, comparison);
    return comparison;
  }

  #known<Schema extends typeof VerifyResultSchema | typeof ShapeComparisonSchema>(schema: Schema, key: StepKey) {
    return this.#options.remeasure ? undefined : this.#options.steps.find(schema, key);
  }

  #key(of: StepKey): StepKey {
    const { spec, cases, tools } = this.#options.services;
    return stepKey(of, { device: spec.device, cases, emulation: () => tools.emulation() });
  }
}

/** The first wrong probe or case. */
const firstWrong = (verify: VerifyResult): CaseResult | undefined =>
  [...allProbes(verify), ...verify.cases].find(({ verdict }) => verdict === Verdict.FAIL);

/** Everything that a search's measurements depend on, apart from their subjects. */
export interface MeasuredOn {
  readonly device: Pick<Device, 'name' | 'driverVersion' | 'kernelDriverVersion' | 'simulated'>;
  /** The cases determine the inputs and the correct outputs. */
  readonly cases: Pick<Cases, 'digest'>;
  readonly emulation: () => Pick<Emulation, 'engine'>;
}

/** The key that a measurement is kept under. */
export function stepKey(of: StepKey, { device, cases, emulation }: MeasuredOn): StepKey {
  const { name, driverVersion, kernelDriverVersion, simulated } = device;
  return [
    ...of,
    cases.digest,
    name,
    driverVersion,
    kernelDriverVersion,
    simulated ? emulation().engine : undefined,
    PROTOCOL_VERSION,
  ];
}
