"""Runs a problem's reference.py, and describes problems of others that are written in Python.

  python_reference.py check                     ends with 0 if this Python has PyTorch
  python_reference.py run reference.py          the protocol of reference_main.cpp, over standard input and output
  python_reference.py describe FORM FILE ...    prints axes, tensors and cases of foreign problems, a line of JSON each

It runs in a sandbox, without network, and with limits on time, memory and files: everything that it loads is foreign.
A reference.py has one function, which computes the expected outputs in double precision:

  def reference(c):
      x = c.input("X")               # a tensor of float64; int32 inputs are int64
      c.set_output("Y", x * c.value("scale"))
"""

import ast
import contextlib
import ctypes
import importlib.util
import json
import math
import os
import random
import re
import resource
import select
import signal
import struct
import sys
import time
import types

# PyTorch's names of dtypes, by the numbers FLASHCORE_DTYPE_* of attention_reference.h.
FORMATS = {
    0: "float16",
    1: "bfloat16",
    2: "float32",
    4: "float8_e4m3fn",
    5: "float8_e5m2",
    6: "int8",
    7: "int32",
}
NAME_BYTES = 32


def fail(message):
    sys.stderr.write(message + "\n")
    sys.exit(1)


class Case:
    """The values and tensors of a case, by name."""

    def __init__(self, values, inputs, outputs):
        self._values, self._inputs, self._outputs = values, inputs, outputs
        self.answers = {}

    def input(self, name):
        if name not in self._inputs:
            fail(f"the problem has no input {name}")
        return self._inputs[name]

    def has_output(self, name):
        return name in self._outputs

    def value(self, name):
        if name not in self._values:
            fail(f"the problem has no axis or attribute {name}")
        return self._values[name]

    def set_output(self, name, tensor):
        if name not in self._outputs:
            fail(f"the problem has no output {name}")
        if list(tensor.shape or [1]) != self._outputs[name]:
            fail(f"{name} must have the shape {self._outputs[name]}, got {list(tensor.shape)}")
        self.answers[name] = tensor


def read_all(count):
    data = bytearray()
    while len(data) < count:
        part = os.read(0, min(count - len(data), 1 << 20))
        if not part:
            fail("the case ended early")
        data += part
    return data


def unpack(form):
    return struct.unpack("<" + form, read_all(struct.calcsize("<" + form)))


def read_name():
    return bytes(read_all(NAME_BYTES)).rstrip(b"\0").decode()


def read_case(torch, value_count):
    values = {read_name(): unpack("d")[0] for _ in range(value_count)}
    inputs, outputs = {}, {}
    for _ in range(unpack("I")[0]):
        name = read_name()
        dtype, is_output, rank = unpack("III")
        dims = list(unpack(f"{rank}q"))
        if is_output:
            outputs[name] = dims
            continue
        if FORMATS[dtype] in SMALL_FLOATS:
            bits = torch.frombuffer(read_all(math.prod(dims)), dtype=torch.uint8).reshape(dims)
            inputs[name] = torch.tensor(small_floats(FORMATS[dtype]), dtype=torch.float64)[bits.long()]
            continue
        form = getattr(torch, FORMATS[dtype])
        size = math.prod(dims) * torch.empty(0, dtype=form).element_size()
        tensor = torch.frombuffer(read_all(size), dtype=form).reshape(dims)
        inputs[name] = tensor.long() if FORMATS[dtype] == "int32" else tensor.double()
    return Case(values, inputs, outputs)


# Bits of the mantissa, bias of the exponent, and whether there are infinities. PyTorch has fp8 from 2.1 on.
SMALL_FLOATS = {"float8_e4m3fn": (3, 7, False), "float8_e5m2": (2, 15, True)}


def small_floats(name):
    """The number of each byte."""
    mantissa_bits, bias, has_infinities = SMALL_FLOATS[name]
    steps = 1 << mantissa_bits
    values = []
    for bits in range(128):
        exponent, step = bits >> mantissa_bits, bits % steps
        value = math.ldexp(step + (steps if exponent else 0), max(exponent, 1) - bias - mantissa_bits)
        if has_infinities and bits >= 124:
            value = math.inf if step == 0 else math.nan
        elif bits == 127:
            value = math.nan
        values.append(value)
    return values + [-value for value in values]


def run(path):
    """Answers cases until the input ends. Each has a process of its own, forked when PyTorch is loaded."""
    import torch

    torch.set_default_dtype(torch.float64)
    with open(path, encoding="utf-8") as file:
        source = file.read()
    # Of PyTorch's own there are as many as processors.
    threads = MOST_THREADS + (os.cpu_count() or 1)
    while count := os.read(0, 4):
        while len(count) < 4:
            count += read_all(4 - len(count))
        given, ends = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(given)
            run_case(torch, source, struct.unpack("<I", count)[0])
            os.write(ends, b"1")
            os._exit(0)
        os.close(ends)
        while not select.select([given], [], [], POLL_SECONDS)[0]:
            if threads_of(child) > threads:
                os.kill(child, signal.SIGKILL)
                fail(f"reference.py starts more than {threads} threads")
        answered = os.read(given, 1) == b"1"
        os.close(given)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended < 0:
            os.kill(os.getpid(), -ended)
        if ended != 0:
            os._exit(ended)
        if not answered:
            fail("reference.py ended its process: it must return")
        os.write(1, b"\n")


def run_case(torch, source, value_count):
    # The reference's prints must not mix with its outputs.
    out = os.dup(1)
    os.dup2(2, 1)
    case = read_case(torch, value_count)
    forbid_processes()
    register_helpers(torch, source)
    scope = load(source)
    if "reference" not in scope:
        fail("reference.py must define reference(c)")
    with torch.no_grad():
        scope["reference"](case)
    for name in case._outputs:
        tensor = case.answers.get(name)
        if tensor is None:
            fail(f"reference.py must set {name}: c.set_output({name!r}, ...)")
        data = memoryview(tensor.detach().double().cpu().contiguous().numpy()).cast("B")
        while len(data) > 0:
            data = data[os.write(out, data) :]


