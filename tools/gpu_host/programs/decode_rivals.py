#!/usr/bin/env python3
"""Times examples/kernels/decode_mma against PyTorch's SDPA backends and a plain copy, on drawn shapes with full caches,
and decode_mma_paged on a cache of the same size whose pages are scattered.

  python3 tools/gpu_host/programs/decode_rivals.py --seed 7 --shapes 60 [--flex 4] [--out FILE]
  python3 tools/gpu_host/programs/decode_rivals.py --summary FILE

Each line of the output is a JSON object with a shape and, for each subject, the median and the 2.5th and 97.5th
percentile of its samples in microseconds. A sample is the time of one replay of a CUDA graph, divided by its number of
calls, which together take about 1 ms. Subjects take turns, so that they run at the same clock. The calls of a graph use
different caches, as many as together exceed twice the L2 cache. `differences` are the largest absolute differences from
SDPA's math backend in fp32, for shapes whose caches fit in memory for that backend. This program compiles the kernels
from their folders, with their manifests' definitions.
"""

import argparse
import ctypes
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile
import warnings

KERNELS = pathlib.Path(__file__).resolve().parents[3] / "kernels"
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
ROUNDS = 40
PAGE = 16
MOST_BYTES = 12 * 1024**3
# H, Hkv and D of Llama-3 8B and 70B, Qwen3-30B, gpt-oss, Gemma-2 9B, and of heads that do not share K and V.
MODELS = [(32, 8, 128), (64, 8, 128), (32, 4, 128), (64, 8, 64), (16, 8, 256), (16, 16, 128), (8, 1, 128), (40, 8, 128)]


def draw(rng):
    while True:
        heads, kv_heads, width = rng.choice(MODELS)
        batch = round(2 ** rng.uniform(0, 9))
        keys = round(2 ** rng.uniform(0, 17))
        if 2 * 2 * batch * keys * kv_heads * width <= MOST_BYTES:
            return {
                "B": batch,
                "H": heads,
                "Hkv": kv_heads,
                "S": rng.choice([1, 1, 1, 2, 4, 8]),
                "Skv": max(keys, 8),
                "D": width,
                "dtype": rng.choice(["bf16", "fp16"]),
            }


def load_torch():
    """Imports PyTorch into this file's names. The summary does not need it, so it is not imported at the start."""
    global torch, functional, SDPBackend, sdpa_kernel, graph_timing
    import graph_timing
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel


