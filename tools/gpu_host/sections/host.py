"""The card, the compilers and the host as they were found."""


def measure(m):
    m.run(["nvidia-smi", "-q", "-d", "CLOCK,PERFORMANCE,POWER,TEMPERATURE,ECC"], name="nvidia-smi.txt")
    m.run(["nvcc", "--version"], name="nvcc.txt")
    m.run(["ncu", "--version"], name="ncu.txt")
    m.tui("host", "--json", name="host.json")
