"""Whether compiling on the host changes the measurements."""

from measurement import ROOT
from plan import CANONICAL

# nvcc as the runner runs it next to a timed kernel, and enough compilers to leave no processor idle.
LOADS = {"one": ["1", "--flags=--split-compile=0"], "all": ["16", "--flags="]}


def measure(m):
    for name, load in LOADS.items():
        m.run(
            [
                m.node,
                ROOT / "test/dist/busy-host.js",
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
