/** A manifest's launch plan as a Python function of the shape: limits, `when`, grids, arguments and workspaces. */
import {
  PYTHON,
  PYTHON_HELPERS,
  type Expression,
  type Manifest,
  type ManifestLaunch,
  expressionCode,
} from '@flashcore/shared/kernels';
import {
  BLOCK_LIMITS,
  BOX_LIMIT,
  CLUSTER_LIMIT,
  type ExportedArgument,
  GRID_LIMITS,
  INT32,
  MAX_WORKSPACE_BYTES,
  exported,
} from './launch-limits.ts';

/** Needs `math`, `functools` and `collections` to be imported. */
export function pythonPlan(manifest: Manifest, parameters: Readonly<Record<string, number>>): string {
  const constants = [
    // Callers pass tensors of one shape, so optional axes have their defaults.
    ...manifest.problem.defaults.map(
      ({ name, default: value }) => `${PYTHON.name(name)} = ${expressionCode(value, PYTHON)}`,
    ),
    ...Object.entries(parameters).map(([name, value]) => `${PYTHON.name(name)} = ${PYTHON.number(value)}`),
    ...manifest.constants.map(({ name, value }) => `${PYTHON.name(name)} = ${finite(value, `constants.${name}`)}`),
  ];
  const limits = manifest.limits.map(
    ({ require, because }) =>
      `if ${finite(require, 'limits')} == 0:\n    raise ValueError(f${text(`${manifest.id} does not take {shape}: it requires ${braced(require.text)}, because ${braced(because)}`)})`,
  );
  const scaleCheck = manifest.uses.has('scale')
    ? ''
    : `    if scale != usual:
        raise ValueError(f${text(`${manifest.id} multiplies by 1 / sqrt(D) itself: scale must be None or {usual}, got {scale}`)})
`;
  const launches = manifest.launches.map(launchCode);
  const workspace = manifest.workspace.map(
    ({ name, bytes }) => `${text(name)}: ${integer(bytes, `workspace.${name}`, 0, MAX_WORKSPACE_BYTES)},`,
  );
  return `Launch = collections.namedtuple("Launch", "entry grid block shared_bytes cluster l2_persist arguments")


${PYTHON_HELPERS}

def _finite(value, what):
    if not math.isfinite(value):
        raise ValueError(f"{what} has no finite value for this shape: {value}")
    return value


def _integer(value, least, most, what):
    if not math.isfinite(value) or value != math.floor(value) or not least <= value <= most:
        raise ValueError(f"{what} must be an integer of {least} to {most}, and is {value} for this shape")
    return int(value)


@functools.lru_cache(maxsize=1024)
def plan(B, H, S, D, causal, scale=None):
    """Launches of a shape, in order, and the bytes of each workspace. ValueError: the kernel does not take the shape."""
    shape = f"{B}x{H}x{S}x{D}{'c' if causal else ''}"
    B, H, S, D, causal = float(B), float(H), float(S), float(D), float(bool(causal))
    usual = 1.0 / math.sqrt(D)
    scale = usual if scale is None else float(scale)
${scaleCheck}${indent([...constants, ...limits].join('\n'), 4)}
    launches = []
${indent(launches.join('\n'), 4)}
    if not launches:
        raise ValueError(f"${manifest.id} has no launch for {shape}")
    workspace = {${workspace.length === 0 ? '' : `\n${indent(workspace.join('\n'), 8)}\n    `}}
    return launches, workspace
`;
}

function launchCode(launch: ManifestLaunch): string {
  const { key } = launch;
  const three = (name: string, expressions: readonly Expression[], limits: readonly number[]): string =>
    `(${expressions.map((each, axis) => integer(each, `${launch.entry}: ${name}[${axis}]`, 1, limits[axis]!)).join(', ')})`;
  const code = `launches.append(
    Launch(
        entry=${text(launch.entry)},
        grid=${three('grid', launch.grid, GRID_LIMITS)},
        block=${three('block', launch.block, BLOCK_LIMITS)},
        shared_bytes=${integer(launch.sharedBytes, `${launch.entry}: shared_bytes`, 0, INT32.most)},
        cluster=${launch.cluster ? three('cluster', launch.cluster, CLUSTER_LIMIT) : 'None'},
        l2_persist=${persistCode(launch, key)},
        arguments=(
${launch.arguments.map((argument, index) => `            ${argumentCode(exported(argument), `${key}.arguments[${index}]`)},`).join('\n')}
        ),
    )
)`;
  return launch.when === undefined ? code : `if ${finite(launch.when, `${key}.when`)} != 0:\n${indent(code, 4)}`;
}

function persistCode({ l2Persist: { tensors, when } }: ManifestLaunch, key: string): string {
  const names = tuple(tensors.map(text));
  return when === undefined ? names : `(${names} if ${finite(when, `${key}.l2_persist.when`)} != 0 else ())`;
}

function argumentCode(argument: ExportedArgument, key: string): string {
  switch (argument.kind) {
    case 'tensor':
      return `("tensor", ${text(argument.tensor)})`;
    case 'workspace':
      return `("workspace", ${text(argument.name)})`;
    case 'int32':
      return `("int32", ${integer(argument.value, key, INT32.least, INT32.most)})`;
    case 'float32':
      return `("float32", ${finite(argument.value, key)})`;
    case 'tensorMap': {
      const box = argument.box.map((extent) => integer(extent, key, 1, BOX_LIMIT));
      return `("tensor_map", ${text(argument.tensor)}, ${tuple(box)}, ${text(argument.swizzle)})`;
    }
  }
}

const finite = (expression: Expression, what: string): string =>
  `_finite(${expressionCode(expression, PYTHON)}, ${text(what)})`;
const integer = (expression: Expression, what: string, least: number, most: number): string =>
  `_integer(${expressionCode(expression, PYTHON)}, ${least}, ${most}, ${text(what)})`;
const tuple = (items: readonly string[]): string => (items.length === 0 ? '()' : `(${items.join(', ')},)`);
/** A Python string literal, because JSON strings are valid Python. */
const text = (value: string): string => JSON.stringify(value);
/** Text for the inside of an f-string. */
const braced = (value: string): string => value.replaceAll('{', '{{').replaceAll('}', '}}');
const indent = (code: string, columns: number): string => code.replaceAll(/^(?=.)/gm, ' '.repeat(columns));
