"""The functions of exported PyTorch files: host time of eager calls, results, gradients, training and decoding."""

import sys

from measurement import ROOT

EXPORTS = {
    "fp16": ["flashcore_v12"],
    "bf16": ["flashcore_v12", "--set", "BF16=1"],
    "decode": ["examples/kernels/decode_mma"],
    "paged": ["examples/kernels/decode_paged"],
    "varlen": ["examples/kernels/varlen_rows"],
}


def measure(m):
    folder = m.work / "signatures"
    folder.mkdir()
    for name, kernel in EXPORTS.items():
        m.tui("export", *kernel, "--torch", folder / f"{name}.py", limit=120)
    program = m.keep_program("check_signatures.py")
    report = m.out / "signatures.json"
    _, _, text, errors = m.run([sys.executable, program, folder, ROOT / "examples/pytorch", report], limit=300)
    print(text)
    if not report.exists():
        raise RuntimeError(f"check_signatures.py gave nothing: {errors[-5:]}")
