#!/usr/bin/env python3
"""Times kernels that decode against PyTorch's SDPA backends and a plain copy, on drawn shapes with full caches. A kernel
of a paged cache gets one of the same size, whose pages of 16 keys are scattered.

  node --experimental-transform-types tools/launch-plans.ts --decode --seed 7 examples/kernels/decode_mma > plans.json
  python3 tools/gpu_host/programs/decode_rivals.py plans.json [--flex 4] [--out FILE]
  python3 tools/gpu_host/programs/decode_rivals.py --summary FILE…

Each line of the output is a JSON object with a shape and, for each subject, the median and the 2.5th and 97.5th
percentile of its samples in microseconds. A sample is the time of one replay of a CUDA graph, divided by its number of
calls, which together take about 1 ms. Subjects take turns, so that they run at the same clock. The calls of a graph use
different caches, as many as together exceed twice the L2 cache. `differences` are the largest absolute differences from
SDPA's math backend in fp32, for shapes whose caches fit in memory for that backend.
"""

import argparse
import json
import math
import statistics
import warnings

import attention_rivals

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
RIVALS = {*BACKENDS, "flex"}
ROUNDS = 40
PAGE = 16


def load_torch():
    """Imports PyTorch into this file's names. The summary does not need it, so it is not imported at the start."""
    global torch, functional, SDPBackend, sdpa_kernel, graph_timing
    attention_rivals.load_torch()
    import graph_timing
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel


def fields_of(text):
    return {name: int(value) for name, value in (each.split("=") for each in text.split(","))}


