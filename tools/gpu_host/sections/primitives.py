"""Every PTX instruction of kernels/primitives: this GPU against its definition and against the emulator's twin."""


def measure(m):
    m.run(
        [*m.command("flashcore-primitives"), "libcuda.so.1", "--json", m.out / "primitives.json"], name="primitives.txt"
    )
