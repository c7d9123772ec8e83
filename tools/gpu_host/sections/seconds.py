"""From a changed source to the verdict, on a warm runner: how long each phase takes, according to the result."""

import json
import shutil
import time

from measurement import ROOT

# No round starts after this many seconds.
LIMIT_SECONDS = 80


def measure(m):
    started = time.monotonic()
    rounds = []
    folders = {kernel: m.work / "seconds" / kernel for kernel in m.options.kernels}
    for kernel, folder in folders.items():
        shutil.copytree(ROOT / "kernels" / kernel, folder)
    # The first run opens the device and PyTorch; it is not counted as a round.
    m.tui("run", folders[m.options.kernels[0]], "--no-fallback", name="seconds.first.txt", limit=60)
    for index in range(m.options.edits):
        for kernel, folder in folders.items():
            if time.monotonic() - started < LIMIT_SECONDS:
                rounds.append(edited(m, kernel, folder, index))
    m.write("seconds.json", rounds)


def edited(m, kernel, folder, index):
    """Adds a line to the source and runs the experiment."""
    with open(folder / f"{kernel}.cu", "a", encoding="utf8") as source:
        source.write(f"// edit {index}\n")
    _, seconds, text, _ = m.tui("run", folder, "--json", "--no-fallback", limit=60)
    result = json.loads(text)["result"]
    row = {"kernel": kernel, "seconds": seconds, "job_seconds": result["deviceSeconds"], "phases": result["phaseTimes"]}
    print(json.dumps(row), flush=True)
    if index == 0:
        # The report of the same job, with the bars, and its timeline.
        m.tui("watch", json.loads(text)["job"]["name"], name=f"seconds.{kernel}.txt", limit=20)
        m.tui("trace", json.loads(text)["job"]["name"], name=f"seconds.{kernel}.trace.json", limit=20)
    return row
