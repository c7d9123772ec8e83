/** A manifest's launch plan as a Python function of the shape: limits, `when`, grids, arguments and workspaces. */
import {
  BLOCK_LIMITS,
  BOX_LIMIT,
  CLUSTER_LIMITS,
  GRID_LIMITS,
  INT32,
  MAX_WORKSPACE_BYTES,
  PYTHON,
  PYTHON_HELPERS,
  type Expression,
  type Manifest,
  type ManifestLaunch,
  expressionCode,
} from '@flashcore/shared/kernels';
import { type PythonArgument, exported, isExportedInPython } from './exported-kernel.ts';

type Parameters = Readonly<Record<string, number>>;

/** The function `plan` and everything that it calls. Needs `math`, `functools` and `collections` to be imported. */
export const pythonPlan = (manifest: Manifest, parameters: Parameters): string =>
  `${HELPERS}

${planFunction(manifest, parameters, 'plan')}`;

const HELPERS = `Launch = collections.namedtuple("Launch", "entry grid block shared_bytes cluster l2_persist arguments")


${PYTHON_HELPERS}

def _finite(value, what):
    if not math.isfinite(value):
        raise ValueError(f"{what} has no finite value for this shape: {value}")
    return value


def _integer(value, least, most, what):
    if not math.isfinite(value) or value != math.floor(value) or not least <= value <= most:
        raise ValueError(f"{what} must be an integer of {least} to {most}, got {value} for this shape")
    return int(value)
`;

/** A plan function with a name of its own, for a file that already has pythonPlan()'s. */
export function planFunction(manifest: Manifest, parameters: Parameters, functionName: string): string {
  const { problem, uses } = manifest;
  const required = problem.axes.filter((axis) => axis.default === undefined).map(({ name }) => name);
  const given = problem.attributes.filter(({ value }) => value === undefined);
  const optional = [
    ...problem.defaults.map(({ name, default: value }) => ({ name, usual: code(value), unused: !uses.has(name) })),
    ...given.map(({ name, default: value }) => ({ name, usual: PYTHON.number(value), unused: !uses.has(name) })),
  ];
  // A caller may give the scale instead of using the problem's.
  const derived = problem.attributes.flatMap(({ name, value }) =>
    value === undefined ? [] : [{ name, usual: code(value), unused: !uses.has(name), isScale: name === SCALE }],
  );
  const settled = [...optional, ...derived.filter(({ isScale }) => isScale)];
  const order = [
    ...UNNAMED.flatMap((wanted) => settled.filter(({ name }) => name === wanted)),
    ...settled.filter(({ name }) => !UNNAMED.includes(name)),
  ];
  const names = [...required, ...order.map(({ name }) => name)];
  const definitions = [
    ...required.map((name) => `${PYTHON.name(name)} = float(${PYTHON.name(name)})`),
    ...settled.flatMap(({ name, usual, unused }) => settledCode(manifest, PYTHON.name(name), usual, unused)),
    ...derived.filter(({ isScale }) => !isScale).map(({ name, usual }) => `${PYTHON.name(name)} = ${usual}`),
    // Leaves out conditions on values that the kernel does not use, because the defaults of these values satisfy them.
    ...problem.require
      .filter(({ require }) => require.names.some((name) => uses.has(name) || required.includes(name)))
      .map(({ require, because }) => limitCode(problem.id, require, because)),
    ...Object.entries(parameters).map(([name, value]) => `${PYTHON.name(name)} = ${PYTHON.number(value)}`),
    ...manifest.constants.map(({ name, value }) => `${PYTHON.name(name)} = ${finite(value, `constants.${name}`)}`),
    ...manifest.limits.map(({ require, because }) => limitCode(manifest.id, require, because)),
  ];
  const launches = manifest.launches.map((launch) => launchCode(launch, manifest));
  const workspace = manifest.workspace.map(
    ({ name, bytes }) => `${text(name)}: ${integer(bytes, `workspace.${name}`, 0, MAX_WORKSPACE_BYTES)},`,
  );
  const shown = names.map((name) => `("${name}", ${PYTHON.name(name)})`).join(', ');
  return `@functools.lru_cache(maxsize=1024)
def ${functionName}(${[...required.map(PYTHON.name), ...order.map(({ name }) => `${PYTHON.name(name)}=None`)].join(', ')}):
    """Launches of a case, in order, and the bytes of each workspace. ValueError: the kernel does not take the case."""
    shape = ", ".join(f"{name}={value:g}" for name, value in (${shown},) if value is not None)
${indent(definitions.join('\n'), 4)}
    launches = []
${indent(launches.join('\n'), 4)}
    if not launches:
        raise ValueError(f"${manifest.id} has no launch for {shape}")
    workspace = {${workspace.length === 0 ? '' : `\n${indent(workspace.join('\n'), 8)}\n    `}}
    return launches, workspace
`;
}

