"""Compares exports of `fa-tui export` with the runner on this GPU: bits, opcheck, torch.compile, time in a graph.

  python3 check_exports.py prepare FOLDER SHAPE…
  python3 check_exports.py check FOLDER SHAPE…
  python3 check_exports.py time FOLDER SHAPE

FOLDER/<kernel>.py has the operator. `prepare` writes the inputs to FOLDER/<shape>.in, and FOLDER/<kernel>.<shape>.out
is the output of the runner's own launches on them. `check` and `time` print one JSON object.
"""

import ctypes
import functools
import importlib.util
import json
import pathlib
import re
import statistics
import sys

import torch

# As the runner times: a graph of launches that take 2 ms, two sets of tensors in turns.
GRAPH_US = 2000
MOST_LAUNCHES = 200
SAMPLES = 40


def load(path):
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # torch.compile looks the module up by its name
    spec.loader.exec_module(module)
    return module


def shape_of(text):
    *extents, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", text).groups()
    return tuple(int(each) for each in extents), causal == "c"


def inputs_of(shape, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(torch.float16) for _ in range(3)]


def prepare(folder, shapes):
    """Writes Q, K and V of each shape in the form that the runner reads."""
    for text in shapes:
        tensors = inputs_of(shape_of(text)[0])
        (folder / f"{text}.in").write_bytes(b"".join(each.numpy().tobytes() for each in tensors))


@functools.cache
def only_stream():
    """The stream for everything that is timed. There is only one per process, because after several calls in a row in a
    second stream every graph of the process takes up to 0.2 us longer per launch (docs/exports.md)."""
    return torch.cuda.Stream()


class Replays:
    """An exported operator in a graph that PyTorch captured, as a user would. Tensors are where the allocator puts
    them."""

    def __init__(self, module, shape, causal, inputs):
        self.module, self.causal = module, causal
        values = torch.frombuffer(bytearray(inputs), dtype=torch.float16).view(3, *shape)
        self.sets = []
        for _ in range(2):
            q, k, v = (each.cuda() for each in values)
            self.sets.append((q, k, v, torch.empty_like(q)))
        self.capture(20)
        self.capture(max(1, min(MOST_LAUNCHES, round(GRAPH_US / self.us()))))

    def capture(self, launches):
        self.graph, self.launches = torch.cuda.CUDAGraph(), launches
        with torch.cuda.stream(only_stream()):
            self.call()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=only_stream()):
            for number in range(launches):
                self.module.attention_out(*self.sets[number % 2], self.causal)

    def call(self):
        for one in self.sets:
            for _ in range(3):
                self.module.attention_out(*one, self.causal)

    def us(self):
        """The median of the microseconds per launch. A replay without a time before each sample keeps the GPU busy."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        samples = []
        with torch.cuda.stream(only_stream()):
            for _ in range(SAMPLES):
                self.graph.replay()
                start.record()
                self.graph.replay()
                end.record()
                end.synchronize()
                samples.append(start.elapsed_time(end) * 1e3 / self.launches)
        return statistics.median(samples)


def states_of(modules, shape, causal, inputs):
    """Microseconds per launch of each kernel with one stream in the process, then after calls in a second stream, and
    finally with a second context."""
    replays = {kernel: Replays(module, shape, causal, inputs) for kernel, module in modules.items()}
    found = {kernel: {"one_stream": each.us()} for kernel, each in replays.items()}
    for each in replays.values():
        with torch.cuda.stream(torch.cuda.Stream()):
            each.call()
        torch.cuda.synchronize()
    for kernel, each in replays.items():
        found[kernel]["second_stream"] = each.us()
    create_context()
    for kernel, each in replays.items():
        found[kernel]["second_context"] = each.us()
    return found


def create_context():
    """Creates a context in addition to PyTorch's, which stays the current one."""
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for code in (driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0), driver.cuCtxPopCurrent_v2(ctypes.byref(context))):
        if code != 0:
            raise RuntimeError(f"cuCtxCreate or cuCtxPopCurrent failed with CUresult {code}")


def on_shape(module, path, text):
    shape, causal = shape_of(text)
    wanted = path.with_name(f"{path.stem}.{text}.out")
    if not wanted.exists():
        return {"kernel": path.stem, "shape": text, "skipped": "the kernel does not take this shape"}
    q, k, v = (each.cuda() for each in inputs_of(shape))
    out = module.attention(q, k, v, causal)
    theirs = torch.frombuffer(bytearray(wanted.read_bytes()), dtype=torch.float16).view(shape)
    sdpa = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return {
        "kernel": path.stem,
        "shape": text,
        "bits_equal": torch.equal(out.cpu().view(torch.int16), theirs.view(torch.int16)),
        "largest_difference_from_sdpa": (out.float() - sdpa.float()).abs().max().item(),
    }


def compiles(module):
    """Whether torch.compile compiles the operator without a graph break, with bit-equal output."""
    q, k, v = (each.cuda() for each in inputs_of((1, 2, 128, 64)))

    def call(q, k, v):
        return module.attention(q, k, v, False) * 1

    # Without this, the ninth kernel would exceed the limit on recompiling one function.
    torch._dynamo.reset()
    try:
        return torch.equal(torch.compile(call, fullgraph=True)(q, k, v), call(q, k, v))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def opcheck(module):
    q, k, v = (each.cuda() for each in inputs_of((1, 2, 128, 64)))
    try:
        return {
            "attention": torch.library.opcheck(module.attention_op, (q, k, v, False)),
            "attention_out": torch.library.opcheck(module.attention_out_op, (q, k, v, torch.empty_like(q), False)),
        }
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def main():
    folder, shapes = pathlib.Path(sys.argv[2]), sys.argv[3:]
    if sys.argv[1] == "prepare":
        prepare(folder, shapes)
        return
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": {}, "rows": []}
    modules = {path: load(path) for path in sorted(folder.glob("*.py"))}
    if sys.argv[1] == "time":
        inputs = (folder / f"{shapes[0]}.in").read_bytes()
        named = {path.stem: module for path, module in modules.items()}
        report["kernels"] = states_of(named, *shape_of(shapes[0]), inputs)
        print(json.dumps(report))
        return
    for path, module in modules.items():
        report["kernels"][path.stem] = {"arch": module.ARCH, "opcheck": opcheck(module), "compiles": compiles(module)}
        report["rows"] += [on_shape(module, path, text) for text in shapes]
        print(path.stem, "done", file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
