import { FindingKind, Verdict, type Shape } from '@flashcore/shared/contract';
import {
  formatShape,
  sameShape,
  type CaseValues,
  type Problem,
  scopeOfShape,
  shapeOf,
  valuesOf,
} from '@flashcore/shared/kernels';
import { entryOf, withoutEntry } from '@flashcore/shared/text';
import type { DeviceImage, SeededInput } from '../../worker/messages/launchable.ts';
import { TO_REPEAT } from '../findings/verify-findings.ts';
import { takesShape } from '../spec/drawn-shapes.ts';
import type { VerifySpec } from '../spec/job-spec.ts';
import type { CaseRun } from './case-judgement.ts';
import { emitProbe, runOnce, type ProbeProgress } from './case-runs.ts';
import { drawnInputs, drawnShapes, seedText } from './coming-verification.ts';
import type { VariantServices } from './job-services.ts';

interface DrawnOptions {
  spec: VerifySpec;
  image: DeviceImage;
  progress: ProbeProgress;
}

/**
 * Runs the drawn shapes, the smallest first, until one fails; then searches for the smallest failing shape. That
 * shape's run comes last and has the findings.
 */
export async function runDrawn(services: VariantServices, { spec, image, progress }: DrawnOptions): Promise<CaseRun[]> {
  const runs: CaseRun[] = [];
  for (const shape of drawnShapes(services, spec)) {
    const inputs = drawnInputs(services, spec, shape);
    emitProbe(services, { spec, shape, progress });
    progress.done += 1;
    const run = await runShape(services, { spec, image, inputs, shape, explain: false });
    runs.push(run);
    if (run.findings.length > 0) return [...runs, ...(await shrunk(services, { spec, image, inputs, run }))];
  }
  return runs;
}

interface OnInputs extends Omit<DrawnOptions, 'progress'> {
  inputs: readonly SeededInput[];
}

async function runShape(
  services: VariantServices,
  options: OnInputs & { shape: Shape; explain: boolean },
): Promise<CaseRun> {
  // On the emulator a second run would take as long again, and reads beyond a tensor fault there anyway.
  const run = await runOnce(services, { ...options, checkDeterminism: !services.spec.device.simulated });
  run.result.drawn = true;
  return run;
}

/** The run of the smallest failing shape, if that is a different shape; its findings replace those of `run`. */
async function shrunk(
  services: VariantServices,
  { spec, image, inputs, run }: OnInputs & { run: CaseRun },
): Promise<CaseRun[]> {
  const { kernel, device } = services.spec;
  const from = run.result.shape!;
  const found = new Map<string, CaseRun>([[formatShape(from), run]]);
  // A launch that never ends would use its whole time limit at each try.
  const smallest = run.findings.some(({ kind }) => kind === FindingKind.TIMED_OUT)
    ? from
    : await smallestFailing(from, {
        problem: kernel.manifest.problem,
        takes: (shape) =>
          takesShape({ manifest: kernel.manifest, resolved: services.resolved, cases: services.cases }, shape),
        fails: async (shape) => {
          const tried = await runShape(services, { spec, image, inputs, shape, explain: false });
          found.set(formatShape(shape), tried);
          return tried.result.verdict === Verdict.FAIL;
        },
      });
  const name = formatShape(smallest);
  const last = await explained(services, { spec, image, inputs, shape: smallest, run: found.get(name)! });
  const isFirst = sameShape(smallest, from);
  const origin = isFirst ? 'drawn for this run' : `found from ${formatShape(from)}`;
  const seeds = inputs.map((input, index) => `--seed ${seedText(services, input, index)}`).join(' ');
  const repeat = `fa-tui verify ${kernel.kernelId} --device ${device.deviceId} --shape ${name} ${seeds}`;
  for (const finding of last.findings) {
    const said = finding.message.startsWith(name)
      ? finding.message.slice(name.length).replace(/^:? /, '')
      : finding.message;
    finding.message = `smallest failing shape ${name} (${origin}): ${said}`;
    finding.remedy = `${finding.remedy}${TO_REPEAT}${repeat}`.replace(/^\. /, '');
  }
  // Only the smallest shape reports the findings.
  run.findings.splice(0, run.findings.length, ...(isFirst ? last.findings : []));
  if (isFirst) return [];
  last.result.foundFrom = from;
  return [last];
}

