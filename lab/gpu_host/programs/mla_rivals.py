#!/usr/bin/env python3
"""Times kernels that decode with multi-head latent attention against a plain copy of the cache, against PyTorch's
memory-efficient backend where it accepts the shape, and against FlashInfer if that was built (rivals/README.md), on
shapes with full caches of scattered pages.

  node --experimental-transform-types lab/measure/launch-plans.ts --mla --seed 7 examples/kernels/mla_hopper > plans.json
  python3 lab/gpu_host/programs/mla_rivals.py plans.json [--flashinfer FILE] [--out FILE]
  python3 lab/gpu_host/programs/mla_rivals.py --summary FILE…
  python3 lab/gpu_host/programs/mla_rivals.py --check --flashinfer FILE

The output has the form of decode_rivals.py's. `differences` are the largest absolute differences from attention in
fp32: kernels and FlashInfer are compared before they are timed, and left out above a limit. FlashInfer's launches are
planned before the timed ones, as by its wrapper.
"""

import argparse
import json
import math
import statistics
import sys

import attention_rivals
import decode_rivals
from decode_rivals import fields_of, rival_objects

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


class Subjects:
    """What is called for a shape: calls by name, and the outputs that are checked."""

    def __init__(self, item):
        shape = fields_of(item["shape"])
        batch, heads, queries, keys, page = (shape.get(name, 1) for name in ("B", "H", "S", "Skv", "page"))
        self.sizes, self.page = rival_objects.Sizes(batch, heads, 1, queries, keys, D), page
        self.name_of_dtype = item["dtype"]
        self.dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
        pages = math.ceil(keys / page)
        cache_bytes = 2 * batch * pages * page * D
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.copies = max(1, min(32, math.ceil(2 * l2_bytes / cache_bytes)))
        self.pools = torch.randn(self.copies, batch * pages, 1, page, D, device="cuda", dtype=self.dtype)
        self.table = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
        self.q = torch.randn(batch, queries, heads, D, device="cuda", dtype=self.dtype)
        self.lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
        self.calls, self.outputs, self.missing = {}, {}, {}

    def unwritten(self):
        shape = (self.sizes.B, self.sizes.S, self.sizes.H, DV)
        return torch.full(shape, math.nan, device="cuda", dtype=self.dtype)

    def add_kernel(self, name, kernel, launches, workspaces):
        self.outputs[name] = self.unwritten()
        own = {
            "Q": self.q,
            "O": self.outputs[name],
            "LSE": torch.empty(self.sizes.B, self.sizes.H, self.sizes.S, device="cuda"),
            "lengths": self.lengths,
            "table": self.table,
        } | attention_rivals.workspaces_of(workspaces)
        calls = [kernel.prepare(launches, own | {"KV": pool}) for pool in self.pools]
        # A prepared call has only the addresses of `own`, which therefore lives as long as the call.
        self.calls[name] = lambda number, calls=calls, _own=own: calls[number]()

    def add_flashinfer(self, library):
        o = self.unwritten()
        try:
            pages = rival_objects.pages_of(torch, self.page, self.table, self.lengths.cpu())
            target = rival_objects.Target(torch, library, self.name_of_dtype, self.sizes)
            call = rival_objects.flashinfer_mla(target, pages, SCALE)
            call(self.q, self.pools[0], o)
            torch.cuda.synchronize()
        except RuntimeError as error:
            self.missing["flashinfer"] = decode_rivals.reason_of(error)
            return
        self.calls["flashinfer"] = lambda number: call(self.q, self.pools[number], o)
        self.outputs["flashinfer"] = o

    def add_efficient(self):
        """SDPA has neither pages nor shared rows of the cache: it gets the rows in order, seen by all heads without a
        copy, and takes one query."""
        if self.sizes.S > 1:
            return
        batch, heads, keys = self.sizes.B, self.sizes.H, self.sizes.Skv
        in_order = self.pools[:, :, 0].reshape(self.copies, batch, 1, -1, D)
        rows = in_order[:, :, :, :keys].expand(-1, -1, heads, -1, -1)

        def efficient(number):
            with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
                return functional.scaled_dot_product_attention(
                    self.q.transpose(1, 2), rows[number], rows[number][..., :DV], scale=SCALE
                )

        try:
            efficient(0)
            torch.cuda.synchronize()
            self.calls["efficient"] = efficient
        except RuntimeError as error:
            self.missing["efficient"] = graph_timing.first_line(error)

    def check(self):
        """Compares the outputs, and removes the subjects that are wrong. Returns the largest differences by name."""
        for name, o in self.outputs.items():
            o.fill_(math.nan)
            self.calls[name](0)
        torch.cuda.synchronize()
        if not self.outputs:
            return {}
        largest = torch.zeros(len(self.outputs), device="cuda")
        for i in range(self.sizes.B):
            rows = self.pools[0, self.table[i].long(), 0].reshape(-1, D)[: self.sizes.Skv]
            want = wanted_output(self.q[i], rows)
            found = torch.stack([(o[i].float() - want).abs().max() for o in self.outputs.values()])
            largest = torch.maximum(largest, found)
        differences = dict(zip(self.outputs, largest.tolist(), strict=True))
        decode_rivals.leave_out_wrong(self, differences, self.name_of_dtype)
        return differences


