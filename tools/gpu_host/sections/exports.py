"""Measures kernels that were exported to PyTorch: their results, their host time, and their time in a graph against the
runner's."""

import json
import random
import sys
from statistics import median

from measurement import CANONICAL, ROOT, V6_DEFINES, hot

SHAPES = [CANONICAL, "2x8x512x64c", "1x4x113x64", "1x2x300x128c"]


def exports(m):
    """Compares the exported PyTorch operators with the runner: bits, opcheck, torch.compile, time in a graph."""
    folder, check, stamp = prepared(m, "exports", SHAPES)
    runner = [m.node, ROOT / "test/dist/run-on-inputs.js", "--shapes", ",".join(SHAPES), "--folder", folder]
    runner_times = {}
    for kernel in m.options.kernels:
        m.run([*runner, "--kernel", kernel], limit=200)
        results = m.bench(kernel, f"exports.bench.{kernel}.json", "--shape", CANONICAL, "--max-seconds", "2")
        runner_times[kernel] = hot(results)
    _, _, text, errors = m.run([sys.executable, check, "check", folder, stamp, *SHAPES], limit=400)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    report = json.loads(text)
    for kernel, found in report["kernels"].items():
        found["runner_hot_us"], found["runner_clock_mhz"] = time_and_clock(runner_times[kernel])
        for times in (found, found["after_the_checks"]):
            for kind in ("allocator", "apart"):
                times[f"{kind}_over_runner"] = [us / found["runner_hot_us"] for us, _ in times[kind]]
                times[f"{kind}_over_runner_in_cycles"] = [
                    us * mhz / (found["runner_hot_us"] * found["runner_clock_mhz"]) for us, mhz in times[kind] if mhz
                ]
        print("  ", kernel, json.dumps({key: value for key, value in found.items() if key != "refusals"}))
    m.write("exports.json", report)


def prepared(m, name, shapes):
    """Exports the kernels. Returns the folder, which also has inputs for the shapes, check_exports.py and the clock
    stamp."""
    folder = m.work / name
    folder.mkdir()
    check = m.keep_program("check_exports.py")
    m.keep_program("graph_arms.py")
    stamp = m.nvcc(ROOT / "apps/runner/worker/clock-stamp.cu", arch=m.arch())
    m.run([sys.executable, check, "prepare", folder, *shapes])
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--torch", folder / f"{kernel}.py", limit=120)
    return folder, check, stamp


def time_and_clock(benchmark):
    """The p50 of a benchmark in microseconds, and its clock in MHz."""
    return [benchmark["latency"]["p50Us"], benchmark.get("conditions", {}).get("smClockMhz")]


def exports_inline(m):
    """Builds an export in KernelBench's form with load_inline, as KernelBench's evaluator does, and compares it with
    the Model."""
    folder = m.work / "kernelbench"
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--kernelbench", folder / kernel, limit=60)
    program = m.keep_program("check_kernelbench.py")
    _, _, text, errors = m.run([sys.executable, program, folder], limit=580, name="exports.kernelbench.json")
    print(text or errors[-5:])


PAIR = ["flashcore_v12", "--set", "WRITE_LSE=1", "--backward", "examples/kernels/backward_hopper"]
EXPORTS = {
    "fp16": ["flashcore_v12"],
    "bf16": ["flashcore_v12", "--set", "BF16=1"],
    "fp16_pair": PAIR,
    "bf16_pair": [*PAIR, "--set", "BF16=1", "--backward-set", "BF16=1"],
    "fp16_bshd": ["flashcore_v12", "--set", "BSHD=1"],
    "bf16_bshd_pair": [
        *PAIR,
        *("--set", "BF16=1", "--set", "BSHD=1"),
        *("--backward-set", "BF16=1", "--backward-set", "BSHD=1"),
    ],
    "decode": ["examples/kernels/decode_mma"],
    "paged": ["examples/kernels/decode_paged"],
    "varlen": ["examples/kernels/varlen_rows"],
}


def signatures(m):
    """Runs check_signatures.py on exported PyTorch files: host time of eager calls, results, gradients, training,
    decoding."""
    folder = m.work / "signatures"
    folder.mkdir()
    for name, kernel in EXPORTS.items():
        m.tui("export", *kernel, "--torch", folder / f"{name}.py", limit=120)
    program = m.keep_program("check_signatures.py")
    report = m.out / "signatures.json"
    _, _, text, errors = m.run([sys.executable, program, folder, ROOT / "examples/pytorch", report], limit=580)
    print(text)
    if not report.exists():
        raise RuntimeError(f"check_signatures.py gave nothing: {errors[-5:]}")


