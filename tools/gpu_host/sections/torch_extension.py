"""Build time of the same kernel as a PyTorch extension (torch.utils.cpp_extension.load_inline)."""

import sys

from measurement import ROOT
from plan import V6_DEFINES


def measure(m):
    code = m.keep_program("load_inline.py")
    _, _, text, _ = m.run(
        [sys.executable, code, ROOT / "kernels/flashcore_v6/flashcore_v6.cu", *V6_DEFINES], name="torch-extension.json"
    )
    print(text)
