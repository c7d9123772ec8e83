"""Every kernel of the ladder as an experiment, with its samples."""

import json


def measure(m):
    for kernel in m.options.kernels:
        code, _, text, errors = m.tui("run", kernel, "--json", name=f"run.{kernel}.json", limit=240)
        (m.out / f"run.{kernel}.log").write_text("\n".join(errors) + "\n", encoding="utf8")
        if code in (0, 1) and text:
            summarise(kernel, json.loads(text))
            keep_samples(m, json.loads(text))


def summarise(kernel, document):
    for variant in document["result"]["variants"]:
        print(
            f"  {kernel} {variant.get('label')} fallback={variant.get('fallback', False)} findings={[f['kind'] for f in variant.get('findings', [])]}"
        )
        for result in variant.get("benchmarks", []):
            latency = result["latency"]
            print(
                f"    {result['mode'][12:]:5} p50 {latency['p50Us']:.2f} [{latency['p50LowUs']:.2f} {latency['p50HighUs']:.2f}] n={latency['samples']} dropped={latency.get('dropped', 0)} {result.get('stopReason')} valid={result.get('valid')} {result.get('invalidReason', '')} "
                f"empty={result.get('eventOverheadUs', 0):.2f} missing={result.get('sdpaMissing', '')} check={result.get('outputCheck')}"
            )
            print(
                "      "
                + "; ".join(
                    f"{b['name']} {b['latency']['p50Us']:.2f} n={b['latency']['samples']} x{b['speedup']:.3f} [{b['speedupLow']:.3f} {b['speedupHigh']:.3f}]"
                    for b in result.get("sdpa", [])
                )
            )
            print("      " + json.dumps(result.get("conditions", {})))
        profile = variant.get("profile", {})
        print(
            "    profile",
            profile.get("verdict"),
            profile.get("reason", ""),
            profile.get("bottleneck", ""),
            {m["name"]: round(m.get("value", 0), 2) for m in profile.get("metrics", [])},
        )
        print(
            "    gates",
            {
                g["gateId"]: (g["verdict"][8:], round(g["value"], 3) if "value" in g else g.get("detail", "")[:60])
                for g in variant.get("gates", [])
            },
        )


def keep_samples(m, document):
    (m.out / "samples").mkdir(exist_ok=True)
    for variant in document["result"]["variants"]:
        for result in variant.get("benchmarks", []):
            artifact = result.get("samples")
            if artifact:
                m.tui(
                    "artifact",
                    artifact["sha256"],
                    "--output",
                    m.out
                    / "samples"
                    / f"{document['job']['kernelId'] if 'kernelId' in document['job'] else 'kernel'}.{variant['label'].split(' ')[0]}.{artifact['fileName']}",
                    limit=20,
                )
