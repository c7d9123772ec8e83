"""What `fa-tui export` wrote, held against the runner on this GPU: bits, opcheck, torch.compile, time in a graph.

  python3 check_exports.py prepare|check FOLDER SHAPE…

FOLDER/<kernel>.py are the operators; FOLDER/<kernel>.<shape>.out is what the runner's own launches gave for the inputs
in FOLDER/<shape>.in (`prepare` writes those). All shapes are checked, the first is timed. Prints one JSON object.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import time

import torch

GRAPH_US = 2000
MOST_LAUNCHES = 200
REPLAYS = 101
# As the runner has (apps/runner/src/spec/benchmark-protocol.ts): no launch finds its inputs where the last one left them.
INPUT_SETS = 2
PAUSE_S = 0.005
CLOCK_SECONDS = 0.8
# Bytes between the tensors of one timing and the next: PyTorch's allocator packs small ones into blocks of 2 MiB.
PADDINGS = [0, 4096, 3 << 20, 21 << 20]


def shape_of(text):
    *extents, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", text).groups()
    return tuple(int(each) for each in extents), causal == "c"


def inputs_of(shape, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(torch.float16) for _ in range(3)]


def prepare(folder, shapes):
    """Q, K and V of each shape, as the runner reads them."""
    for text in shapes:
        tensors = inputs_of(shape_of(text)[0])
        (folder / f"{text}.in").write_bytes(b"".join(each.numpy().tobytes() for each in tensors))


def load(path):
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def graph_us(*calls, pause_s=0.0):
    """Microseconds a launch, as the runner takes its hot figure: a graph of some 2 ms over all calls in turn, timed
    behind a replay of itself. `pause_s`: the device rests before each of these pairs, as it does while the runner
    changes inputs and has its turns with SDPA."""
    one = replay_us(captured(calls, 50), 50, pause_s)
    launches = max(1, min(MOST_LAUNCHES, round(GRAPH_US / one)))
    return replay_us(captured(calls, launches), launches, pause_s)


def captured(calls, launches):
    # A stream of its own: the legacy default stream waits for all others.
    with torch.cuda.stream(torch.cuda.Stream()):
        for call in calls:
            for _ in range(5):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            for launch in range(launches):
                calls[launch % len(calls)]()
    return graph


def replay_us(graph, launches, pause_s):
    with torch.cuda.stream(torch.cuda.Stream()):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        samples = []
        for _ in range(REPLAYS):
            time.sleep(pause_s)
            graph.replay()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) * 1e3 / launches)
    return sorted(samples)[REPLAYS // 2]


def graph_times(module, shape, causal):
    """The same at several places in memory: a kernel that lives in L2 depends on its tensors' addresses. First with a
    new output a call, then into one that is kept, then over the runner's number of input sets in turn."""
    held, times = [], {"graph_us": [], "graph_out_us": [], "graph_sets_us": [], "graph_rested_us": []}
    for padding in PADDINGS:
        held.append(torch.empty(max(1, padding), dtype=torch.uint8, device="cuda"))
        sets = []
        for seed in range(INPUT_SETS):
            q, k, v = (each.cuda() for each in inputs_of(shape, seed))
            sets.append((q, k, v, torch.empty_like(q)))
        held += sets
        q, k, v, out = sets[0]
        times["graph_us"].append(graph_us(lambda q=q, k=k, v=v: module.attention(q, k, v, causal)))
        into = [lambda one=one: module.attention_out(*one, causal) for one in sets]
        times["graph_out_us"].append(graph_us(into[0]))
        times["graph_sets_us"].append(graph_us(*into))
        times["graph_rested_us"].append(graph_us(*into, pause_s=PAUSE_S))
    return times


def clocks(module, shape, causal):
    """MHz of the SMs while the graph runs without a rest, as nvidia-smi tells it."""
    q, k, v = (each.cuda() for each in inputs_of(shape))
    out = torch.empty_like(q)
    graph = captured([lambda: module.attention_out(q, k, v, out, causal)], MOST_LAUNCHES)
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-lms", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        until = time.monotonic() + CLOCK_SECONDS
        while time.monotonic() < until:
            graph.replay()
            torch.cuda.synchronize()
        watch.terminate()
        told = [int(line) for line in watch.stdout.read().split() if line.isdigit()]
    return {"busy_mhz": told}


def on_shape(module, path, text, timed):
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
        **(graph_times(module, shape, causal) if timed else {}),
    }


def compiles(module):
    """Whether the operator goes through torch.compile without a break, with the same bits."""
    q, k, v = (each.cuda() for each in inputs_of((1, 2, 128, 64)))

    def call(q, k, v):
        return module.attention(q, k, v, False) * 1

    try:
        return torch.equal(torch.compile(call, fullgraph=True)(q, k, v), call(q, k, v))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def opcheck(module):
    q, k, v = (each.cuda() for each in inputs_of((1, 2, 128, 64)))
    try:
        return {
            "attention": torch.library.opcheck(module.attention, (q, k, v, False)),
            "attention_out": torch.library.opcheck(module.attention_out, (q, k, v, torch.empty_like(q), False)),
        }
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]


def refusals(module):
    """The texts that a wrong call gets."""
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
    for path in sorted(folder.glob("*.py")):
        module = load(path)
        report["kernels"][path.stem] = {
            "arch": module.ARCH,
            "opcheck": opcheck(module),
            "compiles": compiles(module),
            "refusals": refusals(module),
            "clocks": clocks(module, *shape_of(shapes[0])),
        }
        report["rows"] += [on_shape(module, path, text, timed=text == shapes[0]) for text in shapes]
        print(path.stem, "done", file=sys.stderr, flush=True)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
