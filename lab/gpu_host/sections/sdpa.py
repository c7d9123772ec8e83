"""Measures the ladder against PyTorch's SDPA: times, outputs, and whether our timing of SDPA is fair."""

import json
import sys

from measurement import CANONICAL, hot, shape_options
from sections.ladder import summarise

# The kernels that should be faster than SDPA, and their shapes: the seven parity shapes, then the large shapes.
FASTEST = ["flashcore_v10", "flashcore_v11", "flashcore_v12"]
SHAPES = ["1x8x512x64", "2x8x512x64", "1x8x512x64c", "2x8x512x64c", "1x4x128x64", "1x16x256x64", "4x8x512x64"]
# These shapes run at the power limit, where the clock varies, so narrow intervals need more samples.
LARGE_SHAPES = ["4x16x2048x64c", "4x16x2048x128", "2x16x4096x64c"]


def shapes(m):
    """Times the fastest kernels and every SDPA backend, in turns on each shape."""
    for name, shapes, seconds in (("bench", SHAPES, 2), ("bench.large", LARGE_SHAPES, 12)):
        options = ["--max-seconds", seconds, *shape_options(shapes)]
        for kernel in reversed(FASTEST):
            _, _, document, _ = m.document("bench", kernel, *options, name=f"{name}.{kernel}.json", limit=280)
            if document:
                summarise(kernel, document)


def parity(m):
    """
    Compares every kernel's output with every SDPA backend's on the same inputs, five per case, and reports the errors
    of both against fp64. The fastest kernels are also compared on large shapes.
    """
    for kernel in m.options.kernels:
        print_parity(m, kernel, f"parity.{kernel}.json", "--seeds", "5")
    for kernel in [each for each in FASTEST if each in m.options.kernels]:
        large = shape_options(["4x16x2048x64c", "4x8x1024x64c", "1x8x1023x64c"])
        print_parity(m, kernel, f"parity.{kernel}.large.json", "--seeds", "1", *large)


def print_parity(m, kernel, name, *options):
    _, _, document, _ = m.document("verify", kernel, *options, name=name, limit=120)
    cases = document["result"]["variants"][0]["verify"]["cases"] if document else []
    for case in cases:
        shape = case["shape"]
        name = f"{shape['batch']}x{shape['heads']}x{shape['sequenceLength']}x{shape['headDim']}{'c' if shape.get('causal') else ''}"
        told = "; ".join(
            each.get("missing")
            or f"{each['backend'][5:]} diff {each['maxAbsDifference']:.1e} max {each['maxAbsError'] / each['sdpaMaxAbsError']:.2f} mean {each['meanAbsError'] / each['sdpaMeanAbsError']:.2f}"
            for each in case.get("sdpa", [])
        )
        print(f"  {kernel} {name}: {told or case.get('sdpaMissing')}")


def sdpa(m):
    """Times SDPA as anybody would with PyTorch alone, in a CUDA graph of 50 calls, next to our figure from the same
    minute."""
    code = m.keep_program("plain_sdpa.py")
    report = {}
    for shape in (CANONICAL, "4x16x2048x64c"):
        results = m.bench("flashcore_v10", f"sdpa.{shape}.json", "--shape", shape)
        _, _, text, _ = m.run([sys.executable, code, shape], name=f"plain_sdpa.{shape}.json")
        plain = json.loads(text)
        ours = {b["name"].split("/")[1]: b["latency"]["p50Us"] for b in hot(results).get("sdpa", [])}
        report[shape] = {
            name: {"plain_us": us, "flashcore_us": ours.get(name), "ratio": ours[name] / us if name in ours else None}
            for name, us in plain.items()
        }
    m.write("sdpa-against-plain.json", report)
    print(json.dumps(report))
