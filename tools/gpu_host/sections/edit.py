"""From a changed source to gates, on a warm runner, with the time at which each phase began."""

import json
import re
import shutil

from measurement import ROOT


def measure(m):
    folder = m.work / "edited" / "flashcore_v6"
    shutil.copytree(ROOT / "kernels/flashcore_v6", folder)
    m.tui("run", folder, "--json", "--no-fallback", limit=120)
    rounds = []
    for index in range(m.options.edits):
        with open(folder / "flashcore_v6.cu", "a", encoding="utf8") as source:
            source.write(f"// edit {index}\n")
        lines = []
        _, seconds, text, _ = m.tui(
            "run", folder, "--json", "--no-fallback", name=f"edit.{index}.json", limit=120, timed_lines=lines
        )
        phases = [
            (at, line.split()[0])
            for at, line in lines
            if re.match(r"^(precheck|go/no-go|build|verify|benchmark|profile|gates)\b", line)
        ]
        marks = [*phases, (seconds, "end")]
        rounds.append(
            {
                "seconds": seconds,
                "phases": {name: marks[i + 1][0] - at for i, (at, name) in enumerate(marks[:-1])},
                "before_first_phase": marks[0][0],
                "lines": [f"{at:.3f} {line}" for at, line in lines],
            }
        )
        print(json.dumps({key: value for key, value in rounds[-1].items() if key != "lines"}))
    m.write("edit-to-gates.json", rounds)
