"""SDPA as anybody would time it with only PyTorch, in a CUDA graph of 50 calls, and our figure from the same minute."""

import json
import sys

from plan import CANONICAL


def measure(m):
    code = m.keep_program("plain_sdpa.py")
    report = {}
    for shape in (CANONICAL, "4x16x2048x64c"):
        results = m.bench("flashcore_v10", f"sdpa.{shape}.json", "--shape", shape)
        hot = next(r for r in results if r["mode"].endswith("HOT"))
        _, _, text, _ = m.run([sys.executable, code, shape], name=f"plain_sdpa.{shape}.json")
        plain = json.loads(text)
        ours = {b["name"].split("/")[1]: b["latency"]["p50Us"] for b in hot.get("sdpa", [])}
        report[shape] = {
            name: {"plain_us": us, "flashcore_us": ours.get(name), "ratio": ours[name] / us if name in ours else None}
            for name, us in plain.items()
        }
    m.write("sdpa-against-plain.json", report)
    print(json.dumps(report))
