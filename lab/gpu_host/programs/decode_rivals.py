#!/usr/bin/env python3
"""Times kernels that decode against PyTorch's SDPA backends, a plain copy, and FlashAttention-3 and FlashInfer if those
were built (rivals/README.md), on drawn shapes with full caches. A paged cache has the same size; its pages of 16 keys
are scattered. --pages adds page sizes for rivals.

  node --experimental-transform-types lab/measure/launch-plans.ts --decode --seed 7 examples/kernels/decode_mma > plans.json
  python3 lab/gpu_host/programs/decode_rivals.py plans.json [--fa3 FILE] [--flashinfer FILE] [--flex 4] [--out FILE]
  python3 lab/gpu_host/programs/decode_rivals.py --summary FILE…
  python3 lab/gpu_host/programs/decode_rivals.py --check --fa3 FILE --flashinfer FILE

Each line of the output is a JSON object with a shape and, for each subject, the median and the 2.5th and 97.5th
percentile of its samples in microseconds. A sample is the time of one replay of a CUDA graph, divided by its number of
calls, which together take about 1 ms. Subjects take turns, so that they run at the same clock. The calls of a graph use
different caches, as many as together exceed twice the L2 cache.

Before anything is timed, every output of kernels, FlashAttention-3 and FlashInfer is compared with attention in fp32:
`differences` has the largest absolute ones. A subject whose difference is above the limit is not timed. --check only
does this, for a few small shapes or those of a plan, and fails if any output is wrong.

Subjects of FlashAttention-3: fa3 (contiguous) and fa3_paged, which is planned for these lengths before the launch, as by
get_scheduler_metadata(), and reads them on the device. Of FlashInfer, all paged: flashinfer (CUDA cores) and
flashinfer_tc (tensor cores), planned before the launch as with use_cuda_graph, and both with _exact, planned for these
lengths only, which no graph could replay with others. Names of page sizes other than 16 end in _p1 or _p64.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import warnings

import attention_rivals

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
import rival_objects

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
# Of PyTorch.
RIVALS = {*BACKENDS, "flex"}
OBJECTS = {"flashinfer": "decode", "flashinfer_tc": "tensor_cores"}
EXACT = "_exact"
FASTEST = "fastest of all"
ROUNDS = 40
PAGE = 16
# Largest absolute difference of a right output from fp32's. Inputs are N(0, 1); some partial results are in the dtype.
LIMITS = {"bf16": 0.05, "fp16": 0.01}


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


class Drawn:
    """A shape's queries and caches: several contiguous ones, and as many pools for pages, whose rows are in an order
    that a page size's table gives."""

    def __init__(self, item, page_sizes):
        shape = fields_of(item["shape"])
        self.sizes = rival_objects.Sizes(*(shape[name] for name in ("B", "H", "Hkv", "S", "Skv", "D")))
        self.name_of_dtype = item["dtype"]
        self.dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
        batch, heads, kv_heads, queries, keys, width = self.sizes
        self.cache_bytes = 2 * 2 * batch * keys * kv_heads * width
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        self.copies = max(1, min(32, math.ceil(2 * l2_bytes / self.cache_bytes)))
        options = {"device": "cuda", "dtype": self.dtype}
        self.caches = torch.randn(self.copies, 2, batch, keys, kv_heads, width, **options)
        self.q = torch.randn(batch, queries, heads, width, **options)
        self.lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
        rows = max(batch * math.ceil(keys / page) * page for page in page_sizes)
        self.pools = torch.randn(self.copies, 2, rows, kv_heads, width, **options)
        self.tables = {page: self.drawn_table(page) for page in page_sizes}

    def drawn_table(self, page):
        batch, keys = self.sizes.B, self.sizes.Skv
        pages = math.ceil(keys / page)
        return torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)

    def pages(self, number, which, page):
        """K (0) or V (1) of a pool as pages."""
        rows = self.tables[page].numel() * page
        return self.pools[number][which][:rows].view(-1, page, self.sizes.Hkv, self.sizes.D)

    def unwritten(self):
        return torch.full_like(self.q, math.nan)

    def rows(self, sequence, page):
        """K and V [Skv, Hkv, D] of a sequence in the first contiguous cache, or in the first pool."""
        if page is None:
            return [self.caches[0][which][sequence] for which in (0, 1)]
        places = self.tables[page][sequence].long()
        shape = (-1, self.sizes.Hkv, self.sizes.D)
        return [self.pages(0, which, page)[places].reshape(shape)[: self.sizes.Skv] for which in (0, 1)]

    def wanted(self, sequence, page):
        """The output [S, H, D] of a sequence, from the definition of attention in fp32."""
        _, heads, kv_heads, queries, keys, width = self.sizes
        k, v = (each.float().transpose(0, 1) for each in self.rows(sequence, page))
        q = self.q[sequence].float().view(queries, kv_heads, heads // kv_heads, width).permute(1, 2, 0, 3)
        scores = (q.reshape(kv_heads, -1, width) @ k.transpose(1, 2)).view(kv_heads, -1, queries, keys) * width**-0.5
        seen = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
        weights = scores.masked_fill_(~seen, -math.inf).softmax(-1)
        o = (weights.view(kv_heads, -1, keys) @ v).view(kv_heads, -1, queries, width)
        return o.permute(2, 0, 1, 3).reshape(queries, heads, width)


class Subjects:
    """What is called for a shape: calls by name, and the outputs that are checked, with the page size of their cache
    (None: contiguous)."""

    def __init__(self, drawn):
        self.drawn = drawn
        self.calls, self.outputs, self.missing = {}, {}, {}

    def add_kernel(self, name, kernel, launches, workspaces):
        paged = any(each.get("tensor") == "table" for each in launches[0]["arguments"])
        page, o = PAGE if paged else None, self.drawn.unwritten()
        q, sizes = self.drawn.q, self.drawn.sizes
        own = {
            "Q": q,
            "O": o,
            "LSE": torch.empty(sizes.B, sizes.H, sizes.S, device="cuda"),
            "lengths": self.drawn.lengths,
            "table": self.drawn.tables.get(PAGE),
            "sink_logits": None,
        } | attention_rivals.workspaces_of(workspaces)
        calls = []
        for number in range(self.drawn.copies):
            k, v = self.keys_and_values(number, page)
            calls.append(kernel.prepare(launches, own | {"K": k, "V": v}))
        # A prepared call has only the addresses of `own`, which therefore lives as long as the call.
        self.calls[name] = lambda number, calls=calls, _own=own: calls[number]()
        self.outputs[name] = o, page

    def keys_and_values(self, number, page):
        if page is None:
            return self.drawn.caches[number]
        return [self.drawn.pages(number, which, page) for which in (0, 1)]

    def add_object(self, name, page, prepare):
        """Adds a rival of a shared object. prepare() returns a function of (q, k, v, o), or raises RuntimeError."""
        o = self.drawn.unwritten()
        try:
            call = prepare()
            call(self.drawn.q, *self.keys_and_values(0, page), o)
            torch.cuda.synchronize()
        except RuntimeError as error:
            self.missing[name] = reason_of(error)
            return
        self.calls[name] = lambda number: call(self.drawn.q, *self.keys_and_values(number, page), o)
        self.outputs[name] = o, page

    def add_objects(self, fa3, flashinfer):
        drawn = self.drawn
        targets = [rival_objects.Target(torch, each, drawn.name_of_dtype, drawn.sizes) for each in (fa3, flashinfer)]
        of_fa3, of_flashinfer = targets
        if fa3 is not None:
            self.add_object("fa3", None, lambda: rival_objects.fa3_decode(of_fa3))
        for page, table in drawn.tables.items():
            ending = "" if page == PAGE else f"_p{page}"
            if fa3 is not None:
                self.add_object(
                    f"fa3_paged{ending}",
                    page,
                    lambda page=page, table=table: rival_objects.fa3_paged(of_fa3, page, table, drawn.lengths),
                )
            if flashinfer is None:
                continue
            pages = rival_objects.pages_of(torch, page, table, drawn.lengths.cpu())
            for name, kind in OBJECTS.items():
                for exact in (False, True):
                    self.add_object(
                        f"{name}{EXACT if exact else ''}{ending}",
                        page,
                        lambda kind=kind, pages=pages, exact=exact: rival_objects.flashinfer_decode(
                            of_flashinfer, kind, pages, for_other_lengths=not exact
                        ),
                    )

    def add_backends(self):
        q, sizes, caches = self.drawn.q, self.drawn.sizes, self.drawn.caches
        # SDPA's causal mask aligns the first query with the first key, so several queries need an explicit mask.
        mask = None
        if sizes.S > 1:
            mask = torch.ones(sizes.S, sizes.Skv, dtype=torch.bool, device="cuda").tril(sizes.Skv - sizes.S)

        def attention(number, backend):
            k, v = caches[number][0].transpose(1, 2), caches[number][1].transpose(1, 2)
            with sdpa_kernel([backend]):
                return functional.scaled_dot_product_attention(
                    q.transpose(1, 2), k, v, attn_mask=mask, enable_gqa=sizes.H != sizes.Hkv
                )

        for name, kind in BACKENDS.items():
            backend = getattr(SDPBackend, kind)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    attention(0, backend)
                torch.cuda.synchronize()
                self.calls[name] = lambda number, backend=backend: attention(number, backend)
            except RuntimeError as error:
                self.missing[name] = graph_timing.first_line(error)

    def add_flex(self, flex):
        """FlexAttention runs without a mask, so only for one query: several would see keys after their own."""
        q, sizes, caches = self.drawn.q, self.drawn.sizes, self.drawn.caches
        if sizes.S > 1:
            return

        def compiled(number):
            k, v = caches[number][0].transpose(1, 2), caches[number][1].transpose(1, 2)
            return flex(q.transpose(1, 2), k, v, enable_gqa=sizes.H != sizes.Hkv)

        self.calls["flex"] = compiled

    def check(self):
        """Compares the outputs, and removes the subjects that are wrong. Returns the largest differences by name."""
        for name, (o, _) in self.outputs.items():
            o.fill_(math.nan)
            self.calls[name](0)
        torch.cuda.synchronize()
        differences = dict.fromkeys(self.outputs, 0.0)
        for page in {page for _, page in self.outputs.values()}:
            names = [name for name, (_, its_page) in self.outputs.items() if its_page == page]
            largest = torch.zeros(len(names), device="cuda")
            for sequence in range(self.drawn.sizes.B):
                want = self.drawn.wanted(sequence, page)
                found = torch.stack([(self.outputs[name][0][sequence].float() - want).abs().max() for name in names])
                largest = torch.maximum(largest, found)
            differences |= dict(zip(names, largest.tolist(), strict=True))
        leave_out_wrong(self, differences, self.drawn.name_of_dtype)
        return differences


FAILED = "failed: "


def reason_of(error):
    """Why an object was not called: a case that it does not take, or that it was built without, is not a failure."""
    refused = isinstance(error, rival_objects.Missing)
    return str(error) if refused else f"{FAILED}{str(error).strip().splitlines()[0][:100]}"


def leave_out_wrong(subjects, differences, dtype):
    """Removes the calls of subjects whose outputs are wrong."""
    for name, difference in differences.items():
        # A difference of NaN is wrong, too.
        if not difference <= LIMITS[dtype]:
            del subjects.calls[name]
            subjects.missing[name] = f"wrong: an element differs by {difference}"


def prepared(item, kernels, objects, pages):
    subjects = Subjects(Drawn(item, pages))
    for name, launches in item["plans"].items():
        subjects.add_kernel(name, kernels[name, item["dtype"]], launches, item["workspaces"][name])
    subjects.add_objects(*objects)
    return subjects


def measure(item, kernels, objects, options, flex):
    subjects = prepared(item, kernels, objects, options.pages)
    differences = subjects.check()
    drawn = subjects.drawn
    target = torch.empty_like(drawn.caches[0])
    subjects.calls["copy"] = lambda number: target.copy_(drawn.caches[number])
    subjects.add_backends()
    if flex is not None:
        subjects.add_flex(flex)
    repeated = {name: lambda number, call=call: call(number % drawn.copies) for name, call in subjects.calls.items()}
    figures, refused = graph_timing.in_turns(repeated, options.rounds, least_calls=drawn.copies)
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "missing": subjects.missing | refused,
        "differences": {name: json_number(each) for name, each in differences.items()},
        "cacheBytes": drawn.cache_bytes,
    }


