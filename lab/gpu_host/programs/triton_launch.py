#!/usr/bin/env python3
"""Times examples/kernels/triton_attention with Triton's own launcher, in a CUDA graph.

  python3 triton_launch.py FOLDER CAPABILITY CUBIN SHAPE…

FOLDER has attention.py, and CUBIN gets the machine code that is launched. Standard output is a JSON object: for each shape (BxHxSx64, `c` appended when causal) the
median and the 2.5th and 97.5th percentile of 200 replays, in microseconds per launch, and the largest difference from
PyTorch's attention in fp32. A replay has 50 launches. As in flashcore's hot measurement, each launch has its own
output, and the launches cycle through as many sets of inputs as fit in 24 MiB.
"""

import json
import pathlib
import sys

import torch

LAUNCHES, REPLAYS = 50, 200
OUTPUTS = LAUNCHES
INPUT_BYTES = 24 * 2**20


def main():
    folder, capability, cubin, *shapes = sys.argv[1:]
    sys.path.insert(0, folder)
    import attention

    kernel = attention.compiled_for(int(capability))
    pathlib.Path(cubin).write_bytes(kernel.asm["cubin"])
    report = {}
    for shape in shapes:
        causal = shape.endswith("c")
        B, H, S, D = (int(each) for each in shape.rstrip("c").split("x"))
        inputs = [
            [torch.randn(B, H, S, D, device="cuda").half() for _ in range(3)]
            for _ in range(max(1, min(LAUNCHES, INPUT_BYTES // (B * H * S * D * 6))))
        ]
        report[shape] = times_of(kernel, attention.CONSTANTS, inputs, causal)
    print(json.dumps(report))


def times_of(kernel, constants, inputs, causal):
    B, H, S, D = inputs[0][0].shape
    outputs = [torch.empty(B, H, S, D, device="cuda", dtype=torch.half) for _ in range(OUTPUTS)]
    grid = (-(-S // constants["BLOCK_M"]), B * H, 1)

    def launch(index):
        kernel[grid](
            *inputs[index % len(inputs)], outputs[index % len(outputs)], S, D**-0.5, int(causal), *constants.values()
        )

    launch(0)
    q, k, v = (each.float() for each in inputs[0])
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    difference = (exact - outputs[0]).abs().max().item()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(LAUNCHES):
            launch(index)
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPLAYS)]
    for _ in range(10):
        graph.replay()
    for start, end in events:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    us = sorted(1000 * start.elapsed_time(end) / LAUNCHES for start, end in events)
    return {
        "p50_us": us[REPLAYS // 2],
        "low_us": us[REPLAYS // 40],
        "high_us": us[-REPLAYS // 40],
        "input_sets": len(inputs),
        "largest_difference": difference,
    }


if __name__ == "__main__":
    main()
