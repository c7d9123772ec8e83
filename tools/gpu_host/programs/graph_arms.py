"""Measures how long a launch of an exported kernel takes in a CUDA graph, and what this time depends on: who captured
the graph, where the tensors are in memory, which context it runs in, and whether PyTorch is in the process.

  python3 graph_arms.py torch|bare FOLDER SHAPE STAMP KERNEL…

FOLDER/<kernel>.py has an exported operator, FOLDER/<shape>.in has Q, K and V, and STAMP is the compiled clock-stamp.cu.
`bare` runs without PyTorch in the process, as in the runner. Each arm times pairs of replays as the runner does
(apps/runner/worker/benchmark/samplers.ts), all arms in turns. Prints one JSON object.
"""

import collections
import ctypes
import functools
import importlib.util
import json
import pathlib
import random
import re
import statistics
import sys
import types

GRAPH_US = 2000
MOST_LAUNCHES = 200
ROUNDS = 8
PAIRS = 5
GUARD_BYTES = 4096
HALF_BYTES = 2
NON_BLOCKING = 1
THREAD_LOCAL = 1
NODE_TYPES = {0: "kernel", 1: "memcpy", 2: "memset", 5: "empty", 10: "alloc", 11: "free"}
# For each CUlaunchAttributeID: how many 32-bit words of its value have a meaning.
NODE_ATTRIBUTES = {
    "access_policy_window": (1, 8),
    "cooperative": (2, 1),
    "cluster": (4, 3),
    "cluster_scheduling": (5, 1),
    "priority": (8, 1),
    "memory_sync_domain_map": (9, 1),
    "memory_sync_domain": (10, 1),
    "preferred_cluster": (11, 3),
    "preferred_carveout": (14, 1),
}
FUNCTION_ATTRIBUTES = {"shared": 1, "constant": 2, "local": 3, "registers": 4, "dynamic_shared": 8, "carveout": 9}
LIMITS = {
    "stack": 0,
    "printf": 1,
    "heap": 2,
    "sync_depth": 3,
    "pending_launches": 4,
    "l2_fetch_granularity": 5,
    "persisting_l2": 6,
}


class Cuda:
    """The driver's functions; every call is checked."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def handle(self, name, *arguments):
        """Calls a function and returns the pointer or address that it writes to its first argument."""
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *arguments)
        return out

    def told(self, name, *arguments, kind=ctypes.c_int):
        """Like handle(), but returns a number, or the text of the error if the call fails."""
        out = kind()
        try:
            self.call(name, ctypes.byref(out), *arguments)
        except (RuntimeError, AttributeError) as error:
            return str(error)
        return out.value


cuda = Cuda()


class Tensor:
    """The properties of a tensor that the launcher of an exported operator reads."""

    def __init__(self, address, shape):
        self.address, self.shape = address, shape

    def data_ptr(self):
        return self.address

    @property
    def nbytes(self):
        return self.shape[0] * self.shape[1] * self.shape[2] * self.shape[3] * HALF_BYTES


# The launches of a call, and its workspaces by name.
Plan = collections.namedtuple("Plan", "launches workspace")


def sets_of(shape, inputs, layout):
    """Two sets of Q, K, V and O. `guarded`: each tensor has an allocation, with 4 KiB before and after it, as in the
    runner. `packed`: all tensors are in one allocation, as PyTorch's allocator places tensors of 1 MiB."""
    size = len(inputs) // 3
    block = cuda.handle("cuMemAlloc_v2", ctypes.c_size_t(8 * size)).value if layout == "packed" else 0
    sets = []
    for number in range(2):
        tensors = {}
        for place, name in enumerate("QKVO"):
            if layout == "packed":
                address = block + (4 * number + place) * size
            else:
                address = cuda.handle("cuMemAlloc_v2", ctypes.c_size_t(size + 2 * GUARD_BYTES)).value + GUARD_BYTES
            if name != "O":
                part = inputs[place * size : (place + 1) * size]
                cuda.call("cuMemcpyHtoD_v2", ctypes.c_void_p(address), part, ctypes.c_size_t(size))
            tensors[name] = Tensor(address, shape)
        sets.append(tensors)
    cuda.call("cuCtxSynchronize")
    return sets


