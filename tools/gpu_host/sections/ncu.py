"""ncu's own output in each of its formats, for one small kernel: fixtures for the parsers' tests."""

import json

from measurement import ROOT
from plan import CANONICAL, V6_DEFINES


def measure(m):
    arch = m.arch()
    image = m.nvcc("kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES, arch=arch)
    tensors = [{"kind": "tensor", "tensor": name} for name in "QKVO"]
    job = {
        "library": "libcuda.so.1",
        "deviceOrdinal": 0,
        "seed": "1",
        "runs": 2,
        "candidate": {
            "image": str(image),
            "launchLimitMs": 0,
            "shape": {"batch": 2, "heads": 8, "sequenceLength": 512, "headDim": 64, "causal": False},
            "plan": {
                "workspace": [],
                "launches": [
                    {
                        "entry": "flashcore_v6",
                        "grid": [8, 16, 1],
                        "block": [128, 1, 1],
                        "sharedBytes": 73728,
                        "l2Persist": [],
                        "arguments": [
                            *tensors,
                            {"kind": "int32", "value": 512},
                            {"kind": "float32", "value": 0.125},
                            {"kind": "int32", "value": 0},
                        ],
                    }
                ],
            },
        },
    }
    (m.work / "job.json").write_text(json.dumps(job), encoding="utf8")
    program = [m.node, ROOT / "apps/runner/dist/profile-once.js", m.work / "job.json"]
    counters = ",".join(
        [
            "gpu__time_duration.sum",
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "dram__bytes.sum",
            "smsp__inst_executed_op_shared_ld.sum",
            "launch__occupancy_limit_registers",
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
            "sm__no_such_counter.sum",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        ]
    )
    report = m.work / "recorded"
    _, _, text, errors = m.run(
        [
            "ncu",
            "--export",
            report,
            "--force-overwrite",
            "--clock-control",
            "none",
            "--cache-control",
            "none",
            "--kernel-name",
            "regex:^(flashcore_v6)$",
            "--launch-skip",
            "1",
            "--launch-count",
            "1",
            "--metrics",
            counters,
            *program,
        ],
        name="ncu.progress.txt",
    )
    (m.out / "ncu.progress.txt").write_text(text + "\n".join(errors) + "\n", encoding="utf8")
    for page, units in (("raw", "base"), ("details", "base"), ("raw", "auto")):
        m.run(
            ["ncu", "--import", f"{report}.ncu-rep", "--csv", "--page", page, "--print-units", units],
            name=f"ncu.{page}.{units}.csv",
        )
    saved = m.out / "profile.flashcore_v10.ncu-rep"
    m.tui(
        "profile",
        "flashcore_v10",
        "--json",
        "--shape",
        CANONICAL,
        "--save",
        saved,
        name="profile.flashcore_v10.json",
        limit=60,
    )
    m.run(
        ["ncu", "--import", saved, "--csv", "--page", "raw", "--print-units", "base"],
        name="profile.flashcore_v10.saved.csv",
    )
    for cache in ("none", "all"):
        m.run(
            [
                "ncu",
                "--clock-control",
                "none",
                "--cache-control",
                cache,
                "--metrics",
                "gpu__time_duration.sum",
                "--csv",
                "--print-units",
                "base",
                *program,
            ],
            name=f"ncu.time.cache-{cache}.csv",
        )