def measure(item, kernels, flex):
    shape = fields_of(item["shape"])
    batch, heads, kv_heads, queries, keys, width = (shape[name] for name in ("B", "H", "Hkv", "S", "Skv", "D"))
    dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
    cache_bytes = 2 * 2 * batch * keys * kv_heads * width
    copies = max(1, min(32, math.ceil(2 * torch.cuda.get_device_properties(0).L2_cache_size / cache_bytes)))
    caches = torch.randn(copies, 2, batch, keys, kv_heads, width, device="cuda", dtype=dtype)
    q = torch.randn(batch, queries, heads, width, device="cuda", dtype=dtype)
    # SDPA's causal mask aligns the first query with the first key, so several queries need an explicit mask.
    mask = None
    if queries > 1:
        mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
    pages = math.ceil(keys / PAGE)
    pools = torch.randn(copies, 2, batch * pages, PAGE, kv_heads, width, device="cuda", dtype=dtype)
    table = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
    given = {
        "Q": q,
        "LSE": torch.empty(batch, heads, queries, device="cuda"),
        "lengths": torch.full((batch,), keys, dtype=torch.int32, device="cuda"),
        "table": table,
        "sink_logits": None,
    }
    target = torch.empty_like(caches[0])
    subjects = {"copy": lambda number: target.copy_(caches[number])}
    outputs, paged = {}, set()
    for name, launches in item["plans"].items():
        outputs[name] = torch.full_like(q, float("nan"))
        if any(each.get("tensor") == "table" for each in launches[0]["arguments"]):
            paged.add(name)
        own = given | {"O": outputs[name]} | attention_rivals.workspaces_of(item["workspaces"][name])
        calls = [
            kernels[name, item["dtype"]].prepare(launches, own | {"K": cache[0], "V": cache[1]})
            for cache in (pools if name in paged else caches)
        ]
        # A prepared call has only the addresses of `own`, which therefore lives as long as the call.
        subjects[name] = lambda number, calls=calls, _own=own: calls[number]()

    def attention(number, backend):
        k, v = caches[number][0].transpose(1, 2), caches[number][1].transpose(1, 2)
        with sdpa_kernel([backend]):
            return functional.scaled_dot_product_attention(
                q.transpose(1, 2), k, v, attn_mask=mask, enable_gqa=heads != kv_heads
            )

    missing = {}
    for name, kind in BACKENDS.items():
        backend = getattr(SDPBackend, kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                attention(0, backend)
            torch.cuda.synchronize()
            subjects[name] = lambda number, backend=backend: attention(number, backend)
        except RuntimeError as error:
            missing[name] = graph_timing.first_line(error)
    if flex is not None:

        def compiled(number):
            k, v = caches[number][0].transpose(1, 2), caches[number][1].transpose(1, 2)
            return flex(q.transpose(1, 2), k, v, enable_gqa=heads != kv_heads)

        # It runs without a mask, so it is timed only for one query. With several queries, each would see
        # keys after its own position.
        if queries == 1:
            subjects["flex"] = compiled

    differences = {}
    if cache_bytes * heads // kv_heads <= 2 * 1024**3:
        pooled = [pools[0][i][table.long()].view(batch, pages * PAGE, kv_heads, width)[:, :keys] for i in (0, 1)]
        for of_it, names in ((caches[0], outputs.keys() - paged), (pooled, paged)):
            k, v = (each.transpose(1, 2).float().repeat_interleave(heads // kv_heads, 1) for each in of_it)
            with sdpa_kernel([SDPBackend.MATH]):
                want = functional.scaled_dot_product_attention(q.transpose(1, 2).float(), k, v, attn_mask=mask)
            for name in names:
                subjects[name](0)
                differences[name] = (outputs[name].transpose(1, 2).float() - want).abs().max().item()
            del k, v, want

    repeated = {name: lambda number, call=call: call(number % copies) for name, call in subjects.items()}
    figures, refused = graph_timing.in_turns(repeated, ROUNDS, least_calls=copies)
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "missing": missing | refused,
        "differences": differences,
        "cacheBytes": cache_bytes,
    }


# Each class has a range (from, to) of queries per sequence, and a range of the caches' size in MB.
CLASSES = [((1, 1), (0, 10)), ((1, 1), (10, 100)), ((1, 1), (100, 1e6)), ((2, 8), (0, 100)), ((2, 8), (100, 1e6))]


def summarise(paths):
    """Prints a table of runs for each kernel. It compares the kernel with the fastest backend and with a copy."""
    read = [[json.loads(line) for line in open(path, encoding="utf8")] for path in paths]
    about, lines = read[0][0], [line for _, *of_file in read for line in of_file]
    for name in about["kernels"]:
        of_kernel = [line for line in lines if name in line["us"]]
        print(f"# {name} beside PyTorch's backends\n")
        seeds = ", ".join(str(first["seed"]) for first, *_ in read)
        print(f"{about['device']}, PyTorch {about['torch']}, {len(of_kernel)} shapes drawn with seed {seeds}.\n")
        print("| queries | caches | shapes | fastest backend's time / its own: least, mean, most, behind | of a copy |")
        print("| --- | --- | --- | --- | --- |")
        for (fewest, most), (least_mb, most_mb) in [*CLASSES, ((1, 8), (0, 1e6))]:
            ratios, copies = [], []
            for line in of_kernel:
                if fewest <= fields_of(line["shape"])["S"] <= most and least_mb <= line["cacheBytes"] / 1e6 < most_mb:
                    us = {subject: median for subject, (median, _, _) in line["us"].items()}
                    ratios.append(min(us[rival] for rival in RIVALS & us.keys()) / us[name])
                    # A copy reads the caches and writes the same amount.
                    copies.append(us["copy"] / us[name] / 2)
            if not ratios:
                continue
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            behind = sum(ratio < 1 for ratio in ratios)
            queries = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            size = f"{least_mb} to {most_mb} MB" if most_mb < 1e6 else f"from {least_mb} MB"
            print(
                f"| {queries} | {size} | {len(ratios)} | {min(ratios):.3f}, {mean:.3f}, {max(ratios):.3f}, {behind} "
                f"| {min(copies):.2f} to {max(copies):.2f} |"
            )
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="?", type=argparse.FileType())
    parser.add_argument("--flex", type=int, default=0, help="number of shapes to compile FlexAttention for")
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    parser.add_argument("--summary", nargs="+", help="only print the tables of files that --out wrote")
    options = parser.parse_args()
    if options.summary:
        return summarise(options.summary)
    load_torch()
    plans = json.load(options.plans)
    driver = graph_timing.Driver()
    torch.zeros(1, device="cuda")
    wanted = {(name, item["dtype"]) for item in plans["shapes"] for name in item["plans"]}
    kernels = {
        (name, dtype): attention_rivals.Kernel(driver, name, plans["kernels"][name], dtype)
        for name, dtype in sorted(wanted)
    }
    flex = None
    if options.flex > 0:
        from torch.nn.attention.flex_attention import flex_attention

        flex = torch.compile(flex_attention, dynamic=False)
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "seed": plans["seed"],
        "kernels": list(plans["kernels"]),
    }
    print(json.dumps(about), file=options.out, flush=True)
    for number, item in enumerate(plans["shapes"]):
        line = measure(item, kernels, flex if number < options.flex else None)
        print(json.dumps(line), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
