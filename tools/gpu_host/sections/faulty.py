"""Every faulty kernel and its finding, and the time of the next good kernel, whose figures must not change at all."""

import json
import re

from measurement import ROOT


def measure(m):
    def good():
        return m.tui("verify", "flashcore_v5", "--json", "--seed", "5eed", "--shape", "1x4x128x64", limit=60)

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
            code, seconds, text, _ = m.tui(
                "run",
                folder.name,
                "--json",
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
            document = json.loads(text) if text else {}
            findings = [
                f for variant in document.get("result", {}).get("variants", []) for f in variant.get("findings", [])
            ]
            # compute-sanitizer looks for faults that a GPU hides.
            if f"FINDING_KIND_{wanted}" in [f["kind"] for f in findings]:
                break
        good_code, good_seconds, good_text, _ = good()
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
                "good_same": cases_of(good_text) == first,
                "message": findings[0]["message"] if findings else document.get("job", {}).get("summary", ""),
            }
        )
        print(json.dumps(rows[-1]))
    m.write("faulty.json", rows)


def cases_of(text):
    """The figures of a verification, without times and without PyTorch's figures."""
    cases = json.loads(text)["result"]["variants"][0]["verify"]["cases"] if text else []
    return [
        {key: value for key, value in case.items() if key not in ("seconds", "sdpa", "sdpaMissing")} for case in cases
    ]
