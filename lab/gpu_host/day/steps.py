"""The steps of a first day, in order. Cheap steps come first, and so do steps that others depend on."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable

from measurement import CANONICAL

from .counters import check_counters
from . import BadOption, NotMeasured, StepFailed, telling_line

FINALISTS = 2
# The options on the emulator, just enough to see that every step works.
DRY = ["--shape", "1x1x64x64", "--seeds", "1", "--samples", "5", "--no-fallback"]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step. Its function returns a sentence, or raises StepFailed or NotMeasured with a sentence."""

    name: str
    title: str
    limit_s: float
    run: Callable
    # The result depends on other steps, so the step runs at every start of first-day.
    always: bool = False
    # The step also runs after the time limit, so that the measurements are reported.
    closing: bool = False


def steps_of(day):
    kernels = chosen_kernels(day)
    return [
        Step("host", "driver and tools", 60, check_host),
        Step("counters", "ncu knows the names of our counters, and may read them", 120, check_counters),
        Step("conformance", "the driver does what the runner relies on", 180, check_conformance),
        Step("primitives", "every PTX instruction does what its definition says", 180, check_primitives),
        *(Step(f"merge.{each['kernelId']}", "plan merge, SDPA in turns", 180, merge_of(each)) for each in kernels),
        *(
            Step(f"final.{place}", f"plan final of {ordinal} fastest kernel", 120, final_of(place), always=True)
            for place, ordinal in zip(range(1, min(FINALISTS, len(kernels)) + 1), ("the", "the second"))
        ),
        Step("report", "the report final over all of it", 60, write_report, always=True, closing=True),
    ]


def chosen_kernels(day):
    known = {each["kernelId"]: each for each in day.kernels}
    for name in day.options.kernels:
        if name not in known:
            raise BadOption(f"--kernels {name}: must be some of {', '.join(known)}")
    return [known[name] for name in day.options.kernels or known]


def check_host(day):
    day.m.write("host.json", day.host)
    if shutil.which("nvidia-smi"):
        refuse_hidden_gpu(day)
        day.m.run(["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER,TEMPERATURE,ECC"], name="nvidia-smi.txt")
    tools = day.host["tools"]
    missing = [tool["name"] for tool in tools if "missing" in tool]
    found = [f"{tool['name']} {tool['version']}" for tool in tools if "missing" not in tool]
    told = f"driver {day.identity()['driver']}; {', '.join(found)}"
    return told + (f"; not found: {', '.join(missing)}" if missing else "")


def refuse_hidden_gpu(day):
    """Fails if nvidia-smi lists a card that the runner does not find, unless somebody has hidden it from the runner."""
    if not day.dry or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return
    code, _, text, _ = day.m.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], limit=20)
    if code == 0 and text.strip():
        # An installed driver that does not work is in the runner's list of tools.
        why = [tool["missing"] for tool in day.host["tools"] if tool["name"] == "libcuda" and "missing" in tool]
        raise StepFailed(
            f"nvidia-smi lists {text.splitlines()[0]}, which the runner does not have: {why[0] if why else 'it found no libcuda.so.1'}"
        )


def check_conformance(day):
    return on_both(
        day, "conformance", "flashcore-conformance", ["emulator"] if day.dry else ["libcuda.so.1", "emulator"]
    )


def check_primitives(day):
    return on_both(day, "primitives", "flashcore-primitives", [None] if day.dry else ["libcuda.so.1"])


def on_both(day, name, program, targets):
    """Runs a suite on its targets. The step fails if the suite finds a difference or cannot run."""
    told, failed = [], False
    for target in targets:
        file = f"{name}.{target}" if len(targets) > 1 else name
        code, _, text, errors = day.m.run(
            [*day.m.command(program), *([target] if target else []), "--json", day.m.out / f"{file}.json"],
            name=f"{file}.txt",
        )
        failed = failed or code != 0
        # The last line is "21 passed, 0 failed on {…}"; the file already names the device.
        summary = re.sub(r" on \{.*", "", text.strip().splitlines()[-1]) if text.strip() else telling_line(errors)
        told.append(f"{target or 'emulator'}: {summary or f'exit status {code}'}")
    if day.dry:
        told.append("on a GPU's driver: not measured, no GPU here")
    if failed:
        raise StepFailed("; ".join(told))
    return "; ".join(told)


def merge_of(kernel):
    def run(day):
        refuse_other_device(day, kernel)
        return experiment(day, kernel["kernelId"], "merge")

    return run


def final_of(place):
    def run(day):
        ranked = fastest(day)
        if len(ranked) < place:
            raise NotMeasured("no other kernel was measured" if ranked else "no kernel was measured")
        kernel = ranked[place - 1]
        before = day.jobs / f"{kernel}.final.json"
        if before.exists() and f"final.{place}" not in day.options.again:
            return f"{kernel}: {json.loads(before.read_text(encoding='utf8'))['job']['summary']}"
        return experiment(day, kernel, "final")

    return run


def experiment(day, kernel, plan):
    options = DRY if day.dry else []
    document = day.json_of("run", kernel, "--plan", plan, *options, name=f"jobs/{kernel}.{plan}.json")
    return f"{kernel}: {document['job']['summary']}"


def refuse_other_device(day, kernel):
    """Raises NotMeasured for a kernel that is built for another architecture."""
    wanted, here = kernel["minArch"], day.device["arch"]
    if day.dry and not kernel["emulated"]:
        raise NotMeasured(f"it needs a GPU with {wanted}: the emulator does not have its instructions")
    # "sm_90a" runs only on sm_90. Without the letter, code also runs on later devices.
    number = {text: int(re.search(r"\d+", text).group()) for text in (wanted, here)}
    if number[here] < number[wanted] or (wanted[-1].isalpha() and number[here] != number[wanted]):
        raise NotMeasured(f"it needs {wanted}, and this is {here}")


def hot_p50(document):
    """The p50 in microseconds of the requested build at the canonical shape. None if the build is wrong or the timing
    invalid."""
    for variant in document.get("result", {}).get("variants", []):
        correct = all(each["verdict"] == "VERDICT_PASS" for each in variant.get("verify", {}).get("cases", []))
        if variant.get("fallback") or not correct:
            continue
        for each in variant.get("benchmarks", []):
            shape = each["shape"]
            name = "x".join(str(shape[key]) for key in ("batch", "heads", "sequenceLength", "headDim"))
            at = name == CANONICAL and not shape.get("causal")
            simulated = each.get("simulated", False)
            if each["mode"].endswith("HOT") and (simulated or (at and each.get("valid"))):
                return each["latency"]["p50Us"]
    return None


def fastest(day):
    """The kernels that are correct and were measured, fastest first."""
    measured = {}
    for path in day.jobs.glob("*.merge.json"):
        document = json.loads(path.read_text(encoding="utf8"))
        us = hot_p50(document)
        if us is not None:
            measured[document["job"]["kernelId"]] = us
    return sorted(measured, key=measured.get)


def write_report(day):
    jobs = sorted(day.jobs.glob("*.json"))
    if not jobs:
        raise NotMeasured("no kernel was measured")
    for kind, place in (("markdown", day.m.work / "final.md"), ("html", day.m.out / "final.html")):
        code, _, _, errors = day.m.tui("report", "--from", *jobs, "--format", kind, "-o", place)
        if code != 0:
            raise StepFailed(telling_line(errors))
    return f"below and, with plots, as final.html; from {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}"
