#!/usr/bin/env python3
"""Times kernels exported by `fa-tui export --torch` against every SDPA backend of PyTorch, shape by shape.

  python3 tools/sweep_exported.py --cases kernels/cases.yaml --set sweep --out sweep.json KERNEL.py …

This program is independent of the runner and uses only the exported files. Each subject is captured in a CUDA graph of
as many launches as take 2 ms. The graphs run in rounds, each round in a new random order. A figure is the median over
the rounds. A ratio is the ratio of two medians, with a 95 % bootstrap interval over rounds. Errors are distances from
fp64 over whole heads, at most four. Large shapes run at the card's power limit, so only ratios within a row are
comparable.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import random
import re
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
GRAPH_SECONDS = 2e-3
MOST_LAUNCHES = 50
CHECKED_HEADS = 4
# For longer sequences the fp64 reference takes longer than all timing together.
LONGEST_CHECKED = 8192
CASE = re.compile(r"\{ B: (\d+), H: (\d+), S: (\d+), D: (\d+), causal: (true|false) \}")


def shapes_of(path, name):
    """The shapes of a set in cases.yaml, as (B, H, S, D, causal)."""
    text = pathlib.Path(path).read_text(encoding="utf8")
    block = re.search(rf"^  {re.escape(name)}:\n((?:    .*\n)+)", text, re.M)
    if not block:
        sys.exit(f"{path} has no set {name}: name one of its sets")
    found = [match.groups() for match in CASE.finditer(block.group(1))]
    return [(int(b), int(h), int(s), int(d), causal == "true") for b, h, s, d, causal in found]


def load(path):
    """Imports the exported operator from its file."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sdpa(backend):
    def call(q, k, v, causal):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def reference(q, k, v, causal, heads):
    """Attention in fp64, as [heads, S, D]."""
    length = q.shape[2]
    mask = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1) if causal else None
    outputs = []
    for head in heads:
        one_q, one_k, one_v = (each.flatten(0, 1)[head].double() for each in (q, k, v))
        scores = one_q @ one_k.T / math.sqrt(q.shape[3])
        if mask is not None:
            scores.masked_fill_(mask, -math.inf)
        outputs.append(torch.softmax(scores, -1) @ one_v)
    return torch.stack(outputs)


def errors_of(output, wanted, heads):
    difference = (output.flatten(0, 1)[heads].double() - wanted).abs()
    return {"max_abs_error": difference.max().item(), "mean_abs_error": difference.mean().item()}


def capture(call):
    """Captures as many launches as take about 2 ms. Returns the graph and the number of launches in it."""
    stream = torch.cuda.current_stream()
    for _ in range(3):
        call()
    stream.synchronize()
    started = time.perf_counter()
    for _ in range(3):
        call()
    stream.synchronize()
    seconds = max((time.perf_counter() - started) / 3, 1e-6)
    launches = max(3, min(MOST_LAUNCHES, int(GRAPH_SECONDS / seconds)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(launches):
            call()
    torch.cuda.synchronize()
    return graph, launches


def time_us(graph, launches):
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    first.record()
    graph.replay()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1000 / launches


def ratio(ours, theirs, draws=2000):
    """The ratio of their median to ours, with a 95 % interval from a bootstrap over rounds, which keeps a round's
    figures together."""
    pairs = torch.tensor(list(zip(ours, theirs)), dtype=torch.float64)
    chance = torch.Generator().manual_seed(7)
    drawn = pairs[torch.randint(len(pairs), (draws, len(pairs)), generator=chance)]
    ours_drawn, theirs_drawn = drawn.quantile(0.5, dim=1).unbind(1)
    found = (theirs_drawn / ours_drawn).sort().values.tolist()
    value = statistics.median(theirs) / statistics.median(ours)
    return {"ratio": value, "low": found[int(0.025 * draws)], "high": found[int(0.975 * draws) - 1]}


def measure(shape, kernels, rounds):
    batch, heads, length, head_dim, causal = shape
    torch.manual_seed(7)
    q, k, v = (torch.randn(batch, heads, length, head_dim, device="cuda", dtype=torch.half) for _ in range(3))
    checked = list(range(0, batch * heads, max(1, batch * heads // CHECKED_HEADS)))[:CHECKED_HEADS]
    wanted = reference(q, k, v, causal, checked) if length <= LONGEST_CHECKED else None
    row = {"shape": f"{batch}x{heads}x{length}x{head_dim}{'c' if causal else ''}", "subjects": {}, "not_measured": {}}
    captured = {}
    for name, call in {**kernels, **{name: sdpa(backend) for name, backend in BACKENDS.items()}}.items():
        try:
            output = call(q, k, v, causal)
            row["subjects"][name] = errors_of(output, wanted, checked) if wanted is not None else {}
            captured[name] = capture(lambda call=call: call(q, k, v, causal))
        except (RuntimeError, ValueError, NotImplementedError) as error:
            row["subjects"].pop(name, None)
            row["not_measured"][name] = str(error).splitlines()[0][:200]
    times = {name: [] for name in captured}
    order = list(captured)
    chance = random.Random(length)
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            times[name].append(time_us(*captured[name]))
    for name, taken in times.items():
        row["subjects"][name].update({"p50_us": statistics.median(taken), "rounds_us": taken})
    backends = [name for name in BACKENDS if name in times]
    if not backends:
        return row
    row["fastest_sdpa"] = min(backends, key=lambda name: statistics.median(times[name]))
    for name in kernels:
        if name in times:
            row["subjects"][name]["over_sdpa"] = ratio(times[name], times[row["fastest_sdpa"]])
    return row


def summary(rows, kernel):
    ratios = {
        row["shape"]: row["subjects"][kernel]["over_sdpa"]["ratio"]
        for row in rows
        if "over_sdpa" in row["subjects"].get(kernel, {})
    }
    if not ratios:
        return {"shapes": 0}
    worst, best = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    return {
        "shapes": len(ratios),
        "geometric_mean": math.exp(sum(map(math.log, ratios.values())) / len(ratios)),
        "worst": {"shape": worst, "ratio": ratios[worst]},
        "best": {"shape": best, "ratio": ratios[best]},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exported", nargs="+", help="files of fa-tui export --torch")
    parser.add_argument("--cases", default="kernels/cases.yaml")
    parser.add_argument("--set", default="sweep")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default="sweep.json")
    options = parser.parse_args()
    # The process uses only this stream, because calls in a second one make all of its graphs slower (docs/exports.md).
    torch.cuda.set_stream(torch.cuda.Stream())
    modules = [load(path) for path in options.exported]
    kernels = {module.KERNEL: module.attention for module in modules}
    document = {
        "device": torch.cuda.get_device_name(),
        "pytorch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "rounds": options.rounds,
        "provenance": {module.KERNEL: module.PROVENANCE for module in modules},
        "rows": [],
    }
    for shape in shapes_of(options.cases, options.set):
        row = measure(shape, kernels, options.rounds)
        document["rows"].append(row)
        shown = " ".join(
            f"{name} {each['p50_us']:.2f}" + (f" ({each['over_sdpa']['ratio']:.3f})" if "over_sdpa" in each else "")
            for name, each in row["subjects"].items()
        )
        print(f"{row['shape']:>18}  {shown}", flush=True)
        # Written after every shape, so that an interrupted run keeps its results.
        document["summary"] = {kernel: summary(document["rows"], kernel) for kernel in kernels}
        pathlib.Path(options.out).write_text(json.dumps(document, indent=1) + "\n", encoding="utf8")
    print(json.dumps(document["summary"], indent=1))


if __name__ == "__main__":
    main()
