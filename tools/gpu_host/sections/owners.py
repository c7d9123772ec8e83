"""Cost of a change of owner on a GPU: two clients' small jobs in turns A A B B …, so that every other one changes the
owner and thus the worker's process. Also the privileges of the worker's box, read from the system."""

import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess

from measurement import ROOT

TURNS = 6


def measure(m):
    home = m.work / "owners"
    runner_command = m.command("flashcore-runner")
    m.run([*runner_command, "tls", "init", "--host", "localhost", "--data", home])
    tokens = {}
    for owner in ("ada", "bob"):
        _, _, text, _ = m.run([*runner_command, "token", "add", owner, "--role", "submitter", "--data", home])
        tokens[owner] = text.strip()
    isolation = "required" if shutil.which("bwrap") else "none"
    runner = subprocess.Popen(
        m.serve(
            *("--isolation", isolation, "--data", str(home), "--address", "localhost:0"),
            *("--tls", str(home / "tls"), "--clients", "token"),
        ),
        cwd=ROOT,
        env=m.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    address = "localhost:" + runner.stdout.readline().rsplit(":", 1)[1].strip()
    environment = m.environment

    def job(owner):
        m.environment = {
            **environment,
            "FLASHCORE_TOKEN": tokens[owner],
            "FLASHCORE_TLS_CA": str(home / "tls/ca.crt"),
        }
        _, seconds, text, _ = m.tui(
            *("--runner", address, "verify", "flashcore_v6", "--json"),
            *("--shape", "1x1x64x64", "--seeds", "1"),
            limit=120,
        )
        found = json.loads(text)["job"]
        return {
            "owner": found["owner"],
            "outcome": found["outcome"],
            "job_seconds": round((moment(found["endTime"]) - moment(found["startTime"])).total_seconds(), 3),
            "seconds": round(seconds, 3),
        }

    try:
        job("ada")  # builds, and opens the device
        jobs = []
        previous = "ada"
        for owner in ["ada", *["bob", "bob", "ada", "ada"] * TURNS][: 4 * TURNS]:
            jobs.append({**job(owner), "changed": owner != previous})
            previous = owner
        # The last job's worker is still running.
        boxes = boxed_processes(runner.pid)
    finally:
        m.environment = environment
        runner.terminate()
        runner.wait(20)
    report = {
        "isolation": isolation,
        "changed": summary(jobs, changed=True),
        "same": summary(jobs, changed=False),
        "jobs": jobs,
        "processes": boxes,
    }
    print(json.dumps({key: report[key] for key in ("isolation", "changed", "same")}), flush=True)
    m.write("owners.json", report)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def summary(jobs, changed):
    seconds = [each["job_seconds"] for each in jobs if each["changed"] == changed]
    return {
        "jobs": len(seconds),
        "median_seconds": round(statistics.median(seconds), 3),
        "least": min(seconds),
        "most": max(seconds),
    }


def boxed_processes(runner):
    """The user, the capabilities and the mount of /proc/sys of each of the runner's children, read from /proc."""
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
            continue  # Ended, or not ours to see.
    return found


def ancestors(process):
    chain = []
    while process > 1:
        chain.append(process)
        process = int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return chain
