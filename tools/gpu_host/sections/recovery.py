"""How long a device needs after SIGKILL of a spinning kernel."""


def measure(m):
    arch = m.arch()
    endless = m.nvcc("kernels/faulty/endless_loop/endless_loop.cu", arch=arch)
    canary = m.nvcc("apps/runner/worker/canary.cu", arch=arch)
    reference = m.work / "reference.so"
    m.run(
        [
            "g++",
            "-std=c++17",
            "-O2",
            "-shared",
            "-fPIC",
            "-pthread",
            "-o",
            reference,
            "kernels/reference/attention_backward.cpp",
            "kernels/reference/attention_merge.cpp",
            "kernels/reference/attention_reference.cpp",
            "kernels/reference/output_comparison.cpp",
        ]
    )
    _, _, text, errors = m.run(
        [
            m.node,
            "tools/measure-recovery.ts",
            "--library",
            "libcuda.so.1",
            "--reference",
            reference,
            "--endless",
            endless,
            "--canary",
            canary,
        ],
        name="recovery.json",
    )
    print(text[-200:], errors[-3:])
