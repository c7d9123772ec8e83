"""Exported operators in a PyTorch graph against the runner's hot figure, with new processes of both in every round.

PyTorch's process first has one stream, then a second stream, then a second context.
"""

import json
import random
import sys

from measurement import ROOT
from plan import CANONICAL

ROUNDS = 3
STATES = ["one_stream", "second_stream", "second_context"]


def measure(m):
    folder = m.work / "processes"
    folder.mkdir()
    check = m.keep_program("check_exports.py")
    m.keep_program("graph_arms.py")
    stamp = m.nvcc(ROOT / "apps/runner/worker/clock-stamp.cu", arch=m.arch())
    m.run([sys.executable, check, "prepare", folder, CANONICAL])
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--torch", folder / f"{kernel}.py", limit=120)
    report = {"shape": CANONICAL, "rounds": []}
    for number in range(ROUNDS):
        found = {}
        # Each side comes first in half of the rounds.
        sides = [runner_times, torch_times]
        for side in sides if number % 2 == 0 else sides[::-1]:
            found[side.__name__] = side(m, folder, check, stamp)
        report["rounds"].append(found)
        report["kernels"] = compared(report["rounds"], m.options.kernels)
        m.write("processes.json", report)
    for kernel, each in report["kernels"].items():
        print("  ", kernel, {state: round(each[state]["ratio"], 4) for state in STATES}, flush=True)


def runner_times(m, *_):
    """Each kernel's hot p50 in microseconds and its clock in MHz; each kernel has its own runner."""
    times = {}
    for kernel in m.options.kernels:
        results = m.bench(kernel, "", "--shape", CANONICAL, "--max-seconds", "1")
        hot = next(each for each in results if each["mode"].endswith("HOT"))
        times[kernel] = [hot["latency"]["p50Us"], hot.get("conditions", {}).get("smClockMhz")]
    return times


def torch_times(m, folder, check, stamp):
    """Each kernel's microseconds per launch and MHz in each state of one process."""
    _, _, text, errors = m.run([sys.executable, check, "time", folder, stamp, CANONICAL], limit=120)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    return json.loads(text)["kernels"]


def compared(rounds, kernels):
    """The ratio of PyTorch's median over processes to the runner's."""
    found = {}
    for kernel in kernels:
        runner = [each["runner_times"][kernel][0] for each in rounds]
        found[kernel] = {"runner_us": runner}
        for state in STATES:
            torch = [each["torch_times"][kernel][state][0] for each in rounds]
            low, ratio, high = ratio_interval(torch, runner)
            found[kernel][state] = {"us": torch, "ratio": ratio, "low": low, "high": high}
    return found


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio_interval(above, below, resamples=2000):
    """median(above) / median(below) with its 95 % bootstrap percentile interval."""
    generator = random.Random(1)
    ratios = sorted(
        median(generator.choices(above, k=len(above))) / median(generator.choices(below, k=len(below)))
        for _ in range(resamples)
    )
    return ratios[int(0.025 * resamples)], median(above) / median(below), ratios[int(0.975 * resamples)]
