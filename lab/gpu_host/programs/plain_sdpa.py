"""Measures SDPA's backends with PyTorch alone, without flashcore: microseconds per call in a CUDA graph of 50 calls.

A figure is the median of 105 replays in 5 rounds over the backends.
"""

import json
import re
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
CALLS = 50

B, H, S, D, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", sys.argv[1]).groups()
# Uses only one stream, because calls in a second stream make every graph of the process slower (docs/measuring.md).
torch.cuda.set_stream(torch.cuda.Stream())
q, k, v = (torch.randn(int(B), int(H), int(S), int(D), device="cuda", dtype=torch.float16) for _ in range(3))


def call():
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))


def graph_of(backend):
    with sdpa_kernel(backend):
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            for _ in range(CALLS):
                call()
    return graph


graphs = {name: graph_of(backend) for name, backend in BACKENDS.items()}
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
times = {name: [] for name in graphs}
for _ in range(5):
    for name, graph in graphs.items():
        graph.replay()
        for _ in range(21):
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / CALLS)
print(json.dumps({name: sorted(each)[len(each) // 2] for name, each in times.items()}))
