/** Says what the shapes that a kernel fails on have in common, which often names the mistake. */
import { Verdict, type CaseResult, type Shape } from '@flashcore/shared/contract';
import { caseValues, formatShape, valuesOf, type CaseValues, type Problem } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';

export interface WhatFails {
  /** Text such as "all 3 shapes with causal=1 fail, the 6 others pass". */
  readonly text: string;
  /** The part of the kernel to check, for example "the mask". */
  readonly lookAt: string;
  /** The axis or attribute that makes the difference; several if neither suffices. */
  readonly names: readonly string[];
}

/**
 * Finds a property that only the failing shapes share, first among all shapes that ran, then among the cases; undefined
 * if nothing separates them from the passing ones. A failure that the inputs of a probe explain says nothing about its
 * shape.
 */
export function whatFails(
  problem: Problem,
  { cases, probes }: { cases: readonly CaseResult[]; probes: readonly CaseResult[] },
): WhatFails | undefined {
  const all = judgedShapes(problem, [...cases, ...probes]);
  const explained = probes.some((probe) => isExplainedByInputs(probe, probes));
  const found = explained || all === undefined ? undefined : separated(problem, all, 'shape');
  const ofCases = judgedShapes(problem, cases);
  return found ?? (ofCases && separated(problem, ofCases, 'case'));
}

/** At most this many inputs on which a kernel is right say something about its mistake. */
const MOST_RIGHT_INPUTS = 3;
/** On fewer, a mistake may have been missed by chance. */
const LEAST_WRONG_INPUTS = 4;

/**
 * The few kinds of inputs on which a kernel that fails on all others is right on every shape; empty if there are none.
 * They hide the mistake, as equal keys hide a wrong scale of logits.
 */
export function inputsThatHide(results: readonly CaseResult[]): string[] {
  const byName = new Map<string, Set<Verdict>>();
  for (const { distribution, verdict } of results.flatMap(({ inputs }) => inputs))
    byName.set(distribution, (byName.get(distribution) ?? new Set()).add(verdict));
  const only = (verdict: Verdict): string[] =>
    [...byName].filter(([, seen]) => seen.size === 1 && seen.has(verdict)).map(([name]) => name);
  const [right, wrong] = [only(Verdict.PASS), only(Verdict.FAIL)];
  const isClear = wrong.length >= LEAST_WRONG_INPUTS && right.length + wrong.length === byName.size;
  return isClear && right.length <= MOST_RIGHT_INPUTS ? right : [];
}

interface Judged {
  readonly values: CaseValues;
  readonly failed: boolean;
}

/** Undefined if a shape passes on some inputs and fails on others, so that it is not the shape that matters. */
function judgedShapes(problem: Problem, results: readonly CaseResult[]): Judged[] | undefined {
  const byShape = new Map<string, { shape: Shape; verdicts: Set<Verdict> }>();
  for (const { shape, verdict } of results) {
    if (shape === undefined || (verdict !== Verdict.PASS && verdict !== Verdict.FAIL)) continue;
    const known = byShape.get(formatShape(shape)) ?? { shape, verdicts: new Set() };
    byShape.set(formatShape(shape), known);
    known.verdicts.add(verdict);
  }
  const shapes = [...byShape.values()];
  if (shapes.some(({ verdicts }) => verdicts.size > 1)) return undefined;
  return shapes.map(({ shape, verdicts }) => ({
    values: caseValues(problem, valuesOf(shape)),
    failed: verdicts.has(Verdict.FAIL),
  }));
}

/** True if each input that the probe fails on fails on every probe that has it. */
function isExplainedByInputs(probe: CaseResult, probes: readonly CaseResult[]): boolean {
  const failed = probe.inputs.filter(({ verdict }) => verdict === Verdict.FAIL);
  return (
    failed.length > 0 &&
    failed.every(({ distribution }) =>
      probes
        .flatMap(({ inputs }) => inputs)
        .every((input) => input.distribution !== distribution || input.verdict === Verdict.FAIL),
    )
  );
}

interface Trait {
  readonly name: string;
  /** Text such as "causal=1" or "S not a multiple of 64". */
  readonly text: string;
  readonly lookAt: string;
  /** Whether a single shape with it is a hint; not so for extents, as every shape has some that no other has. */
  readonly isAttribute: boolean;
  readonly isRagged: boolean;
  readonly has: (values: CaseValues) => boolean;
}

/** Fewer passing shapes than this prove nothing. */
const LEAST_PASSING = 2;
const LEAST_FAILING_EXTENTS = 2;

