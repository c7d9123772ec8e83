"""Compares the exported PyTorch operators with the runner: bits, opcheck, torch.compile, time in a graph."""

import json
import sys

from measurement import ROOT
from plan import CANONICAL

SHAPES = [CANONICAL, "2x8x512x64c", "1x4x113x64", "1x2x300x128c"]


def measure(m):
    folder = m.work / "exports"
    folder.mkdir()
    check = m.keep_program("check_exports.py")
    m.keep_program("graph_arms.py")
    stamp = m.nvcc(ROOT / "apps/runner/worker/clock-stamp.cu", arch=m.arch())
    m.run([sys.executable, check, "prepare", folder, *SHAPES])
    runner = [m.node, ROOT / "test/dist/run-on-inputs.js", "--shapes", ",".join(SHAPES), "--folder", folder]
    hot = {}
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--torch", folder / f"{kernel}.py", limit=120)
        m.run([*runner, "--kernel", kernel], limit=200)
        results = m.bench(kernel, f"exports.bench.{kernel}.json", "--shape", CANONICAL, "--max-seconds", "2")
        hot[kernel] = next(each for each in results if each["mode"].endswith("HOT"))
    _, _, text, errors = m.run([sys.executable, check, "check", folder, stamp, *SHAPES], limit=400)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    report = json.loads(text)
    for kernel, found in report["kernels"].items():
        runner = hot[kernel]
        found["runner_hot_us"] = runner["latency"]["p50Us"]
        found["runner_clock_mhz"] = runner.get("conditions", {}).get("smClockMhz")
        for times in (found, found["after_the_checks"]):
            for kind in ("allocator", "apart"):
                times[f"{kind}_over_runner"] = [us / found["runner_hot_us"] for us, _ in times[kind]]
                times[f"{kind}_over_runner_in_cycles"] = [
                    us * mhz / (found["runner_hot_us"] * found["runner_clock_mhz"]) for us, mhz in times[kind] if mhz
                ]
        print("  ", kernel, json.dumps({key: value for key, value in found.items() if key != "refusals"}))
    m.write("exports.json", report)
