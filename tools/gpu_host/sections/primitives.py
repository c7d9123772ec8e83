"""Every PTX instruction of kernels/primitives: this GPU against the definition and against the emulator."""


def measure(m):
    m.run(
        [*m.command("flashcore-primitives"), "libcuda.so.1", "--json", m.out / "primitives.json"], name="primitives.txt"
    )