class Decode:
    """examples/kernels/decode_mma or decode_mma_paged, compiled for this device in one dtype."""

    # Constants of kernel.yaml, and warps and keys per tile by head dimension. A cache with at most one tile per warp
    # has a separate entry, with four warps and one stage.
    CTAS_AN_SM = 2
    CUTS = {64: (4, 32), 128: (4, 16), 256: (2, 16)}
    ENTRIES = ((64, 16), (64, 32), (128, 16), (128, 32), (256, 16))

    def __init__(self, driver, name, bf16):
        self.driver = driver
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        defines = {"BF16": int(bf16), "SMS": self.multiprocessors, "CTAS_AN_SM": self.CTAS_AN_SM}
        defines |= {f"D{width}_TILE_KEYS": keys for width, (_, keys) in self.CUTS.items()}
        defines |= {f"D{width}_ROWS{rows}_BYTES": self.shared_bytes(width, rows) for width, rows in self.ENTRIES}
        defines |= {f"D{width}_SHORT_BYTES": self.shared_bytes(width, 16, stages=1) for width in self.CUTS}
        major, minor = torch.cuda.get_device_capability()
        with tempfile.TemporaryDirectory() as folder:
            cubin = pathlib.Path(folder) / "decode.cubin"
            subprocess.run(
                [
                    *["nvcc", "-std=c++17", "-O3", "-cubin", f"-arch=sm_{major}{minor}", f"-I{KERNELS}"],
                    *[f"-D{name}={value}" for name, value in defines.items()],
                    *["-o", str(cubin), str(KERNELS.parent / f"examples/kernels/{name}/{name}.cu")],
                ],
                check=True,
            )
            image = cubin.read_bytes()
        self.module = ctypes.c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(self.module), image)
        self.entries = {}
        names = {(width, rows, 2): f"d{width}_rows{rows}" for width, rows in self.ENTRIES}
        names |= {(width, 16, 1): f"d{width}_short" for width in self.CUTS}
        for cut, entry_name in names.items():
            entry = ctypes.c_void_p()
            driver.call("cuModuleGetFunction", ctypes.byref(entry), self.module, f"{name}_{entry_name}".encode())
            # 8: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.call("cuFuncSetAttribute", entry, 8, self.shared_bytes(*cut))
            self.entries[cut] = entry

    def shared_bytes(self, width, rows, stages=2):
        return (rows + 2 * stages * self.warps(width, stages) * self.CUTS[width][1]) * width * 2

    def warps(self, width, stages):
        return 4 if stages == 1 else self.CUTS[width][0]

    def prepare(self, shape, lengths, table=None):
        """Returns a function of q, k, v and o that launches the kernel on the current stream. With a table the cache is
        paged."""
        batch, heads, kv_heads, queries, keys, width = (shape[name] for name in ("B", "H", "Hkv", "S", "Skv", "D"))
        rows = 32 if heads // kv_heads * queries > 16 and width < 256 else 16
        stripes = kv_heads * math.ceil(heads // kv_heads * queries / rows)
        stages = 1 if rows == 16 and keys <= self.warps(width, 1) * self.CUTS[width][1] else 2
        grid = stripes * (batch if stages == 1 else max(1, self.CTAS_AN_SM * self.multiprocessors // stripes))
        parts = torch.empty(grid * 2 * rows * (width + 4), device="cuda")
        ended = torch.zeros(batch * stripes + 2 * grid, dtype=torch.int32, device="cuda")
        sums = torch.empty(batch, heads, queries, device="cuda")
        cut = (width, rows, stages)
        entry, shared_bytes, threads = self.entries[cut], self.shared_bytes(*cut), 32 * self.warps(width, stages)

        def launch(q, k, v, o):
            cache = (lengths,) if table is None else (lengths, table)
            before = [ctypes.c_void_p(each.data_ptr()) for each in (q, k, v, o, sums, *cache)]
            no_sinks = ctypes.c_void_p(None)
            pointers = [*before, no_sinks, *(ctypes.c_void_p(each.data_ptr()) for each in (parts, ended))]
            rows_of_cache = (keys,) if table is None else (PAGE, table.shape[1])
            numbers = (batch, queries, heads, heads // kv_heads, *rows_of_cache, -1, stripes)
            integers = [ctypes.c_int(each) for each in numbers]
            values = [*pointers, *integers, ctypes.c_float(1 / math.sqrt(width)), ctypes.c_float(0)]
            arguments = (ctypes.c_void_p * len(values))(
                *[ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in values]
            )
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            self.driver.call("cuLaunchKernel", entry, grid, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, None)
            return o

        return launch


def measure(shape, kernels, flex):
    batch, heads, kv_heads, queries, keys, width = (shape[name] for name in ("B", "H", "Hkv", "S", "Skv", "D"))
    dtype = torch.bfloat16 if shape["dtype"] == "bf16" else torch.float16
    cache_bytes = 2 * 2 * batch * keys * kv_heads * width
    copies = max(1, min(32, math.ceil(2 * torch.cuda.get_device_properties(0).L2_cache_size / cache_bytes)))
    caches = torch.randn(copies, 2, batch, keys, kv_heads, width, device="cuda", dtype=dtype)
    q = torch.randn(batch, queries, heads, width, device="cuda", dtype=dtype)
    o = torch.empty_like(q)
    lengths = torch.full((batch,), keys, dtype=torch.int32, device="cuda")
    # SDPA's causal mask aligns the first query with the first key, so several queries need an explicit mask.
    mask = None
    if queries > 1:
        mask = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
    launch = kernels["decode_mma", shape["dtype"]].prepare(shape, lengths)
    pages = math.ceil(keys / PAGE)
    pools = torch.randn(copies, 2, batch * pages, PAGE, kv_heads, width, device="cuda", dtype=dtype)
    table = torch.randperm(batch * pages, device="cuda").to(torch.int32).view(batch, pages)
    launch_paged = kernels["decode_mma_paged", shape["dtype"]].prepare(shape, lengths, table)
    o_paged = torch.empty_like(q)
    target = torch.empty_like(caches[0])
    subjects = {
        "decode_mma": lambda number: launch(q, caches[number][0], caches[number][1], o),
        "decode_mma_paged": lambda number: launch_paged(q, pools[number][0], pools[number][1], o_paged),
        "copy": lambda number: target.copy_(caches[number]),
    }

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
    subjects["decode_mma"](0)
    subjects["decode_mma_paged"](0)
    if cache_bytes * heads // kv_heads <= 2 * 1024**3:
        pooled = [pools[0][i][table.long()].view(batch, pages * PAGE, kv_heads, width)[:, :keys] for i in (0, 1)]
        for name, of_it, given in (("decode_mma", caches[0], o), ("decode_mma_paged", pooled, o_paged)):
            k, v = (each.transpose(1, 2).float().repeat_interleave(heads // kv_heads, 1) for each in of_it)
            with sdpa_kernel([SDPBackend.MATH]):
                want = functional.scaled_dot_product_attention(q.transpose(1, 2).float(), k, v, attn_mask=mask)
            differences[name] = (given.transpose(1, 2).float() - want).abs().max().item()
            del k, v, want

    repeated = {name: lambda number, call=call: call(number % copies) for name, call in subjects.items()}
    figures, refused = graph_timing.in_turns(repeated, ROUNDS, least_calls=copies)
    return {
        "shape": shape,
        "us": figures,
        "missing": missing | refused,
        "differences": differences,
        "cacheBytes": cache_bytes,
    }


# Each class has a range (from, to) of queries per sequence, and a range of the caches' size in MB.
CLASSES = [((1, 1), (0, 10)), ((1, 1), (10, 100)), ((1, 1), (100, 1e6)), ((2, 8), (0, 100)), ((2, 8), (100, 1e6))]


def summarise(path):
    """Prints a table of a run. For each class it compares the kernel with the fastest backend and with a copy."""
    about, *lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf8").splitlines()]
    print("# decode_mma beside PyTorch's backends\n")
    print(f"{about['device']}, PyTorch {about['torch']}, {len(lines)} shapes drawn with seed {about['seed']}.\n")
    print(
        "| queries | caches | shapes | fastest backend's time / decode_mma's: least, geometric mean, most | of a copy"
        " | paged / contiguous |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for (fewest, most), (least_mb, most_mb) in CLASSES:
        ratios, copies, pages = [], [], []
        for line in lines:
            if fewest <= line["shape"]["S"] <= most and least_mb <= line["cacheBytes"] / 1e6 < most_mb:
                us = {name: median for name, (median, _, _) in line["us"].items()}
                own, copy = us.pop("decode_mma"), us.pop("copy")
                if (paged := us.pop("decode_mma_paged", None)) is not None:
                    pages.append(paged / own)
                ratios.append(min(us.values()) / own)
                # A copy reads the caches and writes the same amount.
                copies.append(copy / own / 2)
        if not ratios:
            continue
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        queries = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        size = f"{least_mb} to {most_mb} MB" if most_mb < 1e6 else f"from {least_mb} MB"
        print(
            f"| {queries} | {size} | {len(ratios)} | {min(ratios):.3f}, {mean:.3f}, {max(ratios):.3f} "
            f"| {min(copies):.2f} to {max(copies):.2f} "
            f"| {f'{min(pages):.2f} to {max(pages):.2f}' if pages else 'not measured'} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--flex", type=int, default=0, help="number of shapes to compile FlexAttention for")
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    parser.add_argument("--shape", action="append", default=[], type=json.loads, help="instead of drawn ones")
    parser.add_argument("--summary", help="only print the table of a file that --out wrote")
    options = parser.parse_args()
    if options.summary:
        return summarise(options.summary)
    load_torch()
    rng = random.Random(options.seed)
    shapes = options.shape or [draw(rng) for _ in range(options.shapes)]
    driver = graph_timing.Driver()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    kernels = {
        (name, dtype): Decode(driver, name, dtype == "bf16")
        for name in ("decode_mma", "decode_mma_paged")
        for dtype in ("bf16", "fp16")
    }
    flex = None
    if options.flex > 0:
        from torch.nn.attention.flex_attention import flex_attention

        flex = torch.compile(flex_attention, dynamic=False)
    about = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "seed": options.seed}
    print(json.dumps(about), file=options.out, flush=True)
    for number, shape in enumerate(shapes):
        line = measure(shape, kernels, flex if number < options.flex else None)
        print(json.dumps(line), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
