"""The conformance suite of the driver seam on the GPU's driver and on the emulator."""


def measure(m):
    for target in ("libcuda.so.1", "emulator"):
        m.run(
            [*m.command("flashcore-conformance"), target, "--json", m.out / f"conformance.{target}.json"],
            name=f"conformance.{target}.txt",
        )
