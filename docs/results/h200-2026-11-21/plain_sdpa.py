"""SDPA backends in a CUDA graph of 50 calls, microseconds a call, median of 105 replays in 5 rounds over the backends. Plain PyTorch, nothing of flashcore."""
import json, re, sys
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
B, H, S, D, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", sys.argv[1]).groups()
q, k, v = (torch.randn(int(B), int(H), int(S), int(D), device="cuda", dtype=torch.float16) for _ in range(3))
graphs = {}
for name, kind in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION)):
    with sdpa_kernel(kind):
        call = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal))
        for _ in range(5): call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50): call()
    graphs[name] = graph
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
times = {name: [] for name in graphs}
for _ in range(5):
    for name, graph in graphs.items():
        graph.replay()
        for _ in range(21):
            start.record(); graph.replay(); end.record(); end.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / 50)
print(json.dumps({name: sorted(each)[len(each) // 2] for name, each in times.items()}))