def json_number(value):
    return value if math.isfinite(value) else str(value)


# Shapes of --check without a plan: each number of heads that share K and V, both widths, one and several queries, and
# lengths that end within a page, a tile and a split.
CHECKED = [
    *[f"B=3,H={8 * group},Hkv=8,S=1,Skv=1003,D={width}" for group in (1, 2, 4, 5, 8) for width in (64, 128)],
    *[f"B=2,H=32,Hkv=8,S={queries},Skv=517,D={width}" for queries in (2, 4) for width in (64, 128)],
    *["B=2,H=64,Hkv=8,S=8,Skv=4099,D=128", "B=5,H=64,Hkv=8,S=8,Skv=70,D=64", "B=200,H=32,Hkv=8,S=1,Skv=130,D=128"],
    *["B=1,H=32,Hkv=8,S=1,Skv=30011,D=128", "B=7,H=64,Hkv=8,S=1,Skv=9,D=64"],
]


def tell_checked(items, prepare):
    """Prints each subject's largest difference at each shape. Returns the number of wrong or failed outputs."""
    wrong, right = 0, 0
    for item in items:
        subjects = prepare(item)
        differences = subjects.check()
        told = [f"{name} {difference:.1e}" for name, difference in differences.items() if name in subjects.calls]
        missing = subjects.missing.items()
        bad = [f"{name} {reason}" for name, reason in missing if name in differences or reason.startswith(FAILED)]
        absent = [f"{name}: {reason}" for name, reason in missing if f"{name} {reason}" not in bad]
        print(f"{'WRONG' if bad else 'right'} {item['shape']} {item['dtype']}: {', '.join(bad + told)}", flush=True)
        for reason in absent:
            print(f"      not called: {reason}")
        wrong, right = wrong + len(bad), right + len(told)
    print(f"\n{right} outputs are right, {wrong} are wrong or failed.")
    return wrong if right else 1


