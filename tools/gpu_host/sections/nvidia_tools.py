"""Runs ncu and compute-sanitizer on our kernels, for their findings and as fixtures of their parsers' tests."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

from measurement import CANONICAL, KERNELS, ROOT, V6_DEFINES


def ncu(m):
    """Records ncu's output in each of its formats for one small kernel, as fixtures of the parsers' tests."""
    arch = m.arch()
    image = m.nvcc("kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES, arch=arch)
    launch = {"entry": "flashcore_v6", "grid": [8, 16, 1], "block": [128, 1, 1], "sharedBytes": 73728}
    shape = {"batch": 2, "heads": 8, "sequenceLength": 512, "headDim": 64, "causal": False}
    program = write_job(m, {"image": str(image), "shape": shape}, launch, runs=2)
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
        read_counters(m, cache, ["gpu__time_duration.sum"], program, name=f"ncu.time.cache-{cache}.csv")


def read_counters(m, cache, counters, program, *options, **kept):
    asked = ["--metrics", ",".join(counters), "--csv", "--print-units", "base"]
    m.run(["ncu", "--clock-control", "none", "--cache-control", cache, *options, *asked, *program], **kept)


def write_job(m, candidate, launch, runs):
    """Writes a job for a kernel that has our kernels' usual arguments. Returns the command that runs the job once."""
    arguments = [
        *({"kind": "tensor", "tensor": name} for name in "QKVO"),
        {"kind": "int32", "value": candidate["shape"]["sequenceLength"]},
        {"kind": "float32", "value": 0.125},
        {"kind": "int32", "value": 0},
    ]
    launch = {**launch, "l2Persist": [], "arguments": arguments}
    job = {
        "library": "libcuda.so.1",
        "deviceOrdinal": 0,
        "seed": "1",
        "runs": runs,
        "candidate": {
            **candidate,
            "launchLimitMs": 0,
            "plan": {"dtype": "fp16", "workspace": [], "launches": [launch]},
        },
    }
    (m.work / "job.json").write_text(json.dumps(job), encoding="utf8")
    return profiled(m, m.work / "job.json")


def profiled(m, job):
    return [m.node, ROOT / "apps/runner/dist/profile-once.js", job]


OVERLAP_KERNELS = ["fa_v2_wmma", "flashcore_v6", "flashcore_v9", "flashcore_v10", "flashcore_v11", "flashcore_v12"]


def overlap(m):
    """Measures how much of a launch overlaps the previous one: the hot time by number of launches in a graph, against
    ncu's times."""
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
    cycles = ["sm__cycles_active.max", "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second"]
    for kernel in ("empty", *OVERLAP_KERNELS):
        for cache in ("none", "all"):
            read_counters(
                m,
                cache,
                ["gpu__time_duration.sum", *cycles],
                profiled(m, jobs / f"{kernel}.json"),
                *("--launch-skip", "2", "--launch-count", "10"),
                name=f"overlap.ncu.{kernel}.cache-{cache}.csv",
                limit=60,
            )
    for row in json.loads(text)["rows"]:
        print(f"  {row['kernel']:14} {row['name']:28} {row['usPerLaunch']:.3f} us")


RUNS = (
    ("out_of_bounds", "memcheck"),
    ("misaligned_address", "memcheck"),
    ("missing_syncthreads", "racecheck"),
    ("divergent_barrier", "synccheck"),
    ("unwritten_output", "initcheck"),
    ("static_shared_overrun", "memcheck"),
    ("local_overrun", "memcheck"),
    ("read_before_buffer", "memcheck"),
    ("device_array_overrun", "memcheck"),
    ("missing_syncwarp", "racecheck"),
    ("global_read_modify_write", "racecheck"),
    ("shift_by_width", "memcheck"),
    ("nan_to_integer", "memcheck"),
    ("uninitialised_shared", "initcheck"),
    ("uninitialised_shared", "racecheck"),
    ("wrong_membermask", "synccheck"),
    ("barrier_in_branches", "synccheck"),
    ("lost_copy_wait", "racecheck"),
    ("volatile_exchange", "racecheck"),
)


def sanitizer(m):
    """
    Records compute-sanitizer's output on the faulty kernels. It is a fixture of the parser's tests, and
    docs/emulator.md compares the emulator's findings with it.
    """
    arch = m.arch()
    kernels = sorted({kernel for kernel, _ in RUNS})
    with ThreadPoolExecutor() as pool:
        built = pool.map(lambda kernel: m.nvcc(f"kernels/faulty/{kernel}/{kernel}.cu", arch=arch), kernels)
        images = dict(zip(kernels, built, strict=True))
    for kernel, tool in RUNS:
        manifest = (ROOT / f"kernels/faulty/{kernel}/kernel.yaml").read_text(encoding="utf8")
        rows = int(re.search(r'grid: \["ceil\(S / (\d+)\)"', manifest).group(1))
        threads = int(re.search(r"block: \[(\d+)", manifest).group(1))
        launch = {"entry": kernel, "grid": [128 // rows, 4, 1], "block": [threads, 1, 1], "sharedBytes": 0}
        shape = {"batch": 1, "heads": 4, "sequenceLength": 128, "headDim": 64, "causal": False}
        program = write_job(m, {"image": str(images[kernel]), "shape": shape}, launch, runs=1)
        m.run(
            [
                "compute-sanitizer",
                "--tool",
                tool,
                "--error-exitcode",
                "86",
                "--print-limit",
                "16",
                "--show-backtrace",
                "no",
                # Pads allocations, so that none begins where another ends.
                *(["--padding", "512"] if tool == "memcheck" else []),
                *program,
            ],
            name=f"sanitizer.{tool}.{kernel}.txt",
            limit=20,
        )


def sanitized(m):
    """Runs every kernel of the ladder under compute-sanitizer, on a ragged causal shape."""
    for kernel in KERNELS:
        _, _, _, errors = m.tui(
            "verify",
            kernel,
            "--json",
            "--sanitize",
            "--seeds",
            "1",
            "--shape",
            "1x2x113x64c",
            name=f"sanitize.{kernel}.json",
            limit=120,
        )
        # The runner logs the findings of each tool as they come.
        (m.out / f"sanitize.{kernel}.txt").write_text("\n".join(errors) + "\n", encoding="utf8")
