// flashcore_v10: FlashAttention-2 on mma.sync. S and P never leave the registers; K and V come by a cp.async pipeline
// into swizzled shared memory; where the grid would leave SMs idle, the warps of a CTA also divide the keys and merge
// at the end. Heads of Q may share keys. Limits: fp16 or bf16, HEAD_DIM 64 or 128, lengths >= 1, sm_80 or later.
//
// Compared with flashcore_v9: no S, P or O in shared memory and no barrier inside a tile. A warp owns whole rows,
// so that only four lanes exchange a row maximum, and P already has the layout of the next product's A operand.
#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"

// The tilings of the entries. Rows and keys of a CTA's tiles, stages, threads and bytes come from kernel.yaml.
struct D64Rows128 {
  static constexpr int HEAD_DIM = 64, WARPS_Q = 4, WARPS_KV = 1, WARP_Q = LARGE_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = TILE_KEYS, STAGES = RING_STAGES, CTAS_AN_SM = 2;
};
struct D64Rows64 {
  static constexpr int HEAD_DIM = 64, WARPS_Q = 2, WARPS_KV = 2, WARP_Q = MEDIUM_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = TILE_KEYS, STAGES = RING_STAGES, CTAS_AN_SM = 2;
};
struct D64Rows32 {
  static constexpr int HEAD_DIM = 64, WARPS_Q = 2, WARPS_KV = 2, WARP_Q = SMALL_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = TILE_KEYS, STAGES = RING_STAGES, CTAS_AN_SM = 2;
};
struct D128Rows128 {
  static constexpr int HEAD_DIM = 128, WARPS_Q = 4, WARPS_KV = 1, WARP_Q = LARGE_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = TILE_KEYS, STAGES = RING_STAGES, CTAS_AN_SM = 1;
};
struct D128Rows32 {
  static constexpr int HEAD_DIM = 128, WARPS_Q = 2, WARPS_KV = 2, WARP_Q = SMALL_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = SHORT_TILE_KEYS, STAGES = RING_STAGES, CTAS_AN_SM = 2;
};

// Defines an entry. It checks that the manifest launches it with the right number of threads and bytes.
#define FLASHCORE_V10_ENTRY(NAME, CUT, LAUNCHED_BYTES)                                                                 \
  static_assert(register_rows::Tiling<CUT>::THREADS == CTA_THREADS &&                                                  \
                register_rows::Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));                                           \
  extern "C" __global__ void __launch_bounds__(CTA_THREADS, CUT::CTAS_AN_SM)                                           \
      NAME(const Element* Q, const Element* K, const Element* V, Element* O, int S, int Skv, unsigned reciprocal,      \
           float scale, int causal, int diagonal) {                                                                    \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                              \
      register_rows::attention<register_rows::Tiling<CUT>>(Q, K, V, O, {S, Skv, reciprocal, causal, diagonal}, scale); \
  }

FLASHCORE_V10_ENTRY(flashcore_v10_d64_rows128, D64Rows128, D64_ROWS128_BYTES)
FLASHCORE_V10_ENTRY(flashcore_v10_d64_rows64, D64Rows64, D64_ROWS64_BYTES)
FLASHCORE_V10_ENTRY(flashcore_v10_d64_rows32, D64Rows32, D64_ROWS32_BYTES)
FLASHCORE_V10_ENTRY(flashcore_v10_d128_rows128, D128Rows128, D128_ROWS128_BYTES)
FLASHCORE_V10_ENTRY(flashcore_v10_d128_rows32, D128Rows32, D128_ROWS32_BYTES)
