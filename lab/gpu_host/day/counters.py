"""Checks the counters that the runner requests from ncu on this device: which names ncu knows, and which of them it can
read."""

import csv
import io
import json
import re

from measurement import ROOT

from . import NotMeasured, StepFailed, telling_line

# This kernel runs in microseconds on every device that flashcore supports.
PROFILED = "flashcore_v6"
SHAPE = "1x1x128x64"
# The prefix of a launch's properties, which ncu reads but does not list.
UNLISTED = "launch__"


def check_counters(day):
    """Writes counters.json. A name that ncu does not know is listed as unknown and never replaced."""
    ncu = next(tool for tool in day.host["tools"] if tool["name"] == "ncu")
    if day.dry:
        raise NotMeasured("it needs a GPU: the emulator has no hardware counters")
    if "missing" in ncu:
        raise NotMeasured(ncu["missing"])
    asked = asked_for(day)
    listed, why_unlisted = names_listed(day)
    values, why_unread = values_read(day)
    rows = [
        {
            "counter": name,
            "listed": None if listed is None or name.startswith(UNLISTED) else name.split(".")[0] in listed,
            "read": None if values is None else name in values,
        }
        for name in asked
    ]
    day.m.write(
        "counters.json",
        {"arch": day.device["arch"], "whyUnlisted": why_unlisted, "whyUnread": why_unread, "counters": rows},
    )
    unknown = [row["counter"] for row in rows if row["listed"] is False]
    unread = [row["counter"] for row in rows if row["read"] is False]
    told = [
        why_unlisted or f"ncu lists {'all' if not unknown else 'not all'} of {len(rows)} names",
        why_unread or f"{len(rows) - len(unread)} of {len(rows)} read",
    ]
    if unknown or unread:
        told.append(f"not known or not read: {', '.join(dict.fromkeys(unknown + unread))}")
    return "; ".join(told)


def asked_for(day):
    code, _, text, errors = day.m.run([day.m.node, ROOT / "lab/dist/counter-names.js", day.device["arch"]])
    if code != 0:
        raise StepFailed(telling_line(errors))
    return json.loads(text)


def names_listed(day):
    """The base names (without .sum, .avg …) that ncu lists for the device, or the reason why it lists none."""
    code, _, text, errors = day.m.run(["ncu", "--query-metrics"], limit=60)
    names = names_in(text)
    if code == 0 and names:
        return names, ""
    return (
        None,
        f"ncu --query-metrics: {telling_line(text.splitlines()) or telling_line(errors) or f'exit status {code}'}",
    )


def values_read(day):
    """The names of the counters for which ncu read a value, or the reason why there are none."""
    report = day.m.work / "counters.ncu-rep"
    document = day.json_of("profile", PROFILED, "--shape", SHAPE, "--save", report, name="counters.profile.json")
    profile = document["result"]["variants"][0].get("profile", {})
    if not report.exists():
        return None, f"not read: {profile.get('reason') or document['job'].get('summary', 'no report')}"
    code, _, text, errors = day.m.run(
        ["ncu", "--import", report, "--csv", "--page", "raw", "--print-units", "base"], name="counters.csv"
    )
    values = read_in(text)
    if code != 0 or not values:
        return None, f"not read: {telling_line(errors) or 'an empty report'}"
    return values, ""


def names_in(listing):
    """Parses `ncu --query-metrics`: one line per metric, its base name first."""
    return {line.split()[0] for line in listing.splitlines() if re.match(r"\w+__\w+(\s|$)", line)}


def read_in(page):
    """Parses ncu's raw page as CSV: names, units, and a row per launch. ncu could not read a value that is "n/a" or
    empty."""
    rows = list(csv.reader(io.StringIO(page)))
    return {name for name, value in zip(rows[0], rows[2]) if value not in ("", "n/a")} if len(rows) > 2 else set()