const SCALE = 'scale';

/** Callers pass the mask and the scale after the extents, by position. */
const UNNAMED = ['causal', SCALE];

/** None stands for the problem's own value. If the kernel does not use the value, every other value is refused. */
const settledCode = ({ id }: Manifest, name: string, usual: string, unused: boolean): string[] => [
  `${name} = ${usual} if ${name} is None else float(${name})`,
  ...(unused
    ? [
        `if ${name} != ${usual}:\n    raise ValueError(f${text(`${id} does not use ${name}: it must be {${usual}}, got {${name}}`)})`,
      ]
    : []),
];

const limitCode = (id: string, require: Expression, because: string): string =>
  `if ${finite(require, 'limits')} == 0:\n    raise ValueError(f${text(`${id} does not take {shape}: it requires ${braced(require.text)}, because ${braced(because)}`)})`;

const code = (expression: Expression): string => expressionCode(expression, PYTHON);

function launchCode(launch: ManifestLaunch, manifest: Manifest): string {
  const { key } = launch;
  const three = (name: string, expressions: readonly Expression[], limits: readonly number[]): string =>
    `(${expressions.map((each, axis) => integer(each, `${launch.entry}: ${name}[${axis}]`, 1, limits[axis]!)).join(', ')})`;
  const code = `launches.append(
    Launch(
        entry=${text(launch.entry)},
        grid=${three('grid', launch.grid, GRID_LIMITS)},
        block=${three('block', launch.block, BLOCK_LIMITS)},
        shared_bytes=${integer(launch.sharedBytes, `${launch.entry}: shared_bytes`, 0, INT32.most)},
        cluster=${launch.cluster ? three('cluster', launch.cluster, CLUSTER_LIMITS) : 'None'},
        l2_persist=${persistCode(launch, key)},
        arguments=(
${launch.arguments.map((argument, index) => `            ${argumentCode(exported(argument, isExportedInPython), `${key}.arguments[${index}]`, manifest)},`).join('\n')}
        ),
    )
)`;
  return launch.when === undefined ? code : `if ${finite(launch.when, `${key}.when`)} != 0:\n${indent(code, 4)}`;
}

function persistCode({ l2Persist: { tensors, when } }: ManifestLaunch, key: string): string {
  const names = tuple(tensors.map(text));
  return when === undefined ? names : `(${names} if ${finite(when, `${key}.l2_persist.when`)} != 0 else ())`;
}

function argumentCode(argument: PythonArgument, key: string, { layouts }: Manifest): string {
  switch (argument.kind) {
    case 'tensor':
      return `("tensor", ${text(argument.tensor)})`;
    case 'workspace':
      return `("workspace", ${text(argument.name)})`;
    case 'null':
      return '("null", None)';
    case 'int32':
      return `("int32", ${integer(argument.value, key, INT32.least, INT32.most)})`;
    case 'float32':
      return `("float32", ${finite(argument.value, key)})`;
    case 'tensorMap': {
      const box = argument.box.map((extent) => integer(extent, key, 1, BOX_LIMIT));
      const order = layouts.find(({ tensor }) => tensor === argument.tensor)?.order;
      const ones = Array.from({ length: order ? order.length - box.length : 0 }, () => '1');
      const sizes = tuple([...box, ...ones]);
      const placed = order ? `, ${tuple(order.map(String))}` : '';
      return `("tensor_map", ${text(argument.tensor)}, ${sizes}, ${text(argument.swizzle)}${placed})`;
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
