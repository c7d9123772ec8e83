"""Runs ncu and compute-sanitizer on our kernels."""

import json

from measurement import CANONICAL, KERNELS, ROOT


OVERLAP_KERNELS = ["fa_v2_wmma", "flashcore_v6", "flashcore_v9", "flashcore_v10", "flashcore_v11", "flashcore_v12"]


def overlap(m):
    """Measures how much of a launch overlaps the previous one: the hot time by number of launches in a graph, against
    ncu's times."""
    jobs = m.work / "overlap"
    _, _, text, errors = m.run(
        [
            m.node,
            ROOT / "lab/dist/launch-overlap.js",
            "--kernels",
            ",".join(OVERLAP_KERNELS),
            "--shape",
            CANONICAL,
            "--jobs",
            jobs,
        ],
        name="overlap.json",
        limit=120,
    )
    if not text:
        raise RuntimeError(f"launch-overlap.js gave nothing: {errors[-3:]}")
    counters = [
        *("gpu__time_duration.sum", "sm__cycles_active.max"),
        *("sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second"),
    ]
    asked = ["--metrics", ",".join(counters), "--csv", "--print-units", "base", "--launch-skip", "2"]
    for kernel in ("empty", *OVERLAP_KERNELS):
        program = [m.node, ROOT / "apps/runner/dist/profile-once.js", jobs / f"{kernel}.json"]
        for cache in ("none", "all"):
            caches = ["--clock-control", "none", "--cache-control", cache]
            name = f"overlap.ncu.{kernel}.cache-{cache}.csv"
            m.run(["ncu", *caches, *asked, "--launch-count", "10", *program], name=name, limit=60)
    for row in json.loads(text)["rows"]:
        print(f"  {row['kernel']:14} {row['name']:28} {row['usPerLaunch']:.3f} us")


def sanitized(m):
    """Runs every kernel of the ladder under compute-sanitizer, on a ragged causal shape."""
    for kernel in KERNELS:
        _, _, _, errors = m.tui(
            "verify",
            kernel,
            "--json",
            "--sanitize",
            "--seeds",
            "1",
            "--shape",
            "1x2x113x64c",
            name=f"sanitize.{kernel}.json",
            limit=120,
        )
        # The runner logs the findings of each tool as they come.
        (m.out / f"sanitize.{kernel}.txt").write_text("\n".join(errors) + "\n", encoding="utf8")
