"""How long a launch of an exported kernel takes, by graph maker, memory and context, against the runner's time."""

import json
import sys

from measurement import ROOT
from plan import CANONICAL


def measure(m):
    folder = m.work / "graphs"
    folder.mkdir()
    prepare, arms = m.keep_program("check_exports.py"), m.keep_program("graph_arms.py")
    m.run([sys.executable, prepare, "prepare", folder, CANONICAL])
    stamp = m.nvcc(ROOT / "apps/runner/worker/clock-stamp.cu", arch=m.arch())
    report = {"runner_hot_us": {}}
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--torch", folder / f"{kernel}.py", limit=120)
    # The runner is measured between the two other processes.
    for way in ("torch", "runner", "bare"):
        if way == "runner":
            for kernel in m.options.kernels:
                results = m.bench(kernel, "", "--shape", CANONICAL, "--max-seconds", "1.5")
                hot = next(each for each in results if each["mode"].endswith("HOT"))
                conditions = hot.get("conditions", {})
                report["runner_hot_us"][kernel] = [hot["latency"]["p50Us"], conditions.get("smClockMhz")]
            m.write("graphs.json", report)
            continue
        _, _, text, errors = m.run([sys.executable, arms, way, folder, CANONICAL, stamp, *m.options.kernels], limit=240)
        report[way] = json.loads(text) if text else {"failed": errors[-8:]}
        m.write("graphs.json", report)
    show(report)


def show(report):
    """Prints each arm's microseconds per launch, and its ratio to the runner's."""
    for way in ("torch", "bare"):
        for kernel, found in report[way].get("kernels", {}).items():
            runner = report["runner_hot_us"][kernel][0]
            print(f"{kernel}, {way}; the runner's {runner:.3f} us", flush=True)
            for name, arm in found["arms"].items():
                print(f"  {arm['us']:8.3f}  {arm['us'] / runner:6.3f}  {arm.get('mhz', ''):>5}  {name}")
            for name, reason in found["failed"].items():
                print(f"  failed: {name}: {reason}")