# Each class has a range (from, to) of queries per sequence, and a range of the caches' size in MB.
CLASSES = [((1, 1), (0, 10)), ((1, 1), (10, 100)), ((1, 1), (100, 1e6)), ((2, 8), (0, 100)), ((2, 8), (100, 1e6))]
EVERY = ((1, 8), (0, 1e6))


def in_class(line, of_class):
    (fewest, most), (least_mb, most_mb) = of_class
    return fewest <= fields_of(line["shape"])["S"] <= most and least_mb <= line["cacheBytes"] / 1e6 < most_mb


def names_of(of_class):
    (fewest, most), (least_mb, most_mb) = of_class
    queries = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return queries, f"{least_mb} to {most_mb} MB" if most_mb < 1e6 else f"from {least_mb} MB"


def summarise(paths):
    """Prints two tables of runs for each kernel: beside PyTorch's backends and a copy, and beside each rival."""
    read = [[json.loads(line) for line in open(path, encoding="utf8")] for path in paths]
    about, lines = read[0][0], [line for _, *of_file in read for line in of_file]
    for name in about["kernels"]:
        of_kernel = [line for line in lines if name in line["us"]]
        print(f"# {name} beside PyTorch's backends\n")
        seeds = ", ".join(str(first["seed"]) for first, *_ in read)
        print(f"{about['device']}, PyTorch {about['torch']}, {len(of_kernel)} shapes drawn with seed {seeds}.\n")
        print("| queries | caches | shapes | fastest backend's time / its own: least, mean, most, behind | of a copy |")
        print("| --- | --- | --- | --- | --- |")
        for each in [*CLASSES, EVERY]:
            ratios, copies = [], []
            for line in of_kernel:
                if in_class(line, each):
                    us = {subject: median for subject, (median, _, _) in line["us"].items()}
                    ratios.append(min(us[rival] for rival in RIVALS & us.keys()) / us[name])
                    # A copy reads the caches and writes the same amount.
                    copies.append(us["copy"] / us[name] / 2)
            if not ratios:
                continue
            mean = statistics.geometric_mean(ratios)
            behind = sum(ratio < 1 for ratio in ratios)
            print(
                f"| {' | '.join(names_of(each))} | {len(ratios)} | {min(ratios):.3f}, {mean:.3f}, {max(ratios):.3f}, "
                f"{behind} | {min(copies):.2f} to {max(copies):.2f} |"
            )
        print()
        if any(is_object(subject) for line in of_kernel for subject in line["us"]):
            print(f"# {name} beside each rival\n")
            write_rivals(name, of_kernel, about["kernels"])
            print()
    tell_differences(about["kernels"], lines)


