#!/usr/bin/env python3
"""Times attention kernels against PyTorch's SDPA backends on drawn shapes, and against FlashAttention-3 if that was
built. For windows, sinks or capped logits it times FlexAttention, compiled for each shape.

  node --experimental-transform-types lab/measure/launch-plans.ts --seed 7 --shapes 80 kernels/flashcore_v12 > plans.json
  python3 lab/gpu_host/programs/attention_rivals.py plans.json [--fa3 libfa3.so] [--out FILE]
  python3 lab/gpu_host/programs/attention_rivals.py --summary FILE…

Each line of the output is a JSON object with a shape and, for each subject, the median and the 2.5th and 97.5th
percentile of its samples in microseconds. A sample is the time of one replay of a CUDA graph, divided by its number of
calls, which together take about 1 ms. Subjects take turns, so that they run at the same clock. All calls of a graph use
the same tensors. `differences` are the largest absolute differences from SDPA's math backend in fp32, if its scores fit
in memory; `mean_differences` are the mean absolute differences.
"""

import argparse
import ctypes
import json
import math
import pathlib
import statistics
import subprocess
import tempfile
import typing
import warnings

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
RIVALS = {*BACKENDS, "fa3", "flex"}
ROUNDS = 25
MOST_SCORES = 2**30
KERNELS = pathlib.Path(__file__).resolve().parents[3] / "kernels"
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


def load_torch():
    """Imports PyTorch into this file's names. The summary does not need it, so it is not imported at the start."""
    global torch, functional, SDPBackend, sdpa_kernel, graph_timing
    import graph_timing
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel


class LaunchConfig(ctypes.Structure):
    """The struct CUlaunchConfig of cuda.h."""

    _fields_ = [
        *[(f"grid_{axis}", ctypes.c_uint) for axis in "xyz"],
        *[(f"block_{axis}", ctypes.c_uint) for axis in "xyz"],
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class Kernel:
    """A kernel of the repository in one dtype, compiled by this program with its manifest's definitions."""

    def __init__(self, driver, folder, kernel, dtype):
        self.driver = driver
        folder = pathlib.Path(folder)
        with tempfile.TemporaryDirectory() as built:
            cubin = pathlib.Path(built) / "kernel.cubin"
            subprocess.run(
                [
                    *["nvcc", "-std=c++17", "-O3", "--use_fast_math", "--split-compile=0", "-cubin", "-arch=sm_90a"],
                    *[f"-I{folder}", f"-I{KERNELS}"],
                    *kernel["defines"][dtype],
                    *["-o", str(cubin), str(folder / kernel["source"])],
                ],
                check=True,
            )
            self.module = ctypes.c_void_p()
            driver.call("cuModuleLoadData", ctypes.byref(self.module), cubin.read_bytes())

    def prepare(self, launches, tensors):
        """Returns a function that enqueues a plan's launches on the current stream, which may be capturing."""
        prepared = [self.prepared(launch, tensors) for launch in launches]

        def run(_number=0):
            stream = torch.cuda.current_stream().cuda_stream
            for config, entry, arguments, _ in prepared:
                config.stream = stream
                self.driver.call("cuLaunchKernelEx", ctypes.byref(config), entry, arguments, None)

        return run

    def prepared(self, launch, tensors):
        entry = ctypes.c_void_p()
        self.driver.call("cuModuleGetFunction", ctypes.byref(entry), self.module, launch["entry"].encode())
        # 8: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.driver.call("cuFuncSetAttribute", entry, 8, launch["sharedBytes"])
        kept = [self.argument(argument, tensors) for argument in launch["arguments"]]
        arguments = (ctypes.c_void_p * len(kept))(*[address for address, _ in kept])
        # The values start at byte 8. 4: CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 6: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_…
        # STREAM_SERIALIZATION.
        wanted = [(4, launch["cluster"])] if "cluster" in launch else []
        if launch.get("programmatic"):
            wanted.append((6, [1]))
        attributes = ctypes.create_string_buffer(72 * 2)
        for number, (identifier, values) in enumerate(wanted):
            ctypes.c_uint.from_buffer(attributes, 72 * number).value = identifier
            for at, value in enumerate(values):
                ctypes.c_uint.from_buffer(attributes, 72 * number + 8 + 4 * at).value = value
        config = LaunchConfig(
            *launch["grid"],
            *launch["block"],
            launch["sharedBytes"],
            None,
            ctypes.addressof(attributes),
            len(wanted),
        )
        return config, entry, arguments, (kept, attributes)

    def argument(self, argument, tensors):
        """The address of an argument, and the object that must live until the launch."""
        kind = argument["kind"]
        if kind == "tensorMap":
            return self.tensor_map(argument, tensors[argument["tensor"]])
        value = {
            "tensor": lambda: ctypes.c_void_p(address_of(tensors[argument["tensor"]])),
            "workspace": lambda: ctypes.c_void_p(address_of(tensors[f"workspace {argument['name']}"])),
            "int32": lambda: ctypes.c_int(argument["value"]),
            "float32": lambda: ctypes.c_float(argument["value"]),
        }[kind]()
        return ctypes.addressof(value), value

    def tensor_map(self, argument, tensor):
        held = ctypes.create_string_buffer(128 + 64)
        address = (ctypes.addressof(held) + 63) // 64 * 64
        B, H, S, D = tensor.shape
        dtype = 9 if tensor.dtype == torch.bfloat16 else 6  # CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, _FLOAT16
        self.driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            dtype,
            ctypes.c_uint32(3),
            ctypes.c_void_p(tensor.data_ptr()),
            (ctypes.c_uint64 * 3)(D, S, B * H),
            (ctypes.c_uint64 * 2)(D * 2, S * D * 2),
            (ctypes.c_uint32 * 3)(*argument["box"], 1),
            (ctypes.c_uint32 * 3)(1, 1, 1),
            0,
            SWIZZLES[argument["swizzle"]],
            3,  # L2 promotion of 256 bytes
            0,
        )
        return address, held


