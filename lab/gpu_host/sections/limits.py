"""
Tests a cgroup's limits against kernels that take all memory, processes and processors. A runner in its own cgroup, as
under systemd, runs jobs on the emulator, and the Linux kernel's counts tell what was limited. Needs a writable cgroup
v2 with the controllers, which tools/vm/run has.
"""

import json
import os
import pathlib
import re

CONTROLLERS = ("cpu", "memory", "pids")
LIMITS = {"--box-memory-mib": 1024, "--box-processes": 64, "--box-cpus": 0.5}
MANIFEST = """id: hungry
title: A kernel that takes all there is
lesson: a cgroup ends it
source: hungry.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches:
  - { entry: hungry, grid: ["B * H", 1, 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, D] }
"""
SOURCE = """#include <cuda_fp16.h>
#ifdef FLASHCORE_EMULATOR
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>
__attribute__((constructor)) static void take() { %s }
#endif
extern "C" __global__ void hungry(const half* Q, const half* K, const half* V, half* O, int S, int D) {
  for (int i = threadIdx.x; i < S * D; i += blockDim.x) O[size_t(blockIdx.x) * S * D + i] = __float2half(0.0f);
}
%s
"""
# Code that runs when the module is loaded, and code that keeps the compiler busy.
HUNGRY = {
    "memory": ("for (;;) { char* p = (char*)malloc(16 << 20); memset(p, 1, 16 << 20); }", ""),
    "processes": ("for (int i = 0; i < 500; ++i) if (fork() == 0) { setsid(); for (;;) pause(); }", ""),
    "processors": (
        "for (int i = 0; i < 4; ++i) if (fork() == 0) for (;;) {} "
        "for (long end = time(nullptr) + 4; time(nullptr) < end;) {} _exit(0);",
        "",
    ),
    "compiler's memory": (
        "",
        "#include <utility>\n"
        "template <int... I> constexpr long sum(std::integer_sequence<int, I...>) { return (long(I) + ...); }\n"
        "long taken = sum(std::make_integer_sequence<int, 4000000>{});",
    ),
}
COUNTED = {
    "memory.events": ("max", "oom_kill", "oom_group_kill"),
    "pids.events": ("max",),
    "cpu.stat": ("nr_throttled", "throttled_usec"),
}


def limits(m):
    unit = make_unit()
    home = m.work / "limits"
    address = f"unix:{home}/s"
    home.mkdir()
    in_unit = ("/bin/sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', str(unit))
    given = [str(each) for limit in LIMITS.items() for each in limit]
    try:
        with m.runner("--data", str(home), "--address", address, *given, before=in_unit) as (runner, _):
            verify = ("--runner", address, "verify", "--device", "emulator", "--shape", "1x1x64x64", "--seed", "1")

            def control():
                _, _, job, _ = m.document(*verify, "fa_v1_baseline", limit=600)
                cases = job["result"]["variants"][0]["verify"]["cases"]
                return [job["job"]["outcome"], [[case["maxAbsError"], case["meanAbsError"]] for case in cases]]

            _, _, host, _ = m.document("--runner", address, "host")
            report = {
                "linux": os.uname().release,
                "limits": LIMITS,
                "isolation": host["host"].get("isolation"),
                "control": control(),
                "jobs": {},
            }
            for name, (taken, compiled) in HUNGRY.items():
                folder = home / name.replace(" ", "-").replace("'", "")
                folder.mkdir()
                (folder / "kernel.yaml").write_text(MANIFEST)
                (folder / "hungry.cu").write_text(SOURCE % (taken, compiled))
                before = counters(unit)
                _, seconds, document, _ = m.document(*verify, folder, limit=600)
                job = document["job"]
                after = counters(unit)
                report["jobs"][name] = {
                    "outcome": job["outcome"],
                    "summary": job["summary"],
                    "seconds": round(seconds, 2),
                    "counted": {
                        key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)
                    },
                    "control_equal": control() == report["control"],
                }
                print(json.dumps({name: report["jobs"][name]}), flush=True)
            report["daemon_runs"] = runner.poll() is None
            report["counted"] = counters(unit)
    finally:
        remove(unit)
    m.write("limits.json", report)


def make_unit():
    """Creates a cgroup with the controllers, below this process's cgroup or below the root."""
    own = re.search(r"^0::(/.*)$", pathlib.Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    mounts = [line.split(" ") for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    mount = next((pathlib.Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"), None)
    if own is None or mount is None:
        raise RuntimeError("this system has no cgroups of version 2")
    problems = []
    for parent in dict.fromkeys([mount / own[1].strip("/"), mount]):
        try:
            for controller in CONTROLLERS:
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
            unit = parent / f"fc-unit-{os.getpid()}"
            unit.mkdir()
            return unit
        except OSError as error:
            problems.append(f"{parent}: {error.strerror}")
    raise RuntimeError(f"no cgroup here can be given controllers ({'; '.join(problems)})")


def counters(unit):
    """The Linux kernel's counts for each group: the sandboxes (with their subgroups), the executor and the daemon."""
    found = {}
    for name, pattern in {
        "boxes": "flashcore-*[0-9a-f]",
        "executor": "flashcore-*/executor-*",
        "daemon": "*.daemon",
    }.items():
        for group in unit.glob(pattern):
            for file, fields in COUNTED.items():
                if (group / file).exists():
                    values = dict(line.split(" ") for line in (group / file).read_text().splitlines())
                    found.update({f"{name} {file} {field}": int(values[field]) for field in fields if field in values})
    return found


def remove(group):
    for below in group.iterdir():
        if below.is_dir():
            remove(below)
    group.rmdir()