function separated(problem: Problem, judged: readonly Judged[], noun: string): WhatFails | undefined {
  const failed = judged.filter((each) => each.failed).map(({ values }) => values);
  const passed = judged.filter((each) => !each.failed).map(({ values }) => values);
  if (failed.length === 0 || passed.length < LEAST_PASSING) return undefined;
  // No passing shape has any of these.
  const traits = traitsOf(problem, failed, passed).filter(({ has }) => !passed.some(has));
  const others = passed.length === judged.length ? '' : `, the ${passed.length} others pass`;
  const whole = traits.filter(
    ({ has, isAttribute }) => failed.every(has) && (isAttribute || failed.length >= LEAST_FAILING_EXTENTS),
  );
  const [first] = whole;
  if (first) {
    const both = [first, ...whole.filter(({ name, isAttribute }) => isAttribute && name !== first.name).slice(0, 1)];
    const text = both.map((trait) => trait.text).join(' and ');
    return {
      text: `${counted(failed.length, noun)} with ${text} ${failed.length === 1 ? 'fails' : 'fail'}${others}`,
      lookAt: first.lookAt,
      names: [first.name],
    };
  }
  for (const trait of traits.filter(({ isAttribute }) => isAttribute))
    for (const other of traits.filter(({ isRagged }) => isRagged))
      if (failed.some(trait.has) && failed.every((values) => trait.has(values) || other.has(values)))
        return {
          text: `every ${noun} with ${trait.text} and every ${noun} with ${other.text} fails${others}`,
          lookAt: trait.lookAt,
          names: [trait.name, other.name],
        };
  return undefined;
}

function counted(count: number, noun: string): string {
  if (count === 1) return `the only ${noun}`;
  return count === 2 ? `both ${noun}s` : `all ${count} ${noun}s`;
}

/** Tile extents, the largest first, as the largest says most about where a kernel works. */
const TILES = [256, 128, 64, 32, 16, 8, 4, 2];

const MASKS = ['causal', 'window'];

/** So many values of an attribute are named one by one. */
const FEW_VALUES = 3;

/** All that may tell failing shapes from passing ones, the most telling first. */
function traitsOf(
  { axes, attributes }: Problem,
  failed: readonly CaseValues[],
  passed: readonly CaseValues[],
): Trait[] {
  const of = (values: CaseValues, name: string): number => entryOf(values, name) ?? 0;
  const given = attributes.filter(({ value }) => value === undefined);
  const trait = (name: string, text: string, has: Trait['has'], more: Partial<Trait> = {}): Trait => ({
    ...{ name, text, has, isAttribute: false, isRagged: false, lookAt: `what the kernel does with ${name}` },
    ...more,
  });
  const set = given.map(({ name, default: fallback }) => {
    const seen = new Set(failed.map((values) => of(values, name)).filter((value) => value !== fallback));
    const values = [...seen].toSorted((a, b) => a - b).join(' or ');
    const text = seen.size > 0 && seen.size <= FEW_VALUES ? `${name}=${values}` : `${name} other than ${fallback}`;
    const lookAt = MASKS.includes(name) ? 'the mask' : `what the kernel does with ${name}`;
    return trait(name, text, (values) => of(values, name) !== fallback, { isAttribute: true, lookAt });
  });
  const unset = given.map(({ name, default: fallback }) =>
    trait(name, `${name}=${fallback}`, (values) => of(values, name) === fallback, { isAttribute: true }),
  );
  const unlike = axes.flatMap(({ name, default: fallback }) =>
    fallback !== undefined && axes.some((axis) => axis.name === fallback.text)
      ? [
          trait(
            name,
            `${name} other than ${fallback.text}`,
            (values) => of(values, name) !== of(values, fallback.text),
            {
              isAttribute: true,
            },
          ),
        ]
      : [],
  );
  // Kernels work in tiles along lengths and widths, and do the same for every index of a count.
  const tiled = axes.filter(({ draw }) => draw !== 'count' && draw !== 'divisor');
  const ragged = tiled.flatMap(({ name }) => {
    const tile = TILES.find((each) => passed.every((values) => of(values, name) % each === 0));
    return tile === undefined
      ? []
      : [
          trait(name, `${name} not a multiple of ${tile}`, (values) => of(values, name) % tile !== 0, {
            isRagged: true,
            lookAt: `the guards of the last tile along ${name}`,
          }),
        ];
  });
  const extents = tiled.flatMap(({ name }) => {
    const [least, most] = [Math.min, Math.max].map((choose) => choose(...failed.map((values) => of(values, name)))) as [
      number,
      number,
    ];
    return least === most
      ? [trait(name, `${name}=${least}`, (values) => of(values, name) === least)]
      : [
          trait(name, `${name} of ${least} or more`, (values) => of(values, name) >= least),
          trait(name, `${name} of ${most} or less`, (values) => of(values, name) <= most),
        ];
  });
  return [...set, ...unlike, ...unset, ...ragged, ...extents];
}
