"""One run of first-day: its runner, its device, and helpers for its steps."""

import json
import re
import subprocess
import time

from measurement import ROOT

from .record import DONE, FAILED, NOT_MEASURED

STOP_LIMIT_S = 20


class BadOption(Exception):
    """An option names something that does not exist. The text lists what exists."""


class StepFailed(Exception):
    """The step could not do its job. The text says why."""


class NotMeasured(Exception):
    """There is nothing to measure here. The text says why."""


def limit_text(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Day:
    """A run of first-day and its runner. The runner is replaced after a step's time limit, because the step's job still
    holds the device."""

    def __init__(self, m, options):
        self.m = m
        self.options = options
        self.ends_at = time.monotonic() + options.minutes * 60 if options.minutes else None
        self.jobs = m.out / "jobs"
        self.jobs.mkdir(exist_ok=True)
        self.runner = None

    def __enter__(self):
        try:
            self.start_runner()
            self.host = self.json_of("host")["host"]
            self.kernels = self.json_of("kernels")["kernels"]
        except BaseException:
            self.__exit__()
            raise
        if not self.host["devices"]:
            self.__exit__()
            raise StepFailed("the runner has neither a GPU nor an emulator here")
        self.device = self.host["devices"][0]
        return self

    def __exit__(self, *_):
        self.stop_runner()
        self.m.close()

    @property
    def dry(self):
        """True if there is no GPU. Then only the emulator runs, whose times are not GPU times."""
        return self.device.get("simulated", False)

    def device_text(self):
        if self.dry:
            return "Dry run: no GPU here, so steps run on the emulator or say that they need one"
        return f"{self.device['name']} ({self.device['arch']})"

    def identity(self):
        driver = self.device.get("kernelDriverVersion") or self.device["driverVersion"]
        return {"device": self.device["name"], "driver": driver, "build": self.host["buildId"][:12]}

    def run_step(self, step):
        """Runs a step within its time limit and returns the step's entry in the record. A failure does not stop the
        run."""
        began = time.monotonic()
        bounded = self.ends_at is not None and not step.closing
        limit = min(step.limit_s, self.ends_at - began) if bounded else step.limit_s
        entry = {"name": step.name, "title": step.title, "state": NOT_MEASURED}
        print(f"=== {step.name}", flush=True)
        if limit <= 0:
            entry["text"] = f"the {self.options.minutes:g} minutes of this run were over"
        else:
            self.m.deadline = began + limit
            try:
                entry.update(state=DONE, text=step.run(self))
            except NotMeasured as error:
                entry["text"] = str(error)
            # The page reports any error of a step, and the next step runs.
            except Exception as error:  # noqa: BLE001
                known = isinstance(error, StepFailed)
                entry.update(state=FAILED, text=str(error) if known else f"{type(error).__name__}: {error}")
            if self.m.deadline <= time.monotonic():
                if entry["state"] != DONE:
                    entry.update(state=FAILED, text=f"reached its limit of {limit_text(limit)}")
                self.m.deadline = None
                self.stop_runner()
                self.start_runner()
        self.m.deadline = None
        entry["seconds"] = round(time.monotonic() - began, 1)
        print(f"    {entry['state']}: {entry['text']}", flush=True)
        return entry

    def json_of(self, *args, name=""):
        """Runs a plain command with --json. Exit status 1 is also a result: a gate has failed."""
        code, _, text, errors = self.m.tui(*args, "--json", name=name)
        if code not in (0, 1) or not text:
            raise StepFailed(telling_line(errors) or f"fa-tui {args[0]} ended with exit status {code}")
        return json.loads(text)

    def start_runner(self):
        home = self.m.work / "home"
        home.mkdir(exist_ok=True)
        address = f"unix:{home}/s"
        log = open(self.m.work / "runner.log", "a", encoding="utf8")
        self.runner = subprocess.Popen(
            self.m.serve("--data", str(home), "--address", address, "--grace-seconds", "0.1"),
            cwd=ROOT,
            env=self.m.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        self.m.environment["FLASHCORE_RUNNER"] = address
        if not self.runner.stdout.readline():
            raise StepFailed(f"the runner did not start: {self.runner_said()}")

    def runner_said(self):
        """The line of the runner's log that explains the failure."""
        return telling_line((self.m.work / "runner.log").read_text(encoding="utf8").splitlines()) or "its log is empty"

    def stop_runner(self):
        if self.runner is None:
            return
        self.runner.terminate()
        try:
            self.runner.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.runner.kill()
            self.runner.wait()
        self.runner.stdout.close()
        self.runner = None


def telling_line(lines):
    """The first line that mentions an error, else the last line."""
    told = [line.strip() for line in lines if line.strip()]
    errors = [line for line in told if re.search(r"\berror\b", line, re.IGNORECASE)]
    return [*errors[:1], *told[-1:], ""][0].removeprefix("error: ")
