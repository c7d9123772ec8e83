"""Measures the device, its driver and its compilers."""

import json


def host(m):
    """Records the card, the compilers and the host as they were found."""
    m.run(["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER,TEMPERATURE,ECC"], name="nvidia-smi.txt")
    m.run(["nvcc", "--version"], name="nvcc.txt")
    m.run(["ncu", "--version"], name="ncu.txt")
    m.tui("host", "--json", name="host.json")


def conformance(m):
    """Runs the conformance suite of the driver API on the GPU's driver and on the emulator."""
    for target in ("libcuda.so.1", "emulator"):
        m.run(
            [*m.command("flashcore-conformance"), target, "--json", m.out / f"conformance.{target}.json"],
            name=f"conformance.{target}.txt",
        )


def primitives(m):
    """Compares every PTX instruction of kernels/primitives on this GPU with its definition and with the emulator."""
    m.run(
        [*m.command("flashcore-primitives"), "libcuda.so.1", "--json", m.out / "primitives.json"], name="primitives.txt"
    )


def launch_options(m):
    """Runs a kernel that detects its launch options: a window of L2 for K and V while 192 MiB stream past, and clusters
    of two."""
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
