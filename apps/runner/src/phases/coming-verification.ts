import { randomBytes } from 'node:crypto';
import type { Shape } from '@flashcore/shared/contract';
import {
  accumulateOf,
  caseFlops,
  checkShape,
  planLaunches,
  problemCase,
  sameShape,
  valuesOf,
  type Cases,
  type Distribution,
  type Manifest,
  type Problem,
  type ProblemCase,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { InputRule, SeededInput } from '../../worker/messages/launchable.ts';
import type { PreparedCase } from '../../worker/messages/verifying.ts';
import { namedDistribution } from '../spec/choose-shapes.ts';
import { affordedInputs, affordsNormalInput, affordsProbe, repeatedShape, takesShape } from '../spec/drawn-shapes.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import type { PlannedVariant, VariantServices } from './job-services.ts';

/** The runs of a coming verification, in order. */
export interface ComingVerification {
  inputs: SeededInput[];
  cases: PreparedCase[];
}

/** Every shape that a verification may launch. */
export const verifiedShapes = (services: PlannedVariant, spec: VerifySpec): Shape[] => [
  ...spec.shapes,
  ...(spec.probes ? [...probeShapes(services, spec).flat(), ...longShapes(services, spec).flat()] : []),
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
  const drawn = drawnShapes(services, spec).map((shape) => ({ shape, inputs: drawnInputs(services, spec, shape) }));
  const prepared = (all: readonly Probe[], reportPlain: boolean): PreparedCase[] =>
    all.map((each) => {
      const kind = planLaunches(kernel.manifest, services.resolved, each.shape);
      return { kind, inputs: inputsOn(services, kind, each), reportPlain };
    });
  return { inputs, cases: [...prepared(probes, false), ...prepared(cases, true), ...prepared(drawn, false)] };
}

export function smallestFirst({ spec: { kernel } }: VariantServices, { shapes }: VerifySpec): Shape[] {
  const { problem } = kernel.manifest;
  return shapes.toSorted((a, b) => caseFlops(problem, a) - caseFlops(problem, b));
}

export interface Probe {
  shape: Shape;
  inputs: readonly SeededInput[];
}

/** The inputs on a shape; on a large shape, the probes' inputs repeat those of a smaller case. */
export function inputsOn(
  variant: Pick<PlannedVariant, 'spec' | 'cases'>,
  kind: Pick<ProblemCase, 'dtype' | 'tensors'>,
  { shape, inputs }: Probe,
): SeededInput[] {
  const repeats = repeatedCase(variant, kind, shape);
  if (!repeats) return [...inputs];
  const rules = new Set(variant.cases.probes.distributions.map(({ name }) => name));
  return inputs.map((input) => (rules.has(input.rule.name) ? { ...input, repeats } : input));
}

/** The smaller case whose tensors the probes' inputs repeat on a large shape; undefined if the shape is not large. */
export function repeatedCase(
  { spec: { kernel } }: Pick<PlannedVariant, 'spec'>,
  { dtype, tensors }: Pick<ProblemCase, 'dtype' | 'tensors'>,
  shape: Shape,
): ProblemCase | undefined {
  const { problem } = kernel.manifest;
  const smaller = repeatedShape(problem, shape);
  return smaller && problemCase(problem, valuesOf(smaller), dtype, new Set(tensors.map(({ name }) => name)));
}

/**
 * The probes of a run. Each distribution that reveals a known mistake runs on one shape of every combination of
 * attributes, and on every width in at least one of these shapes; the seed decides which width meets which combination.
 * Then follow the timed shapes, on as many of these distributions as the run affords, and long probes on request.
 */
export function probesOf(variant: PlannedVariant, spec: VerifySpec, seed: string): Probe[] {
  const {
    resolved,
    cases: { distributions, probes },
    spec: { kernel, device },
  } = variant;
  const { manifest } = kernel;
  const rules = probeRules(variant);
  const usual = spread(probeShapes(variant, spec), rules, seed);
  const timed = spec.timedShapes.flatMap((shape): Probe[] => {
    const isTaken = checkShape(manifest, resolved, shape) === undefined;
    if (!isTaken || usual.some((probe) => sameShape(probe.shape, shape))) return [];
    const inputs = [
      ...(affordsNormalInput(manifest.problem, device, shape) ? normalRules(distributions).slice(0, 1) : []),
      ...rotated(rules, seed).slice(0, affordedInputs(manifest.problem, device, shape)),
    ];
    return inputs.length > 0 ? [{ shape, inputs: inputs.map((rule) => ({ seed, rule })) }] : [];
  });
  return [...usual, ...timed, ...spread(longShapes(variant, spec), probes.long.distributions, seed)];
}

/**
 * The shapes of probes for each combination of attributes, such as with and without a mask: of the probes' shapes that
 * the kernel takes, the first of each width. If it takes none of a combination, the smallest other shape of the run.
 */
function probeShapes(variant: PlannedVariant, spec: VerifySpec): Shape[][] {
  const {
    cases: { probes },
    spec: { kernel },
  } = variant;
  const { problem } = kernel.manifest;
  const attributes = new Set(probes.shapes.map((shape) => attributesText(problem, shape)));
  const others = [...spec.shapes, ...spec.timedShapes, ...drawnShapes(variant, spec)].toSorted(
    (a, b) => caseFlops(problem, a) - caseFlops(problem, b),
  );
  const own = shapesByAttributes(variant, probes.shapes);
  const found = new Set(own.map(([shape]) => attributesText(problem, shape!)));
  const alike = others.filter((shape) => {
    const text = attributesText(problem, shape);
    return attributes.has(text) && !found.has(text);
  });
  const all = [...own, ...shapesByAttributes(variant, alike).map((shapes) => shapes.slice(0, 1))];
  return all.length > 0
    ? all
    : shapesByAttributes(variant, others)
        .slice(0, 1)
        .map((shapes) => shapes.slice(0, 1));
}

const longShapes = (variant: PlannedVariant, { longProbes }: VerifySpec): Shape[][] =>
  longProbes ? shapesByAttributes(variant, variant.cases.probes.long.shapes) : [];

/** Groups the shapes that the kernel takes by their attributes; of each width, the first. */
function shapesByAttributes(
  { resolved, spec: { kernel } }: Pick<PlannedVariant, 'resolved' | 'spec'>,
  shapes: readonly Shape[],
): Shape[][] {
  const { manifest } = kernel;
  const groups = new Map<string, Map<string, Shape>>();
  for (const shape of shapes) {
    if (checkShape(manifest, resolved, shape) !== undefined) continue;
    const attributes = attributesText(manifest.problem, shape);
    const group = groups.get(attributes) ?? new Map<string, Shape>();
    groups.set(attributes, group);
    const widths = widthsText(manifest.problem, shape);
    if (!group.has(widths)) group.set(widths, shape);
  }
  return [...groups.values()].map((group) => [...group.values()]);
}

/** Spreads distributions over groups of shapes: each meets one shape of every group and, in turn, all widths. */
function spread(groups: readonly (readonly Shape[])[], rules: readonly InputRule[], seed: string): Probe[] {
  const turns = groups.length === 0 ? 0 : Math.max(groups.length, ...groups.map((group) => group.length));
  const first = offsetOf(seed, turns);
  const chosen = new Map(groups.flat().map((shape) => [shape, new Set<InputRule>()]));
  for (let turn = 0; turn < turns; turn += 1) {
    const group = groups[turn % groups.length]!;
    for (const [index, rule] of rules.entries()) chosen.get(group[(first + turn + index) % group.length]!)!.add(rule);
  }
  return [...chosen].flatMap(([shape, own]) => {
    const inputs = rules.filter((rule) => own.has(rule)).map((rule) => ({ seed, rule }));
    return inputs.length > 0 ? [{ shape, inputs }] : [];
  });
}

/** The probes' distributions for a kernel. Where sums are in fp16, partial sums may not exceed its largest number. */
export function probeRules({
  cases: { probes },
  spec: {
    kernel: { manifest },
  },
  resolved,
}: Pick<PlannedVariant, 'resolved'> & {
  cases: Pick<Cases, 'probes'>;
  spec: { kernel: { manifest: Manifest } };
}): Distribution[] {
  const sums = accumulateOf(manifest, resolved.parameters);
  return probes.distributions.filter((rule) => rule.sums === undefined || rule.sums === sums);
}

/** Distributions that scale N(0, 1), the largest logits first, so N(0, 1) itself comes last. */
export const normalRules = (distributions: Readonly<Record<string, Distribution>>): Distribution[] =>
  Object.values(distributions)
    .filter(({ q, k, v }) => [q, k, v].every((kind) => kind === 'normal'))
    .toSorted((a, b) => b.logitScale - a.logitScale);

/** Rotates the values, so that they begin at one that the seed selects. */
function rotated<Value>(values: readonly Value[], seed: string): Value[] {
  const first = offsetOf(seed, values.length);
  return [...values.slice(first), ...values.slice(0, first)];
}

/** A number below `count` that depends on the seed, a hexadecimal number; 0 without one. */
const offsetOf = (seed: string, count: number): number =>
  Number(BigInt(`0x${seed || '0'}`) % BigInt(Math.max(1, count)));

function attributesText({ attributes }: Problem, shape: Shape): string {
  const values = valuesOf(shape);
  return attributes.map(({ name }) => entryOf(values, name) ?? '').join();
}

function widthsText({ axes }: Problem, shape: Shape): string {
  const values = valuesOf(shape);
  return axes
    .filter(({ draw }) => draw === 'width')
    .map(({ name }) => entryOf(values, name) ?? '')
    .join();
}

/** Kept for each variant, because evaluating a kernel's limits on all drawn shapes takes 20 ms. */
const takenByVariant = new WeakMap<ResolvedVariant, { of: VerifySpec['drawn']; shapes: Shape[] }>();

/** The drawn shapes that the running variant takes: its limits may be narrower than those of the requested variant. */
export function drawnShapes({ spec: { kernel }, resolved, cases }: PlannedVariant, { drawn }: VerifySpec): Shape[] {
  const known = takenByVariant.get(resolved);
  if (known && known.of === drawn) return known.shapes;
  const { manifest } = kernel;
  const shapes = drawn?.shapes.filter((shape) => takesShape({ manifest, resolved, cases }, shape)) ?? [];
  takenByVariant.set(resolved, { of: drawn, shapes });
  return shapes;
}

/**
 * The inputs of a drawn shape: its share of the probes' distributions and N(0, 1), then the run's other seeds. The
 * drawn shapes divide the distributions among themselves, so that each run tries all of them; otherwise a kernel could
 * be wrong on these distributions everywhere except on the probes' own, known shapes. If drawing them would take too
 * long for a shape, it gets only N(0, 1).
 */
export function drawnInputs(services: VariantServices, { drawn }: VerifySpec, shape: Shape): SeededInput[] {
  if (!drawn) return [];
  const [normal, ...others] = drawSeeds(services, { seeds: [...drawn.seeds], seedCount: 0 });
  const { problem } = services.spec.kernel.manifest;
  const { device } = services.spec;
  const probed = drawn.shapes.filter((each) => affordsProbe(problem, device, each));
  const rules = rotated([...probeRules(services), normal!.rule], normal!.seed);
  const place = probed.findIndex((each) => sameShape(each, shape));
  if (place < 0) return [normal!, ...others];
  const turns = Math.max(probed.length, rules.length);
  const own = Array.from({ length: turns }, (_, turn) => rules[turn % rules.length]!).filter(
    (_, turn) => turn % probed.length === place,
  );
  const far = rules.filter(
    ({ name }) => name === FAR && hasFarSoftcap(shape) && own.every((rule) => rule.name !== name),
  );
  return [...[...own, ...far].map((rule) => ({ seed: normal!.seed, rule })), ...others];
}

/** A softcap changes logits of its own size. Only this distribution has logits beyond the hundreds. */
const FAR = 'far_steps';
const FAR_SOFTCAP = 100;
const hasFarSoftcap = (shape: Shape): boolean => (entryOf(valuesOf(shape), 'softcap') ?? 0) >= FAR_SOFTCAP;

/** The --seed that repeats an input. It names the distribution unless the input's position implies it. */
export const seedText = (services: VariantServices, { seed, rule }: SeededInput, index: number): string =>
  ruleOfSeed(services, seed, index).name === rule.name ? seed : `${seed}@${rule.name}`;

/**
 * The first input is N(0, 1); the next ones use the other distributions of cases.yaml in turn, unless a seed names one:
 * 5c0e@max_last. Seeds are drawn here, where no kernel can know them, and are reported afterwards.
 */
export function drawSeeds(
  services: Pick<VariantServices, 'cases'>,
  { seeds, seedCount }: Pick<VerifySpec, 'seeds' | 'seedCount'>,
): SeededInput[] {
  const chosen = seeds.length > 0 ? seeds : Array.from({ length: seedCount }, () => randomBytes(8).toString('hex'));
  return chosen.map((seed, index) => ({ seed: seed.split('@')[0]!, rule: ruleOfSeed(services, seed, index) }));
}

function ruleOfSeed({ cases }: Pick<VariantServices, 'cases'>, seed: string, index: number): SeededInput['rule'] {
  const { distribution } = cases.defaults;
  const names = [distribution, ...Object.keys(cases.distributions).filter((name) => name !== distribution)];
  return namedDistribution(cases, seed.split('@')[1] ?? names[index % names.length]!)!;
}
