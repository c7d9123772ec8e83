"""Every kernel of kernels/cheating: checked as in an experiment and, if it passes, timed; verdicts as printed."""

import json
import re

from measurement import ROOT
from plan import CANONICAL

# Shapes to verify and to time, of kernels that need others.
SHAPES = {
    "lucky_reads": ("1x1x512x64", "2x8x512x64"),
    # Its time must be below the roofline, so it needs a shape with real work.
    "impossible_time": ("1x4x128x64", "4x16x2048x64"),
    "heaviest_weights": ("rows=64,N=1024", "rows=4096,N=4096"),
}


def measure(m):
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
        # Only a run whose result may be accepted has probes and drawn shapes for all cases.
        phase = "run" if folder.name.startswith(("shapes_", "values_")) else "verify"
        code, seconds, text, errors = m.tui(
            phase, folder.name, "--json", "--shape", small, name=f"cheating.{folder.name}.{phase}.json", limit=60
        )
        document = json.loads(text) if text else {}
        if code == 0 and phase == "verify":
            phase = "benchmark"
            code, seconds, text, errors = m.tui(
                "bench",
                folder.name,
                "--json",
                "--shape",
                timed,
                "--max-seconds",
                "1",
                name=f"cheating.{folder.name}.bench.json",
                limit=90,
            )
            document = json.loads(text) if text else {}
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
