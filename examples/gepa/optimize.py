"""Runs GEPA's optimize_anything on a CUDA attention kernel. Shapes serve as its examples.

python examples/gepa/optimize.py kernels/flashcore_v8/flashcore_v8.cu
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

BASE = os.environ.get("FLASHCORE_BASE", "flashcore_v8")
SECONDS = int(os.environ.get("FLASHCORE_SECONDS", "240"))
SHAPES = os.environ.get("FLASHCORE_SHAPES", "2x8x512x64").split(",")


def evaluate(candidate, example=None):
    """Returns the score of a candidate's source on a shape (higher is better), and feedback for the model."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "candidate.cu")
        source.write_text(candidate)
        command = ["fa-tui", "evaluate", str(source), "--base", BASE, "--shape", example or SHAPES[0]]
        command += ["--timeout", str(SECONDS), "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 30)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    result = json.loads(done.stdout)
    return result["combined_score"], {"feedback": result["text_feedback"], **result["metrics"], **result["artifacts"]}


def main(seed):
    from gepa.optimize_anything import OptimizeAnythingConfig, optimize_anything

    return optimize_anything(
        seed_candidate=pathlib.Path(seed).read_text(),
        evaluator=evaluate,
        dataset=SHAPES,
        objective="Reduce the latency of this CUDA attention kernel; its output must stay right.",
        config=OptimizeAnythingConfig(engine="gepa", max_evals=int(os.environ.get("FLASHCORE_EVALUATIONS", "45"))),
    )


if __name__ == "__main__":
    main(sys.argv[1])
