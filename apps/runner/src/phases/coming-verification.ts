import { randomBytes } from 'node:crypto';
import type { Shape } from '@flashcore/shared/contract';
import {
  caseFlops,
  checkShape,
  planLaunches,
  sameShape,
  valuesOf,
  type Probes,
  type Problem,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { SeededInput } from '../../worker/messages/launchable.ts';
import type { PreparedCase } from '../../worker/messages/verifying.ts';
import { affordedInputs, takesShape } from '../spec/drawn-shapes.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import type { VariantServices } from './job-services.ts';

/** What a verification will run, in order. */
export interface ComingVerification {
  inputs: SeededInput[];
  cases: PreparedCase[];
}

/** Every shape that a verification may launch. */
export const verifiedShapes = (services: VariantServices, spec: VerifySpec): Shape[] => [
  ...spec.shapes,
  ...(spec.probes ? probesOf(services, spec, '').map(({ shape }) => shape) : []),
  ...drawnShapes(services, spec),
];

/** Draws the seeds of a verification before the kernel is built. */
export function comingVerification(services: VariantServices, spec: VerifySpec): ComingVerification {
  const { kernel } = services.spec;
  const inputs = drawSeeds(services, spec);
  const cases = smallestFirst(services, spec)
    .filter((shape) => checkShape(kernel.manifest, services.resolved, shape) === undefined)
    .map((shape) => ({ shape, inputs }));
  const probes = spec.probes ? probesOf(services, spec, inputs[0]!.seed) : [];
  const drawn = drawnShapes(services, spec).map((shape) => ({ shape, inputs: drawnInputs(services, spec) }));
  return {
    inputs,
    cases: [...probes, ...cases, ...drawn].map((each) => ({
      kind: planLaunches(kernel.manifest, services.resolved, each.shape),
      inputs: each.inputs,
    })),
  };
}

export function smallestFirst({ spec: { kernel } }: VariantServices, { shapes }: VerifySpec): Shape[] {
  const { problem } = kernel.manifest;
  return shapes.toSorted((a, b) => caseFlops(problem, a) - caseFlops(problem, b));
}

interface Probe {
  shape: Shape;
  inputs: SeededInput[];
}

/**
 * Chooses probe shapes: for each combination of attributes (for attention, without a mask and with one), the first
 * shape that the kernel takes. Each runs on every distribution that reveals a known mistake. Then follow the timed
 * shapes, on as many of these as the run affords, and long probes on request.
 */
export function probesOf(
  { resolved, cases: { probes }, spec: { kernel, device } }: VariantServices,
  { longProbes, timedShapes }: VerifySpec,
  seed: string,
): Probe[] {
  const { manifest } = kernel;
  const taken = ({ shapes, distributions }: Pick<Probes, 'shapes' | 'distributions'>): Probe[] => {
    const inputs = distributions.map((rule) => ({ seed, rule }));
    const firsts = new Map<string, Shape>();
    for (const shape of shapes) {
      const attributes = attributesText(manifest.problem, shape);
      if (!firsts.has(attributes) && checkShape(manifest, resolved, shape) === undefined) firsts.set(attributes, shape);
    }
    return inputs.length > 0 ? [...firsts.values()].map((shape) => ({ shape, inputs })) : [];
  };
  const usual = taken(probes);
  if (usual.length === 0) return longProbes ? taken(probes.long) : [];
  const timed = timedShapes.flatMap((shape): Probe[] => {
    const isTaken = checkShape(manifest, resolved, shape) === undefined;
    if (!isTaken || usual.some((probe) => sameShape(probe.shape, shape))) return [];
    const rules = rotated(probes.distributions, seed).slice(0, affordedInputs(manifest.problem, device, shape));
    return rules.length > 0 ? [{ shape, inputs: rules.map((rule) => ({ seed, rule })) }] : [];
  });
  return [...usual, ...timed, ...(longProbes ? taken(probes.long) : [])];
}

/** The values, beginning at one that the seed decides. */
function rotated<Value>(values: readonly Value[], seed: string): Value[] {
  const first = Number(BigInt(`0x${seed || '0'}`) % BigInt(Math.max(1, values.length)));
  return [...values.slice(first), ...values.slice(0, first)];
}

function attributesText({ attributes }: Problem, shape: Shape): string {
  const values = valuesOf(shape);
  return attributes.map(({ name }) => entryOf(values, name) ?? '').join();
}

/** The drawn shapes that the running variant takes: its limits may be narrower than those of the requested one. */
export const drawnShapes = ({ spec: { kernel }, resolved, cases }: VariantServices, { drawn }: VerifySpec): Shape[] =>
  drawn?.shapes.filter((shape) => takesShape({ manifest: kernel.manifest, resolved, cases }, shape)) ?? [];

/** N(0, 1), and the next distribution. */
export const drawnInputs = (services: VariantServices, { drawn }: VerifySpec): SeededInput[] =>
  drawn ? drawSeeds(services, { seeds: [...drawn.seeds], seedCount: 0 }) : [];

/**
 * The first input is N(0, 1); the next ones use the other distributions of cases.yaml in turn. Seeds are drawn here,
 * where no kernel can know them, and are reported afterwards.
 */
export function drawSeeds(
  { cases }: VariantServices,
  { seeds, seedCount }: Pick<VerifySpec, 'seeds' | 'seedCount'>,
): SeededInput[] {
  const chosen = seeds.length > 0 ? seeds : Array.from({ length: seedCount }, () => randomBytes(8).toString('hex'));
  const names = [
    cases.defaults.distribution,
    ...Object.keys(cases.distributions).filter((name) => name !== cases.defaults.distribution),
  ];
  return chosen.map((seed, index) => ({ seed, rule: entryOf(cases.distributions, names[index % names.length]!)! }));
}
