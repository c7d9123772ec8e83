"""Runs flashcore's programs for the sections and keeps what the programs print."""

import contextlib
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

CANONICAL = "2x8x512x64"
KERNELS = ["fa_v1_baseline", "fa_v2_wmma", "flashcore_v5", "fa_s512_v3", "fa_s512_v3_wmma", "fa_tc_s512"] + [
    f"flashcore_v{step}" for step in range(6, 13)
]
# The definitions for compiling flashcore_v6 by hand. They have the values of its kernel.yaml; a static_assert checks
# that.
V6_DEFINES = [
    "-DUSE_WMMA=1",
    "-DBLOCK_Q=64",
    "-DBLOCK_KV=64",
    "-DNUM_THREADS=128",
    "-DROW_STRIDE=72",
    "-DSMEM_BYTES=73728",
]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = {
    "fa-tui": "apps/tui/dist/main.js",
    "flashcore-runner": "apps/runner/dist/main.js",
    "flashcore-conformance": "test/dist/conformance.js",
    "flashcore-primitives": "test/dist/primitives.js",
}


class Measurement:
    """Where results go and how programs are run. Commands run in the root, and commands.txt records them."""

    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="fc-"))
        self.environment = {**os.environ, "FLASHCORE_HOME": str(self.work / "home"), "NO_COLOR": "1"}
        self.commands = open(self.out / "commands.txt", "a", encoding="utf8")
        # The value of time.monotonic() at which every command must have ended. None: commands have only their own
        # limits.
        self.deadline = None

    def close(self):
        self.commands.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def command(self, program):
        """The command that starts a program: the bundle's launcher, or in the repository the built program."""
        launcher = ROOT / program
        return [f"./{program}"] if launcher.exists() else [self.node, PROGRAMS[program]]

    def run(self, args, name="", limit=300, timed_lines=None):
        """Runs a command in the root. Its standard output goes to NAME. Returns (exit code, seconds, output)."""
        shown = " ".join(str(each) for each in args).replace(str(self.work), "$TMP").replace(str(self.out), "$OUT")
        self.commands.write(shown + (f"   > {name}" if name else "") + "\n")
        self.commands.flush()
        started = time.monotonic()
        if self.deadline is not None:
            limit = min(limit, max(0, self.deadline - started))
        # A separate session, so that processes that a command has started can be ended with it.
        child = subprocess.Popen(
            [str(each) for each in args],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        errors = []
        # The output is one document at the end. A thread reads it, because it is larger than the pipe's buffer.
        reader_text = []
        reader = threading.Thread(target=lambda: reader_text.append(child.stdout.read()), daemon=True)
        reader.start()
        timer = threading.Timer(limit, end_session, [child])
        timer.start()
        try:
            for line in child.stderr:
                errors.append(line.rstrip("\n"))
                if timed_lines is not None:
                    timed_lines.append((time.monotonic() - started, line.rstrip("\n")))
            code = child.wait()
        except KeyboardInterrupt:
            end_session(child)
            raise
        finally:
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

    def document(self, *args, **options):
        """Runs a plain command with --json. Returns (exit code, seconds, the document or {}, errors)."""
        code, seconds, text, errors = self.tui(*args, "--json", **options)
        return code, seconds, json.loads(text) if text else {}, errors

    def serve(self, *options):
        """The command of a runner for this program only. Root may start it, as with the embedded runner."""
        return [*self.command("flashcore-runner"), "serve", *(["--allow-root"] if os.geteuid() == 0 else []), *options]

    @contextlib.contextmanager
    def runner(self, *options, before=()):
        """Starts a runner for this program only, through the command `before`. Yields it with the first line that it
        prints."""
        runner = subprocess.Popen(
            [*before, *self.serve(*options)],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield runner, runner.stdout.readline()
        finally:
            runner.terminate()
            runner.wait(30)

    def write(self, name, value):
        (self.out / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf8")

    def arch(self):
        _, _, text, _ = self.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
        return "sm_" + text.strip().splitlines()[0].replace(".", "")

    def bench(self, kernel, name, *options):
        _, _, document, _ = self.document("bench", kernel, *options, name=name, limit=120)
        return document["result"]["variants"][0]["benchmarks"]

    @property
    def node(self):
        """The Node to use: the bundle's, else the repository's, else the host's."""
        found = [path for path in (ROOT / "bin/node", ROOT / "node_modules/node/bin/node") if path.exists()]
        return found[0] if found else "node"

    def keep_program(self, name):
        """Copies one of our programs next to its results, and returns the path of the copy."""
        return pathlib.Path(shutil.copy(pathlib.Path(__file__).parent / "programs" / name, self.out))


def shape_options(shapes):
    return [each for shape in shapes for each in ("--shape", shape)]


def hot(results):
    """The benchmark in hot mode, out of a list of benchmarks."""
    return next(each for each in results if each["mode"].endswith("HOT"))


def seconds_of(timestamp):
    """The seconds since the epoch of a timestamp in proto's JSON: 2026-11-21T12:00:00.123456789Z."""
    whole, _, fraction = timestamp.removesuffix("Z").partition(".")
    return datetime.datetime.fromisoformat(whole + "+00:00").timestamp() + float(f"0.{fraction or 0}")


def end_session(child):
    """Kills a command and its children if the command is still running."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
