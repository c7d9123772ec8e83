"""The ladder, step by step: a ranked run of each kernel against the current champion, then accepted."""

import json


def measure(m):
    steps = []
    for kernel in m.options.kernels:
        code, seconds, text, errors = m.tui("run", kernel, "--json", name=f"accepted.{kernel}.json", limit=240)
        document = json.loads(text) if text else {}
        result = document.get("result", {})
        variant = (result.get("variants") or [{}])[0]
        gates = {gate["gateId"]: gate for gate in variant.get("gates", [])}
        job = document.get("job", {}).get("name", "")
        step = {
            "kernel": kernel,
            "exit": code,
            "seconds": round(seconds, 1),
            "ranked": result.get("ranking", {}).get("ranked", False),
            "over": result.get("acceptability", {}).get("over"),
            "regression": gates.get("regression", {}).get("verdict"),
            "ratio": gates.get("regression", {}).get("value"),
            "comparison": variant.get("comparison", {}).get("reason") or gates.get("regression", {}).get("detail"),
            "errors": errors[-3:] if code not in (0, 1) else [],
        }
        accepted, _, _, refusal = m.tui("accept", job, "--note", "a step of the ladder", name=f"accepted.{kernel}.txt")
        step["accepted"] = accepted == 0
        if accepted != 0:
            step["refusal"] = refusal[-3:]
        steps.append(step)
        print(json.dumps(step), flush=True)
    m.tui("champions", "--trail", name="accepted.champions.txt")
    m.tui("leaderboard", name="accepted.leaderboard.txt")
    m.write("accepted.json", steps)
