"""Candidate against champion, and the champion against itself, in interleaved blocks in one job; on several shapes too."""

import json

from plan import CANONICAL


def measure(m):
    several = [each for shape in ("2x8x512x64", "1x8x512x64c", "4x8x512x64") for each in ("--shape", shape)]
    for candidate, champion, options in [
        ("flashcore_v10", "flashcore_v10", []),
        ("flashcore_v10", "flashcore_v9", []),
        ("flashcore_v9", "flashcore_v10", []),
        ("flashcore_v11", "flashcore_v10", several),
    ]:
        name = f"ab.{candidate}.{champion}"
        code, seconds, text, errors = m.tui(
            "bench",
            candidate,
            "--champion",
            champion,
            "--json",
            *(options or ["--shape", CANONICAL]),
            name=f"{name}.json",
            limit=180,
        )
        if not text:
            raise RuntimeError(f"{name}: {errors[-3:]}")
        document = json.loads(text)
        m.tui("watch", document["job"]["name"].split("/")[1], "--quiet", name=f"{name}.txt", limit=30)
        print_comparison(m, document["result"]["variants"][0].get("comparison", {}), code, seconds)


def print_comparison(m, comparison, code, seconds):
    def ratio(value):
        return f"{value['ratio']:.4f} [{value['low']:.4f} {value['high']:.4f}]" if value else "-"

    print(f"  {comparison.get('verdict')} exit {code} in {seconds:.1f} s: {comparison.get('reason')}")
    for shape in comparison.get("shapes", []):
        place = shape["shape"]
        print(
            f"    S={place['sequenceLength']} B={place['batch']} time {ratio(shape.get('time'))} cycles {ratio(shape.get('cycles'))} itself {ratio(shape.get('selfTime'))} cycles {ratio(shape.get('selfCycles'))} "
            f"blocks {shape.get('blocks')} of itself {shape.get('selfBlocks')} dropped {shape.get('droppedBlocks', 0)} {shape.get('stopReason')} clock {shape.get('conditions', {}).get('smClockMhz')} {shape.get('clockSource')}"
        )
        (m.out / "samples").mkdir(exist_ok=True)
        for artifact in shape.get("samples", []):
            m.tui(
                "artifact",
                artifact["sha256"],
                "--output",
                m.out
                / "samples"
                / f"ab.{comparison['candidate']['kernelId']}.{comparison['champion']['kernelId']}.{artifact['fileName']}",
                limit=20,
            )
