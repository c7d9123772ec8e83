"""Measures kernels that were exported to PyTorch: their results, their host time, and their time in a graph against the
runner's."""

import json
import random
import sys
from statistics import median

from measurement import CANONICAL, ROOT, V6_DEFINES, hot

SHAPES = [CANONICAL, "2x8x512x64c", "1x4x113x64", "1x2x300x128c"]


def exports(m):
    """Compares the exported PyTorch operators with the runner's launches, bit by bit; opcheck and torch.compile."""
    folder, check = prepared(m, "exports", SHAPES)
    for kernel in m.options.kernels:
        runner = [m.node, ROOT / "lab/dist/run-on-inputs.js", "--shapes", ",".join(SHAPES), "--folder", folder]
        m.run([*runner, "--kernel", kernel], limit=200)
    _, _, text, errors = m.run([sys.executable, check, "check", folder, *SHAPES], limit=400)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    report = json.loads(text)
    for kernel, found in report["kernels"].items():
        print("  ", kernel, json.dumps(found))
    m.write("exports.json", report)


def prepared(m, name, shapes):
    """Exports the kernels. Returns the folder, which also has inputs for the shapes, and check_exports.py."""
    folder = m.work / name
    folder.mkdir()
    check = m.keep_program("check_exports.py")
    m.run([sys.executable, check, "prepare", folder, *shapes])
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--torch", folder / f"{kernel}.py", limit=120)
    return folder, check


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


ROUNDS = 3
STATES = ["one_stream", "second_stream", "second_context"]


def processes(m):
    """
    Compares exported operators in a PyTorch graph with the runner's hot figure, with new processes of both in every
    round. PyTorch's process starts with one stream, then gets a second stream, and then a second context.
    """
    folder, check = prepared(m, "processes", [CANONICAL])
    report = {"shape": CANONICAL, "rounds": []}
    for number in range(ROUNDS):
        found = {}
        # Each of the two comes first in half of the rounds.
        sides = [runner_times, torch_times]
        for side in sides if number % 2 == 0 else sides[::-1]:
            found[side.__name__] = side(m, folder, check)
        report["rounds"].append(found)
        report["kernels"] = compared(report["rounds"], m.options.kernels)
        m.write("processes.json", report)
    for kernel, each in report["kernels"].items():
        print("  ", kernel, {state: round(each[state]["ratio"], 4) for state in STATES}, flush=True)


def runner_times(m, *_):
    """The hot p50 of each kernel in microseconds. Each kernel has a new runner."""
    return {
        kernel: hot(m.bench(kernel, "", "--shape", CANONICAL, "--max-seconds", "1"))["latency"]["p50Us"]
        for kernel in m.options.kernels
    }


def torch_times(m, folder, check):
    """The microseconds per launch of each kernel, in each state of one process."""
    _, _, text, errors = m.run([sys.executable, check, "time", folder, CANONICAL], limit=120)
    if not text:
        raise RuntimeError(f"check_exports.py gave nothing: {errors[-5:]}")
    return json.loads(text)["kernels"]


def compared(rounds, kernels):
    """The median over processes of PyTorch's times, divided by that of the runner's times."""
    found = {}
    for kernel in kernels:
        runner = [each["runner_times"][kernel] for each in rounds]
        found[kernel] = {"runner_us": runner}
        for state in STATES:
            torch = [each["torch_times"][kernel][state] for each in rounds]
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
