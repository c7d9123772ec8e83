"""Whether the kernels that stamp the clock change the measurements, and the clocks that they report."""

from measurement import ROOT
from plan import CANONICAL


def measure(m):
    for kernel, shape in (
        ("flashcore_v10", CANONICAL),
        ("flashcore_v11", CANONICAL),
        ("flashcore_v11", "4x16x2048x64c"),
    ):
        m.run(
            [
                m.node,
                ROOT / "test/dist/clock-stamps.js",
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
