"""Exported operators in a PyTorch graph beside the runner's hot figure, over many processes of each in turns.

A launch of a short kernel takes up to 0.2 us more or less from one process to the next, on either side, so one process
of each can't tell 2 %. Here each figure is a new process's; the processes of a round share its processors.
"""

import json
import os
import random
import statistics
import sys

from measurement import ROOT
from plan import CANONICAL

ROUNDS = 8
RESAMPLES = 2000


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
        processors = processors_of(number)
        found = {"processors": processors}
        # Either side is the first of a round as often as the other.
        sides = [runner_times, torch_times]
        for side in sides if number % 2 == 0 else sides[::-1]:
            found[side.__name__] = side(m, processors, folder, check, stamp)
        report["rounds"].append(found)
        report["kernels"] = compared(report["rounds"], m.options.kernels)
        m.write("processes.json", report)
    for kernel, ratios in report["kernels"].items():
        print("  ", kernel, json.dumps(ratios), flush=True)


def processors_of(number):
    """All of the host's processors, then either half of them: the halves may be nearer to the GPU or farther."""
    everyone = sorted(os.sched_getaffinity(0))
    half = len(everyone) // 2
    return [everyone, everyone[:half], everyone[half:]][number % 3]


def on(processors, command):
    return ["taskset", "-c", ",".join(str(each) for each in processors), *command]


def runner_times(m, processors, *_):
    """Each kernel's hot p50 in microseconds and its clock in MHz; a runner of its own each."""
    times = {}
    for kernel in m.options.kernels:
        bench = [*m.command("fa-tui"), "bench", kernel, "--json", "--shape", CANONICAL, "--max-seconds", "1"]
        _, _, text, _ = m.run(on(processors, bench), limit=120)
        results = json.loads(text)["result"]["variants"][0]["benchmarks"]
        hot = next(each for each in results if each["mode"].endswith("HOT"))
        times[kernel] = [hot["latency"]["p50Us"], hot.get("conditions", {}).get("smClockMhz")]
    return times


def torch_times(m, processors, folder, check, stamp):
    """Each kernel's microseconds a launch and MHz, where PyTorch's allocator puts the tensors and each apart."""
    command = [sys.executable, check, "time", folder, stamp, CANONICAL]
    _, _, text, errors = m.run(on(processors, command), limit=120)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    return json.loads(text)["kernels"]


def compared(rounds, kernels):
    """A process's figure is the median of its graphs; PyTorch's median over processes by the runner's."""
    found = {}
    for kernel in kernels:
        runner = [each["runner_times"][kernel][0] for each in rounds]
        found[kernel] = {"runner_us": runner, "runner_spread": max(runner) / min(runner)}
        for kind in ("allocator", "apart"):
            torch = [statistics.median(us for us, _ in each["torch_times"][kernel][kind]) for each in rounds]
            low, high = interval(torch, runner)
            found[kernel][kind] = {
                "us": torch,
                "spread": max(torch) / min(torch),
                "ratio": statistics.median(torch) / statistics.median(runner),
                "low": low,
                "high": high,
            }
    return found


def interval(above, below):
    """The 95 % bootstrap percentile interval of the ratio of medians."""
    generator = random.Random(1)

    def drawn(values):
        return statistics.median(generator.choices(values, k=len(values)))

    ratios = sorted(drawn(above) / drawn(below) for _ in range(RESAMPLES))
    return ratios[int(0.025 * RESAMPLES)], ratios[int(0.975 * RESAMPLES)]
