/**
 * A manifest's launch plan as C++. `fc_plan` fills in the launches for a shape, and `fc_run` of cpp-runtime.ts runs
 * them. Entries are numbered in the order of ENTRIES.
 */
import {
  BLOCK_LIMITS,
  BOX_LIMIT,
  CLUSTER_LIMITS,
  GRID_LIMITS,
  INT32,
  MAX_WORKSPACE_BYTES,
  SWIZZLES,
  CPP,
  CPP_HELPERS,
  type Expression,
  type Manifest,
  type ManifestLaunch,
  expressionCode,
} from '@flashcore/shared/kernels';
import { type ExportedArgument, exported, isExported } from './exported-kernel.ts';

/** The entries that the manifest launches, each once. */
export const entriesOf = ({ launches }: Pick<Manifest, 'launches'>): string[] => [
  ...new Set(launches.map(({ entry }) => entry)),
];

/**
 * The plan as plain C++17 without CUDA. The generated code throws std::invalid_argument for a shape that the kernel
 * does not take.
 */
export function cppPlan(manifest: Manifest, parameters: Readonly<Record<string, number>>): string {
  const entries = entriesOf(manifest);
  const workspaces = manifest.workspace.map(({ name }) => name);
  // The tensors that callers pass. The others belong to forms of attention that exports do not offer, and are null
  // pointers.
  const tensors = manifest.problem.tensors.filter(({ optional, when }) => !optional && !when).map(({ name }) => name);
  const constants = [
    // Callers pass Q, K and V of one shape, so optional axes have their defaults.
    ...manifest.problem.defaults.map(
      ({ name, default: value }) => `[[maybe_unused]] const double ${CPP.name(name)} = ${expressionCode(value, CPP)};`,
    ),
    ...manifest.problem.attributes.flatMap(({ name, value, default: fallback }) =>
      value === undefined && name !== 'causal'
        ? [`[[maybe_unused]] const double ${CPP.name(name)} = ${CPP.number(fallback)};`]
        : [],
    ),
    ...Object.entries(parameters).map(([name, value]) => `const double ${CPP.name(name)} = ${CPP.number(value)};`),
    ...manifest.constants.map(
      ({ name, value }) => `const double ${CPP.name(name)} = ${finite(value, `constants.${name}`)};`,
    ),
  ];
  const limits = manifest.limits.map(
    ({ require, because }) =>
      `if (${finite(require, 'limits')} == 0)\n  throw std::invalid_argument(${text(`${manifest.id} does not take `)} + shape + ${text(`: it requires ${require.text}, because ${because}`)});`,
  );
  const sizes = manifest.workspace.map(
    ({ name, bytes }) =>
      `plan.workspace.push_back((size_t)${integer(bytes, `workspace.${name}`, 0, MAX_WORKSPACE_BYTES)});`,
  );
  return `#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

struct FcArgument {
  enum Kind { TENSOR, WORKSPACE, INT32, FLOAT32, TENSOR_MAP } kind;
  int index;       // of the tensor (Q, K, V, O; -1: a null pointer) or of the workspace
  double value;    // of a number
  unsigned box[3]; // columns, rows, heads of a tensor map
  int swizzle;     // CUtensorMapSwizzle
};
struct FcLaunch {
  int entry;
  unsigned grid[3], block[3], cluster[3];  // cluster[0] == 0: none
  unsigned shared_bytes;
  std::vector<int> l2_persist;
  std::vector<FcArgument> arguments;
};
struct FcPlan {
  std::vector<FcLaunch> launches;
  std::vector<size_t> workspace;  // bytes
};

${CPP_HELPERS}static inline double fc_finite(double value, const char* what) {
  if (!std::isfinite(value)) throw std::invalid_argument(std::string(what) + " has no finite value for this shape");
  return value;
}
static inline double fc_integer(double value, double least, double most, const char* what) {
  if (!std::isfinite(value) || value != std::floor(value) || value < least || value > most)
    throw std::invalid_argument(std::string(what) + " must be an integer of " + std::to_string(least) + " to " +
                                std::to_string(most) + ", got " + std::to_string(value) + " for this shape");
  return value;
}

static FcPlan fc_plan(long long b, long long h, long long s, long long d, bool is_causal) {
  const std::string shape = std::to_string(b) + "x" + std::to_string(h) + "x" + std::to_string(s) + "x" +
                            std::to_string(d) + (is_causal ? "c" : "");
  const double v_B = (double)b, v_H = (double)h, v_S = (double)s, v_D = (double)d, v_causal = is_causal ? 1.0 : 0.0;
  const double v_scale = 1.0 / std::sqrt(v_D);
  (void)v_B, (void)v_H, (void)v_S, (void)v_causal, (void)v_scale;
${indent([...constants, ...limits].join('\n'), 2)}
  FcPlan plan;
${indent(manifest.launches.map((launch) => launchCode(launch, { entries, workspaces, tensors })).join('\n'), 2)}
  if (plan.launches.empty()) throw std::invalid_argument(${text(`${manifest.id} has no launch for `)} + shape);
${indent(sizes.join('\n'), 2)}
  return plan;
}
`;
}

