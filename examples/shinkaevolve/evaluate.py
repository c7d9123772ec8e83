"""ShinkaEvolve's evaluation of a CUDA attention kernel: metrics.json and correct.json of one `fa-tui evaluate`.

shinka_run --task-dir examples/shinkaevolve --results_dir R --num_generations 20 --set evo.use_text_feedback=true
"""

import argparse
import json
import pathlib
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    parser.add_argument("--base", default="flashcore_v8")
    parser.add_argument("--seconds", type=int, default=240)
    asked = parser.parse_args()
    command = ["fa-tui", "evaluate", asked.program_path, "--base", asked.base, "--json", "--quiet"]
    done = subprocess.run([*command, "--timeout", str(asked.seconds)], capture_output=True, text=True)
    # The candidate was not judged. Without metrics.json and with a nonzero exit status, nobody takes this for a score
    # of 0.
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    result = json.loads(done.stdout)
    score, feedback = result["combined_score"], result["text_feedback"]
    public = {name: value for name, value in result["metrics"].items() if name != "combined_score"}
    private = {"experiment": result["experiment"], "provenance": result["provenance"]}
    folder = pathlib.Path(asked.results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    metrics = {"combined_score": score, "public": public, "private": private, "text_feedback": feedback}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    error = None if result["correct"] else feedback
    (folder / "correct.json").write_text(json.dumps({"correct": result["correct"], "error": error}))


if __name__ == "__main__":
    main()