def address_of(tensor):
    return None if tensor is None else tensor.data_ptr()


def workspaces_of(workspaces):
    """A plan's workspaces, filled with zeros, by the names that Kernel.prepare() wants."""
    if any(each.get("initial", {}).get("bits", 0) != 0 for each in workspaces):
        raise RuntimeError("only workspaces that begin with zeros are supported")
    return {
        f"workspace {each['name']}": torch.zeros(each["bytes"], dtype=torch.uint8, device="cuda") for each in workspaces
    }


class Fields(typing.NamedTuple):
    """The fields of a shape such as 2x8x512x64c,Hkv=2,Skv=100,window=32. A window of -1 means none."""

    B: int
    H: int
    S: int
    D: int
    Hkv: int
    Skv: int
    Dv: int
    causal: bool
    window: int
    sinks: bool
    softcap: float

    @property
    def plain(self):
        return self.window < 0 and not self.sinks and not self.softcap

    def sees(self, row, key):
        seen = key <= row if self.causal else key >= 0
        return seen & (row - key <= self.window) if self.window >= 0 else seen


def fields_of(text):
    first, *rest = text.split(",")
    B, H, S, D = (int(each) for each in first.rstrip("c").split("x"))
    named = {name: float(value) for name, value in (each.split("=") for each in rest)}
    return Fields(
        *(B, H, S, D, int(named.get("Hkv", H)), int(named.get("Skv", S)), int(named.get("Dv", D)), first.endswith("c")),
        *(int(named.get("window", -1)), bool(named.get("sinks", 0)), named.get("softcap", 0)),
    )


def fa3_call(library, dtype, tensors, fields):
    B, H, S, D, Hkv, Skv, _, causal, *_ = fields
    function = getattr(library, f"fa3_{dtype}_{D}")
    lse = torch.empty(B, H, S, device="cuda")
    semaphore = torch.zeros(1, dtype=torch.int32, device="cuda")
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (*tensors, lse, semaphore)]

    def call(_number=0):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        function(*pointers, B, H, Hkv, S, Skv, int(causal), ctypes.c_float(D**-0.5), multiprocessors, stream)
        return lse, semaphore

    return call


