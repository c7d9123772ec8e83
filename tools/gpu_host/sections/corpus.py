"""Dishonest and honest kernels of kernels/corpus with the default plan: which are caught, and by which check."""

import os

from measurement import ROOT


def measure(m):
    only = ["--only", ",".join(m.options.cheats)] if m.options.cheats else []
    builders = str(max(1, (os.cpu_count() or 2) // 2))
    program = [m.node, ROOT / "test/dist/corpus.js", "--out", m.out / "gpu.json", "--builders", builders]
    # In the same folder, --rest continues an interrupted run.
    m.run([*program, "--rest", *only], name="corpus.txt", limit=3600)
