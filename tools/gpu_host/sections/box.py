"""Cost of isolating the GPU's worker: time of a runner's first job (it starts the worker), of a second one,
and the hot median, with and without the box."""

import json
import subprocess

from measurement import ROOT
from plan import CANONICAL


def measure(m):
    report = {}
    for isolation in ("auto", "none"):
        home = m.work / f"home-{isolation}"
        address = f"unix:{home}/s"
        home.mkdir()
        runner = subprocess.Popen(
            m.serve("--isolation", isolation, "--data", str(home), "--address", address),
            cwd=ROOT,
            env=m.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        runner.stdout.readline()
        on_runner = ("--runner", address)
        _, _, text, _ = m.tui(*on_runner, "host", "--json", name=f"box.{isolation}.host.json")
        verify = (*on_runner, "verify", "flashcore_v10", "--json", "--shape", "1x1x64x64", "--seeds", "1")
        starts = [m.tui(*verify, limit=60)[1] for _ in range(3)]
        _, _, bench, _ = m.tui(
            *on_runner,
            "bench",
            "flashcore_v10",
            "--json",
            "--shape",
            CANONICAL,
            name=f"box.{isolation}.bench.json",
            limit=90,
        )
        results = json.loads(bench)["result"]["variants"][0]["benchmarks"]
        report[isolation] = {
            "isolation": json.loads(text)["host"].get("isolation"),
            "verify_seconds": starts,
            "p50_us": {
                result["mode"]: [result["latency"][key] for key in ("p50LowUs", "p50Us", "p50HighUs")]
                for result in results
            },
            "checks": [result.get("outputCheck") for result in results],
        }
        print(json.dumps({isolation: report[isolation]}), flush=True)
        runner.terminate()
        runner.wait(20)
    m.write("box.json", report)