def flex_call(inputs, fields):
    """
    A call of FlexAttention on (q, k, v, sinks). Sinks are applied as inference engines do: as a factor from each row's
    log-sum-exp.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    mask = None
    if fields.causal or fields.window >= 0:
        mask = create_block_mask(lambda _b, _h, row, key: fields.sees(row, key), None, None, fields.S, fields.Skv)

    def capped(score, _b, _h, _row, _key):
        return fields.softcap * torch.tanh(score / fields.softcap)

    def attention(q, k, v, sinks):
        o, lse = flex_attention(
            *(q, k, v, capped if fields.softcap else None, mask),
            enable_gqa=fields.H != fields.Hkv,
            return_lse=True,
        )
        return o * torch.sigmoid(lse - sinks[:, None])[..., None].to(o.dtype) if fields.sinks else o

    compiled = torch.compile(attention, dynamic=False)
    return lambda _number=0: compiled(*inputs)


def wanted_output(inputs, fields):
    """The output in fp32, computed from the definition of attention."""
    q, k, v, sinks = inputs
    k, v = (each.float().repeat_interleave(fields.H // fields.Hkv, 1) for each in (k, v))
    if fields.plain:
        with sdpa_kernel([SDPBackend.MATH]):
            return functional.scaled_dot_product_attention(q.float(), k, v, is_causal=fields.causal)
    scores = q.float() @ k.transpose(-1, -2) * fields.D**-0.5
    if fields.softcap:
        scores.div_(fields.softcap).tanh_().mul_(fields.softcap)
    rows, keys = (torch.arange(length, device="cuda") for length in (fields.S, fields.Skv))
    scores.masked_fill_(~fields.sees(rows[:, None], keys), -math.inf)
    if fields.sinks:
        scores = torch.cat([scores, sinks[:, None, None].expand(fields.B, fields.H, fields.S, 1)], -1)
    return scores.softmax(-1)[..., : fields.Skv] @ v


def measure(item, kernels, library):
    fields = fields_of(item["shape"])
    B, H, S, D, Hkv, Skv, Dv, causal, *_ = fields
    dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
    q = torch.randn(B, H, S, D, device="cuda", dtype=dtype)
    k, v = (torch.randn(B, Hkv, Skv, width, device="cuda", dtype=dtype) for width in (D, Dv))
    sinks = torch.randn(H, device="cuda")
    inputs = (q, k, v, sinks)
    outputs, subjects, missing = {}, {}, {}

    def unwritten():
        return torch.full((B, H, S, Dv), math.nan, device="cuda", dtype=dtype)

    for name, launches in item["plans"].items():
        outputs[name] = unwritten()
        tensors = {"Q": q, "K": k, "V": v, "O": outputs[name], "sink_logits": sinks if fields.sinks else None}
        subjects[name] = kernels[name, item["dtype"]].prepare(launches, tensors)

    def attention(backend):
        with sdpa_kernel([backend]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=H != Hkv)

    for name, kind in BACKENDS.items() if fields.plain else ():
        backend = getattr(SDPBackend, kind)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs[name] = attention(backend)
            torch.cuda.synchronize()
            subjects[name] = lambda _number, backend=backend: attention(backend)
        except RuntimeError as error:
            missing[name] = graph_timing.first_line(error)
    if library is not None and fields.plain:
        outputs["fa3"] = unwritten()
        subjects["fa3"] = fa3_call(library, item["dtype"], (q, k, v, outputs["fa3"]), fields)
    if not fields.plain:
        subjects["flex"] = flex_call(inputs, fields)
        outputs["flex"] = subjects["flex"]()

    for name in subjects:
        if name not in BACKENDS:
            subjects[name]()
    torch.cuda.synchronize()
    differences, mean_differences = {}, {}
    if B * H * S * Skv <= MOST_SCORES:
        want = wanted_output(inputs, fields)
        for name, each in outputs.items():
            distance = (each.float() - want).abs_()
            differences[name], mean_differences[name] = distance.max().item(), distance.mean().item()
            del distance
        del want

    figures, refused = graph_timing.in_turns(subjects, ROUNDS)
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "missing": missing | refused,
        "differences": differences,
        "mean_differences": mean_differences,
    }


def summarise(paths):
    lines, own = summarise_times(paths)
    checked = [line for line in lines if own in line["differences"]]
    worst = max(checked, key=lambda line: error_ratio(line, own))
    print(
        f"\nOf {len(checked)} outputs compared with fp32's, {own}'s largest difference is at most"
        f" {error_ratio(worst, own):.2f} times the smallest of its rivals', at {worst['shape']} {worst['dtype']}."
    )


def summarise_times(paths):
    """
    Prints a table of the given runs: the first kernel against each rival, for each class of shapes and for all shapes.
    Returns the lines of the runs and the kernel's name.
    """
    lines = []
    for path in paths:
        about, *own_lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf8").splitlines()]
        print(f"{about['device']}, PyTorch {about['torch']}, {len(own_lines)} shapes drawn with seed {about['seed']}.")
        lines += own_lines
    own = about["kernels"][0]
    print(f"\n| shapes | number | rival | its time / {own}'s: least, geometric mean, most | behind at | least at |")
    print("| --- | --- | --- | --- | --- | --- |")
    for line in lines:
        if fastest := [line["us"][name] for name in BACKENDS if name in line["us"]]:
            line["us"]["fastest of SDPA"] = min(fastest)
    classes = {
        "heads of their own": lambda f: f.plain and f.H == f.Hkv and f.S == f.Skv,
        "shared heads": lambda f: f.plain and f.H != f.Hkv and f.S == f.Skv,
        "keys of their own length": lambda f: f.plain and f.S != f.Skv,
        "windows": lambda f: f.window >= 0 and not f.softcap,
        "sinks, no window": lambda f: f.window < 0 and f.sinks and not f.softcap,
        "capped logits": lambda f: f.softcap > 0,
    }
    for title, belongs in classes.items():
        for causal in (False, True):
            chosen = [
                line
                for line in lines
                if belongs(fields_of(line["shape"])) and fields_of(line["shape"]).causal == causal
            ]
            write_rows(f"{title}{', causal' if causal else ''}", chosen, own)
    write_rows("all", lines, own)
    return lines, own


def error_ratio(line, own):
    return line["differences"][own] / min(line["differences"][name] for name in line["differences"] if name in RIVALS)


def write_rows(title, lines, own):
    for rival in sorted({name for line in lines for name in line["us"]} - {own}):
        both = [line for line in lines if rival in line["us"] and own in line["us"]]
        pairs = [(line["us"][rival][0] / line["us"][own][0], line) for line in both]
        ratios = [ratio for ratio, _ in pairs]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        worst = min(pairs, key=lambda pair: pair[0])[1]
        print(
            f"| {title} | {len(pairs)} | {rival} | {min(ratios):.3f}, {mean:.3f}, {max(ratios):.3f}"
            f" | {sum(ratio < 1 for ratio in ratios)} | {worst['shape']} {worst['dtype']} |"
        )


def main(description, load, measure, summarise):
    """The command line of this program and of backward_rivals.py."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="?", type=argparse.FileType())
    parser.add_argument("--fa3", help="FlashAttention-3 as a library with functions such as fa3_fp16_64")
    parser.add_argument("--out", type=argparse.FileType("w"), default="-")
    parser.add_argument("--summary", nargs="+", help="only print the table of files that --out wrote")
    options = parser.parse_args()
    if options.summary:
        return summarise(options.summary)
    load()
    plans = json.load(options.plans)
    driver = graph_timing.Driver()
    torch.zeros(1, device="cuda")
    wanted = {(name, item["dtype"]) for item in plans["shapes"] for name in item["plans"]}
    kernels = {(name, dtype): Kernel(driver, name, plans["kernels"][name], dtype) for name, dtype in sorted(wanted)}
    library = ctypes.CDLL(options.fa3) if options.fa3 else None
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "seed": plans["seed"],
        "kernels": list(plans["kernels"]),
    }
    print(json.dumps(about), file=options.out, flush=True)
    for item in plans["shapes"]:
        print(json.dumps(measure(item, kernels, library)), file=options.out, flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(__doc__, load_torch, measure, summarise)