def is_object(subject):
    return subject.startswith(("fa3", "flashinfer"))


def write_rivals(name, lines, kernels):
    """A row for each rival and range of queries, and for the fastest of those that other lengths could replay."""
    print("| rival | queries | shapes | its time / the kernel's: least, mean, most | behind | least at |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rival in [*rivals_in(lines, kernels), FASTEST]:
        for queries in ((1, 1), (2, 8)):
            of_class = queries, (0, 1e6)
            pairs = [
                (ratio, f"{line['shape']} {line['dtype']}")
                for line in lines
                if in_class(line, of_class)
                for ratio in ratio_of(rival, name, line, kernels)
            ]
            if not pairs:
                continue
            ratios = [ratio for ratio, _ in pairs]
            print(
                f"| {rival} | {names_of(of_class)[0]} | {len(pairs)} "
                f"| {min(ratios):.3f}, {statistics.geometric_mean(ratios):.3f}, {max(ratios):.3f} "
                f"| {sum(ratio < 1 for ratio in ratios)} | {min(pairs)[1]} |"
            )


def ratio_of(rival, name, line, kernels):
    """The rival's time over the kernel's, if the rival was timed."""
    us = {subject: median for subject, (median, _, _) in line["us"].items()}
    if others := [us[each] for each in rivals_in([line], kernels) if EXACT not in each]:
        us[FASTEST] = min(others)
    return [us[rival] / us[name]] if rival in us else []


def rivals_in(lines, kernels):
    return sorted({subject for line in lines for subject in line["us"]} - {*kernels, "copy"})


def tell_differences(kernels, lines):
    """Prints each checked subject's largest difference, and why subjects are missing."""
    for name in sorted({name for line in lines for name in line["differences"]}):
        of_it = [float(line["differences"][name]) for line in lines if name in line["differences"]]
        most = math.nan if any(map(math.isnan, of_it)) else max(of_it)
        print(f"{name}: largest difference {most:.2e} at {len(of_it)} shapes.")
    reasons = {}
    for line in lines:
        for name, reason in line["missing"].items():
            if is_object(name) or name in kernels:
                reasons.setdefault((name, reason), []).append(f"{line['shape']} {line['dtype']}")
    for (name, reason), shapes in sorted(reasons.items()):
        print(f"{name} was not timed at {len(shapes)} shapes, such as {shapes[0]}: {reason}")


def compiled_kernels(driver, plans):
    wanted = {(name, item["dtype"]) for item in plans["shapes"] for name in item["plans"]}
    return {
        (name, dtype): attention_rivals.Kernel(driver, name, plans["kernels"][name], dtype)
        for name, dtype in sorted(wanted)
    }


def opened_objects(options):
    """The libraries of --fa3 and --flashinfer; None for one that was not given."""
    return [rival_objects.Library(path) if path else None for path in (options.fa3, options.flashinfer)]


def about_run(torch, plans, objects):
    """The first line of the output."""
    records = {}
    for library in objects:
        record = pathlib.Path(f"{library.path}.json") if library else None
        if record and record.is_file():
            records[record.name.removesuffix(".so.json")] = json.loads(record.read_text(encoding="utf8"))
    return {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "seed": plans["seed"],
        "kernels": list(plans["kernels"]),
        "objects": records,
    }


def add_options(parser):
    parser.add_argument("plans", nargs="?", type=argparse.FileType())
    parser.add_argument("--flashinfer", help="the object that rivals/flashinfer/build.sh builds")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="samples of a subject")
    parser.add_argument("--dtypes", default="bf16,fp16", help="of --check without a plan")
    parser.add_argument("--check", action="store_true", help="only compare outputs, of small shapes without a plan")
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    parser.add_argument("--summary", nargs="+", help="only print the tables of files that --out wrote")