def torch_extension(m):
    """Measures the build time of the same kernel as a PyTorch extension (torch.utils.cpp_extension.load_inline)."""
    code = m.keep_program("load_inline.py")
    _, _, text, _ = m.run(
        [sys.executable, code, ROOT / "kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES], name="torch-extension.json"
    )
    print(text)


def graphs(m):
    """Measures a launch of an exported kernel by who made the graph, by memory and by context, against the runner's
    time."""
    folder, check, stamp = prepared(m, "graphs", [CANONICAL])
    arms = check.with_name("graph_arms.py")
    report = {"runner_hot_us": {}}
    # The process of the runner comes between the two other processes.
    for way in ("torch", "runner", "bare"):
        if way == "runner":
            for kernel in m.options.kernels:
                results = m.bench(kernel, "", "--shape", CANONICAL, "--max-seconds", "1.5")
                report["runner_hot_us"][kernel] = time_and_clock(hot(results))
            m.write("graphs.json", report)
            continue
        _, _, text, errors = m.run([sys.executable, arms, way, folder, CANONICAL, stamp, *m.options.kernels], limit=240)
        report[way] = json.loads(text) if text else {"failed": errors[-8:]}
        m.write("graphs.json", report)
    show(report)


def show(report):
    """Prints the microseconds per launch of each arm, and the ratio to the runner's."""
    for way in ("torch", "bare"):
        for kernel, found in report[way].get("kernels", {}).items():
            runner = report["runner_hot_us"][kernel][0]
            print(f"{kernel}, {way}; the runner's {runner:.3f} us", flush=True)
            for name, arm in found["arms"].items():
                print(f"  {arm['us']:8.3f}  {arm['us'] / runner:6.3f}  {arm.get('mhz', ''):>5}  {name}")
            for name, reason in found["failed"].items():
                print(f"  failed: {name}: {reason}")


ROUNDS = 3
STATES = ["one_stream", "second_stream", "second_context"]


def processes(m):
    """
    Compares exported operators in a PyTorch graph with the runner's hot figure, with new processes of both in every
    round. PyTorch's process starts with one stream, then gets a second stream, and then a second context.
    """
    folder, check, stamp = prepared(m, "processes", [CANONICAL])
    report = {"shape": CANONICAL, "rounds": []}
    for number in range(ROUNDS):
        found = {}
        # Each of the two comes first in half of the rounds.
        sides = [runner_times, torch_times]
        for side in sides if number % 2 == 0 else sides[::-1]:
            found[side.__name__] = side(m, folder, check, stamp)
        report["rounds"].append(found)
        report["kernels"] = compared(report["rounds"], m.options.kernels)
        m.write("processes.json", report)
    for kernel, each in report["kernels"].items():
        print("  ", kernel, {state: round(each[state]["ratio"], 4) for state in STATES}, flush=True)


def runner_times(m, *_):
    """The hot p50 in microseconds and the clock in MHz of each kernel. Each kernel has a new runner."""
    times = {}
    for kernel in m.options.kernels:
        times[kernel] = time_and_clock(hot(m.bench(kernel, "", "--shape", CANONICAL, "--max-seconds", "1")))
    return times


def torch_times(m, folder, check, stamp):
    """The microseconds per launch and the MHz of each kernel, in each state of one process."""
    _, _, text, errors = m.run([sys.executable, check, "time", folder, stamp, CANONICAL], limit=120)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    return json.loads(text)["kernels"]


def compared(rounds, kernels):
    """The median over processes of PyTorch's times, divided by that of the runner's times."""
    found = {}
    for kernel in kernels:
        runner = [each["runner_times"][kernel][0] for each in rounds]
        found[kernel] = {"runner_us": runner}
        for state in STATES:
            torch = [each["torch_times"][kernel][state][0] for each in rounds]
            low, ratio, high = ratio_interval(torch, runner)
            found[kernel][state] = {"us": torch, "ratio": ratio, "low": low, "high": high}
    return found


def ratio_interval(above, below, resamples=2000):
    """median(above) / median(below), with its 95 % percentile interval from a bootstrap."""
    generator = random.Random(1)
    ratios = sorted(
        median(generator.choices(above, k=len(above))) / median(generator.choices(below, k=len(below)))
        for _ in range(resamples)
    )
    return ratios[int(0.025 * resamples)], median(above) / median(below), ratios[int(0.975 * resamples)]
