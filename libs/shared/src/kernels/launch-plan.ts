/**
 * Turns a manifest, a variant and a shape into the driver's launch data: grid, block, shared memory, arguments,
 * workspaces.
 */
import { FlashcoreError } from '../contract/errors.ts';
import { type Fill, fillOf } from '../data/dtype.ts';
import { type Expression, evaluate } from '../data/expression.ts';
import {
  BLOCK_LIMITS,
  CLUSTER_LIMITS,
  GRID_LIMITS,
  INT32,
  MAX_THREADS_PER_CTA,
  MAX_WORKSPACE_BYTES,
  type Swizzle,
} from './launch-limits.ts';
import {
  type Manifest,
  type ManifestArgument,
  type ManifestLaunch,
  type NumberOf,
  type PlainManifestArgument,
  type StructField,
  type TensorName,
  argumentBytes,
} from './manifest-model.ts';
import { accumulateOf, inputsOf, launchOfVariant, layoutsOf, valueOf, wrongValue } from './manifest-value.ts';
import { type ProblemCase, problemCase } from '../problems/case-values.ts';
import { type ShapeFields, formatShape, scopeOfShape, valuesOf } from './shape.ts';
import type { ResolvedVariant } from './variant.ts';
import { entryOf, setEntry } from '../text/entry-of.ts';

export interface LaunchPlan extends ProblemCase {
  launches: PlannedLaunch[];
  /** The dtype in which the kernel says that it accumulates. */
  accumulate: 'fp16' | 'fp32';
  workspace: PlannedWorkspace[];
  /** Initial values of outputs before each run, by name; undefined if the kernel does not read them. */
  initialOutputs?: Readonly<Record<TensorName, Fill>>;
}

interface PlannedWorkspace {
  name: string;
  bytes: number;
  /** Initial value before each run of the launches; undefined: any value. */
  initial?: Fill;
}

export interface PlannedLaunch {
  entry: string;
  grid: [number, number, number];
  block: [number, number, number];
  /** Dynamic shared memory in bytes. */
  sharedBytes: number;
  cluster?: [number, number, number];
  cooperative?: true;
  /** Whether the launch may start before the previous launch of the plan has ended. */
  programmatic?: true;
  l2Persist: TensorName[];
  arguments: PlannedArgument[];
}

export type PlainArgument =
  /** A null pointer if the case has no such tensor. */
  | { kind: 'tensor'; tensor: TensorName }
  | { kind: 'workspace'; name: string }
  | { kind: 'null' }
  | NumberOf<number>
  | { kind: 'tensorMap'; tensor: TensorName; box: number[]; swizzle: Swizzle };

export type PlannedArgument =
  PlainArgument | { kind: 'struct'; bytes: number; fields: readonly StructField<PlainArgument>[] };

/** Arguments, with each struct replaced by its fields. */
const plainArguments = <Plain extends { kind: string }>(
  written: readonly (Plain | { kind: 'struct'; fields: readonly StructField<Plain>[] })[],
): Plain[] => written.flatMap((each) => ('fields' in each ? each.fields.map(({ value }) => value) : [each]));

type Scope = Record<string, number>;

/**
 * The first limit of the manifest that the shape violates, with its reason; undefined if the kernel takes the shape.
 */
export function checkShape(
  manifest: Manifest,
  resolved: Pick<ResolvedVariant, 'parameters'>,
  shape: ShapeFields,
): { require: string; because: string } | undefined {
  return refusal(manifest, scopeOf(manifest, resolved, shape));
}

function refusal(manifest: Manifest, scope: Scope): { require: string; because: string } | undefined {
  const unknown = unknownTo(manifest, scope);
  if (unknown) return unknown;
  const refused = manifest.limits.findIndex(
    ({ require }, index) => valueOf(manifest, require, scope, `limits[${index}].require`) === 0,
  );
  return refused < 0
    ? undefined
    : { require: manifest.limits[refused]!.require.text, because: manifest.limits[refused]!.because };
}

/**
 * Refuses cases that set an optional axis or attribute which the manifest never uses. Without this check, a new axis of
 * a problem would make existing kernels wrong.
 */
function unknownTo({ problem, uses }: Manifest, scope: Scope): { require: string; because: string } | undefined {
  const defaults = [
    ...problem.defaults.map(({ name, default: fallback }) => ({
      name,
      is: fallback.text,
      value: evaluate(fallback, scope),
    })),
    ...problem.attributes
      .filter(({ value }) => value === undefined)
      .map(({ name, default: fallback }) => ({ name, is: String(fallback), value: fallback })),
  ];
  const other = defaults.find(({ name, value }) => !uses.has(name) && entryOf(scope, name) !== value);
  return other && { require: `${other.name} == ${other.is}`, because: `its kernel.yaml does not use ${other.name}` };
}

/** Throws SHAPE_UNSUPPORTED with metadata `limit` for a shape that checkShape refuses. */
export function requireShape(
  manifest: Manifest,
  resolved: Pick<ResolvedVariant, 'parameters'>,
  shape: ShapeFields,
): void {
  const refused = checkShape(manifest, resolved, shape);
  if (refused) throw unsupported(manifest, shape, refused);
}

