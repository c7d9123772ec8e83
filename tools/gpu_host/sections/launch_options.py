"""A kernel that sees its own launch options: a window of L2 for K and V while 192 MiB stream past, and clusters of two."""

import json


def measure(m):
    rows = []
    for cluster in (1, 2):
        for persist in (0, 1, 0, 1):
            options = ["--set", "EVICT_MIB=192", "--set", f"PERSIST={persist}", "--set", f"CLUSTER={cluster}"]
            results = m.bench(
                "test/fixtures/launch_options",
                f"launch_options.cluster{cluster}.persist{persist}.json",
                "--shape",
                "1x4x128x64",
                "--max-seconds",
                "1",
                *options,
            )
            rows.append(
                {
                    "cluster": cluster,
                    "persist": persist,
                    **{result["mode"][12:].lower(): result["latency"]["p50Us"] for result in results},
                    "valid": [result.get("valid", False) for result in results],
                }
            )
            print(json.dumps(rows[-1]))
    m.write("launch_options.json", rows)
