"""
Runs kernels of every problem except attention, and kernels of attention's other forms, as ranked experiments in fp16
and bf16. Each is accepted over its problem's champion, if there is one. Then runs attention's other forms one by one.
--kernels names the only kernels to run.
"""

import sys

from measurement import ROOT, shape_options

EXAMPLES = [
    "decode_rows",
    "decode_split",
    "decode_mma",
    "decode_mma_paged",
    "decode_hopper",
    "decode_hopper_paged",
    "decode_paged",
    "varlen_rows",
    "backward_rows",
    "backward_mma",
    "backward_hopper",
    "mla_rows",
    "mla_hopper",
    "selected_rows",
    "merge_rows",
    "rmsnorm",
    "softmax_rows",
    "gemm_tiles",
    "gqa_rows",
]
FORMS = [
    "2x32x512x64,Hkv=8",
    "2x8x256x64,Skv=1000,causal=2",
    "1x8x1024x64c,window=128",
    "1x8x512x64,softcap=30",
    "1x64x512x64c,Hkv=8,window=127,sinks=1",
    "2x8x512x64c,alibi=1",
    "2x8x512x64,Hkv=2,bias=1",
]
PROBLEMS = [
    "attention_decode",
    "attention_decode_paged",
    "attention_varlen",
    "attention_backward",
    "mla_decode",
    "attention_selected",
    "merge",
    "rmsnorm",
    "softmax",
    "gemm",
    "attention",
]


def problems(m):
    chosen = [kernel for kernel in EXAMPLES if kernel in m.options.kernels]
    for kernel in chosen or EXAMPLES:
        for dtype in ("fp16", "bf16"):
            parameters = ["--set", "BF16=1"] if dtype == "bf16" else []
            name = f"problems.{kernel}.{dtype}"
            document = run(m, name, ["run", f"examples/kernels/{kernel}", *parameters])
            job = document.get("job", {}).get("name", "")
            over = document.get("result", {}).get("acceptability", {}).get("over") or "none"
            code, _, _, refusal = m.tui(
                "accept", job, "--over", over, "--note", "the fastest", name=f"{name}.accept.txt"
            )
            print(f"  accepted: {code == 0} {refusal[-200:] if code else ''}", flush=True)
    if "gqa_rows" in (chosen or EXAMPLES):
        run(m, "problems.forms", ["bench", "examples/kernels/gqa_rows", *shape_options(FORMS)])
    if chosen:
        return
    for problem in PROBLEMS:
        m.tui("leaderboard", "--problem", problem, name=f"problems.{problem}.leaderboard.txt")


def oracle(m):
    """Compares the fp64 oracle of attention, its gradients and merge with plain PyTorch in fp64 on this GPU."""
    program = m.keep_program("oracle_beside_torch.py")
    code, _, text, errors = m.run(
        [sys.executable, program, ROOT / "kernels", "--out", m.out / "oracle.json"], name="oracle.txt"
    )
    print(text or errors[-8:])
    if code != 0:
        raise RuntimeError("the oracle and PyTorch differ")


def run(m, name, command):
    code, seconds, document, _ = m.document(*command, name=f"{name}.json", limit=240)
    print(f"  {name}: exit {code}, {seconds:.1f} s, {document.get('job', {}).get('summary')}", flush=True)
    variant = (document.get("result", {}).get("variants") or [{}])[0]
    for finding in variant.get("findings", []):
        print(f"    {finding['message']}", flush=True)
    for benchmark in variant.get("benchmarks", []):
        latency = benchmark["latency"]
        print(
            f"    {benchmark['shape'].get('values')} {benchmark['mode'][12:]} p50 {latency['p50Us']:.2f} us"
            f" [{latency['p50LowUs']:.2f} {latency['p50HighUs']:.2f}] n={latency['samples']}"
            f" launches {benchmark['launchesPerSample']} {benchmark.get('tflops', 0):.2f} TFLOP/s"
            f" {benchmark.get('gbPerSecond', 0):.0f} GB/s least {benchmark.get('leastUs', 0):.2f}"
            f" valid={benchmark.get('valid')} {benchmark.get('invalidReason', '')}: {benchmark['outputCheck']}",
            flush=True,
        )
    return document
