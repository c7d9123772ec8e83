"""Hot time by number of launches in a graph, against ncu's times: how much of a launch overlaps the previous one."""

import json

from measurement import ROOT
from plan import CANONICAL, OVERLAP_KERNELS


def measure(m):
    jobs = m.work / "overlap"
    _, _, text, errors = m.run(
        [
            m.node,
            ROOT / "test/dist/launch-overlap.js",
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
    counters = "gpu__time_duration.sum,sm__cycles_active.max,sm__cycles_elapsed.max,sm__cycles_elapsed.avg.per_second"
    for kernel in ("empty", *OVERLAP_KERNELS):
        for cache in ("none", "all"):
            m.run(
                [
                    "ncu",
                    "--clock-control",
                    "none",
                    "--cache-control",
                    cache,
                    "--launch-skip",
                    "2",
                    "--launch-count",
                    "10",
                    "--metrics",
                    counters,
                    "--csv",
                    "--print-units",
                    "base",
                    m.node,
                    ROOT / "apps/runner/dist/profile-once.js",
                    jobs / f"{kernel}.json",
                ],
                name=f"overlap.ncu.{kernel}.cache-{cache}.csv",
                limit=60,
            )
    for row in json.loads(text)["rows"]:
        print(f"  {row['kernel']:14} {row['name']:28} {row['usPerLaunch']:.3f} us")
