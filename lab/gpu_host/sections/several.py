"""Tests two GPUs of one host: two jobs at the same time, a fault and a hang on one while the other measures, and which
GPU "any" picks."""

import concurrent.futures
import json
import time

from measurement import CANONICAL, seconds_of


def several(m):
    m.tui("host", "--json", name="several.host.json")

    def bench(device):
        return ("bench", "flashcore_v10", "--shape", CANONICAL, "--max-seconds", "3", "--device", device)

    def faulty(kernel, device):
        return ("verify", kernel, "--seeds", "1", "--shape", "1x4x128x64", "--device", device)

    def good(device):
        return ("verify", "flashcore_v5", "--seed", "5eed", "--shape", "1x4x128x64", "--device", device)

    # Warms up compilers, workers and PyTorch before the timed jobs.
    for kernel in ("flashcore_v10", "flashcore_v5", "out_of_bounds", "endless_loop"):
        m.tui("build", kernel, "--quiet")
    together(m, "warm", bench("gpu:0"), bench("gpu:1"))
    rounds = {
        "alone": [bench("gpu:0")],
        "both": [bench("gpu:0"), bench("gpu:1")],
        "fault beside": [bench("gpu:0"), faulty("out_of_bounds", "gpu:1"), good("gpu:1")],
        "hang beside": [bench("gpu:0"), faulty("endless_loop", "gpu:1"), good("gpu:1")],
        "any": [bench("any"), bench("any")],
        "queued": [bench("gpu:1"), good("gpu:1")],
    }
    report = {name: together(m, name.replace(" ", "-"), *jobs) for name, jobs in rounds.items()}
    m.write("several.json", report)
    for name, jobs in report.items():
        print(name, json.dumps(jobs))


def together(m, name, *jobs):
    """Starts jobs a moment apart, so that they queue in this order. Returns the outcome, device and times of each
    job."""
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        started = []
        for index, job in enumerate(jobs):
            started.append(pool.submit(m.document, *job, name=f"several.{name}.{index}.json", limit=60))
            time.sleep(0.4)
        documents = [each.result()[2] for each in started]
    begin = min(seconds_of(document["job"]["startTime"]) for document in documents)
    return [
        {
            "kernel": document["job"]["kernelId"],
            "device": document["job"]["deviceId"],
            "outcome": document["job"]["outcome"].removeprefix("OUTCOME_"),
            "from_s": round(seconds_of(document["job"]["startTime"]) - begin, 3),
            "to_s": round(seconds_of(document["job"]["endTime"]) - begin, 3),
            "hot_p50_us": next(
                (
                    r["latency"]["p50Us"]
                    for r in document["result"]["variants"][0].get("benchmarks", [])
                    if r["mode"].endswith("HOT")
                ),
                None,
            ),
            "findings": [
                finding["kind"].removeprefix("FINDING_KIND_")
                for finding in document["result"]["variants"][0].get("findings", [])
            ],
        }
        for document in documents
    ]
