"""Decisions: one kernel with each plan, accepting a champion, then a faster and a slower candidate."""

import json
import shutil

from measurement import ROOT

PLANS = {"merge": 0, "final": 0, "explore": 0, "nsight": 1}
CHAMPION = "flashcore_v10"
CANDIDATE = "flashcore_v11"
# Adds two microseconds to every CTA, after its first tiles have arrived.
BARRIER = "__syncthreads();  // Q and every group's first tile are there"
SLOWED = BARRIER + "\n  __nanosleep(2000);"
OWN_GATES = """
gates:
  - { id: latency, level: hard, target: 1, why: "a target of its own that nothing can reach" }
  - { id: tensor_instructions, metric: sm__inst_executed_pipe_tensor.sum, op: ">", target: 0, unit: instructions,
      level: warn, why: "any counter of Nsight Compute is a metric" }
"""
CLIENT_GATES = """
default: mine
gates:
  - { id: p99, title: p99 cold, metric: latency_us, statistic: p99, op: "<", target: 50, unit: us, why: the spread }
  - { id: right, metric: parity_cases_passed, op: "==", target: 1, unit: share, why: a wrong kernel has no speed }
  - { id: waves, metric: tail_efficiency_percent, op: ">=", target: 50, unit: "%", why: idle multiprocessors }
  - { id: hmma, metric: sm__inst_executed_pipe_tensor.sum, op: ">", target: 0, unit: instructions, why: tensor cores }
plans:
  mine: { title: Mine, about: all of it, from: the client, gates: { p99: hard, right: hard, waves: warn, hmma: hard } }
"""


def measure(m):
    ends = {}

    def run(name, kernel, *options):
        code, seconds, text, errors = m.tui("run", kernel, *options, "--json", name=f"decide.{name}.json", limit=400)
        document = json.loads(text) if text else {}
        variants = document.get("result", {}).get("variants", [{}])
        ends[name] = {
            "exit": code,
            "seconds": round(seconds, 1),
            "outcome": document.get("job", {}).get("outcome"),
            "summary": document.get("job", {}).get("summary"),
            "comparison": variants[0].get("comparison", {}).get("verdict"),
            "reason": variants[0].get("comparison", {}).get("reason"),
            "errors": errors[-3:] if code not in (0, 1) else [],
        }
        return document.get("job", {}).get("name", "")

    for plan, expected in PLANS.items():
        run(f"{CANDIDATE}.{plan}", CANDIDATE, "--plan", plan)
        ends[f"{CANDIDATE}.{plan}"]["expected"] = expected

    champion = run(f"{CHAMPION}.merge", CHAMPION, "--plan", "merge")
    m.tui("accept", champion, "--note", "first champion", name="decide.accept.txt")
    m.tui("champions", "--trail", name="decide.champions.txt")
    run("faster", CANDIDATE, "--plan", "merge")
    run("itself", CHAMPION, "--plan", "merge")

    slow = copy_of(m, CHAMPION)
    source = slow / f"{CHAMPION}.cu"
    text = source.read_text(encoding="utf8")
    if BARRIER not in text:
        raise RuntimeError(f"{source.name} has no longer the line that is slowed")
    source.write_text(text.replace(BARRIER, SLOWED), encoding="utf8")
    run("slower", slow, "--plan", "merge")

    own = copy_of(m, CANDIDATE)
    manifest = own / "kernel.yaml"
    manifest.write_text(with_gates(manifest.read_text(encoding="utf8")), encoding="utf8")
    run("own-gates", own, "--plan", "merge")

    gates = m.work / "client-gates.yaml"
    gates.write_text(CLIENT_GATES, encoding="utf8")
    run("client-gates", CANDIDATE, "--gates", gates)
    run("no-champion", CANDIDATE, "--no-champion")
    m.tui("undo", champion, "--note", "only tried", name="decide.undo.txt")
    m.tui("history", name="decide.history.txt")
    m.write("decide.json", ends)
    print(json.dumps(ends, indent=1), flush=True)


def copy_of(m, kernel):
    """A copy of a kernel folder, in a folder of its own so that several copies can coexist."""
    folder = m.work / f"copy{len(list(m.work.glob('copy*')))}" / kernel
    shutil.copytree(ROOT / "kernels" / kernel, folder)
    return folder


def with_gates(manifest):
    """The manifest with its gates replaced."""
    kept, inside = [], False
    for line in manifest.splitlines():
        if line.startswith("gates:"):
            inside = True
        elif inside and (line.startswith((" ", "-", "#")) or not line):
            continue
        else:
            inside = False
            kept.append(line)
    return "\n".join(kept) + OWN_GATES