interface Names {
  readonly entries: readonly string[];
  readonly workspaces: readonly string[];
  readonly tensors: readonly string[];
}

function launchCode(launch: ManifestLaunch, names: Names): string {
  const { key, entry, when } = launch;
  const three = (what: string, expressions: readonly Expression[], limits: readonly number[]): string =>
    `{${expressions.map((each, axis) => `(unsigned)${integer(each, `${entry}: ${what}[${axis}]`, 1, limits[axis]!)}`).join(', ')}}`;
  const code = `plan.launches.push_back(FcLaunch{
    ${names.entries.indexOf(entry)},  // ${entry}
    ${three('grid', launch.grid, GRID_LIMITS)},
    ${three('block', launch.block, BLOCK_LIMITS)},
    ${launch.cluster ? three('cluster', launch.cluster, CLUSTER_LIMITS) : '{0, 0, 0}'},
    (unsigned)${integer(launch.sharedBytes, `${entry}: shared_bytes`, 0, INT32.most)},
    ${persistCode(launch, names)},
    {
${launch.arguments.map((argument, index) => `        ${argumentCode(exported(argument, isExported), `${key}.arguments[${index}]`, names)},`).join('\n')}
    }});`;
  return when === undefined ? code : `if (${finite(when, `${key}.when`)} != 0)\n${indent(code, 2)}`;
}

function persistCode({ key, l2Persist: { tensors, when } }: ManifestLaunch, names: Names): string {
  const indices = `std::vector<int>{${tensors.map((name) => names.tensors.indexOf(name)).join(', ')}}`;
  return when === undefined
    ? indices
    : `${finite(when, `${key}.l2_persist.when`)} != 0 ? ${indices} : std::vector<int>{}`;
}

function argumentCode(argument: ExportedArgument, key: string, { workspaces, tensors }: Names): string {
  switch (argument.kind) {
    case 'tensor':
      return `{FcArgument::TENSOR, ${tensors.indexOf(argument.tensor)}, 0, {0, 0, 0}, 0}`;
    case 'workspace':
      return `{FcArgument::WORKSPACE, ${workspaces.indexOf(argument.name)}, 0, {0, 0, 0}, 0}`;
    case 'int32':
      return `{FcArgument::INT32, 0, ${integer(argument.value, key, INT32.least, INT32.most)}, {0, 0, 0}, 0}`;
    case 'float32':
      return `{FcArgument::FLOAT32, 0, ${finite(argument.value, key)}, {0, 0, 0}, 0}`;
    case 'tensorMap': {
      const box = argument.box.map((extent) => `(unsigned)${integer(extent, key, 1, BOX_LIMIT)}`);
      const [columns, rows, heads = '1'] = box;
      const tensor = tensors.indexOf(argument.tensor);
      return `{FcArgument::TENSOR_MAP, ${tensor}, 0, {${columns}, ${rows}, ${heads}}, ${SWIZZLES[argument.swizzle]}}`;
    }
  }
}

const finite = (expression: Expression, what: string): string =>
  `fc_finite(${expressionCode(expression, CPP)}, ${text(what)})`;
const integer = (expression: Expression, what: string, least: number, most: number): string =>
  `fc_integer(${expressionCode(expression, CPP)}, ${least}.0, ${most}.0, ${text(what)})`;
/** A C++ string literal. JSON is safe because C++17 has no trigraphs. */
const text = (value: string): string => JSON.stringify(value);
const indent = (code: string, columns: number): string => code.replaceAll(/^(?=.)/gm, ' '.repeat(columns));
