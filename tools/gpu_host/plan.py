"""What is measured: kernels and shapes."""

CANONICAL = "2x8x512x64"
KERNELS = ["fa_v1_baseline", "fa_v2_wmma", "flashcore_v5", "fa_s512_v3", "fa_s512_v3_wmma", "fa_tc_s512"] + [
    f"flashcore_v{step}" for step in range(6, 13)
]
# The kernels that should win, and their shapes: the seven parity shapes, then the large ones.
FASTEST = ["flashcore_v10", "flashcore_v11", "flashcore_v12"]
SHAPES = ["1x8x512x64", "2x8x512x64", "1x8x512x64c", "2x8x512x64c", "1x4x128x64", "1x16x256x64", "4x8x512x64"]
# These run at the power limit, where the clock varies, so narrow intervals need more samples.
LARGE_SHAPES = ["4x16x2048x64c", "4x16x2048x128", "2x16x4096x64c"]
OVERLAP_KERNELS = ["fa_v2_wmma", "flashcore_v6", "flashcore_v9", "flashcore_v10", "flashcore_v11", "flashcore_v12"]
# flashcore_v6 compiled by hand, with the values that its kernel.yaml gives the compiler (a static_assert keeps them in
# step).
V6_DEFINES = [
    "-DUSE_WMMA=1",
    "-DBLOCK_Q=64",
    "-DBLOCK_KV=64",
    "-DNUM_THREADS=128",
    "-DROW_STRIDE=72",
    "-DSMEM_BYTES=73728",
]
