"""KernelBench's form of an export, built by load_inline as its evaluator does, and compared with its Model."""

import sys


def measure(m):
    folder = m.work / "kernelbench"
    for kernel in m.options.kernels:
        m.tui("export", kernel, "--kernelbench", folder / kernel, limit=60)
    program = m.keep_program("check_kernelbench.py")
    _, _, text, errors = m.run([sys.executable, program, folder], limit=580, name="exports.kernelbench.json")
    print(text or errors[-5:])
