"""compute-sanitizer's own output on the faulty kernels: fixtures of its parser's tests, and what docs/emulator.md
compares the emulator's findings with."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

from measurement import ROOT


RUNS = (
    ("out_of_bounds", "memcheck"),
    ("misaligned_address", "memcheck"),
    ("missing_syncthreads", "racecheck"),
    ("divergent_barrier", "synccheck"),
    ("unwritten_output", "initcheck"),
    ("static_shared_overrun", "memcheck"),
    ("local_overrun", "memcheck"),
    ("read_before_buffer", "memcheck"),
    ("device_array_overrun", "memcheck"),
    ("missing_syncwarp", "racecheck"),
    ("global_read_modify_write", "racecheck"),
    ("shift_by_width", "memcheck"),
    ("nan_to_integer", "memcheck"),
    ("uninitialised_shared", "initcheck"),
    ("uninitialised_shared", "racecheck"),
    ("wrong_membermask", "synccheck"),
    ("barrier_in_branches", "synccheck"),
    ("lost_copy_wait", "racecheck"),
    ("volatile_exchange", "racecheck"),
)


def measure(m):
    arch = m.arch()
    kernels = sorted({kernel for kernel, _ in RUNS})
    with ThreadPoolExecutor() as pool:
        built = pool.map(lambda kernel: m.nvcc(f"kernels/faulty/{kernel}/{kernel}.cu", arch=arch), kernels)
        images = dict(zip(kernels, built, strict=True))
    for kernel, tool in RUNS:
        manifest = (ROOT / f"kernels/faulty/{kernel}/kernel.yaml").read_text(encoding="utf8")
        rows = int(re.search(r'grid: \["ceil\(S / (\d+)\)"', manifest).group(1))
        threads = int(re.search(r"block: \[(\d+)", manifest).group(1))
        arguments = [
            *({"kind": "tensor", "tensor": name} for name in "QKVO"),
            {"kind": "int32", "value": 128},
            {"kind": "float32", "value": 0.125},
            {"kind": "int32", "value": 0},
        ]
        launch = {
            "entry": kernel,
            "grid": [128 // rows, 4, 1],
            "block": [threads, 1, 1],
            "sharedBytes": 0,
            "l2Persist": [],
            "arguments": arguments,
        }
        job = {
            "library": "libcuda.so.1",
            "deviceOrdinal": 0,
            "seed": "1",
            "runs": 1,
            "candidate": {
                "image": str(images[kernel]),
                "launchLimitMs": 0,
                "shape": {"batch": 1, "heads": 4, "sequenceLength": 128, "headDim": 64, "causal": False},
                "plan": {"dtype": "fp16", "workspace": [], "launches": [launch]},
            },
        }
        (m.work / "job.json").write_text(json.dumps(job), encoding="utf8")
        m.run(
            [
                "compute-sanitizer",
                "--tool",
                tool,
                "--error-exitcode",
                "86",
                "--print-limit",
                "16",
                "--show-backtrace",
                "no",
                # Padding between allocations, so that one does not begin where another ends.
                *(["--padding", "512"] if tool == "memcheck" else []),
                m.node,
                ROOT / "apps/runner/dist/profile-once.js",
                m.work / "job.json",
            ],
            name=f"sanitizer.{tool}.{kernel}.txt",
            limit=20,
        )
