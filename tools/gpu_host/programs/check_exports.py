"""Compares exports of `fa-tui export` with the runner on this GPU: bits, opcheck, torch.compile, time in a graph.

  python3 check_exports.py prepare FOLDER SHAPE…
  python3 check_exports.py check FOLDER STAMP SHAPE…
  python3 check_exports.py time FOLDER STAMP SHAPE

FOLDER/<kernel>.py has the operator. `prepare` writes the inputs to FOLDER/<shape>.in, and FOLDER/<kernel>.<shape>.out
is the output of the runner's own launches on them. STAMP is the compiled clock-stamp.cu. `check` checks all shapes and
times the first one; `time` only times. Prints one JSON object.
"""

import json
import pathlib
import re
import sys

import graph_arms
import torch

PLACES = 4


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


def graph_times(module, shape, causal, inputs, stamp):
    """Microseconds per launch in PyTorch's graph, and the SM's MHz from stamps around each sample, with the runner's
    protocol and number of input sets. Tensors are first where PyTorch's allocator puts them, and then each in a
    separate allocation, as in the runner. Several placements of both kinds are timed in turns."""
    bench = graph_arms.Bench(module, inputs, shape, causal, stamp)
    for again in range(PLACES):
        for kind, sets in (("allocator", bench.sets_of_torch()), ("apart", bench.sets_for_torch())):
            bench.torch_arm(f"{kind} {again}", sets, stamped=True)
    arms = bench.run()["arms"]
    return {
        kind: [[arm["us"], arm.get("mhz")] for name, arm in arms.items() if name.startswith(kind)]
        for kind in ("allocator", "apart")
    }


def states_of(modules, shape, causal, inputs, stamp):
    """Microseconds per launch and MHz of each kernel in PyTorch's graph as a user runs it: one stream, tensors where
    the allocator puts them. Then the same after calls in a second stream, and finally with a second context."""
    benches = {}
    for kernel, module in modules.items():
        benches[kernel] = graph_arms.Bench(module, inputs, shape, causal, stamp)
        benches[kernel].torch_arm("graph", benches[kernel].sets_of_torch(), stamped=True)
    found = {kernel: {"one_stream": timed(bench)} for kernel, bench in benches.items()}
    for kernel, module in modules.items():
        call_in_another_stream(module, causal, benches[kernel].sets_of_torch())
    for kernel, bench in benches.items():
        found[kernel]["second_stream"] = timed(bench)
    graph_arms.new_context()
    for kernel, bench in benches.items():
        found[kernel]["second_context"] = timed(bench)
    return found


def timed(bench):
    (arm,) = bench.arms
    arm.forget()
    told = bench.run()["arms"][arm.name]
    return [told["us"], told.get("mhz")]


def call_in_another_stream(module, causal, sets):
    with torch.cuda.stream(torch.cuda.Stream()):
        for one in sets:
            for _ in range(3):
                module.attention_out(*one, causal)
    torch.cuda.synchronize()


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


def refusals(module):
    """The messages with which wrong calls are refused."""
    q, k, v = (each.cuda() for each in inputs_of((1, 2, 128, 64)))
    wrong = {
        "dtype": (q.float(), k.float(), v.float()),
        "device": (q.cpu(), k.cpu(), v.cpu()),
        "layout": (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
        "shape": (q, k[:, :1].contiguous(), v),
        "limit": tuple(each[..., :40].contiguous() for each in (q, k, v)),
    }
    texts = {}
    for name, arguments in wrong.items():
        try:
            module.attention(*arguments)
            texts[name] = "not refused"
        except Exception as error:
            texts[name] = f"{type(error).__name__}: {error}"[:300]
    return texts


def main():
    folder, shapes = pathlib.Path(sys.argv[2]), sys.argv[3:]
    if sys.argv[1] == "prepare":
        prepare(folder, shapes)
        return
    report = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": {}, "rows": []}
    stamp, timed, *_ = shapes
    shapes = shapes[1:]
    inputs = (folder / f"{timed}.in").read_bytes()
    if sys.argv[1] == "time":
        modules = {path.stem: graph_arms.load(path) for path in sorted(folder.glob("*.py"))}
        report["kernels"] = states_of(modules, *shape_of(timed), inputs, stamp)
        print(json.dumps(report))
        return
    for path in sorted(folder.glob("*.py")):
        module = graph_arms.load(path)
        # Timed before and after the checks, because torch.compile loads a lot of code into the process.
        times = graph_times(module, *shape_of(timed), inputs, stamp)
        report["kernels"][path.stem] = {
            "arch": module.ARCH,
            "opcheck": opcheck(module),
            "compiles": compiles(module),
            "refusals": refusals(module),
            **times,
            "after_the_checks": graph_times(module, *shape_of(timed), inputs, stamp),
        }
        report["rows"] += [on_shape(module, path, text) for text in shapes]
        print(path.stem, "done", file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
