#!/usr/bin/env python3
"""Measures flashcore itself on a GPU host: everything under docs/results comes from this program.

  python3 tools/measure_gpu_host.py --out DIR [--sections conformance,kernels,…] [--kernels ID,…]

Run it in the unpacked bundle (or in the repository after a build). It changes no setting of the card. Each section writes what the programs printed, as they
printed it, and its command lines go to commands.txt.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CANONICAL = "2x8x512x64"
KERNELS = ["fa_v1_baseline", "fa_v2_wmma", "flashcore_v5", "fa_s512_v3", "fa_s512_v3_wmma", "fa_tc_s512"] + [f"flashcore_v{step}" for step in range(6, 12)]
# The kernels that are meant to win, and where: the seven parity shapes, then the large ones.
FASTEST = ["flashcore_v10", "flashcore_v11"]
SHAPES = ["1x8x512x64", "2x8x512x64", "1x8x512x64c", "2x8x512x64c", "1x4x128x64", "1x16x256x64", "4x8x512x64"]
# These run at the power limit, where the clock wanders: their intervals need more samples to be narrow enough.
LARGE_SHAPES = ["4x16x2048x64c", "4x16x2048x128", "2x16x4096x64c"]
# Those that a host with one GPU can run; with two also: several.
SECTIONS = ["host", "conformance", "primitives", "kernels", "shapes", "parity", "ncu", "overlap", "launch_options", "sanitizer", "sanitized", "aa", "ab", "clock", "sdpa", "edit", "faulty", "cheating", "box", "recovery", "torch_extension"]
# flashcore_v6 compiled by hand: what its kernel.yaml gives the compiler (its static_assert holds them together).
V6_DEFINES = ["-DUSE_WMMA=1", "-DBLOCK_Q=64", "-DBLOCK_KV=64", "-DNUM_THREADS=128", "-DROW_STRIDE=72", "-DSMEM_BYTES=73728"]
OVERLAP_KERNELS = ["fa_v2_wmma", "flashcore_v6", "flashcore_v9", "flashcore_v10", "flashcore_v11"]


class Measurement:
    def __init__(self, out):
        self.out = pathlib.Path(out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="fc-"))
        self.environment = {**os.environ, "FLASHCORE_HOME": str(self.work / "home"), "NO_COLOR": "1"}
        self.edits = 3
        self.cheats = []
        self.commands = open(self.out / "commands.txt", "a", encoding="utf8")

    def command(self, program):
        launcher = ROOT / program
        if launcher.exists():
            return [f"./{program}"]
        return ["npx", program]

    def run(self, args, name="", limit=300, timed_lines=None):
        """Runs a command in the root; its standard output goes to NAME. Answers (exit code, seconds, output)."""
        shown = " ".join(str(each) for each in args).replace(str(self.work), "$TMP").replace(str(self.out), "$OUT")
        self.commands.write(shown + (f"   > {name}" if name else "") + "\n")
        self.commands.flush()
        started = time.monotonic()
        child = subprocess.Popen([str(each) for each in args], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        errors = []
        # Standard output is one document at the end: it fits the pipe only when it is read, so a thread does.
        reader_text = []
        reader = threading.Thread(target=lambda: reader_text.append(child.stdout.read()), daemon=True)
        reader.start()
        timer = threading.Timer(limit, child.kill)
        timer.start()
        for line in child.stderr:
            errors.append(line.rstrip("\n"))
            if timed_lines is not None:
                timed_lines.append((time.monotonic() - started, line.rstrip("\n")))
        code = child.wait()
        timer.cancel()
        reader.join()
        seconds = time.monotonic() - started
        text = "".join(reader_text)
        if name:
            (self.out / name).write_text(text, encoding="utf8")
        print(f"[{seconds:6.1f} s] exit {code}  {shown}", flush=True)
        if code not in (0, 1):
            print("\n".join(errors[-8:]), flush=True)
        return code, seconds, text, errors

    def tui(self, *args, **options):
        return self.run([*self.command("fa-tui"), *args], **options)

    def write(self, name, value):
        (self.out / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf8")

    def nvcc(self, source, *flags, arch):
        image = self.work / (pathlib.Path(source).stem + ".cubin")
        self.run(["nvcc", "-cubin", f"-arch={arch}", "-std=c++17", "-O3", "-lineinfo", "--use_fast_math", "-I", "kernels", *flags, "-o", image, source])
        return image

    # --- sections
    # -----------------------------------------------------------------------------------------------------------------

    def host(self):
        self.run(["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER,TEMPERATURE,ECC"], name="nvidia-smi.txt")
        self.run(["nvcc", "--version"], name="nvcc.txt")
        self.run(["ncu", "--version"], name="ncu.txt")
        self.tui("host", "--json", name="host.json")

    def conformance(self):
        for target in ("libcuda.so.1", "emulator"):
            self.run([*self.command("flashcore-conformance"), target, "--json", self.out / f"conformance.{target}.json"], name=f"conformance.{target}.txt")

    def primitives(self):
        """Every PTX instruction of kernels/primitives: this GPU against its definition and against the emulator's twin."""
        self.run([*self.command("flashcore-primitives"), "libcuda.so.1", "--json", self.out / "primitives.json"], name="primitives.txt")

    def kernels(self, ids):
        for kernel in ids:
            code, _, text, errors = self.tui("run", kernel, "--json", name=f"run.{kernel}.json", limit=240)
            (self.out / f"run.{kernel}.log").write_text("\n".join(errors) + "\n", encoding="utf8")
            if code in (0, 1) and text:
                self.summarise(kernel, json.loads(text))
                self.keep_samples(json.loads(text))

    def shapes(self):
        """The fastest kernels against every SDPA backend, each shape in turns with them."""
        for name, shapes, seconds in (("bench", SHAPES, 2), ("bench.large", LARGE_SHAPES, 12)):
            options = [each for shape in shapes for each in ("--shape", shape)]
            for kernel in reversed(FASTEST):
                _, _, text, _ = self.tui("bench", kernel, "--json", "--max-seconds", seconds, *options, name=f"{name}.{kernel}.json", limit=280)
                if text:
                    self.summarise(kernel, json.loads(text))

    def sanitized(self):
        """Every kernel of the ladder under compute-sanitizer, on a ragged causal shape."""
        for kernel in KERNELS:
            _, _, _, errors = self.tui("verify", kernel, "--json", "--sanitize", "--seeds", "1", "--shape", "1x2x113x64c", name=f"sanitize.{kernel}.json", limit=120)
            # What each tool found is told as it comes.
            (self.out / f"sanitize.{kernel}.txt").write_text("\n".join(errors) + "\n", encoding="utf8")

    def summarise(self, kernel, document):
        for variant in document["result"]["variants"]:
            print(f"  {kernel} {variant.get('label')} fallback={variant.get('fallback', False)} findings={[f['kind'] for f in variant.get('findings', [])]}")
            for result in variant.get("benchmarks", []):
                latency = result["latency"]
                print(f"    {result['mode'][12:]:5} p50 {latency['p50Us']:.2f} [{latency['p50LowUs']:.2f} {latency['p50HighUs']:.2f}] n={latency['samples']} dropped={latency.get('dropped', 0)} {result.get('stopReason')} valid={result.get('valid')} {result.get('invalidReason', '')} "
                      f"empty={result.get('eventOverheadUs', 0):.2f} missing={result.get('sdpaMissing', '')} check={result.get('outputCheck')}")
                print("      " + "; ".join(f"{b['name']} {b['latency']['p50Us']:.2f} n={b['latency']['samples']} x{b['speedup']:.3f} [{b['speedupLow']:.3f} {b['speedupHigh']:.3f}]" for b in result.get("sdpa", [])))
                print("      " + json.dumps(result.get("conditions", {})))
            profile = variant.get("profile", {})
            print("    profile", profile.get("verdict"), profile.get("reason", ""), profile.get("bottleneck", ""), {m["name"]: round(m.get("value", 0), 2) for m in profile.get("metrics", [])})
            print("    gates", {g["gateId"]: (g["verdict"][8:], round(g["value"], 3) if "value" in g else g.get("detail", "")[:60]) for g in variant.get("gates", [])})

    def keep_samples(self, document):
        for variant in document["result"]["variants"]:
            for result in variant.get("benchmarks", []):
                artifact = result.get("samples")
                if artifact:
                    self.tui("artifact", artifact["sha256"], "--output", self.out / "samples" / f"{document['job']['kernelId'] if 'kernelId' in document['job'] else 'kernel'}.{variant['label'].split(' ')[0]}.{artifact['fileName']}", limit=20)

    def ncu(self):
        """ncu's own output in its forms, of one small kernel: what the parsers are tested with."""
        arch = self.arch()
        image = self.nvcc("kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES, arch=arch)
        tensors = [{"kind": "tensor", "tensor": name} for name in "QKVO"]
        job = {
            "library": "libcuda.so.1", "deviceOrdinal": 0, "seed": "1", "runs": 2,
            "candidate": {
                "image": str(image), "launchLimitMs": 0, "shape": {"batch": 2, "heads": 8, "sequenceLength": 512, "headDim": 64, "causal": False},
                "plan": {"workspace": [], "launches": [{
                    "entry": "flashcore_v6", "grid": [8, 16, 1], "block": [128, 1, 1], "sharedBytes": 73728, "l2Persist": [],
                    "arguments": [*tensors, {"kind": "int32", "value": 512}, {"kind": "float32", "value": 0.125}, {"kind": "int32", "value": 0}]}]},
            },
        }
        (self.work / "job.json").write_text(json.dumps(job), encoding="utf8")
        node = ROOT / "bin/node"
        program = [node if node.exists() else "node", ROOT / "apps/runner/dist/profile-once.js", self.work / "job.json"]
        counters = ",".join([
            "gpu__time_duration.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "dram__bytes.sum", "smsp__inst_executed_op_shared_ld.sum",
            "launch__occupancy_limit_registers", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "sm__no_such_counter.sum",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        ])
        report = self.work / "recorded"
        _, _, text, errors = self.run(["ncu", "--export", report, "--force-overwrite", "--clock-control", "none", "--cache-control", "none", "--kernel-name", "regex:^(flashcore_v6)$",
                                       "--launch-skip", "1", "--launch-count", "1", "--metrics", counters, *program], name="ncu.progress.txt")
        (self.out / "ncu.progress.txt").write_text(text + "\n".join(errors) + "\n", encoding="utf8")
        for page, units in (("raw", "base"), ("details", "base"), ("raw", "auto")):
            self.run(["ncu", "--import", f"{report}.ncu-rep", "--csv", "--page", page, "--print-units", units], name=f"ncu.{page}.{units}.csv")
        saved = self.out / "profile.flashcore_v10.ncu-rep"
        self.tui("profile", "flashcore_v10", "--json", "--shape", CANONICAL, "--save", saved, name="profile.flashcore_v10.json", limit=60)
        self.run(["ncu", "--import", saved, "--csv", "--page", "raw", "--print-units", "base"], name="profile.flashcore_v10.saved.csv")
        for cache in ("none", "all"):
            self.run(["ncu", "--clock-control", "none", "--cache-control", cache, "--metrics", "gpu__time_duration.sum", "--csv", "--print-units", "base", *program], name=f"ncu.time.cache-{cache}.csv")

    def parity(self, ids):
        """Every kernel's output beside every SDPA backend's on the same inputs, five a case, with the errors of both against fp64; the fastest on large shapes too."""
        for kernel in ids:
            _, _, text, _ = self.tui("verify", kernel, "--json", "--seeds", "5", name=f"parity.{kernel}.json", limit=120)
            print_parity(kernel, text)
        for kernel in [each for each in FASTEST if each in ids]:
            large = [each for shape in ("4x16x2048x64c", "4x8x1024x64c", "1x8x1023x64c") for each in ("--shape", shape)]
            _, _, text, _ = self.tui("verify", kernel, "--json", "--seeds", "1", *large, name=f"parity.{kernel}.large.json", limit=120)
            print_parity(kernel, text)

    def overlap(self):
        """Hot time by launches of a graph, beside ncu's times of the same launches: how much of a launch hides behind the one before it."""
        node = ROOT / "bin/node"
        node = node if node.exists() else "node"
        jobs = self.work / "overlap"
        _, _, text, errors = self.run([node, ROOT / "test/dist/launch-overlap.js", "--kernels", ",".join(OVERLAP_KERNELS), "--shape", CANONICAL, "--jobs", jobs], name="overlap.json", limit=120)
        if not text:
            raise RuntimeError(f"launch-overlap.js gave nothing: {errors[-3:]}")
        counters = "gpu__time_duration.sum,sm__cycles_active.max,sm__cycles_elapsed.max,sm__cycles_elapsed.avg.per_second"
        for kernel in ("empty", *OVERLAP_KERNELS):
            for cache in ("none", "all"):
                self.run(["ncu", "--clock-control", "none", "--cache-control", cache, "--launch-skip", "2", "--launch-count", "10", "--metrics", counters, "--csv", "--print-units", "base",
                          node, ROOT / "apps/runner/dist/profile-once.js", jobs / f"{kernel}.json"], name=f"overlap.ncu.{kernel}.cache-{cache}.csv", limit=60)
        for row in json.loads(text)["rows"]:
            print(f"  {row['kernel']:14} {row['name']:28} {row['usPerLaunch']:.3f} us")

    def ab(self):
        """Candidate against champion, and the champion against itself, in interleaved blocks in one job; on several shapes too."""
        several = [each for shape in ("2x8x512x64", "1x8x512x64c", "4x8x512x64") for each in ("--shape", shape)]
        for candidate, champion, options in [("flashcore_v10", "flashcore_v10", []), ("flashcore_v10", "flashcore_v9", []), ("flashcore_v9", "flashcore_v10", []), ("flashcore_v11", "flashcore_v10", several)]:
            name = f"ab.{candidate}.{champion}"
            code, seconds, text, errors = self.tui("bench", candidate, "--champion", champion, "--json", *(options or ["--shape", CANONICAL]), name=f"{name}.json", limit=180)
            if not text:
                raise RuntimeError(f"{name}: {errors[-3:]}")
            document = json.loads(text)
            self.tui("watch", document["job"]["name"].split("/")[1], "--quiet", name=f"{name}.txt", limit=30)
            self.print_comparison(document["result"]["variants"][0].get("comparison", {}), code, seconds)

    def print_comparison(self, comparison, code, seconds):
        # noqa: E731
        ratio = lambda value: f"{value['ratio']:.4f} [{value['low']:.4f} {value['high']:.4f}]" if value else "-"
        print(f"  {comparison.get('verdict')} exit {code} in {seconds:.1f} s: {comparison.get('reason')}")
        for shape in comparison.get("shapes", []):
            place = shape["shape"]
            print(f"    S={place['sequenceLength']} B={place['batch']} time {ratio(shape.get('time'))} cycles {ratio(shape.get('cycles'))} itself {ratio(shape.get('selfTime'))} cycles {ratio(shape.get('selfCycles'))} "
                  f"blocks {shape.get('blocks')} of itself {shape.get('selfBlocks')} dropped {shape.get('droppedBlocks', 0)} {shape.get('stopReason')} clock {shape.get('conditions', {}).get('smClockMhz')} {shape.get('clockSource')}")
            for artifact in shape.get("samples", []):
                self.tui("artifact", artifact["sha256"], "--output", self.out / "samples" / f"ab.{comparison['candidate']['kernelId']}.{comparison['champion']['kernelId']}.{artifact['fileName']}", limit=20)

    def clock(self):
        """Whether the kernels that stamp the clock change what is measured, and the clocks that they give."""
        node = ROOT / "bin/node"
        for kernel, shape in (("flashcore_v10", CANONICAL), ("flashcore_v11", CANONICAL), ("flashcore_v11", "4x16x2048x64c")):
            self.run([node if node.exists() else "node", ROOT / "test/dist/clock-stamps.js", "--kernel", kernel, "--shape", shape, "--nvml", "libnvidia-ml.so.1"], name=f"clock.{kernel}.{shape}.json", limit=120)

    def launch_options(self):
        """A kernel that sees its own launch options: a window of L2 for K and V while 192 MiB stream past, and clusters of two."""
        rows = []
        for cluster in (1, 2):
            for persist in (0, 1, 0, 1):
                options = ["--set", "EVICT_MIB=192", "--set", f"PERSIST={persist}", "--set", f"CLUSTER={cluster}"]
                results = self.bench("test/fixtures/launch_options", f"launch_options.cluster{cluster}.persist{persist}.json", "--shape", "1x4x128x64", "--max-seconds", "1", *options)
                rows.append({"cluster": cluster, "persist": persist, **{result["mode"][12:].lower(): result["latency"]["p50Us"] for result in results}, "valid": [result.get("valid", False) for result in results]})
                print(json.dumps(rows[-1]))
        self.write("launch_options.json", rows)

    def several(self):
        """Two GPUs of one host: two jobs at the same time, a fault and a hang on one while the other measures, and where "any" goes."""
        self.tui("host", "--json", name="several.host.json")
        # noqa: E731
        bench = lambda device: ("bench", "flashcore_v10", "--json", "--shape", CANONICAL, "--max-seconds", "3", "--device", device)
        # noqa: E731
        faulty = lambda kernel, device: ("verify", kernel, "--json", "--seeds", "1", "--shape", "1x4x128x64", "--device", device)
        # noqa: E731
        good = lambda device: ("verify", "flashcore_v5", "--json", "--seed", "5eed", "--shape", "1x4x128x64", "--device", device)
        # compilers, workers and PyTorch are warm when it counts
        for kernel in ("flashcore_v10", "flashcore_v5", "out_of_bounds", "endless_loop"):
            self.tui("build", kernel, "--quiet")
        self.together("warm", bench("gpu:0"), bench("gpu:1"))
        rounds = {
            "alone": [bench("gpu:0")],
            "both": [bench("gpu:0"), bench("gpu:1")],
            "fault beside": [bench("gpu:0"), faulty("out_of_bounds", "gpu:1"), good("gpu:1")],
            "hang beside": [bench("gpu:0"), faulty("endless_loop", "gpu:1"), good("gpu:1")],
            "any": [bench("any"), bench("any")],
            "queued": [bench("gpu:1"), good("gpu:1")],
        }
        report = {name: self.together(name.replace(" ", "-"), *jobs) for name, jobs in rounds.items()}
        self.write("several.json", report)
        for name, jobs in report.items():
            print(name, json.dumps(jobs))

    def together(self, name, *jobs):
        """Starts jobs at the same time, a moment apart so that they queue in this order; what each was, where and when."""
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            started = []
            for index, job in enumerate(jobs):
                started.append(pool.submit(self.tui, *job, name=f"several.{name}.{index}.json", limit=60))
                time.sleep(0.4)
            documents = [json.loads(each.result()[2]) for each in started]
        begin = min(seconds_of(document["job"]["startTime"]) for document in documents)
        return [{
            "kernel": document["job"]["kernelId"], "device": document["job"]["deviceId"], "outcome": document["job"]["outcome"].removeprefix("OUTCOME_"),
            "from_s": round(seconds_of(document["job"]["startTime"]) - begin, 3), "to_s": round(seconds_of(document["job"]["endTime"]) - begin, 3),
            "hot_p50_us": next((r["latency"]["p50Us"] for r in document["result"]["variants"][0].get("benchmarks", []) if r["mode"].endswith("HOT")), None),
            "findings": [finding["kind"].removeprefix("FINDING_KIND_") for finding in document["result"]["variants"][0].get("findings", [])],
        } for document in documents]

    def sanitizer(self):
        """compute-sanitizer's own output on the fixtures: what its parser is tested with."""
        arch = self.arch()
        for kernel, tool in (("out_of_bounds", "memcheck"), ("misaligned_address", "memcheck"), ("missing_syncthreads", "racecheck"), ("divergent_barrier", "synccheck"), ("unwritten_output", "initcheck")):
            manifest = (ROOT / f"kernels/faulty/{kernel}/kernel.yaml").read_text(encoding="utf8")
            rows = int(re.search(r'grid: \["ceil\(S / (\d+)\)"', manifest).group(1))
            threads = int(re.search(r"block: \[(\d+)", manifest).group(1))
            image = self.nvcc(f"kernels/faulty/{kernel}/{kernel}.cu", arch=arch)
            arguments = [*({"kind": "tensor", "tensor": name} for name in "QKVO"), {"kind": "int32", "value": 128}, {"kind": "float32", "value": 0.125}, {"kind": "int32", "value": 0}]
            launch = {"entry": kernel, "grid": [128 // rows, 4, 1], "block": [threads, 1, 1], "sharedBytes": 0, "l2Persist": [], "arguments": arguments}
            job = {"library": "libcuda.so.1", "deviceOrdinal": 0, "seed": "1", "runs": 1, "candidate": {
                "image": str(image), "launchLimitMs": 0, "shape": {"batch": 1, "heads": 4, "sequenceLength": 128, "headDim": 64, "causal": False}, "plan": {"workspace": [], "launches": [launch]}}}
            (self.work / "job.json").write_text(json.dumps(job), encoding="utf8")
            node = ROOT / "bin/node"
            self.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "86", "--print-limit", "16", "--show-backtrace", "no", node if node.exists() else "node", ROOT / "apps/runner/dist/profile-once.js", self.work / "job.json"],
                     name=f"sanitizer.{tool}.{kernel}.txt", limit=60)

    def arch(self):
        _, _, text, _ = self.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
        return "sm_" + text.strip().splitlines()[0].replace(".", "")

    def bench(self, kernel, name, *options):
        _, _, text, _ = self.tui("bench", kernel, "--json", *options, name=name, limit=120)
        return json.loads(text)["result"]["variants"][0]["benchmarks"]

    def samples(self, result):
        path = self.work / "samples.f32"
        path.unlink(missing_ok=True)
        self.tui("artifact", result["samples"]["sha256"], "--output", path, limit=20)
        data = path.read_bytes()
        return [us for us in struct.unpack(f"<{len(data) // 4}f", data) if us > 0]

    def aa(self):
        """The same build four times, as A B B A: how far does a kernel differ from itself?"""
        jobs = [self.bench("flashcore_v6", f"aa.{index}.json", "--shape", CANONICAL) for index in range(4)]
        report = {"kernel": "flashcore_v6", "shape": CANONICAL, "order": "ABBA", "modes": {}}
        for mode in ("COLD", "HOT"):
            runs = [self.samples(next(r for r in job if r["mode"].endswith(mode))) for job in jobs]
            low, ratio, high = ratio_interval(runs[0] + runs[3], runs[1] + runs[2])
            report["modes"][mode] = {"medians_us": [median(run) for run in runs], "ratio": ratio, "low": low, "high": high}
        self.write("aa.json", report)
        print(json.dumps(report))

    def sdpa(self):
        """SDPA as anybody would time it with PyTorch alone: a CUDA graph of 50 calls; beside it, our figure from a job of the same minute."""
        code = self.out / "plain_sdpa.py"
        code.write_text(PLAIN_SDPA, encoding="utf8")
        report = {}
        for shape in (CANONICAL, "4x16x2048x64c"):
            results = self.bench("flashcore_v10", f"sdpa.{shape}.json", "--shape", shape)
            hot = next(r for r in results if r["mode"].endswith("HOT"))
            _, _, text, _ = self.run([sys.executable, code, shape], name=f"plain_sdpa.{shape}.json")
            plain = json.loads(text)
            ours = {b["name"].split("/")[1]: b["latency"]["p50Us"] for b in hot.get("sdpa", [])}
            report[shape] = {name: {"plain_us": us, "flashcore_us": ours.get(name), "ratio": ours[name] / us if name in ours else None} for name, us in plain.items()}
        self.write("sdpa-against-plain.json", report)
        print(json.dumps(report))

    def edit(self):
        """From a changed source to gates, on a warm runner, with the time at which each phase began."""
        folder = self.work / "edited" / "flashcore_v6"
        shutil.copytree(ROOT / "kernels/flashcore_v6", folder)
        self.tui("run", folder, "--json", "--no-fallback", limit=120)
        rounds = []
        for index in range(self.edits):
            with open(folder / "flashcore_v6.cu", "a", encoding="utf8") as source:
                source.write(f"// edit {index}\n")
            lines = []
            _, seconds, text, _ = self.tui("run", folder, "--json", "--no-fallback", name=f"edit.{index}.json", limit=120, timed_lines=lines)
            phases = [(at, line.split()[0]) for at, line in lines if re.match(r"^(go/no-go|build|verify|benchmark|profile|gates)\b", line)]
            marks = [*phases, (seconds, "end")]
            rounds.append({"seconds": seconds, "phases": {name: marks[i + 1][0] - at for i, (at, name) in enumerate(marks[:-1])}, "before_first_phase": marks[0][0], "lines": [f"{at:.3f} {line}" for at, line in lines]})
            print(json.dumps({key: value for key, value in rounds[-1].items() if key != "lines"}))
        self.write("edit-to-gates.json", rounds)

    def faulty(self):
        """Every fixture, its finding, and how long the next good kernel takes; the good kernel's figures must not change by a bit."""
        # noqa: E731
        good = lambda: self.tui("verify", "flashcore_v5", "--json", "--seed", "5eed", "--shape", "1x4x128x64", limit=60)
        first = cases_of(good()[2])
        rows = []
        for folder in sorted((ROOT / "kernels/faulty").iterdir()):
            manifest = folder / "kernel.yaml"
            if not manifest.exists():
                continue
            wanted = re.search(r"finding: (\w+)", manifest.read_text(encoding="utf8")).group(1)
            for options in ([], ["--sanitize"]):
                code, seconds, text, _ = self.tui("run", folder.name, "--json", "--seeds", "1", "--shape", "1x4x128x64", "--max-seconds", "0.2", *options, name=f"faulty.{folder.name}{''.join(options)}.json", limit=90)
                document = json.loads(text) if text else {}
                findings = [f for variant in document.get("result", {}).get("variants", []) for f in variant.get("findings", [])]
                # What a GPU hides is looked for with compute-sanitizer.
                if f"FINDING_KIND_{wanted}" in [f["kind"] for f in findings]:
                    break
            good_code, good_seconds, good_text, _ = good()
            rows.append({
                "id": folder.name, "wanted": wanted, "found": [f["kind"].removeprefix("FINDING_KIND_") for f in findings], "cudaErrors": [f.get("cudaError", "") for f in findings], "outcome": document.get("job", {}).get("outcome"), "options": options,
                "exit_code": code, "seconds": seconds, "good_exit_code": good_code, "good_seconds": good_seconds, "good_same": cases_of(good_text) == first, "message": findings[0]["message"] if findings else document.get("job", {}).get("summary", ""),
            })
            print(json.dumps(rows[-1]))
        self.write("faulty.json", rows)

    def cheating(self):
        """Every kernel of kernels/cheating: checked as an experiment checks, then, where it passes, timed; the verdict as the program printed it."""
        rows = []
        for folder in sorted(path.parent for path in (ROOT / "kernels/cheating").glob("*/kernel.yaml")):
            if self.cheats and folder.name not in self.cheats:
                continue
            manifest = (folder / "kernel.yaml").read_text(encoding="utf8")
            on_gpu = re.search(r"finding_on_gpu: \[([^\]]*)\]", manifest)
            wanted = (on_gpu.group(1).split(", ") if on_gpu and on_gpu.group(1) else [re.search(r"finding: (\w+)", manifest).group(1)])
            small = "1x1x512x64" if folder.name == "lucky_reads" else "1x4x128x64"
            # Its time must be below the roofline: a shape of real work.
            timed = "4x16x2048x64" if folder.name == "impossible_time" else "2x8x512x64"
            code, seconds, text, errors = self.tui("verify", folder.name, "--json", "--shape", small, name=f"cheating.{folder.name}.verify.json", limit=60)
            phase, document = "verify", json.loads(text) if text else {}
            if code == 0:
                phase = "benchmark"
                code, seconds, text, errors = self.tui("bench", folder.name, "--json", "--shape", timed, "--max-seconds", "1", name=f"cheating.{folder.name}.bench.json", limit=90)
                document = json.loads(text) if text else {}
            variants = document.get("result", {}).get("variants", [])
            findings = [finding for variant in variants for finding in variant.get("findings", [])]
            found = [finding["kind"].removeprefix("FINDING_KIND_") for finding in findings] or ["NONE"]
            benchmarks = [result for variant in variants for result in variant.get("benchmarks", [])]
            rows.append({
                "id": folder.name, "wanted": wanted, "found": found, "caught_in": phase, "as_wanted": any(each in found for each in wanted), "exit_code": code, "seconds": seconds,
                "outcome": document.get("job", {}).get("outcome"), "messages": [finding["message"] for finding in findings], "valid": [result.get("valid", False) for result in benchmarks],
                "p50_us": {result["mode"]: result["latency"]["p50Us"] for result in benchmarks}, "checks": [result.get("outputCheck") for result in benchmarks],
            })
            print(json.dumps(rows[-1]), flush=True)
        cold = {}
        for pinned in (0, 1):
            results = self.bench("pinned_l2", f"cheating.pinned_l2.{pinned}.json", "--set", f"PINNED={pinned}", "--shape", CANONICAL, "--max-seconds", "1")
            cold[pinned] = next(result["latency"]["p50Us"] for result in results if result["mode"].endswith("COLD"))
        self.write("cheating.json", {"kernels": rows, "pinned_l2_cold_p50_us": cold})
        print(json.dumps(cold))

    def box(self):
        """What isolating the GPU's worker costs: first job of a runner (the worker's start), a second one, and the hot median, with and without the box."""
        report = {}
        for isolation in ("auto", "none"):
            home = self.work / f"home-{isolation}"
            address = f"unix:{home}/s"
            home.mkdir()
            runner = subprocess.Popen([*self.command("flashcore-runner"), "serve", "--isolation", isolation, "--data", str(home), "--address", address], cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            runner.stdout.readline()
            on_runner = ("--runner", address)
            _, _, text, _ = self.tui(*on_runner, "host", "--json", name=f"box.{isolation}.host.json")
            verify = (*on_runner, "verify", "flashcore_v10", "--json", "--shape", "1x1x64x64", "--seeds", "1")
            starts = [self.tui(*verify, limit=60)[1] for _ in range(3)]
            _, _, bench, _ = self.tui(*on_runner, "bench", "flashcore_v10", "--json", "--shape", CANONICAL, name=f"box.{isolation}.bench.json", limit=90)
            results = json.loads(bench)["result"]["variants"][0]["benchmarks"]
            report[isolation] = {
                "isolation": json.loads(text)["host"].get("isolation"), "verify_seconds": starts,
                "p50_us": {result["mode"]: [result["latency"][key] for key in ("p50LowUs", "p50Us", "p50HighUs")] for result in results}, "checks": [result.get("outputCheck") for result in results],
            }
            print(json.dumps({isolation: report[isolation]}), flush=True)
            runner.terminate()
            runner.wait(20)
        self.write("box.json", report)

    def recovery(self):
        arch = self.arch()
        endless = self.nvcc("kernels/faulty/endless_loop/endless_loop.cu", arch=arch)
        canary = self.nvcc("apps/runner/worker/canary.cu", arch=arch)
        reference = self.work / "reference.so"
        self.run(["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-pthread", "-o", reference, "kernels/reference/attention_reference.cpp"])
        node = ROOT / "bin/node"
        _, _, text, errors = self.run([node if node.exists() else "node", "tools/measure-recovery.mjs", "--library", "libcuda.so.1", "--reference", reference, "--endless", endless, "--canary", canary], name="recovery.json")
        print(text[-200:], errors[-3:])

    def torch_extension(self):
        """What the same kernel costs as a PyTorch extension: build of torch.utils.cpp_extension.load_inline."""
        code = self.out / "load_inline.py"
        code.write_text(LOAD_INLINE, encoding="utf8")
        _, _, text, _ = self.run([sys.executable, code, ROOT / "kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES], name="torch-extension.json")
        print(text)


def seconds_of(timestamp):
    """Seconds since the epoch of a proto timestamp as JSON has it: 2026-11-21T12:00:00.123456789Z."""
    import datetime
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")


def print_parity(kernel, text):
    cases = json.loads(text)["result"]["variants"][0]["verify"]["cases"] if text else []
    for case in cases:
        shape = case["shape"]
        name = f"{shape['batch']}x{shape['heads']}x{shape['sequenceLength']}x{shape['headDim']}{'c' if shape.get('causal') else ''}"
        told = "; ".join(each.get("missing") or f"{each['backend'][5:]} diff {each['maxAbsDifference']:.1e} max {each['maxAbsError'] / each['sdpaMaxAbsError']:.2f} mean {each['meanAbsError'] / each['sdpaMeanAbsError']:.2f}" for each in case.get("sdpa", []))
        print(f"  {kernel} {name}: {told or case.get('sdpaMissing')}")


def cases_of(text):
    """The figures of a verification, without times, and without those of PyTorch's kernels."""
    cases = json.loads(text)["result"]["variants"][0]["verify"]["cases"] if text else []
    return [{key: value for key, value in case.items() if key not in ("seconds", "sdpa", "sdpaMissing")} for case in cases]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio_interval(above, below, resamples=2000):
    """median(above) / median(below) with its 95 % bootstrap percentile interval."""
    import random
    generator = random.Random(1)
    ratios = sorted(median(generator.choices(above, k=len(above))) / median(generator.choices(below, k=len(below))) for _ in range(resamples))
    return ratios[int(0.025 * resamples)], median(above) / median(below), ratios[int(0.975 * resamples)]


PLAIN_SDPA = '''"""SDPA backends in a CUDA graph of 50 calls, microseconds a call, median of 105 replays in 5 rounds over the backends. Plain PyTorch, nothing of flashcore."""
import json, re, sys
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
B, H, S, D, causal = re.fullmatch(r"(\\d+)x(\\d+)x(\\d+)x(\\d+)(c?)", sys.argv[1]).groups()
q, k, v = (torch.randn(int(B), int(H), int(S), int(D), device="cuda", dtype=torch.float16) for _ in range(3))
graphs = {}
for name, kind in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
    with sdpa_kernel(kind):
        call = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
        for _ in range(5): call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50): call()
    graphs[name] = graph
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
times = {name: [] for name in graphs}
for _ in range(5):
    for name, graph in graphs.items():
        graph.replay()
        for _ in range(21):
            start.record(); graph.replay(); end.record(); end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / 50)
print(json.dumps({name: sorted(each)[len(each) // 2] for name, each in times.items()}))
'''

LOAD_INLINE = '''"""Builds the kernel of a .cu file as a PyTorch extension, behind a binding that launches it."""
import json, pathlib, sys, tempfile, time
started = time.monotonic()
import torch
from torch.utils.cpp_extension import load_inline
imported = time.monotonic()
macros = [each.removeprefix("-D").split("=") for each in sys.argv[2:]]
defined = "".join(f"#define {name} {value}\\n" for name, value in macros)
undefined = "".join(f"#undef {name}\\n" for name, _ in macros)  # PyTorch's headers may have such names
source = defined + pathlib.Path(sys.argv[1]).read_text() + undefined + """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  auto o = torch::empty_like(q);
  const int B = q.size(0), H = q.size(1), S = q.size(2), bytes = 73728;
  cudaFuncSetAttribute(flashcore_v6, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  flashcore_v6<<<dim3((S + 63) / 64, B * H), 128, bytes, at::cuda::getCurrentCUDAStream()>>>((const half*)q.data_ptr(), (const half*)k.data_ptr(), (const half*)v.data_ptr(), (half*)o.data_ptr(), S, 0.125f, causal ? 1 : 0);
  return o;
}
"""
module = load_inline("flashcore_v6_extension", cpp_sources="torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal);", cuda_sources=source, functions=["forward"], extra_cuda_cflags=["-O3", "--use_fast_math", "-std=c++17"], build_directory=tempfile.mkdtemp())
built = time.monotonic()
q, k, v = (torch.randn(2, 8, 512, 64, device="cuda", dtype=torch.float16) for _ in range(3))
error = (module.forward(q, k, v, False).float() - torch.nn.functional.scaled_dot_product_attention(q, k, v).float()).abs().max().item()
print(json.dumps({"import_seconds": imported - started, "build_seconds": built - imported, "max_abs_error_against_sdpa": error, "torch": torch.__version__}))
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--cheats", default="", help="only these of kernels/cheating")
    parser.add_argument("--edits", type=int, default=3, help="edits of a source, each from the keystroke to the gates")
    options = parser.parse_args()
    measurement = Measurement(options.out)
    measurement.edits = options.edits
    measurement.cheats = [each for each in options.cheats.split(",") if each]
    (measurement.out / "samples").mkdir(exist_ok=True)
    for section in options.sections.split(","):
        print(f"=== {section}", flush=True)
        try:
            getattr(measurement, section)(*([options.kernels.split(",")] if section in ("kernels", "parity") else []))
        # One section that fails must not take the others' results with it; its name and reason are printed and stored.
        except Exception as error:  # noqa: BLE001
            print(f"section {section} failed: {type(error).__name__}: {error}", flush=True)
            (measurement.out / f"{section}.failed.txt").write_text(f"{type(error).__name__}: {error}\n", encoding="utf8")
    shutil.rmtree(measurement.work, ignore_errors=True)


if __name__ == "__main__":
    main()
