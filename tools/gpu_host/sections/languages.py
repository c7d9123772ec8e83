"""
A Triton kernel launched by flashcore and by Triton: the same code, compiled by this host's Triton for its GPU, timed by
both in turns. Then its ranked experiments, with the PTX of the repository and with this one.
"""

import json
import re
import shutil
import sys

from measurement import ROOT
from plan import CANONICAL

SHAPES = [CANONICAL, "1x8x512x64c", "4x16x2048x64c", "2x8x1000x64"]
EXAMPLE = "examples/kernels/triton_attention"


def measure(m):
    folder = m.work / "triton_attention"
    shutil.copytree(ROOT / EXAMPLE, folder)
    code, _, text, errors = m.run([sys.executable, folder / "attention.py", "90"], name="languages.compile.txt")
    if code != 0:
        raise RuntimeError(f"Triton did not compile the kernel: {errors[-3:]}")
    manifest = (folder / "kernel.yaml").read_text(encoding="utf8")
    manifest = manifest.replace("min_arch: sm_80", "arch: sm_90a").replace(
        "shared_bytes: 24576", f"shared_bytes: {re.search('shared_bytes: ([0-9]+)', text).group(1)}"
    )
    (folder / "kernel.yaml").write_text(manifest, encoding="utf8")

    program = m.keep_program("triton_launch.py")
    rounds = []
    for turn in range(3):
        _, _, text, _ = m.run([sys.executable, program, folder, "90", *SHAPES], name=f"languages.triton.{turn}.json")
        shapes = [each for shape in SHAPES for each in ("--shape", shape)]
        results = m.bench(str(folder), f"languages.flashcore.{turn}.json", *shapes)
        rounds.append((json.loads(text), [each for each in results if each["mode"].endswith("HOT")]))
    report = {}
    for index, shape in enumerate(SHAPES):
        ours = [hot[index]["latency"]["p50Us"] for _, hot in rounds]
        own = [triton[shape]["p50_us"] for triton, _ in rounds]
        report[shape] = {"flashcore_us": ours, "triton_us": own, "ratio": sorted(ours)[1] / sorted(own)[1]}
        print(f"  {shape}: {json.dumps(report[shape])}", flush=True)
    m.write("languages.json", report)

    for name, kernel in (("sm_80", EXAMPLE), ("sm_90a", folder)):
        code, seconds, text, errors = m.tui("run", kernel, "--json", name=f"languages.run.{name}.json", limit=120)
        summary = json.loads(text)["job"]["summary"] if text else errors[-3:]
        print(f"  {name}: exit {code}, {seconds:.1f} s, {summary}", flush=True)