def register_helpers(torch, source):
    """Registers the module from which an imported reference.py takes its adapter."""
    helpers = types.ModuleType("flashcore_reference")
    helpers.run_model = lambda c, axes, inputs, weights, outputs: run_model(
        KernelBench(torch, source), c, axes=axes, inputs=inputs, weights=weights, outputs=outputs
    )
    helpers.run_task = lambda c, arguments, axes, inputs, outputs: run_model(
        GpuMode(torch, {"source": source, "chosen": arguments, "places": list(inputs.values())}),
        c,
        axes=axes,
        inputs=list(inputs),
        weights={},
        outputs=outputs,
    )
    helpers.run_definition = lambda c, arguments, axes, inputs, outputs: run_model(
        SolExecBench(torch, {"source": source, "arguments": arguments}),
        c,
        axes=axes,
        inputs=inputs,
        weights={},
        outputs=outputs,
    )
    sys.modules["flashcore_reference"] = helpers
    if "run_task(" in source:
        register_task_modules(torch)


def run_model(program, c, *, axes, inputs, weights, outputs):
    """Runs a module with the extents of a case. `weights`: the tensor for each name in the module's state."""
    model = program.build({axis: int(c.value(axis)) for axis in axes})
    for name, tensor in weights.items():
        model.weights[name].copy_(c.input(tensor).reshape(model.weights[name].shape))
    for name, answer in zip(outputs, model(*[c.input(name) for name in inputs])):
        c.set_output(name, answer)


def load(source, constants=None):
    """Executes a program with other values for top-level constants, each set right after its own assignment."""
    tree = ast.parse(source)
    if constants:
        body = []
        for statement in tree.body:
            body.append(statement)
            for name in assigned(statement):
                if name in constants:
                    body.append(ast.Assign([ast.Name(name, ast.Store())], ast.Constant(constants[name])))
        tree.body = body
        ast.fix_missing_locations(tree)
    module = types.ModuleType("problem")
    sys.modules["problem"] = module
    exec(compile(tree, "problem.py", "exec"), module.__dict__)
    return module.__dict__


def assigned(statement):
    """The names to which a top-level assignment gives values."""
    if not isinstance(statement, ast.Assign):
        return []
    return [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]


class Refused(Exception):
    """A problem cannot be imported. Has the key of the file and the reason."""


class Model:
    """A module for a case, with the module's weights by name."""

    def __init__(self, module):
        self._module = module
        self.weights = {name: value for name, value in module.state_dict().items() if value.is_floating_point()}

    def __call__(self, *inputs):
        answer = self._module(*inputs)
        return list(answer) if isinstance(answer, (tuple, list)) else [answer]


def guarded(key, action):
    """Returns the action's result. Errors of the action become refusals with this key."""
    try:
        return action()
    except Refused:
        raise
    except (Exception, SystemExit) as error:
        raise Refused(f"{key}: {said(error)}") from error


class Tied(Refused):
    """An axis that accepts no other extent while the other axes keep theirs."""


class Program:
    """A foreign problem. The constants in capitals that are texts are keys of its refusals."""

    INPUTS = "get_inputs"
    MODEL = "Model"
    RUN = "Model.forward"
    AXES = "integer at the top of the file"
    # Extents follow from axes divided by at most this, or by one of MORE_DIVISORS.
    MORE_DIVISORS = ()
    # Limit on the elements of the inputs with which a problem is first tried.
    MOST_PROBED = 2**22

    def others(self, value):
        """Extents of an axis to try, to see whether inputs follow from it."""
        return (value + 1,)

    def moves(self, axis, value, shapes):
        for other in self.others(value):
            try:
                if self.shapes({axis: other}) != shapes:
                    return True
            except Exception:
                continue
        return False

    def steps(self, base):
        """Changes of an axis to try if the axis accepts few extents."""
        return ()

    def examples(self, axes):
        """Extents of the axes that the problem names, the smallest first; None if it names only the axes' values."""
        return None

    def fix(self, extents):
        """Fixes the axes that accept only these extents."""

    def more(self):
        """More keys for the answer."""
        return {}


class KernelBench(Program):
    """`Model`, `get_inputs` and `get_init_inputs`, whose extents follow from integers at the top of the file."""

    def __init__(self, torch, source):
        self._torch, self._source = torch, source

    def scope(self, extents):
        constants = {}
        base = self._base()
        for axis, extent in extents.items():
            name, place = base["axes"][axis]
            if place is None:
                constants[name] = extent
            else:
                numbers = list(constants.get(name, base["scope"][name]))
                numbers[place] = extent
                constants[name] = tuple(numbers)
        scope = load(self._source, constants)
        return scope

    def _base(self):
        if not hasattr(self, "_known"):
            scope = load(self._source)
            axes = {}
            for statement in ast.parse(self._source).body:
                computed = isinstance(statement, ast.Assign) and any(
                    isinstance(node, ast.Name) for node in ast.walk(statement.value)
                )
                for name in [] if computed else assigned(statement):
                    value = scope.get(name)
                    if is_extent(value):
                        axes[name] = (name, None)
                    if isinstance(value, (tuple, list)) and value and all(is_extent(each) for each in value):
                        for place in range(len(value)):
                            axes[f"{name}_{place}"] = (name, place)
            self._known = {"scope": scope, "axes": axes}
        return self._known

    def constants(self):
        base = self._base()
        for key in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(base["scope"].get(key)):
                raise Refused(f"{key}: is not defined, as KernelBench's problems have it")
        values = {}
        for axis, (name, place) in base["axes"].items():
            values[axis] = base["scope"][name] if place is None else base["scope"][name][place]
        return values

    def shapes(self, extents):
        """Shapes and dtypes of the inputs, without memory for them."""
        scope = self.scope(extents)
        with on_meta(self._torch):
            given = scope["get_inputs"]()
        tensors = []
        for index, each in enumerate(given):
            if not isinstance(each, self._torch.Tensor):
                raise Refused(f"get_inputs: input {index} is {type(each).__name__}: every input must be a tensor")
            if not each.is_floating_point():
                raise Refused(f"get_inputs: input {index} has dtype {str(each.dtype)[6:]}: must be floating-point")
            tensors.append(list(each.shape))
        return tensors

    def input_names(self, count):
        code = self._base()["scope"]["Model"].forward.__code__
        names = list(code.co_varnames[1 : code.co_argcount])
        return (names + [f"input_{index}" for index in range(len(names), count)])[:count]

    def build(self, extents):
        scope = self.scope(extents)
        # KernelBench runs modules as they are constructed, in training mode.
        given = scope["get_init_inputs"]()
        module = scope["Model"](**given) if isinstance(given, dict) else scope["Model"](*given)
        return Model(module)