def without_plans(shapes, dtypes):
    items = [{"shape": shape, "dtype": dtype, "plans": {}} for shape in shapes for dtype in dtypes.split(",")]
    return {"seed": None, "kernels": {}, "shapes": items}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--fa3", help="the object that rivals/flash_attention_3/build.sh builds")
    parser.add_argument("--pages", default="", help="page sizes besides 16, such as 1,64, for rivals")
    parser.add_argument("--flex", type=int, default=0, help="number of shapes to compile FlexAttention for")
    options = parser.parse_args()
    if options.summary:
        return summarise(options.summary)
    load_torch()
    options.pages = sorted({PAGE, *(int(each) for each in options.pages.split(",") if each)})
    plans = json.load(options.plans) if options.plans else without_plans(CHECKED, options.dtypes)
    driver = graph_timing.Driver()
    torch.zeros(1, device="cuda")
    kernels, objects = compiled_kernels(driver, plans), opened_objects(options)
    if options.check:
        sys.exit(tell_checked(plans["shapes"], lambda item: prepared(item, kernels, objects, options.pages)) > 0)
    flex = None
    if options.flex > 0:
        from torch.nn.attention.flex_attention import flex_attention

        flex = torch.compile(flex_attention, dynamic=False)
    print(json.dumps(about_run(torch, plans, objects)), file=options.out, flush=True)
    for number, item in enumerate(plans["shapes"]):
        line = measure(item, kernels, objects, options, flex if number < options.flex else None)
        print(json.dumps(line), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
