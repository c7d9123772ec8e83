"""Runs the kernels of the ladder as experiments, and measures the time from a changed source to the verdict."""

import json
import re
import shutil
import time

from measurement import ROOT


def kernels(m):
    """Runs every kernel of the ladder as an experiment, and keeps its samples."""
    for kernel in m.options.kernels:
        code, _, document, errors = m.document("run", kernel, name=f"run.{kernel}.json", limit=240)
        (m.out / f"run.{kernel}.log").write_text("\n".join(errors) + "\n", encoding="utf8")
        if code in (0, 1) and document:
            summarise(kernel, document)
            keep_samples(m, document)


def summarise(kernel, document):
    for variant in document["result"]["variants"]:
        print(
            f"  {kernel} {variant.get('label')} fallback={variant.get('fallback', False)} findings={[f['kind'] for f in variant.get('findings', [])]}"
        )
        for result in variant.get("benchmarks", []):
            latency = result["latency"]
            print(
                f"    {result['mode'][12:]:5} p50 {latency['p50Us']:.2f} [{latency['p50LowUs']:.2f} {latency['p50HighUs']:.2f}] n={latency['samples']} dropped={latency.get('dropped', 0)} {result.get('stopReason')} valid={result.get('valid')} {result.get('invalidReason', '')} "
                f"empty={result.get('eventOverheadUs', 0):.2f} missing={result.get('sdpaMissing', '')} check={result.get('outputCheck')}"
            )
            print(
                "      "
                + "; ".join(
                    f"{b['name']} {b['latency']['p50Us']:.2f} n={b['latency']['samples']} x{b['speedup']:.3f} [{b['speedupLow']:.3f} {b['speedupHigh']:.3f}]"
                    for b in result.get("sdpa", [])
                )
            )
            print("      " + json.dumps(result.get("conditions", {})))
        profile = variant.get("profile", {})
        print(
            "    profile",
            profile.get("verdict"),
            profile.get("reason", ""),
            profile.get("bottleneck", ""),
            {m["name"]: round(m.get("value", 0), 2) for m in profile.get("metrics", [])},
        )
        print(
            "    gates",
            {
                g["gateId"]: (g["verdict"][8:], round(g["value"], 3) if "value" in g else g.get("detail", "")[:60])
                for g in variant.get("gates", [])
            },
        )


def keep_samples(m, document):
    (m.out / "samples").mkdir(exist_ok=True)
    for variant in document["result"]["variants"]:
        for result in variant.get("benchmarks", []):
            artifact = result.get("samples")
            if artifact:
                m.tui(
                    "artifact",
                    artifact["sha256"],
                    "--output",
                    m.out
                    / "samples"
                    / f"{document['job']['kernelId'] if 'kernelId' in document['job'] else 'kernel'}.{variant['label'].split(' ')[0]}.{artifact['fileName']}",
                    limit=20,
                )


def accepted(m):
    """Climbs the ladder: each kernel has a ranked run against the current champion and is then accepted."""
    steps = []
    for kernel in m.options.kernels:
        code, seconds, document, errors = m.document("run", kernel, name=f"accepted.{kernel}.json", limit=240)
        result = document.get("result", {})
        variant = (result.get("variants") or [{}])[0]
        gates = {gate["gateId"]: gate for gate in variant.get("gates", [])}
        job = document.get("job", {}).get("name", "")
        step = {
            "kernel": kernel,
            "exit": code,
            "seconds": round(seconds, 1),
            "ranked": result.get("ranking", {}).get("ranked", False),
            "over": result.get("acceptability", {}).get("over"),
            "regression": gates.get("regression", {}).get("verdict"),
            "ratio": gates.get("regression", {}).get("value"),
            "comparison": variant.get("comparison", {}).get("reason") or gates.get("regression", {}).get("detail"),
            "errors": errors[-3:] if code not in (0, 1) else [],
        }
        accepted, _, _, refusal = m.tui("accept", job, "--note", "a step of the ladder", name=f"accepted.{kernel}.txt")
        step["accepted"] = accepted == 0
        if accepted != 0:
            step["refusal"] = refusal[-3:]
        steps.append(step)
        print(json.dumps(step), flush=True)
    m.tui("champions", "--trail", name="accepted.champions.txt")
    m.tui("leaderboard", name="accepted.leaderboard.txt")
    m.write("accepted.json", steps)


def edit(m):
    """Measures the time from a changed source to the gates on a warm runner, and when each phase began."""
    folder = m.work / "edited" / "flashcore_v6"
    shutil.copytree(ROOT / "kernels/flashcore_v6", folder)
    m.tui("run", folder, "--json", "--no-fallback", limit=120)
    rounds = []
    for index in range(m.options.edits):
        with open(folder / "flashcore_v6.cu", "a", encoding="utf8") as source:
            source.write(f"// edit {index}\n")
        lines = []
        _, seconds, _, _ = m.tui(
            "run", folder, "--json", "--no-fallback", name=f"edit.{index}.json", limit=120, timed_lines=lines
        )
        phases = [
            (at, line.split()[0])
            for at, line in lines
            if re.match(r"^(precheck|go/no-go|build|verify|benchmark|profile|gates)\b", line)
        ]
        marks = [*phases, (seconds, "end")]
        rounds.append(
            {
                "seconds": seconds,
                "phases": {name: marks[i + 1][0] - at for i, (at, name) in enumerate(marks[:-1])},
                "before_first_phase": marks[0][0],
                "lines": [f"{at:.3f} {line}" for at, line in lines],
            }
        )
        print(json.dumps({key: value for key, value in rounds[-1].items() if key != "lines"}))
    m.write("edit-to-gates.json", rounds)


# No round starts after this many seconds.
LIMIT_SECONDS = 80


def seconds(m):
    """Measures the time from a changed source to the verdict on a warm runner. The result tells how long each phase
    took."""
    started = time.monotonic()
    rounds = []
    folders = {kernel: m.work / "seconds" / kernel for kernel in m.options.kernels}
    for kernel, folder in folders.items():
        shutil.copytree(ROOT / "kernels" / kernel, folder)
    # The first run opens the device and PyTorch, so it does not count as a round.
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
    _, seconds, document, _ = m.document("run", folder, "--no-fallback", limit=60)
    result, job = document["result"], document["job"]["name"]
    row = {"kernel": kernel, "seconds": seconds, "job_seconds": result["deviceSeconds"], "phases": result["phaseTimes"]}
    print(json.dumps(row), flush=True)
    if index == 0:
        # Stores the job's report with its bars, and its timeline.
        m.tui("watch", job, name=f"seconds.{kernel}.txt", limit=20)
        m.tui("trace", job, name=f"seconds.{kernel}.trace.json", limit=20)
    return row
