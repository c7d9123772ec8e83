"""Measures kernels in languages other than CUDA C++."""

import json
import re
import shutil
import sys

from measurement import CANONICAL, ROOT, shape_options

SHAPES = [CANONICAL, "1x8x512x64c", "4x16x2048x64c", "2x8x1000x64"]
EXAMPLE = "examples/kernels/triton_attention"


def languages(m):
    """Compares a Triton kernel launched by flashcore with the same machine code launched by Triton. This host's Triton
    compiles it for its GPU, and the two time it in turns. Then runs ranked experiments with the PTX of the repository
    and with this host's PTX."""
    folder = m.work / "triton_attention"
    shutil.copytree(ROOT / EXAMPLE, folder)
    code, _, text, errors = m.run([sys.executable, folder / "attention.py", "90"], name="languages.compile.txt")
    if code != 0:
        raise RuntimeError(f"Triton did not compile the kernel: {errors[-3:]}")
    manifest = (folder / "kernel.yaml").read_text(encoding="utf8")
    manifest = manifest.replace("min_arch: sm_80", "arch: sm_90a").replace(
        "shared_bytes: 24576", f"shared_bytes: {re.search('shared_bytes: ([0-9]+)', text).group(1)}"
    )
    (folder / "kernel.yaml").write_text(manifest, encoding="utf8")

    program = m.keep_program("triton_launch.py")
    machine_code = m.work / "triton_machine_code"
    shutil.copytree(folder, machine_code)
    (machine_code / "kernel.yaml").write_text(manifest.replace("attention.ptx", "attention.cubin"), encoding="utf8")
    rounds = []
    for turn in range(3):
        own = [sys.executable, program, folder, "90", machine_code / "attention.cubin", *SHAPES]
        _, _, text, _ = m.run(own, name=f"languages.triton.{turn}.json")
        results = m.bench(machine_code, f"languages.flashcore.{turn}.json", *shape_options(SHAPES))
        rounds.append((json.loads(text), [each for each in results if each["mode"].endswith("HOT")]))
    report = {}
    for index, shape in enumerate(SHAPES):
        ours = [hot[index]["latency"]["p50Us"] for _, hot in rounds]
        own = [triton[shape]["p50_us"] for triton, _ in rounds]
        report[shape] = {"flashcore_us": ours, "triton_us": own, "ratio": sorted(ours)[1] / sorted(own)[1]}
        print(f"  {shape}: {json.dumps(report[shape])}", flush=True)
    m.write("languages.json", report)

    for name, kernel in (("sm_80", EXAMPLE), ("sm_90a", folder)):
        code, seconds, document, errors = m.document("run", kernel, name=f"languages.run.{name}.json", limit=120)
        summary = document["job"]["summary"] if document else errors[-3:]
        print(f"  {name}: exit {code}, {seconds:.1f} s, {summary}", flush=True)


FIXTURES = ROOT / "test/fixtures/triton"
SEARCHED = FIXTURES / "attention"
SEARCH_SHAPES = ["2x8x512x64", "4x16x2048x64c"]
# Launched once each, and read by source line. `npm run triton-lines` compares them with the emulator.
LAUNCHES = FIXTURES / "counted/launches.json"
PER_INSTRUCTION = [
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
    "memory_l2_theoretical_sectors_global",
]
PER_LAUNCH = [
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
]


def triton(m):
    """ncu's counts for each source line of six Triton kernels, to compare the emulator's counters with."""
    measure_lines(m)


def triton_runs(m):
    """Triton kernels from their Python, which needs bubblewrap: a run whose source is machine code; the fused-attention
    tutorial from new to export, where --tutorial names its file; and a search over the parameters of a kernel, by
    `fa-tui tune` and by `fa-tui evolve` with the proposer that needs no model."""
    run_cubin(m)
    if m.options.tutorial:
        tutorial(m)
    search(m)


def tutorial(m):
    """Each command that a user gives, from the tutorial's file to an operator of PyTorch."""
    folder = m.work / "tutorial"
    steps = {}

    def step(name, *args, limit=60):
        code, seconds, text, errors = m.tui(*args, name=f"tutorial.{name}.txt", limit=limit)
        steps[name] = {"exit": code, "seconds": round(seconds, 1), "errors": errors[-4:] if code != 0 else []}
        print(f"  {name}: {json.dumps(steps[name])}", flush=True)
        m.write("tutorial.json", steps)
        return text

    step("new", "new", folder, "--from-triton", m.options.tutorial, "--entry", "_attn_fwd")
    shutil.copy(FIXTURES / "tutorial/kernel.yaml", folder)
    (folder / "NOTES.md").write_text(
        "The tutorial's functions as they are; flashcore launches them.\n", encoding="utf8"
    )
    step("verify", "verify", folder, "--shape", "1x2x256x64", "--shape", "1x2x256x64c", "--seeds", "1")
    ran = step("run", "run", folder, "--json", limit=90)
    step(
        "tune",
        *("tune", folder, "--shape", CANONICAL, "--budget", "8", "--budget", "40s"),
        limit=80,
    )
    job = json.loads(ran)["job"]["name"] if ran else ""
    step("accept", "accept", job, "--note", "the tutorial as it is")
    step("champions", "champions")
    exported = m.work / "tutorial_attention.py"
    step("export", "export", folder, "--torch", exported)
    program = m.keep_program("triton_export.py")
    _, _, text, errors = m.run([sys.executable, program, exported, CANONICAL], name="tutorial.exported.json", limit=60)
    print(f"  exported: {text or errors[-3:]}", flush=True)


