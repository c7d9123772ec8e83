"""Whether a host that compiles changes what is measured."""

from measurement import ROOT
from plan import CANONICAL

# nvcc as the runner has it beside a timed kernel, and so many that no processor is left.
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
