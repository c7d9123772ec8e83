"""OpenEvolve's evaluator for a CUDA attention kernel: one call of `fa-tui evaluate` per candidate.

openevolve-run.py kernels/flashcore_v8/flashcore_v8.cu evaluator.py --config config.yaml
"""

import json
import os
import subprocess

from openevolve.evaluation_result import EvaluationResult

BASE = os.environ.get("FLASHCORE_BASE", "flashcore_v8")
SECONDS = int(os.environ.get("FLASHCORE_SECONDS", "240"))


def evaluate(program_path):
    command = ["fa-tui", "evaluate", program_path, "--base", BASE, "--timeout", str(SECONDS), "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 30)
    # Status 0 means that the candidate was judged, whatever the result. Any other status says nothing about the
    # candidate, and OpenEvolve may try again.
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    result = json.loads(done.stdout)
    return EvaluationResult(
        metrics=result["metrics"], artifacts={"feedback": result["text_feedback"], **result["artifacts"]}
    )
