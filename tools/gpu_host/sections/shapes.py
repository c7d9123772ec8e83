"""The fastest kernels against every SDPA backend, in turns on each shape."""

import json

from plan import FASTEST, LARGE_SHAPES, SHAPES
from sections.kernels import summarise


def measure(m):
    for name, shapes, seconds in (("bench", SHAPES, 2), ("bench.large", LARGE_SHAPES, 12)):
        options = [each for shape in shapes for each in ("--shape", shape)]
        for kernel in reversed(FASTEST):
            _, _, text, _ = m.tui(
                "bench", kernel, "--json", "--max-seconds", seconds, *options, name=f"{name}.{kernel}.json", limit=280
            )
            if text:
                summarise(kernel, json.loads(text))
