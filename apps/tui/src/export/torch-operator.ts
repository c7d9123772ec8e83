/**
 * The operator of an exported PyTorch file, made from the kernel's problem and launches: its tensors and numbers, the
 * function that runs a prepared launch, and the shapes that torch.compile sees.
 */
import {
  ELEMENTS,
  type Fill,
  dtypeOfTensor,
  fillOf,
  type Manifest,
  PYTHON,
  TENSOR_DTYPES,
  type TensorDtype,
} from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { type ExportedKernel } from './exported-kernel.ts';

/** A tensor as an argument of the operator. */
interface OperatorTensor {
  /** Name in the problem: "Q". */
  readonly name: string;
  /** Name in Python: "q". */
  readonly argument: string;
  readonly out: boolean;
  /** Dimensions as axes or numbers; ANY_EXTENT if the file does not check the extent. */
  readonly dims: readonly string[];
  /** The dimensions in memory, outermost first, as indices of `dims`; undefined if the order is that of `dims`. */
  readonly layout: readonly number[] | undefined;
  /** Python's name of the dtype. */
  readonly dtype: string;
}

interface OperatorNumber {
  readonly name: string;
  readonly type: string;
  readonly usual: string;
}

export interface Operator {
  /** The function's name in Python. */
  readonly call: string;
  readonly tensors: readonly OperatorTensor[];
  readonly numbers: readonly OperatorNumber[];
  readonly axes: readonly string[];
}

/** Python names of an operator, and of those tensors that have a different name in the problem. */
interface Names {
  readonly call: string;
  readonly arguments: Readonly<Record<string, string>>;
}

/** Names of attention's tensors in PyTorch, FlashAttention and FlashInfer. */
export const ATTENTION_NAMES: Names = {
  call: 'attention',
  arguments: {
    ...{ Q: 'q', K: 'k', V: 'v', O: 'out', LSE: 'lse' },
    ...{ dO: 'd_out', dQ: 'dq', dK: 'dk', dV: 'dv' },
  },
};

/** Names that the file uses, including Python's own. No name of an operator may hide one of them. */
const OWN_NAMES = new Set(
  `index key known prepared torch base64 collections ctypes functools json math os subprocess sysconfig tempfile
   threading warnings zlib Optional Tuple plan Launch KERNEL ARCH PARAMETERS DTYPE PROVENANCE BINDING_PROBLEM
   abs any bytes float getattr hasattr int iter len list max min next open type vars zip
   AttributeError ImportError OSError RuntimeError TypeError ValueError`.split(/\s+/),
);
const ANY_EXTENT = '*';
const SCALE = 'scale';
/** Numbers that callers give first, in this order. */
const FIRST_NUMBERS = ['causal', SCALE, 'window', 'softcap'];
const INTEGERS = new Set(['causal', 'window']);

/**
 * The operator of a manifest: the tensors that the launches take, and the numbers that a caller may give. Without
 * `names` they have their names in the problem.
 */
