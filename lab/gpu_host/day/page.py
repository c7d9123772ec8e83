"""Writes README.md of a first day: the result of each step, then the final report."""

import json

from .record import DONE


def write_page(day, steps, record):
    parts = [f"# A first day on {day.device['name']}", *opening(day), "## Steps", steps_table(steps, record)]
    if (day.m.out / "counters.json").exists():
        parts += ["## Counters", *counters_text(json.loads((day.m.out / "counters.json").read_text(encoding="utf8")))]
    final = day.m.work / "final.md"
    if record.is_done("report") and final.exists():
        parts.append(one_level_down(final.read_text(encoding="utf8")))
    else:
        parts += ["## Final report", "Not made: see the step report."]
    (day.m.out / "README.md").write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf8")


def opening(day):
    host, identity = day.host, day.identity()
    told = [
        f"Device {identity['device']} ({day.device['arch']}), driver {identity['driver']}; {host['platform']}; flashcore "
        f"{host['runnerVersion']}, build {identity['build']}. Written by `lab/first-day`; its commands are in commands.txt, "
        "each experiment with all that it found is in jobs/."
    ]
    if day.dry:
        told.append("**A dry run: there was no GPU. Times are the emulator's and no GPU times.**")
    return told


def steps_table(steps, record):
    rows = [["step", "what for", "state", "seconds", "found"]]
    for step in steps:
        kept = record.steps.get(
            step.name, {"state": "not run", "seconds": "", "text": "the run ended before it, or it was not asked for"}
        )
        state = kept["state"] if kept["state"] == DONE else f"**{kept['state']}**"
        rows.append([step.name, step.title, state, str(kept["seconds"]), kept["text"]])
    return table(rows)


def counters_text(report):
    """Lists only the counters that are unknown or unread. counters.json has all of them."""
    rows = report["counters"]
    told = [
        report["whyUnlisted"] or f"`ncu --query-metrics` was asked for {len(rows)} names on {report['arch']}.",
        report["whyUnread"] or f"One launch gave values for {sum(bool(row['read']) for row in rows)} of them.",
    ]
    wrong = [row for row in rows if row["listed"] is False or row["read"] is False]
    if not wrong:
        return told
    words = {True: "yes", False: "**no**", None: "not asked"}
    return [
        *told,
        table(
            [
                ["counter", "ncu lists it", "read"],
                *([f"`{row['counter']}`", words[row["listed"]], words[row["read"]]] for row in wrong),
            ]
        ),
    ]


def table(rows):
    lines = ["| " + " | ".join(plain(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def plain(text):
    """A program's text for a cell of a table, without line breaks and without a bar, which would end the cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def one_level_down(markdown):
    return "\n".join("#" + line if line.startswith("#") else line for line in markdown.splitlines())
