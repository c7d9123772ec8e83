#!/usr/bin/env python3
"""Times kernels that decode with multi-head latent attention against a plain copy of the cache, and against PyTorch's
memory-efficient backend where it accepts the shape, on shapes with full caches of scattered pages.

  node --experimental-transform-types tools/launch-plans.ts --mla --seed 7 examples/kernels/mla_hopper > plans.json
  python3 tools/gpu_host/programs/mla_rivals.py plans.json [--out FILE]
  python3 tools/gpu_host/programs/mla_rivals.py --summary FILE…

The output has the form of decode_rivals.py's. `differences` are the largest absolute differences from attention in fp32.
"""

import argparse
import json
import math
import statistics

import attention_rivals
from decode_rivals import ROUNDS, fields_of

D, DV = 576, 512
SCALE = 192**-0.5


def load_torch():
    """Imports PyTorch into this file's names. The summary does not need it, so it is not imported at the start."""
    global torch, functional, SDPBackend, sdpa_kernel, graph_timing
    attention_rivals.load_torch()
    import graph_timing
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel


def wanted_output(q, rows):
    """The output for queries [S, H, D] and the cache's rows [Skv, D], in fp32."""
    q, rows = q.float(), rows.float()
    scores = torch.einsum("shd,kd->shk", q, rows) * SCALE
    seen = torch.ones(q.shape[0], rows.shape[0], dtype=torch.bool, device="cuda").tril(rows.shape[0] - q.shape[0])
    return scores.masked_fill(~seen[:, None], -math.inf).softmax(-1) @ rows[:, :DV]


def measure(item, kernels):
    shape = fields_of(item["shape"])
    batch, heads, queries, keys, page = (shape.get(name, 1) for name in ("B", "H", "S", "Skv", "page"))
    dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
    pages = math.ceil(keys / page)
    cache_bytes = 2 * batch * pages * page * D
    copies = max(1, min(32, math.ceil(2 * torch.cuda.get_device_properties(0).L2_cache_size / cache_bytes)))
    pools = torch.randn(copies, batch * pages, 1, page, D, device="cuda", dtype=dtype)
    table = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
    q = torch.randn(batch, queries, heads, D, device="cuda", dtype=dtype)
    given = {
        "Q": q,
        "LSE": torch.empty(batch, heads, queries, device="cuda"),
        "lengths": torch.full((batch,), keys, dtype=torch.int32, device="cuda"),
        "table": table,
    }
    target = torch.empty_like(pools[0])
    subjects, outputs, missing = {"copy": lambda number: target.copy_(pools[number])}, {}, {}
    for name, launches in item["plans"].items():
        outputs[name] = torch.full((batch, queries, heads, DV), math.nan, device="cuda", dtype=dtype)
        own = given | {"O": outputs[name]} | attention_rivals.workspaces_of(item["workspaces"][name])
        calls = [kernels[name, item["dtype"]].prepare(launches, own | {"KV": pool}) for pool in pools]
        # A prepared call has only the addresses of `own`, which therefore lives as long as the call.
        subjects[name] = lambda number, calls=calls, _own=own: calls[number]()

    # SDPA has neither pages nor shared rows of the cache: it gets the rows in order, seen by all heads without a copy.
    if queries == 1:
        rows = pools[:, :, 0].reshape(copies, batch, 1, pages * page, D)[:, :, :, :keys].expand(-1, -1, heads, -1, -1)

        def efficient(number):
            with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
                return functional.scaled_dot_product_attention(
                    q.transpose(1, 2), rows[number], rows[number][..., :DV], scale=SCALE
                )

        try:
            efficient(0)
            torch.cuda.synchronize()
            subjects["efficient"] = efficient
        except RuntimeError as error:
            missing["efficient"] = graph_timing.first_line(error)

    differences = {}
    for name, output in outputs.items():
        subjects[name](0)
        of_sequences = [
            (output[i].float() - wanted_output(q[i], pools[0, table[i].long(), 0].reshape(-1, D)[:keys])).abs().max()
            for i in range(batch)
        ]
        differences[name] = torch.stack(of_sequences).max().item()

    repeated = {name: lambda number, call=call: call(number % copies) for name, call in subjects.items()}
    figures, refused = graph_timing.in_turns(repeated, ROUNDS, least_calls=copies)
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "missing": missing | refused,
        "differences": differences,
        "cacheBytes": 2 * batch * keys * D,
        "flops": 2 * batch * heads * queries * keys * (D + DV),
    }


def summarise(paths):
    """Prints a row for each shape: what bounds it, and how close each kernel comes to that."""
    read = [[json.loads(line) for line in open(path, encoding="utf8")] for path in paths]
    about, lines = read[0][0], [line for _, *of_file in read for line in of_file]
    print(f"{about['device']}, PyTorch {about['torch']}, {len(lines)} shapes.\n")
    print("| shape | kernel | us | TFLOP/s | of a copy's bandwidth | SDPA, efficient / its own |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in sorted(lines, key=lambda line: line["flops"] / line["cacheBytes"]):
        us = {subject: median for subject, (median, _, _) in line["us"].items()}
        for name in about["kernels"]:
            if name not in us:
                continue
            # A copy reads the cache and writes the same amount.
            of_copy = us["copy"] / us[name] / 2
            rival = f"{us['efficient'] / us[name]:.2f}" if "efficient" in us else "-"
            print(
                f"| {line['shape']} {line['dtype']} | {name.split('/')[-1]} | {us[name]:.1f} "
                f"| {line['flops'] / us[name] / 1e6:.0f} | {of_copy:.3f} | {rival} |"
            )
    for name in about["kernels"]:
        most = max(line["differences"].get(name, 0) for line in lines)
        of_copies = [line["us"]["copy"][0] / line["us"][name][0] / 2 for line in lines if name in line["us"]]
        print(f"\n{name}: largest difference {most:.2e}, of a copy {statistics.geometric_mean(of_copies):.3f}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="?", type=argparse.FileType())
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    parser.add_argument("--summary", nargs="+", help="only print the table of files that --out wrote")
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
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "seed": plans["seed"],
        "kernels": list(plans["kernels"]),
    }
    print(json.dumps(about), file=options.out, flush=True)
    for item in plans["shapes"]:
        print(json.dumps(measure(item, kernels)), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
