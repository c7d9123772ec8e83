"""The same build four times, as A B B A: how far does a kernel differ from itself?"""

import json
import random

from plan import CANONICAL


def measure(m):
    jobs = [m.bench("flashcore_v6", f"aa.{index}.json", "--shape", CANONICAL) for index in range(4)]
    report = {"kernel": "flashcore_v6", "shape": CANONICAL, "order": "ABBA", "modes": {}}
    for mode in ("COLD", "HOT"):
        runs = [m.samples(next(r for r in job if r["mode"].endswith(mode))) for job in jobs]
        low, ratio, high = ratio_interval(runs[0] + runs[3], runs[1] + runs[2])
        report["modes"][mode] = {"medians_us": [median(run) for run in runs], "ratio": ratio, "low": low, "high": high}
    m.write("aa.json", report)
    print(json.dumps(report))


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio_interval(above, below, resamples=2000):
    """median(above) / median(below) with its 95 % bootstrap percentile interval."""
    generator = random.Random(1)
    ratios = sorted(
        median(generator.choices(above, k=len(above))) / median(generator.choices(below, k=len(below)))
        for _ in range(resamples)
    )
    return ratios[int(0.025 * resamples)], median(above) / median(below), ratios[int(0.975 * resamples)]