def new_stream():
    return cuda.handle("cuStreamCreate", NON_BLOCKING)


def new_context():
    """Creates a context in addition to PyTorch's, and makes it current on the calling thread."""
    context = ctypes.c_void_p()
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    return context


@functools.cache
def torch_stream():
    """PyTorch's stream for everything that is timed. There is only one per process, because after several calls in a
    row in a second stream every graph of the process takes up to 0.2 us longer per launch (docs/exports.md)."""
    import torch

    return torch.cuda.Stream()


def captured(loaded, plan, sets, launches):
    """Captures in the way of the runner: in a separate stream, in thread-local mode."""
    stream = new_stream()
    cuda.call("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
    for number in range(launches):
        for launch in plan.launches:
            loaded.launch(launch, sets[number % 2], plan.workspace, stream.value)
    graph = ctypes.c_void_p()
    cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph


class KernelNode(ctypes.Structure):
    """The struct CUDA_KERNEL_NODE_PARAMS of cuda.h, version 2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


def built(loaded, plan, sets, launches):
    """Builds the graph node by node. Each node depends on the previous one."""
    graph = cuda.handle("cuGraphCreate", 0)
    before = None
    for number in range(launches):
        for launch in plan.launches:
            before = add_node(graph, before, (loaded, launch, sets[number % 2], plan.workspace))
    return graph


def add_node(graph, before, work):
    loaded, launch, tensors, workspace = work
    values = [loaded._value(argument, tensors, workspace) for argument in launch.arguments]
    parameters = (ctypes.c_void_p * len(values))(*[address for address, _ in values])
    function = loaded._function(launch).value
    node = KernelNode(function, launch.grid, launch.block, launch.shared_bytes, ctypes.addressof(parameters))
    dependencies = (ctypes.c_void_p * 1)(before)
    count = ctypes.c_size_t(0 if before is None else 1)
    added = cuda.handle("cuGraphAddKernelNode_v2", graph, dependencies, count, ctypes.byref(node))
    if launch.cluster is not None:
        value = (ctypes.c_uint32 * 16)(*launch.cluster)
        cuda.call("cuGraphKernelNodeSetAttribute", added, 4, value)
    return added.value


def executable(graph, flags=0):
    return cuda.handle("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(flags))


def facts_of(graph):
    """The number of nodes by type and of edges, the parameters of the first kernel node, and the attributes that differ
    between nodes."""
    count = ctypes.c_size_t()
    cuda.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    cuda.call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    types_of, attributes = {}, {}
    for node in nodes:
        kind = node_type(node)
        named = NODE_TYPES.get(kind, f"type {kind}")
        types_of[named] = types_of.get(named, 0) + 1
        if kind == 0:
            for name, value in node_attributes(node).items():
                attributes.setdefault(name, set()).add(value)
    edges = ctypes.c_size_t()
    cuda.call("cuGraphGetEdges_v2", graph, None, None, None, ctypes.byref(edges))
    data = (ctypes.c_uint64 * max(1, edges.value))()
    ends = [(ctypes.c_void_p * max(1, edges.value))() for _ in range(2)]
    cuda.call("cuGraphGetEdges_v2", graph, *ends, data, ctypes.byref(edges))
    return {
        "nodes": types_of,
        "edges": edges.value,
        "edge_data": sorted({hex(word) for word in data}),
        "attributes": {name: sorted(values) for name, values in attributes.items()},
    }


def node_type(node):
    kind = ctypes.c_int()
    cuda.call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
    return kind.value


def node_attributes(node):
    found = {}
    for name, (number, words) in NODE_ATTRIBUTES.items():
        value = (ctypes.c_uint32 * 16)()
        code = cuda.library.cuGraphKernelNodeGetAttribute(ctypes.c_void_p(node), number, value)
        found[name] = " ".join(hex(word) for word in value[:words]) if code == 0 else f"error {code}"
    return found


def function_facts(function):
    facts = {}
    for name, number in FUNCTION_ATTRIBUTES.items():
        facts[name] = cuda.told("cuFuncGetAttribute", number, function)
    sizes = []
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    index = ctypes.c_size_t(0)
    try:
        while cuda.library.cuFuncGetParamInfo(function, index, ctypes.byref(offset), ctypes.byref(size)) == 0:
            sizes.append([offset.value, size.value])
            index = ctypes.c_size_t(index.value + 1)
    except AttributeError as error:
        sizes = str(error)
    facts["parameters"] = sizes
    return facts


def context_facts():
    facts = {name: cuda.told("cuCtxGetLimit", number, kind=ctypes.c_size_t) for name, number in LIMITS.items()}
    facts["flags"] = cuda.told("cuCtxGetFlags", kind=ctypes.c_uint32)
    facts["cache_config"] = cuda.told("cuCtxGetCacheConfig")
    return facts


class Stamps:
    """Launches clock-stamp.cu around samples, to compute the SM's MHz."""

    def __init__(self, image):
        module = cuda.handle("cuModuleLoadData", pathlib.Path(image).read_bytes() + b"\0")
        self.function = cuda.handle("cuModuleGetFunction", module, b"flashcore_clock_stamp")
        self.buffer = cuda.handle("cuMemAlloc_v2", ctypes.c_size_t(48)).value

    def stamp(self, place, stream):
        held = ctypes.c_void_p(self.buffer + 24 * place)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(held))
        cuda.call("cuLaunchKernel", self.function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    def mhz(self):
        words = (ctypes.c_uint64 * 6)()
        cuda.call("cuMemcpyDtoH_v2", words, ctypes.c_void_p(self.buffer), ctypes.c_size_t(48))
        one_sm = words[2] == words[5] and words[3] > words[0]
        return 1000 * (words[4] - words[1]) / (words[3] - words[0]) if one_sm else 0


class Arm:
    """A graph to time. It has the microseconds per launch of each pair of replays. `between` enqueues what the runner
    enqueues between the two replays: writing poison to the outputs, and a stamp."""

    def __init__(self, name, replay, launches, *, context, stream, stamps=None, outputs=()):
        self.name, self.replay, self.launches = name, replay, launches
        self.context, self.stream, self.stamps, self.outputs = context, stream, stamps, outputs
        self.samples, self.clocks = [], []
        cuda.call("cuCtxSetCurrent", context)
        self.start, self.end = (cuda.handle("cuEventCreate", 0) for _ in range(2))

    def pair(self):
        self.replay()
        for tensor in self.outputs:
            cuda.call(
                "cuMemsetD16Async",
                ctypes.c_void_p(tensor.data_ptr()),
                ctypes.c_uint16(0x7E11),
                ctypes.c_size_t(tensor.nbytes // HALF_BYTES),
                self.stream,
            )
        if self.stamps:
            self.stamps.stamp(0, self.stream)
        cuda.call("cuEventRecord", self.start, self.stream)
        self.replay()
        cuda.call("cuEventRecord", self.end, self.stream)
        if self.stamps:
            self.stamps.stamp(1, self.stream)
        cuda.call("cuEventSynchronize", self.end)
        ms = ctypes.c_float()
        cuda.call("cuEventElapsedTime", ctypes.byref(ms), self.start, self.end)
        if self.stamps:
            cuda.call("cuStreamSynchronize", self.stream)
            self.clocks.append(self.stamps.mhz())
        return ms.value * 1e3 / self.launches

    def forget(self):
        self.samples, self.clocks = [], []

    def block(self):
        cuda.call("cuCtxSetCurrent", self.context)
        self.pair()
        self.samples += [self.pair() for _ in range(PAIRS)]

    def told(self):
        known = [mhz for mhz in self.clocks if mhz > 0]
        return {
            "us": round(statistics.median(self.samples), 4),
            "least": round(min(self.samples), 4),
            "most": round(max(self.samples), 4),
            **({"mhz": round(statistics.median(known))} if known else {}),
        }


class Bench:
    """All arms of one kernel, and the reasons why others could not be set up."""

    def __init__(self, module, inputs, shape, causal, stamp=None):
        self.module, self.inputs, self.shape, self.causal, self.held = module, inputs, shape, causal, []
        self.primary = cuda.handle("cuDevicePrimaryCtxRetain", 0)
        cuda.call("cuCtxSetCurrent", self.primary)
        self.loaded = module._Loaded(0, module._CUBINS)
        launches, sizes = module.plan(*shape, causal)
        held = {name: cuda.handle("cuMemAlloc_v2", ctypes.c_size_t(max(1, size))).value for name, size in sizes.items()}
        self.plan = Plan(launches, {name: Tensor(address, None) for name, address in held.items()})
        self.stamps = Stamps(stamp) if stamp else None
        self.arms, self.facts, self.failed = [], {}, {}
        self.launches = 20
        probe = self.arm("probe", lambda: captured(self.loaded, self.plan, sets_of(shape, inputs, "packed"), 20))
        probe.block()
        self.launches = max(1, min(MOST_LAUNCHES, round(GRAPH_US / statistics.median(probe.samples))))
        self.arms.clear()
        self.facts.clear()

    def arm(self, name, graph_of, *, context=None, flags=0, runner_like=None, stamps=None):
        """Adds an arm. `runner_like` has the sets whose outputs are poisoned between the replays."""
        context = context or self.primary
        try:
            cuda.call("cuCtxSetCurrent", context)
            graph = graph_of()
            stream, ready = new_stream(), executable(graph, flags)
            try:
                self.facts[name] = facts_of(graph)
            except (RuntimeError, AttributeError) as error:
                self.facts[name] = str(error)
            arm = Arm(
                name,
                lambda: cuda.call("cuGraphLaunch", ready, stream),
                self.launches,
                context=context,
                stream=stream,
                stamps=stamps or (self.stamps if runner_like else None),
                outputs=[tensors["O"] for tensors in runner_like or ()],
            )
            self.arms.append(arm)
            return arm
        except Exception as error:  # noqa: BLE001 an arm that fails must not cost the others' figures
            self.failed[name] = f"{type(error).__name__}: {error}"[:300]
            return None

    def common_arms(self):
        """Adds the arms that do not need PyTorch."""
        for again in ("", " again"):
            for layout in ("guarded", "packed"):
                sets = sets_of(self.shape, self.inputs, layout)
                self.arm(
                    f"captured, {layout}{again}", lambda s=sets: captured(self.loaded, self.plan, s, self.launches)
                )
                if not again:
                    self.arm(f"by nodes, {layout}", lambda s=sets: built(self.loaded, self.plan, s, self.launches))
                    self.arm(
                        f"captured, {layout}, as the runner between replays",
                        lambda s=sets: captured(self.loaded, self.plan, s, self.launches),
                        runner_like=sets,
                    )
                    second = self.module._Loaded(0, self.module._CUBINS)
                    self.arm(
                        f"captured, {layout}, module loaded again",
                        lambda s=sets, m=second: captured(m, self.plan, s, self.launches),
                    )

    def own_context(self):
        context = new_context()
        loaded = self.module._Loaded(0, self.module._CUBINS)
        self.facts["own context"] = context_facts()
        for layout in ("guarded", "packed"):
            sets = sets_of(self.shape, self.inputs, layout)
            for name, way in (("captured", captured), ("by nodes", built)):
                self.arm(
                    f"{name}, {layout}, own context",
                    lambda s=sets, w=way: w(loaded, self.plan, s, self.launches),
                    context=context,
                )
        cuda.call("cuCtxSetCurrent", self.primary)

    def torch_arms(self):
        for name, sets in (("PyTorch's memory", self.sets_of_torch()), ("guarded memory", self.sets_for_torch())):
            raw, plain = self.torch_arm(f"PyTorch's graph, {name}", sets)
            for flags in (0, 1, 8, 9):
                self.arm(f"PyTorch's graph, {name}, instantiated with {flags}", lambda raw=raw: raw, flags=flags)
            self.arm(f"captured, {name}", lambda s=plain: captured(self.loaded, self.plan, s, self.launches))
            self.arm(f"by nodes, {name}", lambda s=plain: built(self.loaded, self.plan, s, self.launches))
            self.arm(
                f"captured, {name}, as the runner between replays",
                lambda s=plain: captured(self.loaded, self.plan, s, self.launches),
                runner_like=plain,
            )

    def torch_arm(self, name, sets, stamped=False):
        """A graph of the exported operator that PyTorch captured, as a user would. Returns the graph and the sets."""
        import torch

        stream = torch_stream()
        with torch.cuda.stream(stream):
            for one in sets:
                for _ in range(3):
                    self.module.attention_out(*one, self.causal)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph(keep_graph=True)
            with torch.cuda.graph(graph, stream=stream):
                for number in range(self.launches):
                    self.module.attention_out(*sets[number % 2], self.causal)
            graph.instantiate()

        def replay():
            with torch.cuda.stream(stream):
                graph.replay()

        raw = ctypes.c_void_p(graph.raw_cuda_graph())
        self.facts[name] = {**facts_of(raw), "stream_priority": stream.priority}
        handle = ctypes.c_void_p(stream.cuda_stream)
        stamps = self.stamps if stamped else None
        self.arms.append(Arm(name, replay, self.launches, context=self.primary, stream=handle, stamps=stamps))
        self.held += [sets, graph]
        return raw, [{each: Tensor(t.data_ptr(), self.shape) for each, t in zip("QKVO", one)} for one in sets]

    def sets_of_torch(self):
        """Sets of tensors that PyTorch's allocator placed."""
        import torch

        values = torch.frombuffer(bytearray(self.inputs), dtype=torch.float16).view(3, *self.shape)
        sets = []
        for _ in range(2):
            q, k, v = (values[place].cuda() for place in range(3))
            sets.append((q, k, v, torch.empty_like(q)))
        return sets

    def sets_for_torch(self):
        """Sets of tensors for PyTorch, laid out as in the runner."""
        import torch

        class Exposed:
            def __init__(self, tensor):
                self.__cuda_array_interface__ = {
                    "shape": (tensor.nbytes // HALF_BYTES,),
                    "typestr": "<f2",
                    "data": (tensor.data_ptr(), False),
                    "version": 3,
                }

        return [
            tuple(torch.as_tensor(Exposed(tensors[name]), device="cuda").view(self.shape) for name in "QKVO")
            for tensors in sets_of(self.shape, self.inputs, "guarded")
        ]

    def run(self):
        cuda.call("cuCtxSetCurrent", self.primary)
        for _ in range(ROUNDS):
            for arm in random.sample(self.arms, len(self.arms)):
                arm.block()
        cuda.call("cuCtxSetCurrent", self.primary)
        return {
            "launches": self.launches,
            "arms": {arm.name: arm.told() for arm in self.arms},
            "failed": self.failed,
            "graphs": self.facts,
            "function": function_facts(self.loaded._function(self.plan.launches[0])),
            "context": context_facts(),
        }


def without_torch():
    """Installs a stand-in for PyTorch, so that an exported file can be imported. The file's launcher does not use
    it."""
    stand_in = types.ModuleType("torch")
    stand_in.Tensor = object

    class Operator:
        def __init__(self, *_arguments, **_options):
            pass

        def __call__(self, function):
            return self

        def register_fake(self, function):
            return function

    stand_in.library = types.SimpleNamespace(custom_op=Operator)
    sys.modules["torch"] = stand_in


def load(path):
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    way, folder, text, stamp, *kernels = sys.argv[1:]
    folder = pathlib.Path(folder)
    *extents, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", text).groups()
    shape = tuple(int(each) for each in extents)
    inputs = (folder / f"{text}.in").read_bytes()
    report = {"process": way, "kernels": {}}
    if way == "torch":
        import torch

        report["device"], report["torch"] = torch.cuda.get_device_name(), torch.__version__
        torch.zeros(1, device="cuda")
    else:
        without_torch()
        cuda.call("cuInit", 0)
    for kernel in kernels:
        bench = Bench(load(folder / f"{kernel}.py"), inputs, shape, causal == "c", stamp)
        bench.common_arms()
        for more in [bench.own_context, *([bench.torch_arms] if way == "torch" else [])]:
            try:
                more()
            except Exception as error:  # noqa: BLE001
                bench.failed[more.__name__] = f"{type(error).__name__}: {error}"[:500]
        report["kernels"][kernel] = bench.run()
        print(kernel, "done", file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