const unsupported = (
  { id }: Manifest,
  shape: ShapeFields,
  { require, because }: { require: string; because: string },
) =>
  new FlashcoreError(
    'SHAPE_UNSUPPORTED',
    { kernel: id, shape: formatShape(shape), limit: require },
    `${id} does not take ${formatShape(shape)}: it requires ${require}, because ${because}`,
  );

/**
 * The launches for a shape, in order. Errors: SHAPE_UNSUPPORTED by the manifest's limits or CUDA's grid limits;
 * INVALID_MANIFEST if an expression gives an unusable value.
 */
export function planLaunches(
  manifest: Manifest,
  resolved: Pick<ResolvedVariant, 'parameters'>,
  shape: ShapeFields,
): LaunchPlan {
  const scope = scopeOf(manifest, resolved, shape);
  const refused = refusal(manifest, scope);
  if (refused) throw unsupported(manifest, shape, refused);
  return planned(manifest, resolved, { shape, scope });
}

/** Like planLaunches(), but undefined if the manifest's limits refuse the shape. */
export function planIfTaken(
  manifest: Manifest,
  resolved: Pick<ResolvedVariant, 'parameters'>,
  shape: ShapeFields,
): LaunchPlan | undefined {
  const scope = scopeOf(manifest, resolved, shape);
  return refusal(manifest, scope) ? undefined : planned(manifest, resolved, { shape, scope });
}

function planned(
  manifest: Manifest,
  resolved: Pick<ResolvedVariant, 'parameters'>,
  { shape, scope }: { shape: ShapeFields; scope: Scope },
): LaunchPlan {
  const launches = manifest.launches
    .filter((launch) => holds(manifest, launch.when, scope, `${launch.key}.when`))
    .map((launch) => planLaunch(manifest, launchOfVariant(manifest, launch, resolved.parameters), scope, shape))
    .map((launch, index) => (index === 0 ? withoutEarlyStart(launch) : launch));
  if (launches.length === 0)
    throw wrongValue(
      manifest,
      'launches',
      `must have at least one launch for ${formatShape(shape)}, but every \`when\` is false`,
    );
  const workspace = manifest.workspace.map(({ name, bytes, initial }) => ({
    name,
    bytes: integer(manifest, bytes, scope, { key: `workspace.${name}`, least: 0, most: MAX_WORKSPACE_BYTES }),
    ...(initial && { initial }),
  }));
  const dtype = inputsOf(manifest, resolved.parameters);
  const { initialOutput } = manifest;
  const declared = launches.flatMap((launch) =>
    plainArguments<PlainArgument>(launch.arguments).flatMap((each) => ('tensor' in each ? [each.tensor] : [])),
  );
  const computed = problemCase(manifest.problem, valuesOf(shape), dtype, new Set(declared));
  const outputs = computed.tensors.filter(({ direction }) => direction === 'out');
  const layouts = new Map(layoutsOf(manifest, resolved.parameters).map(({ tensor, order }) => [tensor, order]));
  return {
    ...computed,
    tensors: computed.tensors.map((tensor) => {
      const layout = layouts.get(tensor.name);
      return layout ? { ...tensor, layout } : tensor;
    }),
    launches,
    accumulate: accumulateOf(manifest, resolved.parameters),
    workspace,
    ...(initialOutput !== undefined && {
      initialOutputs: Object.fromEntries(outputs.map((output) => [output.name, fillOf(initialOutput, output.dtype)])),
    }),
  };
}

/** The first launch waits for everything before it: the flush of a sample, and the sample before. */
const withoutEarlyStart = ({ programmatic: _, ...launch }: PlannedLaunch): PlannedLaunch => launch;

