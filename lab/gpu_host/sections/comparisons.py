"""Whether comparisons and decisions are correct, and how much other work on the host changes them."""

import json
import random
import re
import shutil

from measurement import CANONICAL, ROOT, shape_options

KERNELS = ["flashcore_v6", "flashcore_v10", "flashcore_v12"]
SHAPES = [CANONICAL, "1x8x512x64c", "4x16x2048x64c"]


def aa(m):
    """
    Compares builds with themselves in interleaved blocks of one job, like every comparison, to see how far the ratio is
    from 1.
    """
    rows = []
    for kernel in KERNELS:
        document, _, _ = compared(m, (kernel, kernel), SHAPES, f"aa.{kernel}.json")
        for at in document["result"]["variants"][0]["comparison"]["shapes"]:
            place = at["shape"]
            shape = "x".join(str(place[axis]) for axis in ("batch", "heads", "sequenceLength", "headDim"))
            row = {
                "kernel": kernel,
                "shape": shape + ("c" if place.get("causal") else ""),
                "mode": at["mode"].removeprefix("TIMING_MODE_"),
                **{each: at.get(each) for each in ("time", "cycles", "selfTime", "selfCycles", "reason")},
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    m.write("itself.json", rows)


# Slow kernels: their launches take 30 to 150 us on shapes that are verified quickly, so that a further launch of about
# 1 us is no more than the planted slowdown.
ALARM_KERNELS = ["fa_v1_baseline", "fa_v2_wmma", "flashcore_v5", "flashcore_v6", "flashcore_v7"]
SHAPES_OF_A_JOB = 10
JOBS_OF_A_KERNEL = 4
PLANTED_KERNELS = 2
PLANTED = 0.03
# About as many blocks as the protocol takes until the interval is narrow.
SAMPLES = ["--samples", "60"]
# A slowdown of 1.5 %.
ALARM_BELOW = 1 / 1.015
# The slower copies launch this kernel after their own.
DELAY = """
extern "C" __global__ void planted_delay(int cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {}
}
"""


def alarm_shapes(job):
    """Shapes with different S, drawn with a seed of the job's."""
    draws = random.Random(20261201 + job)
    return [f"{draws.choice(['2x8', '1x16', '4x4'])}x{s}x64" for s in draws.sample(range(480, 720), SHAPES_OF_A_JOB)]


def alarms(m):
    """
    How often a comparison reports a slowdown where there is none, and how often it misses one of 3 %. Compares kernels
    with themselves on drawn shapes, and two of them with copies that have a further launch, whose length is calibrated
    on one shape. Takes nine minutes. In the same folder it continues an interrupted campaign; alarms.json has the rows
    of the jobs that have ended.
    """
    # Without PyTorch, because timing SDPA would take most of the time.
    m.environment["FLASHCORE_PYTHON"] = "/bin/false"
    rows = []
    for job in range(JOBS_OF_A_KERNEL):
        for index, kernel in enumerate(ALARM_KERNELS):
            shapes = alarm_shapes(job)
            name = f"alarms.itself.{kernel}.{job}.json"
            if (m.out / name).exists():
                document = json.loads((m.out / name).read_text(encoding="utf8"))
            else:
                document, _, _ = compared(m, (kernel, kernel), shapes, name, *SAMPLES)
            rows += alarm_rows(document, kernel, "itself")
            if job == 0 and index < PLANTED_KERNELS:
                hot_us = {
                    each["shape"]["sequenceLength"]: each["latency"]["p50Us"]
                    for each in document["result"]["variants"][0]["benchmarks"]
                    if each["mode"].endswith("HOT")
                }
                slower = delayed_copy_of(m, kernel, hot_us)
                planted, _, _ = compared(m, (slower, kernel), shapes, f"alarms.planted.{kernel}.json", *SAMPLES)
                rows += alarm_rows(planted, kernel, "planted")
            m.write("alarms.json", rows)
            for kind in ("itself", "planted"):
                ratios = [row["ratio"] for row in rows if row["kind"] == kind]
                slower_count = sum(row["alarm"] for row in rows if row["kind"] == kind)
                spread = f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else "-"
                print(f"  {kind}: {slower_count} alarms in {len(ratios)} comparisons, ratios {spread}", flush=True)


def alarm_rows(document, kernel, kind):
    rows = []
    for at in document["result"]["variants"][0]["comparison"]["shapes"]:
        time, cycles = at.get("time"), at.get("cycles")
        row = {"kernel": kernel, "kind": kind, "S": at["shape"]["sequenceLength"], "reason": at.get("reason")}
        if time:
            ratio = min(time["ratio"], cycles["ratio"] if cycles else time["ratio"])
            row |= {"ratio": time["ratio"], "low": time["low"], "high": time["high"], "alarm": ratio < ALARM_BELOW}
            rows.append(row)
        else:
            print(f"  not compared: {json.dumps(row)}", flush=True)
    return rows


def delayed_copy_of(m, kernel, hot_us):
    """
    Copies a kernel whose launch is followed by another one that takes PLANTED of its time. What the further launch
    costs is measured with two lengths on one shape, and is linear in between.
    """
    folder = copy_of(m, kernel)
    source, manifest = folder / f"{kernel}.cu", folder / "kernel.yaml"
    source.write_text(source.read_text(encoding="utf8") + DELAY, encoding="utf8")
    text = manifest.read_text(encoding="utf8")
    at = re.search(r"^launches:\n((?:[ #].*\n)*)", text, re.MULTILINE).end()

    def write(cycles):
        launch = (
            "  - entry: planted_delay\n    grid: [1, 1, 1]\n    block: [32, 1, 1]\n"
            f'    arguments: [{{ int32: "{cycles}" }}]\n'
        )
        manifest.write_text(text[:at] + launch + text[at:], encoding="utf8")

    length, measured_us = 8000, []
    for cycles in (0, length):
        write(cycles)
        results = m.bench(str(folder), f"alarms.calibration.{kernel}.{cycles}.json", "--shape", CANONICAL)
        measured_us.append(next(each["latency"]["p50Us"] for each in results if each["mode"].endswith("HOT")))
    results = m.bench(kernel, f"alarms.calibration.{kernel}.json", "--shape", CANONICAL)
    own_us = next(each["latency"]["p50Us"] for each in results if each["mode"].endswith("HOT"))
    launch_us, cycle_us = measured_us[0] - own_us, (measured_us[1] - measured_us[0]) / length
    print(f"  a further launch takes {launch_us:.2f} us, and {1000 * cycle_us:.2f} ns a cycle", flush=True)
    wanted = {s: max(0, round((PLANTED * us - launch_us) / cycle_us)) for s, us in hot_us.items()}
    write(" : ".join([*(f"S == {s} ? {cycles}" for s, cycles in wanted.items()), "0"]))
    return str(folder)


def ab(m):
    """
    Compares a candidate with the champion, and the champion with itself, in interleaved blocks in one job, also on
    several shapes.
    """
    for candidate, champion, shapes in [
        ("flashcore_v10", "flashcore_v10", [CANONICAL]),
        ("flashcore_v10", "flashcore_v9", [CANONICAL]),
        ("flashcore_v9", "flashcore_v10", [CANONICAL]),
        ("flashcore_v11", "flashcore_v10", ["2x8x512x64", "1x8x512x64c", "4x8x512x64"]),
    ]:
        name = f"ab.{candidate}.{champion}"
        document, code, seconds = compared(m, (candidate, champion), shapes, f"{name}.json")
        m.tui("watch", document["job"]["name"].split("/")[1], "--quiet", name=f"{name}.txt", limit=30)
        print_comparison(m, document["result"]["variants"][0].get("comparison", {}), code, seconds)


def compared(m, kernels, shapes, name, *more):
    candidate, champion = kernels
    options = ["--champion", champion, *shape_options(shapes), *more]
    code, seconds, document, errors = m.document("bench", candidate, *options, name=name, limit=180)
    if not document:
        raise RuntimeError(f"{name}: {errors[-3:]}")
    return document, code, seconds


def print_comparison(m, comparison, code, seconds):
    def ratio(value):
        return f"{value['ratio']:.4f} [{value['low']:.4f} {value['high']:.4f}]" if value else "-"

    print(f"  {comparison.get('verdict')} exit {code} in {seconds:.1f} s: {comparison.get('reason')}")
    for shape in comparison.get("shapes", []):
        place = shape["shape"]
        print(
            f"    S={place['sequenceLength']} B={place['batch']} time {ratio(shape.get('time'))} cycles {ratio(shape.get('cycles'))} itself {ratio(shape.get('selfTime'))} cycles {ratio(shape.get('selfCycles'))} "
            f"blocks {shape.get('blocks')} of itself {shape.get('selfBlocks')} dropped {shape.get('droppedBlocks', 0)} {shape.get('stopReason')} clock {shape.get('conditions', {}).get('smClockMhz')} {shape.get('clockSource')}"
        )
        (m.out / "samples").mkdir(exist_ok=True)
        for artifact in shape.get("samples", []):
            m.tui(
                "artifact",
                artifact["sha256"],
                "--output",
                m.out
                / "samples"
                / f"ab.{comparison['candidate']['kernelId']}.{comparison['champion']['kernelId']}.{artifact['fileName']}",
                limit=20,
            )


def clock(m):
    """Measures whether the kernels that stamp the clock change the times, and which clocks they report."""
    for kernel, shape in (
        ("flashcore_v10", CANONICAL),
        ("flashcore_v11", CANONICAL),
        ("flashcore_v11", "4x16x2048x64c"),
    ):
        m.run(
            [
                m.node,
                ROOT / "lab/dist/clock-stamps.js",
                "--kernel",
                kernel,
                "--shape",
                shape,
                "--nvml",
                "libnvidia-ml.so.1",
            ],
            name=f"clock.{kernel}.{shape}.json",
            limit=120,
        )


# One nvcc, as the runner runs it next to a timed kernel, and as many compilers as leave no processor idle.
LOADS = {"one": ["1", "--flags=--split-compile=0"], "all": ["16", "--flags="]}


def busy(m):
    """Measures whether compiling on the host changes the times."""
    for name, load in LOADS.items():
        m.run(
            [
                m.node,
                ROOT / "lab/dist/busy-host.js",
                "--kernel",
                "flashcore_v12",
                "--shape",
                CANONICAL,
                "--processes",
                *load,
            ],
            name=f"busy.{name}.json",
            limit=60,
        )


PLANS = {"merge": 0, "final": 0, "explore": 0, "nsight": 1}
CHAMPION = "flashcore_v10"
CANDIDATE = "flashcore_v11"
# The copy waits two microseconds at this line in every CTA, after the CTA's first tiles have arrived.
BARRIER = "__syncthreads();  // Q and every group's first tile are there"
SLOWED = BARRIER + "\n  __nanosleep(2000);"
OWN_GATES = """
gates:
  - { id: latency, level: hard, target: 1, why: "a target of its own that nothing can reach" }
  - { id: tensor_instructions, metric: sm__inst_executed_pipe_tensor.sum, op: ">", target: 0, unit: instructions,
      level: warn, why: "any counter of Nsight Compute is a metric" }
"""
CLIENT_GATES = """
default: mine
gates:
  - { id: p99, title: p99 cold, metric: latency_us, statistic: p99, op: "<", target: 50, unit: us, why: the spread }
  - { id: right, metric: parity_cases_passed, op: "==", target: 1, unit: share, why: a wrong kernel has no speed }
  - { id: waves, metric: tail_efficiency_percent, op: ">=", target: 50, unit: "%", why: idle multiprocessors }
  - { id: hmma, metric: sm__inst_executed_pipe_tensor.sum, op: ">", target: 0, unit: instructions, why: tensor cores }
plans:
  mine: { title: Mine, about: all of it, from: the client, gates: { p99: hard, right: hard, waves: warn, hmma: hard } }
"""


def decide(m):
    """Decisions: one kernel with each plan, accepting a champion, then a faster and a slower candidate."""
    ends = {}

    def run(name, kernel, *options):
        code, seconds, document, errors = m.document("run", kernel, *options, name=f"decide.{name}.json", limit=400)
        variants = document.get("result", {}).get("variants", [{}])
        ends[name] = {
            "exit": code,
            "seconds": round(seconds, 1),
            "outcome": document.get("job", {}).get("outcome"),
            "summary": document.get("job", {}).get("summary"),
            "comparison": variants[0].get("comparison", {}).get("verdict"),
            "reason": variants[0].get("comparison", {}).get("reason"),
            "errors": errors[-3:] if code not in (0, 1) else [],
        }
        return document.get("job", {}).get("name", "")

    for plan, expected in PLANS.items():
        run(f"{CANDIDATE}.{plan}", CANDIDATE, "--plan", plan)
        ends[f"{CANDIDATE}.{plan}"]["expected"] = expected

    champion = run(f"{CHAMPION}.merge", CHAMPION, "--plan", "merge")
    m.tui("accept", champion, "--note", "first champion", name="decide.accept.txt")
    m.tui("champions", "--trail", name="decide.champions.txt")
    run("faster", CANDIDATE, "--plan", "merge")
    run("itself", CHAMPION, "--plan", "merge")

    run("slower", slowed_copy_of(m, CHAMPION), "--plan", "merge")

    own = copy_of(m, CANDIDATE)
    manifest = own / "kernel.yaml"
    manifest.write_text(with_gates(manifest.read_text(encoding="utf8")), encoding="utf8")
    run("own-gates", own, "--plan", "merge")

    gates = m.work / "client-gates.yaml"
    gates.write_text(CLIENT_GATES, encoding="utf8")
    run("client-gates", CANDIDATE, "--gates", gates)
    run("no-champion", CANDIDATE, "--no-champion")
    m.tui("undo", champion, "--note", "only tried", name="decide.undo.txt")
    m.tui("history", name="decide.history.txt")
    m.write("decide.json", ends)
    print(json.dumps(ends, indent=1), flush=True)


def copy_of(m, kernel):
    """Copies a kernel folder into a separate folder, so that several copies can coexist."""
    folder = m.work / f"copy{len(list(m.work.glob('copy*')))}" / kernel
    shutil.copytree(ROOT / "kernels" / kernel, folder)
    return folder


def slowed_copy_of(m, kernel):
    """Copies a kernel folder and makes its CTAs wait at BARRIER, which is in the source or in a mechanism's header."""
    folder = copy_of(m, kernel)
    # The compiler prefers a header in the kernel's folder to a shared header of the same path.
    shutil.copytree(ROOT / "kernels/mechanisms", folder / "mechanisms")
    sources = [folder / f"{kernel}.cu", *folder.glob("mechanisms/*.cuh")]
    found = [source for source in sources if BARRIER in source.read_text(encoding="utf8")]
    if len(found) != 1:
        raise RuntimeError(f"{BARRIER!r} must be in one file of {kernel} or mechanisms, got {len(found)}")
    found[0].write_text(found[0].read_text(encoding="utf8").replace(BARRIER, SLOWED), encoding="utf8")
    return folder


def with_gates(manifest):
    """The manifest with its gates replaced."""
    kept, inside = [], False
    for line in manifest.splitlines():
        if line.startswith("gates:"):
            inside = True
        elif inside and (line.startswith((" ", "-", "#")) or not line):
            continue
        else:
            inside = False
            kept.append(line)
    return "\n".join(kept) + OWN_GATES
