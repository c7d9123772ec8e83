"""Measures whether wrong and dishonest kernels are caught."""

import json
import os
import re

from measurement import CANONICAL, ROOT


def faulty(m):
    """Runs every faulty kernel, and after each a good kernel, whose figures must not change at all. Measures the good
    kernel's time."""

    def good():
        return m.document("verify", "flashcore_v5", "--seed", "5eed", "--shape", "1x4x128x64", limit=60)

    first = cases_of(good()[2])
    rows = []
    for folder in sorted((ROOT / "kernels/faulty").iterdir()):
        manifest = folder / "kernel.yaml"
        if not manifest.exists():
            continue
        manifest_text = manifest.read_text(encoding="utf8")
        wanted = re.search(r"finding: (\w+)", manifest_text).group(1)
        shape = re.search(r"^faulty: .*\bshape: (\w+)", manifest_text, re.MULTILINE)
        for options in ([], ["--sanitize"]):
            code, seconds, document, _ = m.document(
                "run",
                folder.name,
                "--seeds",
                "2",
                "--shape",
                shape.group(1) if shape else "1x4x128x64",
                "--max-seconds",
                "0.2",
                *options,
                name=f"faulty.{folder.name}{''.join(options)}.json",
                limit=90,
            )
            findings = [
                f for variant in document.get("result", {}).get("variants", []) for f in variant.get("findings", [])
            ]
            # compute-sanitizer finds faults that a GPU hides.
            if f"FINDING_KIND_{wanted}" in [f["kind"] for f in findings]:
                break
        good_code, good_seconds, good_document, _ = good()
        rows.append(
            {
                "id": folder.name,
                "wanted": wanted,
                "found": [f["kind"].removeprefix("FINDING_KIND_") for f in findings],
                "cudaErrors": [f.get("cudaError", "") for f in findings],
                "outcome": document.get("job", {}).get("outcome"),
                "options": options,
                "exit_code": code,
                "seconds": seconds,
                "good_exit_code": good_code,
                "good_seconds": good_seconds,
                "good_same": cases_of(good_document) == first,
                "message": findings[0]["message"] if findings else document.get("job", {}).get("summary", ""),
            }
        )
        print(json.dumps(rows[-1]))
    m.write("faulty.json", rows)


def cases_of(document):
    """The figures of a verification, without times and without the comparison with PyTorch."""
    cases = document["result"]["variants"][0]["verify"]["cases"] if document else []
    return [
        {key: value for key, value in case.items() if key not in ("seconds", "sdpa", "sdpaMissing")} for case in cases
    ]


# Shapes to verify and to time, for kernels that need particular shapes.
SHAPES = {
    "lucky_reads": ("1x1x512x64", "2x8x512x64"),
    # The kernel's time must be below the roofline, so it needs a shape with enough work.
    "impossible_time": ("1x4x128x64", "4x16x2048x64"),
    "heaviest_weights": ("rows=64,N=1024", "rows=4096,N=4096"),
}


def cheating(m):
    """Checks every kernel of kernels/cheating as in an experiment and, if the kernel passes, times it. Stores the
    verdicts as printed."""
    rows = []
    for folder in sorted(path.parent for path in (ROOT / "kernels/cheating").glob("*/kernel.yaml")):
        if m.options.cheats and folder.name not in m.options.cheats:
            continue
        manifest = (folder / "kernel.yaml").read_text(encoding="utf8")
        on_gpu = re.search(r"finding_on_gpu: \[([^\]]*)\]", manifest)
        wanted = (
            on_gpu.group(1).split(", ")
            if on_gpu and on_gpu.group(1)
            else [re.search(r"finding: (\w+)", manifest).group(1)]
        )
        small, timed = SHAPES.get(folder.name, ("1x4x128x64", "2x8x512x64"))
        # Only a run whose result could be accepted has probes, and drawn shapes for all cases.
        phase = "run" if folder.name.startswith(("shapes_", "values_")) else "verify"
        code, seconds, document, _ = m.document(
            phase, folder.name, "--shape", small, name=f"cheating.{folder.name}.{phase}.json", limit=60
        )
        if code == 0 and phase == "verify":
            phase = "benchmark"
            code, seconds, document, _ = m.document(
                "bench",
                folder.name,
                "--shape",
                timed,
                "--max-seconds",
                "1",
                name=f"cheating.{folder.name}.bench.json",
                limit=90,
            )
        variants = document.get("result", {}).get("variants", [])
        findings = [finding for variant in variants for finding in variant.get("findings", [])]
        found = [finding["kind"].removeprefix("FINDING_KIND_") for finding in findings] or ["NONE"]
        benchmarks = [result for variant in variants for result in variant.get("benchmarks", [])]
        rows.append(
            {
                "id": folder.name,
                "wanted": wanted,
                "found": found,
                "caught_in": phase,
                "as_wanted": any(each in found for each in wanted),
                "exit_code": code,
                "seconds": seconds,
                "outcome": document.get("job", {}).get("outcome"),
                "messages": [finding["message"] for finding in findings],
                "valid": [result.get("valid", False) for result in benchmarks],
                "p50_us": {result["mode"]: result["latency"]["p50Us"] for result in benchmarks},
                "checks": [result.get("outputCheck") for result in benchmarks],
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    cold = {}
    for pinned in (0, 1):
        results = m.bench(
            "pinned_l2",
            f"cheating.pinned_l2.{pinned}.json",
            "--set",
            f"PINNED={pinned}",
            "--shape",
            CANONICAL,
            "--max-seconds",
            "1",
        )
        cold[pinned] = next(result["latency"]["p50Us"] for result in results if result["mode"].endswith("COLD"))
    m.write("cheating.json", {"kernels": rows, "pinned_l2_cold_p50_us": cold})
    print(json.dumps(cold))


def corpus(m):
    """Runs the dishonest and honest kernels of kernels/corpus with the default plan: which are caught, and by which
    check."""
    only = ["--only", ",".join(m.options.cheats)] if m.options.cheats else []
    builders = str(max(1, (os.cpu_count() or 2) // 2))
    program = [m.node, ROOT / "test/dist/corpus.js", "--out", m.out / "gpu.json", "--builders", builders]
    # In the same folder, --rest makes the program continue an interrupted run.
    m.run([*program, "--rest", *only], name="corpus.txt", limit=3600)