function planLaunch(manifest: Manifest, launch: ManifestLaunch, scope: Scope, shape: ShapeFields): PlannedLaunch {
  const { key } = launch;
  const three = (expressions: readonly Expression[], name: string, limits: readonly number[]) =>
    expressions.map((expression, axis) =>
      integer(manifest, expression, scope, { key: `${key}.${name}[${axis}]`, least: 1, most: limits[axis]! }),
    ) as [number, number, number];
  const block = three(launch.block, 'block', BLOCK_LIMITS);
  const threads = product(block);
  if (threads > MAX_THREADS_PER_CTA)
    throw wrongValue(
      manifest,
      `${key}.block`,
      `must have at most ${MAX_THREADS_PER_CTA} threads a CTA, got ${threads}`,
    );
  const cluster = launch.cluster && three(launch.cluster, 'cluster', CLUSTER_LIMITS);
  const grid = three(launch.grid, 'grid', [Infinity, Infinity, Infinity]);
  const over = grid.findIndex((extent, axis) => extent > GRID_LIMITS[axis]!);
  if (over >= 0) {
    const limit = `grid.${'xyz'[over]} <= ${GRID_LIMITS[over]}`;
    throw new FlashcoreError(
      'SHAPE_UNSUPPORTED',
      { kernel: manifest.id, shape: formatShape(shape), limit },
      `${manifest.id} does not take ${formatShape(shape)}: ${launch.entry} would need ${grid[over]} CTAs along ${'xyz'[over]}, and CUDA allows ${GRID_LIMITS[over]}`,
    );
  }
  const uneven = cluster?.findIndex((extent, axis) => grid[axis]! % extent !== 0) ?? -1;
  if (uneven >= 0)
    throw wrongValue(
      manifest,
      `${key}.cluster[${uneven}]`,
      `must be a divisor of the grid's ${grid[uneven]} CTAs along ${'xyz'[uneven]} for ${formatShape(shape)}, got ${cluster![uneven]}`,
    );
  return {
    entry: launch.entry,
    grid,
    block,
    sharedBytes: integer(manifest, launch.sharedBytes, scope, {
      key: `${key}.shared_bytes`,
      least: 0,
      most: INT32.most,
    }),
    ...(cluster && { cluster }),
    ...(launch.cooperative && { cooperative: true }),
    ...(launch.programmatic && { programmatic: true }),
    l2Persist: holds(manifest, launch.l2Persist.when, scope, `${key}.l2_persist.when`)
      ? [...launch.l2Persist.tensors]
      : [],
    arguments: launch.arguments.map((argument, index) =>
      planArgument(manifest, argument, scope, `${key}.arguments[${index}]`),
    ),
  };
}

function planArgument(manifest: Manifest, argument: ManifestArgument, scope: Scope, key: string): PlannedArgument {
  if (argument.kind !== 'struct') return planPlainArgument(manifest, argument, scope, key);
  const fields = argument.fields.map(({ name, at, value }) => ({
    name,
    at,
    value: planPlainArgument(manifest, value, scope, `${key}.struct.fields.${name}.value`),
  }));
  return { kind: 'struct', bytes: argument.bytes, fields };
}

function planPlainArgument(
  manifest: Manifest,
  argument: PlainManifestArgument,
  scope: Scope,
  key: string,
): PlainArgument {
  switch (argument.kind) {
    case 'tensor':
    case 'workspace':
    case 'null':
      return argument;
    case 'bool':
      return { kind: 'bool', value: valueOf(manifest, argument.value, scope, key) === 0 ? 0 : 1 };
    case 'int8':
    case 'int16':
    case 'int32': {
      const limit = 2 ** (8 * argumentBytes(argument) - 1);
      const value = integer(manifest, argument.value, scope, { key, least: -limit, most: limit - 1, isArgument: true });
      return { kind: argument.kind, value };
    }
    case 'int64': {
      const { MIN_SAFE_INTEGER: least, MAX_SAFE_INTEGER: most } = Number;
      return { kind: 'int64', value: integer(manifest, argument.value, scope, { key, least, most }) };
    }
    case 'float32':
    case 'float64':
      return { kind: argument.kind, value: valueOf(manifest, argument.value, scope, key) };
    case 'tensorMap': {
      // A tensor map's box has at most 256 elements along an axis (cuTensorMapEncodeTiled).
      const box = argument.box.map((extent, axis) =>
        integer(manifest, extent, scope, { key: `${key}.tensor_map.box[${axis}]`, least: 1, most: 256 }),
      );
      return { kind: 'tensorMap', tensor: argument.tensor, box, swizzle: argument.swizzle };
    }
  }
}

/** Whether a condition holds; a missing condition always holds. */
const holds = (manifest: Manifest, condition: Expression | undefined, scope: Scope, key: string): boolean =>
  condition === undefined || valueOf(manifest, condition, scope, key) !== 0;

/** Shape, parameters and constants by name. */
function scopeOf(manifest: Manifest, { parameters }: Pick<ResolvedVariant, 'parameters'>, shape: ShapeFields): Scope {
  const scope: Scope = { ...scopeOfShape(manifest.problem, shape), ...parameters };
  for (const constant of manifest.constants)
    setEntry(scope, constant.name, valueOf(manifest, constant.value, scope, `constants.${constant.name}`));
  return scope;
}

interface IntegerRange {
  key: string;
  /** Whether a kernel's argument has this value, which could then be of another type. */
  isArgument?: boolean;
  least: number;
  most: number;
}

function integer(
  manifest: Manifest,
  expression: Expression,
  scope: Scope,
  { key, least, most, isArgument = false }: IntegerRange,
): number {
  const found = valueOf(manifest, expression, scope, key);
  if (Number.isInteger(found) && found >= least && found <= most) return found;
  const { text } = expression;
  const remedy = Number.isInteger(found) || !isArgument ? '' : `: pass a fraction as { float32: ${text} }`;
  throw wrongValue(manifest, key, `must be an integer of ${least} to ${most}, got ${found} from "${text}"${remedy}`);
}

const product = (extents: readonly number[]) => extents.reduce((a, b) => a * b, 1);
