"""Builds an export's ModelNew for KernelBench with load_inline, as KernelBench's evaluator does, and compares it with
the reference Model.

python3 check_kernelbench.py FOLDER     FOLDER/<kernel>/reference.py and model_new.py; prints one JSON object
"""

import json
import os
import pathlib
import sys
import tempfile
import time

import torch

# KernelBench's tolerance for fp16.
TOLERANCE = 1e-2


def names_of(path, names):
    """Executes the file without setting __file__, and returns the names that it defines."""
    exec(compile(path.read_text(), path.name, "exec"), names)
    return names


def check(folder):
    names = names_of(folder / "reference.py", {})
    reference = names["Model"]().cuda().half()
    inputs = [each.cuda().half() for each in names["get_inputs"]()]
    started = time.monotonic()
    names_of(folder / "model_new.py", names)
    built = time.monotonic() - started
    wanted = reference(*inputs)
    found = names["ModelNew"]().cuda().half()(*inputs)
    return {
        "kernel": folder.name,
        "build_seconds": built,
        "correct": torch.allclose(found, wanted, atol=TOLERANCE, rtol=TOLERANCE),
        "largest_difference": (found.float() - wanted.float()).abs().max().item(),
    }


def main():
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp()
    rows = []
    for folder in sorted(each for each in pathlib.Path(sys.argv[1]).iterdir() if each.is_dir()):
        try:
            rows.append(check(folder))
        except Exception as error:
            rows.append({"kernel": folder.name, "failed": f"{type(error).__name__}: {error}"[-2000:]})
        print(json.dumps(rows[-1])[:400], file=sys.stderr, flush=True)
    print(json.dumps({"torch": torch.__version__, "rows": rows}))


if __name__ == "__main__":
    main()