/**
 * Runs the smallest failing shape again, and finds what its wrong output resembles: too slow for every shape of the
 * search, because it may take a second. Returns `run` if no output was wrong, or if the kernel is right this time.
 */
async function explained(
  services: VariantServices,
  { run, ...options }: OnInputs & { shape: Shape; run: CaseRun },
): Promise<CaseRun> {
  if (!run.findings.some(({ kind }) => kind === FindingKind.WRONG_RESULT)) return run;
  const again = await runShape(services, { ...options, explain: true });
  return again.findings.length > 0 ? again : run;
}

/** Limit of launches in the search for a smaller shape: a binary search over a length of 2^14 takes 15. */
const MOST_TRIES = 48;

interface Shrinking {
  problem: Problem;
  /** Whether the kernel's limits allow a shape. */
  takes: (shape: Shape) => boolean;
  /** Whether the kernel is wrong on a shape. */
  fails: (shape: Shape) => Promise<boolean>;
}

/**
 * Finds the smallest failing shape. Optional axes and attributes are set to their defaults if the kernel still fails;
 * then each axis is set to 1, or else to the smallest failing extent; then attributes are tried again. The same answers
 * always give the same tries.
 */
export async function smallestFailing(from: Shape, { problem, takes, fails }: Shrinking): Promise<Shape> {
  let smallest = from;
  let tries = 0;
  const tried = new Set([formatShape(from)]);
  const failsAt = async (shape: Shape): Promise<boolean> => {
    if (tries >= MOST_TRIES || tried.has(formatShape(shape))) return false;
    tried.add(formatShape(shape));
    tries += 1;
    if (!(await fails(shape))) return false;
    smallest = shape;
    return true;
  };
  const leaveOut = async (name: string): Promise<void> => {
    const values = valuesOf(smallest);
    const rest = withoutEntry(values, name);
    if (Object.hasOwn(values, name) && takes(shapeOf(rest))) await failsAt(shapeOf(rest));
  };
  const shrink = async (axis: string): Promise<void> => {
    const extentOf = (shape: Shape): number => entryOf(scopeOfShape(problem, shape), axis)!;
    const at = (extent: number): Shape => shapeOf({ ...valuesOf(smallest), [axis]: extent } satisfies CaseValues);
    /** The first extent from `least` up to `end` (exclusive) that the kernel takes. */
    const firstTaken = (least: number, end: number): Shape | undefined => {
      for (let extent = least; extent < end; extent += 1) {
        const shape = at(extent);
        if (takes(shape)) return shape;
      }
      return undefined;
    };
    const one = firstTaken(1, extentOf(smallest));
    if (one === undefined || (await failsAt(one))) return;
    let passes = extentOf(one);
    while (extentOf(smallest) - passes > 1 && tries < MOST_TRIES) {
      const middle = Math.floor((passes + extentOf(smallest)) / 2);
      const next = firstTaken(middle, extentOf(smallest)) ?? firstTaken(passes + 1, middle);
      if (next === undefined) return;
      if (!(await failsAt(next))) passes = extentOf(next);
    }
  };
  const optional = problem.axes.filter((axis) => axis.default).map(({ name }) => name);
  const attributes = problem.attributes.map(({ name }) => name);
  for (const name of [...optional, ...attributes.toReversed()]) await leaveOut(name);
  for (const { name } of problem.axes) if (Object.hasOwn(valuesOf(smallest), name)) await shrink(name);
  for (const name of attributes.toReversed()) await leaveOut(name);
  return smallest;
}
