#!/usr/bin/env python3
"""Compares a kernel exported to PyTorch with PyTorch's attention in fp32, and writes the largest differences as JSON.

python3 triton_export.py FILE SHAPE…
"""

import importlib.util
import json
import re
import sys

import torch


def main():
    spec = importlib.util.spec_from_file_location("exported", sys.argv[1])
    exported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(exported)
    report = {}
    for shape in sys.argv[2:]:
        *extents, causal = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)(c?)", shape).groups()
        q, k, v = (torch.randn(*map(int, extents), device="cuda").half() for _ in range(3))
        out = exported.attention(q, k, v, causal == "c")
        exact = torch.nn.functional.scaled_dot_product_attention(
            q.float(), k.float(), v.float(), is_causal=causal == "c"
        )
        report[shape] = (exact - out).abs().max().item()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
