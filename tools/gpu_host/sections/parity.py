"""Every kernel's output against every SDPA backend's on the same inputs, five per case, with the errors of both against
fp64; the fastest kernels on large shapes, too."""

import json

from plan import FASTEST


def measure(m):
    for kernel in m.options.kernels:
        _, _, text, _ = m.tui("verify", kernel, "--json", "--seeds", "5", name=f"parity.{kernel}.json", limit=120)
        print_parity(kernel, text)
    for kernel in [each for each in FASTEST if each in m.options.kernels]:
        large = [each for shape in ("4x16x2048x64c", "4x8x1024x64c", "1x8x1023x64c") for each in ("--shape", shape)]
        _, _, text, _ = m.tui(
            "verify", kernel, "--json", "--seeds", "1", *large, name=f"parity.{kernel}.large.json", limit=120
        )
        print_parity(kernel, text)


def print_parity(kernel, text):
    cases = json.loads(text)["result"]["variants"][0]["verify"]["cases"] if text else []
    for case in cases:
        shape = case["shape"]
        name = f"{shape['batch']}x{shape['heads']}x{shape['sequenceLength']}x{shape['headDim']}{'c' if shape.get('causal') else ''}"
        told = "; ".join(
            each.get("missing")
            or f"{each['backend'][5:]} diff {each['maxAbsDifference']:.1e} max {each['maxAbsError'] / each['sdpaMaxAbsError']:.2f} mean {each['meanAbsError'] / each['sdpaMeanAbsError']:.2f}"
            for each in case.get("sdpa", [])
        )
        print(f"  {kernel} {name}: {told or case.get('sdpaMissing')}")
