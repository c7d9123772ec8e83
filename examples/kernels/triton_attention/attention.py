"""Attention's forward pass in Triton. `python attention.py` rewrites attention.ptx next to it; needs Triton, no GPU.

`python attention.py 90` writes it for compute capability 9.0; kernel.yaml then needs `arch: sm_90a` instead of
`min_arch`, and the shared_bytes that the program prints.
"""

import pathlib
import re
import sys

import triton
import triton.language as tl

CONSTANTS = {"BLOCK_M": 64, "BLOCK_N": 64, "D": 64}


@triton.jit
def attention(Q, K, V, Out, S, scale, causal, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * S * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, D)
    at = head + rows[:, None] * D + columns[None, :]
    q = tl.load(Q + at, mask=rows[:, None] < S, other=0.0)
    row_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    row_sum = tl.zeros([BLOCK_M], tl.float32)
    o = tl.zeros([BLOCK_M, D], tl.float32)
    scale_log2 = scale * 1.4426950408889634
    end = S
    if causal != 0:
        end = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_M)
    for first in range(0, end, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        tile = head + keys[:, None] * D + columns[None, :]
        k = tl.load(K + tile, mask=keys[:, None] < S, other=0.0)
        v = tl.load(V + tile, mask=keys[:, None] < S, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale_log2
        seen = (keys[None, :] < S) & ((causal == 0) | (keys[None, :] <= rows[:, None]))
        s = tl.where(seen, s, float("-inf"))
        tile_max = tl.maximum(row_max, tl.max(s, 1))
        shrink = tl.exp2(row_max - tile_max)
        p = tl.exp2(s - tile_max[:, None])
        row_sum = row_sum * shrink + tl.sum(p, 1)
        o = o * shrink[:, None] + tl.dot(p.to(tl.float16), v)
        row_max = tile_max
    tl.store(Out + at, (o / row_sum[:, None]).to(tl.float16), mask=rows[:, None] < S)


def compiled_for(capability):
    """The kernel for a compute capability, 80 or 90: Triton's object, with `asm["ptx"]` and `metadata`."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"Q": "*fp16", "K": "*fp16", "V": "*fp16", "Out": "*fp16", "S": "i32", "scale": "fp32", "causal": "i32"}
    # Tensors start at multiples of 16 bytes.
    aligned = {(index,): [["tt.divisibility", 16]] for index in range(4)}
    source = ASTSource(attention, signature | dict.fromkeys(CONSTANTS, "constexpr"), CONSTANTS, aligned)
    options = {"num_warps": 4, "num_stages": 2}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


if __name__ == "__main__":
    compiled = compiled_for(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
    # Removes folders from the file's name, so that the PTX is the same wherever it is made.
    ptx = re.sub(r'(\.file\t\d+ )".*/([^/"]+)"', r'\1"\2"', compiled.asm["ptx"])
    pathlib.Path(__file__).with_name("attention.ptx").write_text(ptx, encoding="utf8")
    print(f"block: {32 * compiled.metadata.num_warps} threads, shared_bytes: {compiled.metadata.shared}")
