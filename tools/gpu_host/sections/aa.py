"""Compares builds with themselves in interleaved blocks of one job, as every comparison is made.

How far from 1 is the ratio?"""

import json

from plan import CANONICAL

KERNELS = ["flashcore_v6", "flashcore_v10", "flashcore_v12"]
SHAPES = [CANONICAL, "1x8x512x64c", "4x16x2048x64c"]


def measure(m):
    rows = []
    for kernel in KERNELS:
        shapes = [each for shape in SHAPES for each in ("--shape", shape)]
        name = f"aa.{kernel}.json"
        _, _, text, errors = m.tui("bench", kernel, "--champion", kernel, "--json", *shapes, name=name, limit=120)
        if not text:
            raise RuntimeError(f"{name}: {errors[-3:]}")
        comparison = json.loads(text)["result"]["variants"][0]["comparison"]
        for at in comparison["shapes"]:
            place = at["shape"]
            shape = "x".join(str(place[axis]) for axis in ("batch", "heads", "sequenceLength", "headDim"))
            row = {
                "kernel": kernel,
                "shape": shape + ("c" if place.get("causal") else ""),
                "mode": at["mode"].removeprefix("TIMING_MODE_"),
                **{each: at.get(each) for each in ("time", "cycles", "selfTime", "selfCycles", "reason")},
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    m.write("itself.json", rows)