export function operatorOf(manifest: Manifest, dtype: TensorDtype, names?: Names): Operator {
  const { problem, launches, layouts, uses } = manifest;
  const taken = new Set(
    launches.flatMap((launch) => launch.arguments.flatMap((each) => ('tensor' in each ? [each.tensor] : []))),
  );
  // The defaults of the axes that the kernel does not use.
  const usual = new Map(
    problem.defaults.filter(({ name }) => !uses.has(name)).map(({ name, default: { text } }) => [name, text]),
  );
  const tensors = problem.tensors
    .filter(({ name, when }) => taken.has(name) && when === undefined)
    .map((each) => ({
      ...tensorOf(each, usual, { dtype, arguments: names?.arguments ?? {} }),
      layout: layouts.find(({ tensor }) => tensor === each.name)?.order,
    }));
  // The operator leaves out tensors that exist only in some cases, so the attributes that select those cases keep their
  // defaults.
  const ofCases = new Set(problem.tensors.flatMap(({ when }) => when?.names ?? []));
  // A mask and a scale are part of every signature; a kernel that does not use them accepts only their defaults.
  const given = problem.attributes.filter(({ name, value }) =>
    value === undefined ? name === 'causal' || (uses.has(name) && !ofCases.has(name)) : name === SCALE,
  );
  return {
    call: names?.call ?? problem.id,
    // Outputs come last: the function that writes into the caller's tensors takes them as arguments.
    tensors: [...tensors.filter(({ out }) => !out), ...tensors.filter(({ out }) => out)],
    numbers: [
      ...FIRST_NUMBERS.flatMap((first) => given.filter(({ name }) => name === first)),
      ...given.filter(({ name }) => !FIRST_NUMBERS.includes(name)),
    ].map(numberOf),
    axes: problem.axes.map(({ name }) => name).filter((name) => !usual.has(name)),
  };
}

/**
 * The reason why a kernel cannot become an operator, for example because its inputs do not determine all extents and
 * outputs; undefined if it can.
 */
export function operatorProblem(manifest: Manifest): string | undefined {
  // Dimensions are the same for every dtype.
  const { tensors, numbers, axes, call } = operatorOf(manifest, TENSOR_DTYPES[0]);
  const inputs = tensors.filter(({ out }) => !out);
  const named = [call, ...axes, ...tensors.map(({ name }) => name), ...numbers.map(({ name }) => name)];
  const taken = named.find((name) => OWN_NAMES.has(name) || PYTHON.name(name) !== name);
  if (taken !== undefined) return `${taken} has a meaning of its own in a Python file: rename it in problem.yaml`;
  if (inputs.length === 0) return 'its launches take no input';
  const unseen = axes.find((axis) => !inputs.some(({ dims }) => dims.some((dim) => dim.split(' ')[0] === axis)));
  if (unseen !== undefined) return `no input has the dimension ${unseen}, so that a call does not say it`;
  for (const { name, out, dims } of tensors)
    for (const dim of dims) {
      if (dim === ANY_EXTENT) return `${name} has a computed dimension, which the file would not check`;
      if (out && !inputs.some((input) => input.dims.includes(dim)))
        return `no input has the dimension ${dim} of ${name}`;
    }
  return undefined;
}

const numberOf = ({ name, default: usual }: Manifest['problem']['attributes'][number]): OperatorNumber => {
  if (name === SCALE) return { name, type: 'Optional[float]', usual: 'None' };
  return INTEGERS.has(name)
    ? { name, type: 'int', usual: String(usual) }
    : { name, type: 'float', usual: PYTHON.number(usual) };
};

const tensorOf = (
  tensor: Manifest['problem']['tensors'][number],
  usual: ReadonlyMap<string, string>,
  { dtype, arguments: names }: Pick<Names, 'arguments'> & { dtype: TensorDtype },
): Omit<OperatorTensor, 'layout'> => {
  const { name, direction, dims, ownDtype } = tensor;
  const found = dtypeOfTensor(tensor, dtype);
  return {
    name,
    argument: entryOf(names, name) ?? name,
    out: direction === 'out',
    dims: dims.map(({ text }) => dimOf(text, usual)),
    dtype: ownDtype === undefined && found === dtype ? 'DTYPE' : `torch.${ELEMENTS[found].torch}`,
  };
};

/**
 * A dimension: an axis that callers give or an extent, possibly plus a number. Axes in `usual` are replaced by their
 * defaults.
 */
function dimOf(text: string, usual: ReadonlyMap<string, string>): string {
  const [, name = '', more = ''] = /^(\w+)( \+ \d+)?$/.exec(text) ?? [];
  if (name === '') return ANY_EXTENT;
  const value = usual.get(name);
  return value === undefined ? text : dimOf(value + more, usual);
}