def is_extent(value):
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


class Function:
    """A function for a case. It has no weights."""

    weights = {}

    def __init__(self, call):
        self._call = call

    def __call__(self, *inputs):
        answer = self._call(*inputs)
        return list(answer) if isinstance(answer, (tuple, list)) else [answer]


FLOATS = ("float16", "bfloat16", "float32", "float64")
CASTS = ("float", "double", "half", "bfloat16")


def on_cpu(torch, exact=None):
    """A context in which a program for CUDA tensors runs on the CPU. `exact`: the key of a program whose casts keep the
    default dtype."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, given=(), options=None):
            name = getattr(function, "__name__", "")
            if name == "cuda" and given and isinstance(given[0], torch.Tensor):
                return given[0]
            if exact and name in CASTS and len(given) == 1 and isinstance(given[0], torch.Tensor):
                return given[0].to(torch.get_default_dtype())
            options = {key: self._moved(value) for key, value in (options or {}).items()}
            given = tuple(self._moved(value) if index else value for index, value in enumerate(given))
            dtype = options.get("dtype")
            if not exact and name in ("rand", "randn") and dtype in (torch.float16, torch.bfloat16):
                # Some versions of PyTorch draw only 32 and 64 bits on a CPU.
                return function(*given, **{**options, "dtype": torch.float32}).to(dtype)
            return function(*given, **options)

        def _moved(self, value):
            if isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] == "cuda"):
                return torch.device("cpu")
            if exact and isinstance(value, torch.dtype) and value.is_floating_point:
                if str(value)[6:] not in FLOATS:
                    raise Refused(f"{exact}: casts to {str(value)[6:]}: known are {', '.join(FLOATS)}")
                return torch.get_default_dtype()
            return value

    return Mode()


class GpuMode(Program):
    """`generate_input` and `ref_kernel` of a task, whose extents are arguments in its tests and benchmarks."""

    INPUTS = "generate_input"
    MODEL = "generate_input"
    RUN = "ref_kernel"
    AXES = "argument in tests and benchmarks"
    MORE_DIVISORS = (32, 64, 128)

    def __init__(self, torch, given):
        self._torch, self._source = torch, given["source"]
        self._tests, self._benchmarks = given.get("tests", []), given.get("benchmarks", [])
        self._chosen, self._places, self._made = given.get("chosen"), given.get("places"), None

    def constants(self):
        specs = [spec for spec in [*self._benchmarks, *self._tests] if spec]
        self._chosen = dict(min(specs, key=size_of))
        for key in ("generate_input", "ref_kernel", "check_implementation"):
            if not callable(self._scope().get(key)):
                raise Refused(f"{key}: is not defined, as GPU MODE's tasks have it")
        check = self._scope()["check_implementation"]
        names = getattr(getattr(check, "__code__", None), "co_names", ())
        if check is not compares and not set(COMPARISONS) & set(names):
            raise Refused(
                "check_implementation: judges answers by a program of its own: must compare them with ref_kernel's"
            )
        self._find_places()
        names = [name for name, value in self._chosen.items() if is_extent(value) and name != "seed"]
        shapes = self.shapes({})
        axes = [name for name in names if self.moves(name, self._chosen[name], shapes)]
        # The other arguments are those of the largest benchmark.
        largest = max([spec for spec in self._benchmarks or specs], key=size_of)
        self._chosen = {**largest, **{axis: self._chosen[axis] for axis in axes}}
        self._index = [*self._tests, *self._benchmarks].index(largest)
        values = {axis: largest.get(axis) for axis in axes}
        if any(not is_extent(value) for value in values.values()):
            raise Refused("benchmarks: an argument that extents follow from is not an integer everywhere")
        return values

    def others(self, value):
        return (value + 1, 2 * value)

    def steps(self, base):
        return (base, 2 * base)

    def fix(self, extents):
        self._chosen.update(extents)

    def examples(self, axes):
        found = []
        for spec in sorted([*self._tests, *self._benchmarks], key=size_of):
            if all(is_extent(spec.get(axis)) for axis in axes) and all(
                spec.get(name) == value for name, value in self._chosen.items() if name not in axes and name != "seed"
            ):
                extents = {axis: spec[axis] for axis in axes}
                found += [] if extents in found else [extents]
        return found

    def more(self):
        return {"spec": self._index, "places": self._places}

    def shapes(self, extents):
        return [list(tensor.shape) for tensor in self._inputs(extents)]

    def input_names(self, count):
        leaves = self._generated({})[0]
        names = self._parameters()
        found = []
        for index in self._places:
            path = leaves[index][0] or (0,)
            name = names[path[0]] if len(path) == 1 and path[0] in range(len(names)) else str(path[-1])
            name = re.sub(r"[^A-Za-z0-9]", "_", name).lstrip("_0123456789")[:32]
            found.append(name if name and name not in found else f"input_{index}")
        return found

    def _parameters(self):
        """The names that ref_kernel unpacks its argument into."""
        for node in ast.walk(ast.parse(self._source)):
            if isinstance(node, ast.FunctionDef) and node.name == "ref_kernel" and node.args.args:
                data = node.args.args[0].arg
                for each in ast.walk(node):
                    if isinstance(each, ast.Assign) and isinstance(each.value, ast.Name) and each.value.id == data:
                        target = each.targets[0]
                        if isinstance(target, (ast.Tuple, ast.List)):
                            return [name.id if isinstance(name, ast.Name) else "" for name in target.elts]
                return [data]
        return []

    def build(self, extents):
        leaves, data = self._generated(extents)
        shapes = [list(tensor.shape) for _, tensor in leaves]
        places = range(len(leaves)) if self._places is None else self._places

        def call(*inputs):
            values = [self._torch.zeros(shape, dtype=self._torch.get_default_dtype()) for shape in shapes]
            for place, tensor in zip(places, inputs):
                values[place] = tensor.reshape(shapes[place])
            with on_cpu(self._torch, exact=self.RUN):
                return self._scope()["ref_kernel"](with_leaves(self._torch, data, iter(values)))

        return Function(call)

    def _inputs(self, extents):
        leaves = [tensor for _, tensor in self._generated(extents)[0]]
        return leaves if self._places is None else [leaves[place] for place in self._places]

    def _find_places(self):
        """Finds the tensors that outputs depend on; all other tensors are memory for outputs."""
        self._places = None
        torch = self._torch
        tensors = guarded("generate_input", lambda: self._inputs({}))
        for index, tensor in enumerate(tensors):
            if str(tensor.dtype)[6:] not in FLOATS:
                raise Refused(f"generate_input: input {index} is {str(tensor.dtype)[6:]}: must be {', '.join(FLOATS)}")
        if sum(tensor.numel() for tensor in tensors) > MOST_FIRST_ELEMENTS:
            raise Refused("tests: the smallest one is too large to try")
        torch.manual_seed(3)
        given = [torch.randn(tensor.shape) for tensor in tensors]
        with torch.no_grad():
            call = self.build({})
            answers = guarded("ref_kernel", lambda: call(*[tensor.clone() for tensor in given]))
            sizes = [answer.numel() for answer in answers if isinstance(answer, torch.Tensor)]
            places = []
            for index, tensor in enumerate(given):
                kept = tensor.numel() not in sizes
                if not kept:
                    others = [torch.randn(each.shape) if at == index else each.clone() for at, each in enumerate(given)]
                    kept = any(not same(a, b) for a, b in zip(answers, call(*others)) if isinstance(a, torch.Tensor))
                if kept:
                    places.append(index)
        self._places = places

    def _generated(self, extents):
        """Tensors of the argument with their paths, and the argument."""
        arguments = {**self._chosen, **extents}
        if self._made is None or self._made[0] != arguments:
            torch = self._torch
            dtype = torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
            state = torch.random.get_rng_state()
            try:
                with on_cpu(torch):
                    data = self._scope()["generate_input"](**arguments)
            finally:
                torch.set_default_dtype(dtype)
                torch.random.set_rng_state(state)
            self._made = (arguments, list(leaves_of(torch, data)), data)
        return self._made[1:]

    def _scope(self):
        if not hasattr(self, "_loaded"):
            register_task_modules(self._torch)
            self._loaded = guarded("reference.py", lambda: load(self._source))
        return self._loaded


# Functions of GPU MODE's utils.py that compare an answer with ref_kernel's.
COMPARISONS = ("match_reference", "verbose_allclose", "verbose_allequal")


def register_task_modules(torch):
    """Registers the modules that a task imports. They compare nothing and draw nothing on a GPU."""
    generator = torch.Generator
    torch.Generator = lambda *_, **__: generator()
    sys.modules["task"] = types.ModuleType("task")
    sys.modules["task"].__getattr__ = lambda name: object
    utils = types.ModuleType("utils")
    for name in COMPARISONS:
        setattr(utils, name, compares)
    utils.make_match_reference = lambda *_, **__: compares
    utils.DeterministicContext = utils.DisableCuDNNTF32 = contextlib.nullcontext
    sys.modules["utils"] = utils


def compares(*_, **__):
    raise Refused("check_implementation: answers are compared here")


MOST_FIRST_ELEMENTS = 2**25


def size_of(spec):
    return math.prod(value for name, value in spec.items() if is_extent(value) and name != "seed")


def leaves_of(torch, data, path=()):
    """The tensors in tuples, lists and dictionaries, with their paths."""
    if isinstance(data, torch.Tensor):
        yield path, data
    elif isinstance(data, (tuple, list)):
        for index, each in enumerate(data):
            yield from leaves_of(torch, each, (*path, index))
    elif isinstance(data, dict):
        for key, each in data.items():
            yield from leaves_of(torch, each, (*path, key))
    elif not isinstance(data, (int, float, str, bool, type(None))):
        raise Refused(f"generate_input: returns a {type(data).__name__}: known are tensors, numbers, lists, mappings")


def with_leaves(torch, data, values):
    if isinstance(data, torch.Tensor):
        return next(values)
    if isinstance(data, (tuple, list)):
        return type(data)([with_leaves(torch, each, values) for each in data])
    if isinstance(data, dict):
        return {key: with_leaves(torch, each, values) for key, each in data.items()}
    return data


class SolExecBench(Program):
    """`run` of a definition whose axes are in a file. Constant axes are not changed."""

    INPUTS = "axes"
    MODEL = "reference"
    RUN = "run"
    AXES = "axis that is var"
    MORE_DIVISORS = (32, 64, 128)
    # Constant axes keep their extents, and matrices of weights are large.
    MOST_PROBED = 2**25

    def __init__(self, torch, given):
        self._torch, self._source = torch, given["source"]
        self._axes, self._shapes = given.get("axes", {}), given.get("shapes", {})
        self._workloads, self._arguments = given.get("workloads", []), given["arguments"]
        self._fixed = dict(min(self._workloads, key=size_of)) if self._workloads else {}

    def constants(self):
        if not callable(self._scope().get("run")):
            raise Refused("reference: defines no function run")
        return dict(max(self._workloads, key=size_of))

    def others(self, value):
        return (value + 1, 2 * value)

    def steps(self, base):
        return (base, 2 * base)

    def fix(self, extents):
        self._fixed.update(extents)

    def examples(self, axes):
        fixed = [each for each in self._workloads if all(each[a] == self._fixed[a] for a in each if a not in axes)]
        found = []
        for each in sorted(({axis: each[axis] for axis in axes} for each in fixed), key=size_of):
            found += [] if each in found else [each]
        return found

    def shapes(self, extents):
        values = {name: axis for name, axis in self._axes.items() if isinstance(axis, int)}
        values.update({**self._fixed, **extents})
        for name, axis in self._axes.items():
            if isinstance(axis, str):
                values[name] = value_in(axis, values, f"axes.{name}")
        return [[values[each] if each in values else int(each) for each in shape] for shape in self._shapes.values()]

    def input_names(self, count):
        return list(self._shapes)

    def build(self, extents):
        def call(*inputs):
            tensors = iter(inputs)
            given = [next(tensors) if value is None else value for value in self._arguments.values()]
            with on_cpu(self._torch, exact=self.RUN):
                answer = self._scope()["run"](*given)
            return list(answer.values()) if isinstance(answer, dict) else answer

        return Function(call)

    def _scope(self):
        if not hasattr(self, "_loaded"):
            self._loaded = guarded("reference", lambda: load(self._source))
        return self._loaded


OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def value_in(expression, values, key):
    """The value of an expression over axes."""

    def value(node):
        if isinstance(node, ast.Name) and node.id in values:
            return values[node.id]
        if isinstance(node, ast.Constant) and is_extent(node.value):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise Refused(f"{key}: an expression over axes of +, -, *, /, // and % is known, not this one")

    extent = value(ast.parse(expression, mode="eval").body)
    if not is_extent(int(extent)) or extent != int(extent):
        raise ValueError(f"{key} is {extent}")
    return int(extent)


FACTORIES = ("rand", "randn", "randint", "zeros", "ones", "empty", "full", "arange", "randperm", "eye", "linspace")


class on_meta:
    """A context in which tensors are made without memory."""

    def __init__(self, torch):
        self._torch = torch
        self._own = {name: getattr(torch, name) for name in FACTORIES}

    def __enter__(self):
        for name, make in self._own.items():
            setattr(self._torch, name, self._elsewhere(make))

    def __exit__(self, *_):
        for name, make in self._own.items():
            setattr(self._torch, name, make)

    def _elsewhere(self, make):
        def made(*given, **options):
            options["device"] = "meta"
            options.pop("generator", None)
            return make(*given, **options)

        return made


# Extents that a problem is first tried with, and the changes that show how shapes follow from an axis.
CAPS = (8, 16, 24, 32, 64, 128, 256, 512)
BATCH_CAP = 3
STEPS = (1, 2, 3, 8)
# Tensors of the largest of the small cases, which the emulator also runs.
MOST_CASE_ELEMENTS = 2**15
MOST_AXES = 8
MOST_WEIGHTS = 64
# Limit on the elements of all inputs, weights and outputs of the timed case, which the reference holds as doubles.
MOST_ELEMENTS = 2**25
MOST_NAMED = 32
DRAWS = {
    "normal": lambda torch, shape: torch.randn(shape),
    "positive": lambda torch, shape: 2 ** (2 * torch.rand(shape) - 1),
    "few": lambda torch, shape: torch.randint(-1, 2, shape).to(torch.get_default_dtype()),
    "outlier_elements": lambda torch, shape: torch.randn(shape) * (1 + 7 * (torch.rand(shape) < 1 / 64)),
}


class Describer:
    """Finds out by running a program on small extents what problem.yaml and cases.yaml need to say."""

    def __init__(self, torch, program):
        self._torch, self._program = torch, program

    def describe(self):
        values = self._program.constants()
        program = self._program
        shapes = guarded(program.INPUTS, lambda: program.shapes({}))
        if not shapes:
            raise Refused(f"{program.INPUTS}: returns no inputs")
        axes = {axis: value for axis, value in values.items() if program.moves(axis, value, shapes)}
        if not axes:
            raise Refused(
                f"{program.INPUTS}: no {program.AXES} changes the shape of an input, so that there would be one case only"
            )
        if len(axes) > MOST_AXES:
            raise Refused(f"{program.INPUTS}: shapes depend on {len(axes)} integers: at most {MOST_AXES}")
        self._axes, self._inputs = axes, self._program.input_names(len(shapes))
        base, (dims, draws, cases) = self._first_shapes()
        larger = self._larger(dims, base)
        if larger != base:
            cases.append(larger)
        behaviour = self._behaviour(base, cases)
        used = behaviour.pop("used")
        dims = {key: value for key, value in dims.items() if key[0] != "weight" or key[1] in used}
        return {
            "axes": [{"name": axis, "value": value, "draw": draws[axis]} for axis, value in axes.items()],
            "tensors": [
                {"kind": kind, "name": name, "dims": [text(each) for each in each_dims] or ["1"]}
                for (kind, name), each_dims in dims.items()
            ],
            "cases": cases,
            **self._named(dims, base),
            **behaviour,
            **program.more(),
        }

    def _first_shapes(self):
        """Extents to begin with: small extents, or the problem's own if small extents are tied to each other."""
        base = self._first_extents()
        axes = dict(self._axes)
        try:
            return base, self._shapes_of(base)
        except Tied:
            for extents in self._program.examples(axes) or []:
                self._axes = dict(axes)
                try:
                    if sum(math.prod(shape) for shape in self._program.shapes(extents)) > self._program.MOST_PROBED:
                        break
                    return extents, self._shapes_of(extents)
                except Tied:
                    continue
            raise

    def _first_extents(self):
        problem = None
        # Small batches mean the least work. If a program does not run with them, an axis only has "batch" in its name,
        # and may have to be as large as the other axes.
        capped = [
            {a: min(v, batches if "batch" in a.lower() else cap) for a, v in self._axes.items()}
            for cap in CAPS
            for batches in (BATCH_CAP, cap)
        ]
        for extents in [*capped, *(self._program.examples(self._axes) or [])]:
            try:
                if sum(math.prod(shape) for shape in self._program.shapes(extents)) > self._program.MOST_PROBED:
                    break
                self._run(extents, seed=1)
                return extents
            except Refused:
                raise
            except Exception as error:
                problem = said(error)
        raise Refused(f"{self._program.MODEL}: {problem or 'the smallest extents are too large to try'}")

    def _drawn(self, shape, kind="normal"):
        return DRAWS[kind](self._torch, list(shape))

    def _run(self, extents, seed, kind="normal", change=None, dtype=None, noise=0):
        """Outputs, shapes and weights of a case whose inputs and weights follow from the seed."""
        torch = self._torch
        torch.set_default_dtype(dtype or torch.float64)
        try:
            with torch.no_grad():
                torch.manual_seed(seed + noise)
                model = self._program.build(extents)
                if len(model.weights) > MOST_WEIGHTS:
                    raise Refused(f"Model: has {len(model.weights)} weights: at most {MOST_WEIGHTS}")
                started = {name: (list(value.shape), rms(value)) for name, value in model.weights.items()}
                torch.manual_seed(seed)
                scale = self.weight_scale if hasattr(self, "weight_scale") else scale_of(started)
                # Drawn in double precision, so that a run in another dtype has the same values.
                torch.set_default_dtype(torch.float64)
                inputs = [self._drawn(shape, kind) for shape in self._program.shapes(extents)]
                weights = {name: self._drawn(value.shape) * scale for name, value in model.weights.items()}
                torch.set_default_dtype(dtype or torch.float64)
                for name, tensor in [*zip(self._inputs, inputs), *weights.items()]:
                    if change == name:
                        tensor.zero_() if name in self._inputs else tensor.mul_(-2)
                for name, tensor in weights.items():
                    model.weights[name].copy_(tensor)
                torch.manual_seed(seed + 2 * noise)
                given = [tensor.to(torch.get_default_dtype()) for tensor in inputs]
                answers = model(*[tensor.clone() for tensor in given])
                for index, answer in enumerate(answers):
                    if not isinstance(answer, torch.Tensor) or not answer.is_floating_point():
                        what = str(answer.dtype)[6:] if isinstance(answer, torch.Tensor) else type(answer).__name__
                        raise Refused(f"{self._program.RUN}: output {index} is {what}: must be a floating-point tensor")
                if any(answer.numel() == 0 for answer in answers):
                    raise ValueError("an output has no elements")
                again = model(*[tensor.clone() for tensor in given]) if noise else answers
                return {
                    "answers": [answer.double() for answer in answers],
                    "again": [answer.double() for answer in again],
                    "inputs": [list(tensor.shape) for tensor in inputs],
                    "weights": {name: shape for name, (shape, _) in started.items()},
                    "scale": scale,
                }
        finally:
            torch.set_default_dtype(torch.float64)

    def _extents_of(self, found):
        """Shapes by kind and name."""
        named = {("input", name): shape for name, shape in zip(self._inputs, found["inputs"])}
        named.update({("weight", name): shape for name, shape in found["weights"].items()})
        answers = found["answers"]
        for index, answer in enumerate(answers):
            named[("output", "out" if len(answers) == 1 else f"out_{index}")] = list(answer.shape)
        return named

    def _shapes_of(self, base):
        """How each extent follows from the axes, how axes may be drawn, and cases that were tried."""
        first = self._run(base, seed=1)
        self.weight_scale = first["scale"]
        samples = [(base, self._extents_of(first))]
        draws, tried, constants = {}, {}, []
        for axis in self._axes:
            worked = []
            steps = (*STEPS, 2 * base[axis] + 1)
            for step in (*steps, *self._program.steps(base[axis])):
                extents = {**base, axis: base[axis] + step}
                found = self._tried(extents)
                if found is not None:
                    samples.append((extents, found))
                    worked.append(step)
            if not worked:
                if base[axis] != self._axes[axis]:
                    raise Tied(f"{axis}: other extents would have to change with it, but nothing says how")
                constants.append(axis)
                continue
            tried[axis] = worked[: len(STEPS)]
            whole = set(steps) <= set(worked)
            draws[axis] = "count" if whole and "batch" in axis.lower() else "length" if whole else "width"
        self._program.fix({axis: base[axis] for axis in constants})
        for axis in constants:
            del self._axes[axis], base[axis]
            for extents, _ in samples[1:]:
                del extents[axis]
        if not base:
            raise Refused(
                f"{', '.join(constants)}: the model runs with no other extents, so that there would be one case only"
            )
        names = list(samples[0][1])
        if any(
            list(found) != names or [len(s) for s in found.values()] != [len(s) for s in samples[0][1].values()]
            for _, found in samples
        ):
            raise Refused(f"{self._program.MODEL}: the number of tensors or of their dimensions follows from an extent")
        dims = self._formulas(samples, base)
        # With a divisor, every remainder and larger extents show whether the formula is correct.
        checked = set()
        while True:
            divided = {
                (a, f[2]) for each in dims.values() for f in each if isinstance(f, tuple) and f[2] > 1 for a in f[1]
            }
            if divided <= checked:
                break
            for axis, divisor in sorted(divided - checked):
                for step in [*range(1, divisor + 1), 2 * divisor + 1, 5 * divisor, 8 * divisor - 1]:
                    extents = {**base, axis: base[axis] + step}
                    found = None if any(extents == known for known, _ in samples) else self._tried(extents)
                    if found is not None:
                        samples.append((extents, found))
            checked |= divided
            dims = self._formulas(samples, base)
        picked = random.Random(7)
        cases = [base]
        for _ in range(12):
            extents = {axis: base[axis] + picked.choice([0, *tried[axis]]) for axis in self._axes}
            if extents in cases or len(cases) == 3:
                continue
            found = self._tried(extents)
            if found is None:
                continue
            for key, shape in found.items():
                for place, extent in enumerate(shape):
                    if dims[key][place] is None or value_of(dims[key][place], extents) != extent:
                        raise Refused(
                            f"{key[1]}: dimension {place} does not follow from {', '.join(self._axes)} by a formula that is known here"
                        )
            cases.append(extents)
        unknown = next((key for key, each in dims.items() if None in each), None)
        if unknown:
            raise Refused(
                f"{unknown[1]}: a dimension does not follow from {', '.join(self._axes)} by a formula that is known here"
            )
        return dims, draws, cases

    def _formulas(self, samples, base):
        return {
            key: [fitted(samples, key, place, base, self._program.MORE_DIVISORS) for place in range(len(shape))]
            for key, shape in samples[0][1].items()
        }

    def _larger(self, dims, base):
        """The base with each extent multiplied, as long as the model runs and nothing becomes large."""
        extents = dict(base)
        for axis in sorted(self._axes, key=self._axes.get, reverse=True):
            for factor in (16, 4, 2):
                more = {**extents, axis: factor * extents[axis]}
                small = more[axis] <= self._axes[axis] and elements(dims, more) <= MOST_CASE_ELEMENTS
                if small and self._tried(more) is not None:
                    extents = more
                    break
        return extents

    def _tried(self, extents):
        try:
            return self._extents_of(self._run(extents, seed=1))
        except Refused:
            raise
        except Exception:
            return None

    def _behaviour(self, base, cases):
        """Finds which tensors matter, inputs with finite outputs, and rounding errors; refuses random outputs."""
        plain = self._run(base, seed=1)
        noisy = self._run(base, seed=1, noise=1000)
        if differ(plain, noisy, "answers"):
            raise Refused(
                f"{self._program.MODEL}: outputs differ from run to run with the same inputs and weights (dropout, or values drawn when it is made)"
            )
        if any(not same(a, b) for a, b in zip(noisy["answers"], noisy["again"])):
            raise Refused(
                f"{self._program.RUN}: a second call gives other outputs: the model keeps state between calls"
            )
        ends = [cases[0], cases[-1]]
        kinds = [kind for kind in DRAWS if all(finite(self._run(case, seed=2, kind=kind)) for case in ends)]
        main = next((kind for kind in ("normal", "positive") if kind in kinds), None)
        if main is None:
            raise Refused(f"{self._program.RUN}: outputs are not finite on N(0, 1), nor on numbers from 1/2 to 2")
        used, ignored = [], []
        plain = self._run(base, seed=1, kind=main)
        for name in plain["weights"]:
            if differ(plain, self._run(base, seed=1, kind=main, change=name), "answers"):
                used.append(name)
        for name in self._inputs:
            if not differ(plain, self._run(base, seed=1, kind=main, change=name), "answers", visible=True):
                ignored.append(name)
        smallest, error, largest = math.inf, 0.0, 0.0
        for case in cases:
            exact = self._run(case, seed=2, kind=main)["answers"]
            try:
                single = self._run(case, seed=2, kind=main, dtype=self._torch.float32)["answers"]
            except Exception as problem:
                raise Refused(f"{self._program.RUN}: does not run in float32: {said(problem)}") from problem
            for want, got in zip(exact, single):
                smallest = min(smallest, rms(want))
                largest = max(largest, float(want.abs().max()))
                error = max(error, float((want - got).abs().max()))
        if not smallest > 0:
            raise Refused(f"{self._program.RUN}: an output is 0 everywhere on drawn inputs: nothing could be judged")
        return {
            "used": used,
            "ignored": ignored,
            "distributions": [main] + [kind for kind in kinds if kind != main],
            "weightScale": self.weight_scale,
            "rms": smallest,
            "largest": largest,
            "roundingError": error,
        }

    def _named(self, dims, base):
        """Cases with the problem's own extents, and the largest of them that fits."""
        examples = self._program.examples(self._axes)
        if examples is None:
            return {"canonical": self._canonical(dims, base)}
        fitting = [extents for extents in examples if elements(dims, extents) <= MOST_ELEMENTS]
        return {"canonical": fitting[-1] if fitting else self._canonical(dims, base), "named": examples[-MOST_NAMED:]}

    def _canonical(self, dims, base):
        """The program's own extents, halved until the case fits."""
        extents = dict(self._axes)
        while elements(dims, extents) > MOST_ELEMENTS:
            axis = max((a for a in extents if extents[a] // 2 >= base[a]), key=extents.get, default=None)
            if axis is None:
                raise Refused(
                    f"{self._program.INPUTS}: {elements(dims, extents)} elements in the smallest case: at most {MOST_ELEMENTS}"
                )
            extents[axis] //= 2
        return extents


def said(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"[:300]


def rms(tensor):
    return float(tensor.double().pow(2).mean().sqrt()) if tensor.numel() else 0.0


def scale_of(weights):
    """The power of two nearest to the magnitude of the weight matrices of a new module."""
    sizes = [size for shape, size in weights.values() if len(shape) > 1 and size > 0 and math.isfinite(size)]
    return 2.0 ** round(math.log2(sum(sizes) / len(sizes))) if sizes else 1.0


def same(a, b):
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b)) | ((a - b).abs() <= 1e-12 * b.abs())).all())