def measure_lines(m):
    """For each launch NAME, lines.NAME.csv gets ncu's figures by instruction and lines.NAME.sass.txt the instructions'
    source lines."""
    _, _, text, _ = m.run([sys.executable, "-c", "import triton; print(triton.__path__[0])"], limit=60)
    assembler, disassembler = (f"{text.strip()}/backends/nvidia/bin/{name}" for name in ("ptxas", "nvdisasm"))
    program = m.keep_program("triton_lines.py")
    arch, missing = m.arch(), []
    for name in json.loads(LAUNCHES.read_text(encoding="utf8")):
        image, report = m.work / f"{name}.cubin", m.out / f"lines.{name}.ncu-rep"
        ptx = LAUNCHES.with_name(f"{name}.ptx")
        run_program = [sys.executable, program, "libcuda.so.1", LAUNCHES, name, image]
        commands = [
            ([assembler, f"-arch={arch}a", "-lineinfo", "-o", image, ptx], ""),
            ([disassembler, "-g", "-c", image], f"lines.{name}.sass.txt"),
            (
                [
                    *("ncu", "--export", report, "--force-overwrite", "--clock-control", "none"),
                    *("--cache-control", "none", "--kernel-name", f"regex:^{name}$", "--section", "SourceCounters"),
                    *("--metrics", ",".join(PER_INSTRUCTION + PER_LAUNCH), *run_program),
                ],
                f"lines.{name}.log",
            ),
            (["ncu", "--import", report, "--csv", "--page", "source", "--print-source", "sass"], f"lines.{name}.csv"),
            (
                ["ncu", "--import", report, "--csv", "--page", "raw", "--print-units", "base"],
                f"lines.{name}.launch.csv",
            ),
        ]
        # A failure of one kernel must not lose the results of the others.
        try:
            for command, output in commands:
                code, _, text, errors = m.run(command, name=output, limit=60)
                if code != 0:
                    raise RuntimeError(f"exit {code}: {[*text.splitlines(), *errors][-3:]}")
        except (OSError, RuntimeError) as error:
            missing.append(f"{name}: {command[0]}: {error}")
    if missing:
        (m.out / "lines.failed.txt").write_text("\n".join(missing) + "\n", encoding="utf8")
    print(f"  counters by line: {'; '.join(missing) or 'of every kernel'}", flush=True)


def run_cubin(m):
    """Runs the example from its machine code as a ranked run, and then the same code marked for another
    architecture."""
    folder = m.work / "triton_cubin"
    shutil.copytree(ROOT / "examples/kernels/triton_attention", folder)
    manifest = folder / "kernel.yaml"
    text = manifest.read_text(encoding="utf8").replace("source: attention.ptx", "source: attention.cubin")
    manifest.write_text(text, encoding="utf8")
    image = folder / "attention.cubin"
    arch = m.arch()
    for built, name in ((arch, "cubin.run.json"), ("sm_89", "cubin.other.json")):
        m.run(["nvcc", "-cubin", f"-arch={built}", "-lineinfo", "-o", image, folder / "attention.ptx"], limit=60)
        code, seconds, text, errors = m.tui("run", folder, "--json", name=name, limit=100)
        print(f"  cubin for {built}: exit {code}, {seconds:.0f} s, {(text or str(errors))[-300:]}", flush=True)


def search(m):
    proposer = f"{m.node} examples/proposers/parameters.mjs"
    searches = {
        "tune": [*shape_options(SEARCH_SHAPES), "--budget", "10", "--budget", "40s"],
        "evolve": [
            *("--proposer", proposer, "--trials", "6", "--config", "free", "--seed", "1"),
            *("--shape", SEARCH_SHAPES[0]),
        ],
    }
    for command, options in searches.items():
        code, seconds, text, errors = m.tui(
            command, SEARCHED, *options, "--json", name=f"triton.{command}.json", limit=80
        )
        print(f"  {command}: exit {code}, {seconds:.0f} s, {(text or str(errors))[-300:]}", flush=True)