const listed = (names: readonly string[]): string => names.join(', ');
const strings = (names: readonly string[]): string => `(${names.map((name) => `${JSON.stringify(name)}, `).join('')})`;

/** The Python code of the kernel object; `prefix` begins the names of a backward kernel. */
export const kernelTables = (
  { manifest, arch, parameters, dtype }: ExportedKernel,
  { tensors, axes }: Operator,
  { prefix, derivedAxes }: { prefix: string; derivedAxes: string | undefined },
): string => `${prefix}_kernel = _Kernel(
    name=${JSON.stringify(manifest.id)},
    arch=${JSON.stringify(arch)},
    # What the kernel can be built for: least architecture, or the only one.
    min_arch=${JSON.stringify(manifest.minArch)},
    exact_arch=${manifest.exactArch ? 'True' : 'False'},
    parameters=${JSON.stringify(parameters)},
    # Parameters that the build took from a device: multiprocessors.
    of_device=${JSON.stringify(Object.fromEntries(fromDevice(manifest)))},
    # Tensors by name: dtype and dimensions.
    forms={
${tensors.map(({ argument, dtype, dims }) => `        "${argument}": (${dtype}, ${strings(dims)}),`).join('\n')}
    },
    # Orders in which dimensions lie in memory, where those are not their own.
    layouts={${listed(tensors.flatMap(({ argument, layout }) => (layout ? [`"${argument}": (${layout.join(', ')})`] : [])))}},
    names={${listed(tensors.map(({ argument, name }) => `"${argument}": "${name}"`))}},
    outputs=${strings(tensors.filter(({ out }) => out).map(({ argument }) => argument))},
    axes=${strings(axes)},
    derive=lambda extents, tensors: ${derivedAxes ?? 'extents'},
    plan=${prefix === '' ? 'plan' : `${prefix}_plan`},
    # Values that memory must have before each call, by name: bytes of an element, and its bits.
    workspace_fills={${fillsText(manifest.workspace.map(({ name, initial }) => [name, initial]))}},
    output_fills={${fillsText(outputFills(manifest, dtype))}},
    cubins=lambda: ${prefix.toUpperCase()}_CUBINS,
)
`;

const fromDevice = ({ parameters }: Manifest): [name: string, values: readonly number[]][] =>
  Object.entries(parameters).flatMap(([name, { ofDevice, values }]) =>
    ofDevice === undefined ? [] : [[name, values]],
  );

const outputFills = ({ problem, initialOutput }: Manifest, dtype: TensorDtype): [string, Fill | undefined][] =>
  initialOutput === undefined
    ? []
    : problem.tensors
        .filter(({ direction, optional }) => direction === 'out' && !optional)
        .map((tensor) => [tensor.name, fillOf(initialOutput, dtypeOfTensor(tensor, dtype))]);

const fillsText = (fills: readonly [name: string, Fill | undefined][]): string =>
  fills.flatMap(([name, fill]) => (fill ? [`${JSON.stringify(name)}: (${fill.bytes}, ${fill.bits})`] : [])).join(', ');

/** The names of an operator's tensors and numbers, in the lists that its functions use. */
function partsOf({ tensors, numbers }: Operator) {
  const [inputs, outputs] = [false, true].map((out) => tensors.filter((each) => each.out === out)) as [
    OperatorTensor[],
    OperatorTensor[],
  ];
  const ins = inputs.map(({ argument }) => argument);
  const outs = outputs.map(({ argument }) => argument);
  return { inputs, outputs, ins, outs, all: [...ins, ...outs], given: numbers.map(({ name }) => name) };
}

/** Docstring lines for an operator that has no other library's signatures. */
export function operatorAbout(operator: Operator): string {
  const { ins, outs, all } = partsOf(operator);
  const { call, tensors, numbers } = operator;
  const given = numbers.map(({ name, usual }) => `${name}=${usual}`);
  return `    from KERNEL_ID import ${call}
    ${listed(outs)} = ${call}(${listed([...ins, ...given])})
    ${call}_out(${listed([...all, ...given])})  # into tensors of yours

${tensors.map(described).join(', ')}. There is no backward.`;
}

