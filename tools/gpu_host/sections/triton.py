"""
Kernels whose source is Python that Triton compiles: a search over the parameters of one, by `fa-tui tune` and by `fa-tui
evolve` with the proposer that has no model, and ncu's counters of five, which the emulator's counters are compared with.
"""

import json

from measurement import ROOT

FIXTURES = ROOT / "test/fixtures/triton"
SEARCHED = FIXTURES / "attention"
SEARCH_SHAPES = ["2x8x512x64", "4x16x2048x64c"]
# Five kernels, each a kernel folder with its parameters and a small shape that the emulator counts in seconds.
COUNTED = {
    "attention": ("attention", [], "1x2x256x64"),
    "attention_narrow": ("attention", ["BLOCK_M=32", "NUM_WARPS=4"], "1x2x256x64c"),
    "softmax": ("softmax", [], "rows=64,N=512"),
    "matmul": ("matmul", [], "M=128,N=128,K=128"),
    "matmul_wide": ("matmul", ["BLOCK=64", "NUM_WARPS=4"], "M=128,N=256,K=128"),
}
COUNTERS = [
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
]


def measure(m):
    for name, (kernel, parameters, shape) in COUNTED.items():
        options = [*(each for value in parameters for each in ("--set", value)), "--shape", shape]
        metrics = [each for counter in COUNTERS for each in ("--metric", counter)]
        m.tui("profile", FIXTURES / kernel, *options, *metrics, "--json", name=f"triton.profile.{name}.json", limit=120)

    shapes = [each for shape in SEARCH_SHAPES for each in ("--shape", shape)]
    _, seconds, text, errors = m.tui(
        "tune", SEARCHED, *shapes, "--budget", "24", "--budget", "3m", "--json", name="triton.tune.json", limit=400
    )
    print(f"  tune: {seconds:.0f} s, {json.loads(text)['job']['summary'] if text else errors[-3:]}", flush=True)

    proposer = f"{m.node} examples/proposers/parameters.mjs"
    _, seconds, text, errors = m.tui(
        *("evolve", SEARCHED, "--proposer", proposer, "--trials", "8", "--config", "free", "--seed", "1"),
        *("--shape", SEARCH_SHAPES[0], "--json"),
        name="triton.evolve.json",
        limit=500,
    )
    print(f"  evolve: {seconds:.0f} s, exit text {text[-300:] if text else errors[-3:]}", flush=True)