def prepared(item, kernels, flashinfer):
    subjects = Subjects(item)
    for name, launches in item["plans"].items():
        subjects.add_kernel(name, kernels[name, item["dtype"]], launches, item["workspaces"][name])
    if flashinfer is not None:
        subjects.add_flashinfer(flashinfer)
    return subjects


def measure(item, kernels, flashinfer, rounds):
    subjects = prepared(item, kernels, flashinfer)
    differences = subjects.check()
    target = torch.empty_like(subjects.pools[0])
    subjects.calls["copy"] = lambda number: target.copy_(subjects.pools[number])
    subjects.add_efficient()
    copies = subjects.copies
    repeated = {name: lambda number, call=call: call(number % copies) for name, call in subjects.calls.items()}
    figures, refused = graph_timing.in_turns(repeated, rounds, least_calls=copies)
    sizes = subjects.sizes
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "missing": subjects.missing | refused,
        "differences": {name: decode_rivals.json_number(each) for name, each in differences.items()},
        "cacheBytes": 2 * sizes.B * sizes.Skv * D,
        "flops": 2 * sizes.B * sizes.H * sizes.S * sizes.Skv * (D + DV),
    }


# Shapes of --check without a plan: each number of heads, one and two queries, few and many keys.
CHECKED = [
    *[f"B=3,H={heads},S={queries},Skv=1003,page=64" for heads in (16, 32, 64, 128) for queries in (1, 2)],
    *["B=130,H=16,S=1,Skv=70,page=64", "B=1,H=128,S=1,Skv=20011,page=64", "B=5,H=16,S=1,Skv=9,page=64"],
]


def summarise(paths):
    """Prints a row for each shape: what bounds it, and how close each kernel comes to that."""
    read = [[json.loads(line) for line in open(path, encoding="utf8")] for path in paths]
    about, lines = read[0][0], [line for _, *of_file in read for line in of_file]
    print(f"{about['device']}, PyTorch {about['torch']}, {len(lines)} shapes.\n")
    with_flashinfer = any("flashinfer" in line["us"] for line in lines)
    rivals = {"efficient": "SDPA, efficient"} | ({"flashinfer": "FlashInfer"} if with_flashinfer else {})
    titles = "".join(f" {title} / its own |" for title in rivals.values())
    print(f"| shape | kernel | us | TFLOP/s | of a copy's bandwidth |{titles}")
    print("| --- | --- | --- | --- | --- |" + " --- |" * len(rivals))
    for line in sorted(lines, key=lambda line: line["flops"] / line["cacheBytes"]):
        us = {subject: median for subject, (median, _, _) in line["us"].items()}
        for name in about["kernels"]:
            if name not in us:
                continue
            # A copy reads the cache and writes the same amount.
            of_copy = us["copy"] / us[name] / 2
            ratios = "".join(f" {us[rival] / us[name]:.2f} |" if rival in us else " - |" for rival in rivals)
            print(
                f"| {line['shape']} {line['dtype']} | {name.split('/')[-1]} | {us[name]:.1f} "
                f"| {line['flops'] / us[name] / 1e6:.0f} | {of_copy:.3f} |{ratios}"
            )
    print()
    for name in about["kernels"]:
        of_copies = [line["us"]["copy"][0] / line["us"][name][0] / 2 for line in lines if name in line["us"]]
        print(f"{name}: of a copy {statistics.geometric_mean(of_copies):.3f}.")
        if with_flashinfer:
            decode_rivals.write_rivals(name, [line for line in lines if name in line["us"]], about["kernels"])
            print()
    decode_rivals.tell_differences(about["kernels"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    decode_rivals.add_options(parser)
    options = parser.parse_args()
    if options.summary:
        return summarise(options.summary)
    load_torch()
    plans = json.load(options.plans) if options.plans else decode_rivals.without_plans(CHECKED, options.dtypes)
    driver = graph_timing.Driver()
    torch.zeros(1, device="cuda")
    kernels = decode_rivals.compiled_kernels(driver, plans)
    flashinfer = rival_objects.Library(options.flashinfer) if options.flashinfer else None
    if options.check:
        sys.exit(decode_rivals.tell_checked(plans["shapes"], lambda item: prepared(item, kernels, flashinfer)) > 0)
    about = decode_rivals.about_run(torch, plans, [flashinfer])
    print(json.dumps(about), file=options.out, flush=True)
    for item in plans["shapes"]:
        print(json.dumps(measure(item, kernels, flashinfer, options.rounds)), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