/** The code of _run, which launches from Python, and of _new_outputs. */
export function runCode(operator: Operator, prefix = ''): string {
  const { inputs, outputs, ins, all, given } = partsOf(operator);
  const others = all.slice(1);
  const dtypes = operator.tensors.map(({ argument, dtype }) => `${argument}.dtype is ${dtype}`);
  const created = outputs.map((output) => newOutput(output, inputs));
  const checked = new Set(created.flatMap(({ holders }) => holders));
  return `def ${prefix}_run(${listed([...all, ...given])}):
    index = ${all[0]}.get_device()
    key = (
        ${listed(all.map((each) => `${each}.data_ptr()`))},
        ${listed(all.map((each) => `${each}.shape`))},
        ${listed(['index', ...given])},
    )
    try:
        known = ${prefix}_kernel.threads.prepared
    except AttributeError:
        known = ${prefix}_kernel.threads.prepared = {}
    prepared = known.get(key)
    # Addresses and shapes say nothing about dtypes and strides, so each call checks those.
    if prepared is None or not (
        ${[
          ...dtypes,
          ...operator.tensors.map(({ argument, layout }) =>
            layout ? `${argument}.permute(${layout.join(', ')}).is_contiguous()` : `${argument}.is_contiguous()`,
          ),
          ...others.map((each) => `${each}.get_device() == index`),
        ].join('\n        and ')}
    ):
        prepared = ${prefix}_kernel.prepare(
            {${listed(all.map((each) => `"${each}": ${each}`))}},
            {${listed(given.map((each) => `"${each}": ${each}`))}},
        )
        ${prefix}_kernel.remember(known, key, prepared, index, (${listed([...all, ...given])}))
    if _current_device() == index:
        prepared.run(index, _raw_stream(index))
    else:
        with torch.cuda.device(index):
            prepared.run(index, _raw_stream(index))


def ${prefix}_new_outputs(${listed(ins)}):
${[...checked].map((each) => `    ${prefix}_kernel.check_rank("${each}", ${each})\n`).join('')}    return ${listed(created.map(({ code }) => code))}
`;
}

/**
 * The PyTorch operators, and the functions that bypass the dispatcher in eager calls. `name` is the operator's name in
 * PyTorch. If autograd has to record an eager call, the code that `recorded` makes from the call's arguments replaces
 * the call. `result` names the outputs that attention() returns.
 */
