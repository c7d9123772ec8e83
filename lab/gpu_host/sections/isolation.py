"""Measures the cost of isolating the GPU's worker, and of a change of owner."""

import json
import os
import pathlib
import shutil
import statistics

from measurement import CANONICAL, seconds_of


def box(m):
    """
    Measures the cost of isolating the GPU's worker: the time of a runner's first job (which starts the worker), of its
    second job, and the hot median, with and without the sandbox.
    """
    report = {}
    for isolation in ("auto", "none"):
        home = m.work / f"home-{isolation}"
        address = f"unix:{home}/s"
        home.mkdir()
        on_runner = ("--runner", address)
        with m.runner("--isolation", isolation, "--data", str(home), "--address", address):
            _, _, host, _ = m.document(*on_runner, "host", name=f"box.{isolation}.host.json")
            verify = (*on_runner, "verify", "flashcore_v10", "--json", "--shape", "1x1x64x64", "--seeds", "1")
            starts = [m.tui(*verify, limit=60)[1] for _ in range(3)]
            bench = (*on_runner, "bench", "flashcore_v10", "--shape", CANONICAL)
            _, _, document, _ = m.document(*bench, name=f"box.{isolation}.bench.json", limit=90)
        results = document["result"]["variants"][0]["benchmarks"]
        report[isolation] = {
            "isolation": host["host"].get("isolation"),
            "verify_seconds": starts,
            "p50_us": {
                result["mode"]: [result["latency"][key] for key in ("p50LowUs", "p50Us", "p50HighUs")]
                for result in results
            },
            "checks": [result.get("outputCheck") for result in results],
        }
        print(json.dumps({isolation: report[isolation]}), flush=True)
    m.write("box.json", report)


TURNS = 6


def owners(m):
    """
    Measures the cost of a change of owner on a GPU. Two clients run small jobs in turns A A B B …, so that every other
    job changes the owner and thus the worker's process. Also reads the privileges of the worker's sandbox from the
    system.
    """
    home = m.work / "owners"
    runner_command = m.command("flashcore-runner")
    m.run([*runner_command, "tls", "init", "--host", "localhost", "--data", home])
    tokens = {}
    for owner in ("ada", "bob"):
        _, _, text, _ = m.run([*runner_command, "token", "add", owner, "--role", "submitter", "--data", home])
        tokens[owner] = text.strip()
    isolation = "required" if shutil.which("bwrap") else "none"
    environment = m.environment

    def job(address, owner):
        m.environment = {
            **environment,
            "FLASHCORE_TOKEN": tokens[owner],
            "FLASHCORE_TLS_CA": str(home / "tls/ca.crt"),
        }
        verify = ("verify", "flashcore_v6", "--shape", "1x1x64x64", "--seeds", "1")
        _, seconds, document, _ = m.document("--runner", address, *verify, limit=120)
        found = document["job"]
        return {
            "owner": found["owner"],
            "outcome": found["outcome"],
            "job_seconds": round(seconds_of(found["endTime"]) - seconds_of(found["startTime"]), 3),
            "seconds": round(seconds, 3),
        }

    served = (
        *("--isolation", isolation, "--data", str(home), "--address", "localhost:0"),
        *("--tls", str(home / "tls"), "--clients", "token"),
    )
    with m.runner(*served) as (runner, first_line):
        address = "localhost:" + first_line.rsplit(":", 1)[1].strip()
        try:
            job(address, "ada")  # builds, and opens the device
            jobs = []
            previous = "ada"
            for owner in ["ada", *["bob", "bob", "ada", "ada"] * TURNS][: 4 * TURNS]:
                jobs.append({**job(address, owner), "changed": owner != previous})
                previous = owner
            # The worker of the last job is still running.
            boxes = boxed_processes(runner.pid)
        finally:
            m.environment = environment
    report = {
        "isolation": isolation,
        "changed": summary(jobs, changed=True),
        "same": summary(jobs, changed=False),
        "jobs": jobs,
        "processes": boxes,
    }
    print(json.dumps({key: report[key] for key in ("isolation", "changed", "same")}), flush=True)
    m.write("owners.json", report)


def summary(jobs, changed):
    seconds = [each["job_seconds"] for each in jobs if each["changed"] == changed]
    return {
        "jobs": len(seconds),
        "median_seconds": round(statistics.median(seconds), 3),
        "least": min(seconds),
        "most": max(seconds),
    }


def boxed_processes(runner):
    """For each child of the runner: its user, its capabilities and how /proc/sys is mounted, read from /proc."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        process = status.parent
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if runner not in ancestors(int(process.name)):
                continue
            mounts = [line.split(" ") for line in (process / "mountinfo").read_text().splitlines()]
            found.append(
                {
                    "program": fields["Name"],
                    "capabilities": fields["CapEff"],
                    "bounding": fields["CapBnd"],
                    "no_new_privileges": fields["NoNewPrivs"],
                    "uid_map": (process / "uid_map").read_text().split(),
                    "network": os.readlink(process / "ns/net") != os.readlink("/proc/self/ns/net"),
                    "mounts": {
                        fields[4]: fields[5]
                        for fields in mounts
                        if fields[4] in ("/proc", "/proc/sys", "/dev", "/tmp", "/dev/shm", "/sys")
                    },
                }
            )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # the process has ended, or this user may not read its files
    return found


def ancestors(process):
    chain = []
    while process > 1:
        chain.append(process)
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return chain