def differ(one, other, key, visible=False):
    for a, b in zip(one[key], other[key]):
        if visible:
            if not float((a - b).abs().max()) <= 0.05 * rms(a):
                return True
        elif not same(a, b):
            return True
    return False


def finite(found):
    return all(bool(answer.isfinite().all()) for answer in found["answers"])


MOST_DIVISOR = 16
# An extent as a formula: a constant, or (factor, axes, divisor, before, after) for
# floor((factor * product of axes + before) / divisor) + after. A pair of signs as the factor is for a sum of two axes.


def fitted(samples, key, place, base, more_divisors):
    """The formula that gives the extent in all samples; None if no known formula does."""
    seen = [(extents, found[key][place]) for extents, found in samples]
    first = seen[0][1]
    axes = [a for a in base if any(e[a] != base[a] and value != first for e, value in seen)]
    if not axes:
        return first
    product = math.prod(base[a] for a in axes)

    def fits(formula):
        return all(value_of(formula, e) == value for e, value in seen)

    for signs in ((1, 1), (1, -1), (-1, 1)) if len(axes) == 2 else ():
        after = first - sum(sign * base[a] for sign, a in zip(signs, axes))
        if fits((signs, axes, 1, 0, after)):
            return (signs, axes, 1, 0, after)

    for divisor in (*range(1, MOST_DIVISOR + 1), *more_divisors):
        for factor in range(1, 9) if divisor == 1 else (1,):
            for before in range(divisor) if divisor > 1 else (0,):
                after = first - math.floor((factor * product + before) / divisor)
                if fits((factor, axes, divisor, before, after)):
                    return (factor, axes, divisor, before, after)
    if first % product == 0 and fits((first // product, axes, 1, 0, 0)):
        return (first // product, axes, 1, 0, 0)
    return None


def value_of(formula, extents):
    if isinstance(formula, int):
        return formula
    factor, axes, divisor, before, after = formula
    if isinstance(factor, tuple):
        return sum(sign * extents[a] for sign, a in zip(factor, axes)) + after
    return (factor * math.prod(extents[a] for a in axes) + before) // divisor + after


def elements(dims, extents):
    return sum(math.prod(value_of(each, extents) for each in of) for of in dims.values())


def text(formula):
    if isinstance(formula, int):
        return str(formula)
    factor, axes, divisor, before, after = formula
    if isinstance(factor, tuple):
        first, second = sorted(zip(factor, axes), reverse=True)
        written = f"{first[1]} {'+' if second[0] > 0 else '-'} {second[1]}"
        return written if after == 0 else f"{written} {'+' if after > 0 else '-'} {abs(after)}"
    written = " * ".join(([str(factor)] if factor != 1 else []) + axes)
    if divisor != 1:
        written = f"floor({written if before == 0 else f'({written} + {before})'} / {divisor})"
    return written if after == 0 else f"{written} {'+' if after > 0 else '-'} {abs(after)}"


# How to make a program from a file's text, by benchmark. For all but KernelBench, the import has written the file as
# JSON.
PROGRAMS = {
    "kernelbench": KernelBench,
    "gpumode": lambda torch, text: GpuMode(torch, json.loads(text)),
    "sol-execbench": lambda torch, text: SolExecBench(torch, json.loads(text)),
}


MOST_SECONDS = 600
MOST_CPU_SECONDS = 90
MOST_MEMORY_BYTES = 8 * 2**30
MOST_ANSWER_BYTES = 2**17
# PyTorch starts some threads.
MOST_THREADS = 64
POLL_SECONDS = 0.05

# linux/prctl.h, linux/seccomp.h, linux/filter.h, linux/sched.h
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL_EPERM = 0x7FFF0000, 0x00050001
CLONE_THREAD = 0x00010000
# Calls by number, from asm/unistd.h: clone; fork, vfork, rt_sigqueueinfo, tkill, rt_tgsigqueueinfo and pidfd_open; and
# those whose first argument is a process, kill, sched_setaffinity, tgkill and prlimit64.
CALLS = {
    "x86_64": {"clone": 56, "never": (57, 58, 129, 200, 297, 434), "named": (62, 203, 234, 302)},
    "aarch64": {"clone": 220, "never": (130, 138, 240, 434), "named": (122, 129, 131, 261)},
}


def forbid_processes():
    """From here on this process starts threads only, whatever it executes, and signals nobody else. Linux's own limit
    on processes does not bind root, and a signal to a group misses a process that has left it."""
    calls = CALLS[os.uname().machine]
    refuse, number, first_argument = (RETURN, 0, 0, FAIL_EPERM), (LOAD, 0, 0, 0), (LOAD, 0, 0, 16)
    code = [number]
    for call in calls["never"]:
        code += [(EQUAL, 0, 1, call), refuse]
    # clone3 fails in the box.
    code += [(EQUAL, 0, 4, calls["clone"]), first_argument, (ANY_BIT, 1, 0, CLONE_THREAD), refuse, number]
    for call in calls["named"]:
        # 0 is the caller itself; the box refuses it where it would be the caller's group.
        own = [(EQUAL, 2, 0, os.getpid()), (EQUAL, 1, 0, 0), refuse]
        code += [(EQUAL, 0, 5, call), first_argument, *own, number]
    code += [(RETURN, 0, 0, ALLOW)]
    filters = b"".join(struct.pack("=HBBI", *each) for each in code)
    held = ctypes.create_string_buffer(filters, len(filters))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of system calls was refused")


def describe(form, *paths):
    """Each file has a process of its own, forked when PyTorch is loaded, which takes seconds."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for path in paths:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(2, 1)
            answer = describe_one(torch, form, path)
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
        os.close(writer)
        print(json.dumps(answer_of(child, reader)), flush=True)


def describe_one(torch, form, path):
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        forbid_processes()
        return Describer(torch, PROGRAMS[form](torch, source)).describe()
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": f"needs more than {MOST_MEMORY_BYTES >> 30} GiB of memory on the smallest extents"}
    except (Exception, SystemExit) as error:
        return {"refused": said(error)}


def answer_of(child, reader):
    """A child's answer. The child is foreign code: it may hang, end early, write anything, or start many threads."""
    answer, until, crowd, status = bytearray(), time.monotonic() + MOST_SECONDS, False, None
    while len(answer) <= MOST_ANSWER_BYTES and time.monotonic() < until and not crowd:
        ready, _, _ = select.select([reader], [], [], POLL_SECONDS)
        part = os.read(reader, 1 << 16) if ready else b""
        answer += part
        if not part:
            # A child that has closed its end of the pipe may still run.
            status = ended_status(child)
            if status is not None:
                while part := os.read(reader, 1 << 16):
                    answer += part
                break
            time.sleep(POLL_SECONDS if ready else 0)
        crowd = threads_of(child) > MOST_THREADS
    late = time.monotonic() >= until
    if status is None:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    os.close(reader)
    if crowd:
        return {"refused": f"starts more than {MOST_THREADS} threads"}
    if late:
        return {"refused": f"did not end within {MOST_SECONDS} s"}
    try:
        return json.loads(answer)
    except ValueError:
        ended = os.waitstatus_to_exitcode(status)
        if ended == -signal.SIGXCPU:
            return {"refused": f"needs more than {MOST_CPU_SECONDS} s of processor time on small extents"}
        return {
            "refused": f"ended with {'signal ' + str(-ended) if ended < 0 else 'status ' + str(ended)} and without an answer"
        }


def ended_status(child):
    """The status of a child that has ended; None while it runs."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return status if pid == child else None


def threads_of(pid):
    """The number of threads of a child that has not been waited for."""
    return len(os.listdir(f"/proc/{pid}/task"))


def main(action, *given):
    sys.dont_write_bytecode = True
    if action == "check":
        if importlib.util.find_spec("torch") is None:
            fail("this Python has no PyTorch")
        return
    {"run": run, "describe": describe}[action](*given)


if __name__ == "__main__":
    main(*sys.argv[1:])