export function operatorCode(
  operator: Operator,
  name: string,
  { recorded, result }: { recorded?: (passed: string) => string; result?: readonly string[] } = {},
): string {
  const { call, tensors, numbers } = operator;
  const { inputs, ins, outs, all, given } = partsOf(operator);
  const typed = (names: readonly string[]): string => names.map((each) => `    ${each}: torch.Tensor,\n`).join('');
  const numbersTyped = numbers.map(({ name: each, type, usual }) => `    ${each}: ${type} = ${usual},\n`).join('');
  const untyped = numbers.map(({ name: each, usual }) => `${each}=${usual}`);
  const passed = given.map((each) => (each === 'causal' ? 'int(causal)' : each));
  const type = outs.length === 1 ? 'torch.Tensor' : `Tuple[${listed(outs.map(() => 'torch.Tensor'))}]`;
  const returned = result ?? outs;
  const differentiated =
    recorded === undefined
      ? ''
      : `        if _is_differentiated(${listed(ins)}):
            if _is_plain(${listed(ins)}):
                return ${recorded(listed([...ins, ...passed]))}
        else:
`;
  const eager = `${listed(outs)} = _new_outputs(${listed(ins)})
if _kernel.fast(${listed([...all, ...given])}):
    return ${listed(returned)}
if _is_plain(${listed(ins)})${recorded === undefined ? ` and not _is_differentiated(${listed(ins)})` : ''}:
    _run(${listed([...all, ...given])})
    return ${listed(returned)}`;
  const places = returned.map((each) => outs.indexOf(each));
  const op = `${call}_op(${listed([...ins, ...passed])})`;
  return `@torch.library.custom_op("${name}", mutates_args=())
def ${call}_op(
${typed(ins)}${numbersTyped}) -> ${type}:
    ${listed(outs)} = _new_outputs(${listed(ins)})
    _run(${listed([...all, ...given])})
    return ${listed(outs)}


@${call}_op.register_fake
def _(${listed([...ins, ...untyped])}):
    return _new_outputs(${listed(ins)})


@torch.library.custom_op("${name}_out", mutates_args={${listed(outs.map((each) => `"${each}"`))}})
def ${call}_out_op(
${typed(all)}${numbersTyped}) -> None:
    _run(${listed([...all, ...given])})


@${call}_out_op.register_fake
def _(${listed([...all, ...untyped])}):
    return None


def ${call}(${listed([...ins, ...untyped])}):
    """${listed(inputs.map(described))}: returns ${listed(tensors.filter(({ argument }) => returned.includes(argument)).map(described))}.${given.includes(SCALE) ? " scale None: the problem's own." : ''}"""
    # The binding looks for itself whether the call is eager.
    if not torch.compiler.is_compiling():
${differentiated}${indented(eager, recorded === undefined ? 8 : 12)}
    return ${returned.length === outs.length ? op : `${op}[${places[0]}]`}


def ${call}_out(${listed([...all, ...untyped])}):
    """The same into tensors of the caller's, which share no memory with the inputs."""
    if torch.compiler.is_compiling() or not _kernel.fast(${listed([...all, ...given])}):
        if _is_differentiated(${listed(all)}) or not _is_plain(${listed(all)}):
            return ${call}_out_op(${listed([...all, ...passed])})
        _run(${listed([...all, ...given])})
${outs
  .map(
    (each) => `    # As the operator does, so that autograd notices a change to a tensor that it saved.
    if not ${each}.is_inference():
        torch.autograd.graph.increment_version(${each})`,
  )
  .join('\n')}
`;
}

const indented = (code: string, columns: number): string => code.replaceAll(/^(?=.)/gm, ' '.repeat(columns));
const described = ({ argument, dims, layout }: OperatorTensor): string =>
  `${argument} [${dims.join(', ')}]${layout ? ` in memory as [${layout.map((dim) => dims[dim]).join(', ')}]` : ''}`;

/** The code that allocates an output, and the inputs whose extents the code reads. */
function newOutput(
  { dims, dtype, layout }: OperatorTensor,
  inputs: readonly OperatorTensor[],
): { code: string; holders: string[] } {
  const [first] = inputs as [OperatorTensor];
  // An input with another memory layout is refused when the kernel is launched.
  if (dtype === first.dtype && dims.join() === first.dims.join() && layout?.join() === first.layout?.join())
    return { code: `torch.empty_like(${first.argument})`, holders: [] };
  const holders = dims.map((dim) => inputs.find((each) => each.dims.includes(dim))!);
  const typeOf = dtype === first.dtype ? `${first.argument}.dtype` : dtype;
  const extents = dims.map((dim, axis) => `${holders[axis]!.argument}.shape[${holders[axis]!.dims.indexOf(dim)}]`);
  const sizes = `(${extents.join(', ')})`;
  const options = `dtype=${typeOf}, device=${first.argument}.device`;
  return {
    code: layout
      ? `torch.empty_strided(${sizes}, _strides(${sizes}, (${layout.join(', ')})), ${options})`
      : `torch.empty(${sizes}, ${options})`,
    holders: holders.map(({ argument }) => argument),
  };
}
