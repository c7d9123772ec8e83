"""Kernels of every problem beside attention, and of attention's other forms, as experiments in fp16 and bf16."""

import json

EXAMPLES = {
    "rmsnorm": [],
    "softmax_rows": [],
    "gemm_tiles": [],
    "gqa_rows": [
        "2x32x512x64,Hkv=8",
        "2x8x256x64,Skv=1000,causal=2",
        "1x8x1024x64c,window=128",
        "1x8x512x64,softcap=30",
    ],
}
PROBLEMS = ["rmsnorm", "softmax", "gemm"]


def measure(m):
    for kernel, shapes in EXAMPLES.items():
        for dtype in ("fp16", "bf16"):
            parameters = ["--set", "BF16=1"] if dtype == "bf16" else []
            name = f"problems.{kernel}.{dtype}"
            folder = f"examples/kernels/{kernel}"
            listed = [each for shape in shapes for each in ("--shape", shape)]
            if shapes:
                m.tui("verify", folder, *parameters, *listed, "--json", name=f"{name}.verify.json", limit=240)
            command = ["bench", folder, *listed] if shapes else ["run", folder]
            code, seconds, text, _ = m.tui(*command, *parameters, "--json", name=f"{name}.json", limit=240)
            document = json.loads(text) if text else {}
            print(f"  {name}: exit {code}, {seconds:.1f} s, {document.get('job', {}).get('summary')}", flush=True)
            for benchmark in (document.get("result", {}).get("variants") or [{}])[0].get("benchmarks", []):
                latency = benchmark["latency"]
                print(
                    f"    {benchmark['shape'].get('values')} {benchmark['mode'][12:]} p50 {latency['p50Us']:.2f} us"
                    f" [{latency['p50LowUs']:.2f} {latency['p50HighUs']:.2f}] n={latency['samples']}"
                    f" launches {benchmark['launchesPerSample']} {benchmark.get('tflops', 0):.2f} TFLOP/s"
                    f" {benchmark.get('gbPerSecond', 0):.0f} GB/s least {benchmark.get('leastUs', 0):.2f}"
                    f" valid={benchmark.get('valid')} {benchmark.get('invalidReason', '')}: {benchmark['outputCheck']}",
                    flush=True,
                )
    for problem in PROBLEMS:
        m.tui("leaderboard", "--problem", problem, name=f"problems.{problem}.leaderboard.txt")
