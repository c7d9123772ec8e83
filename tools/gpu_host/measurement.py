"""Runs flashcore's programs and keeps what they print."""

import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = {
    "fa-tui": "apps/tui/dist/main.js",
    "flashcore-runner": "apps/runner/dist/main.js",
    "flashcore-conformance": "test/dist/conformance.js",
    "flashcore-primitives": "test/dist/primitives.js",
}


class Measurement:
    """Where results go, and how programs are run. Commands run in the root and are recorded in commands.txt."""

    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="fc-"))
        self.environment = {**os.environ, "FLASHCORE_HOME": str(self.work / "home"), "NO_COLOR": "1"}
        self.commands = open(self.out / "commands.txt", "a", encoding="utf8")
        # No command runs past this time.monotonic(). None: each command has only its own limit.
        self.deadline = None

    def close(self):
        self.commands.close()
        shutil.rmtree(self.work, ignore_errors=True)

    def command(self, program):
        """The bundle's launcher, or in the repository the built program."""
        launcher = ROOT / program
        return [f"./{program}"] if launcher.exists() else [self.node, PROGRAMS[program]]

    def run(self, args, name="", limit=300, timed_lines=None):
        """Runs a command in the root; its standard output goes to NAME. Returns (exit code, seconds, output)."""
        shown = " ".join(str(each) for each in args).replace(str(self.work), "$TMP").replace(str(self.out), "$OUT")
        self.commands.write(shown + (f"   > {name}" if name else "") + "\n")
        self.commands.flush()
        started = time.monotonic()
        if self.deadline is not None:
            limit = min(limit, max(0, self.deadline - started))
        # A separate session, so that processes started by a command end with it.
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
        # Standard output is one document at the end. A thread reads it, because it is larger than the pipe.
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

    def serve(self, *options):
        """The command of a runner for this program only, which root may start, like the embedded one."""
        return [*self.command("flashcore-runner"), "serve", *(["--allow-root"] if os.geteuid() == 0 else []), *options]

    def write(self, name, value):
        (self.out / name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf8")

    def nvcc(self, source, *flags, arch):
        image = self.work / (pathlib.Path(source).stem + ".cubin")
        self.run(
            [
                "nvcc",
                "-cubin",
                f"-arch={arch}",
                "-std=c++17",
                "-O3",
                "-lineinfo",
                "--use_fast_math",
                "-I",
                "kernels",
                *flags,
                "-o",
                image,
                source,
            ]
        )
        return image

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

    @property
    def node(self):
        """The bundle's own Node, else the repository's, else the host's."""
        found = [path for path in (ROOT / "bin/node", ROOT / "node_modules/node/bin/node") if path.exists()]
        return found[0] if found else "node"

    def keep_program(self, name):
        """Copies one of our programs next to its results, and returns its path."""
        return pathlib.Path(shutil.copy(pathlib.Path(__file__).parent / "programs" / name, self.out))


def end_session(child):
    """Kills a command and its children, if it is still running."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
