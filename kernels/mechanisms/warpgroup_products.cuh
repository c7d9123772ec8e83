// The products of a stripe of 64 query rows with a tile of 32 or 64 keys on wgmma (sm_90a), for stream_decode.cuh: one
// warpgroup reads the tile once from shared memory, where four warps on mma.sync would each read all of it. Tiles lie in
// shared memory as panels of 64 columns, as wgmma reads them. Accumulators have the layout of mma's: a warp has 16 rows.
#pragma once
#include "mechanisms/register_rows.cuh"
#include "primitives/tma.cuh"
#include "primitives/wgmma.cuh"

namespace warpgroup_products {

constexpr int PANEL_ROW_BYTES = 128, STEPS_OF_PANEL = 4;

// Where the 16-byte chunk of a row is in a tile of ROWS rows.
template <int ROWS>
__device__ __forceinline__ uint32_t offset(int row, int chunk) {
  return chunk / 8 * (ROWS * PANEL_ROW_BYTES) + swizzled_offset<PANEL_ROW_BYTES>(row, chunk % 8);
}

// A fragment array as wgmma takes it.
template <int TILES>
__device__ __forceinline__ float (&flat(float (&fragments)[1][TILES][4]))[4 * TILES] {
  return reinterpret_cast<float (&)[4 * TILES]>(fragments);
}

// S = Q K^T for one tile.
template <class T>
__device__ __forceinline__ void scores(float (&S_rmem)[1][T::KV_TILES][4], uint32_t Q_smem, uint32_t K_smem) {
  static_assert(T::BLOCK_Q == 64 && (T::BLOCK_KV == 64 || T::BLOCK_KV == 32));
  const uint64_t Q_start = wgmma_descriptor(Q_smem), K_start = wgmma_descriptor(K_smem);
  float (&S)[T::BLOCK_KV / 2] = flat(S_rmem);
  wgmma_forget(S);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step) {
    const int panel = step / STEPS_OF_PANEL * PANEL_ROW_BYTES, in_panel = step % STEPS_OF_PANEL * 32;
    const uint64_t Q = wgmma_descriptor_after(Q_start, panel * T::BLOCK_Q + in_panel);
    const uint64_t K = wgmma_descriptor_after(K_start, panel * T::BLOCK_KV + in_panel);
    if constexpr (T::BLOCK_KV == 64)
      wgmma_m64n64k16_ss(S, Q, K, step > 0);
    else
      wgmma_m64n32k16_ss(S, Q, K, step > 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(S);
}

// P = exp2(S - max), O += P V, and the row sums as in register_rows::weigh_values.
template <class T>
__device__ __forceinline__ void weigh_values(float (&S_rmem)[1][T::KV_TILES][4], float (&O_rmem)[1][T::D_TILES][4],
                                             const float (&row_max)[1][2], float (&row_sum)[1][4], uint32_t V_smem,
                                             float scale_log2) {
  uint32_t P_rmem[T::BLOCK_KV / 16][4];
  register_rows::weights<T>(P_rmem, S_rmem[0], row_max[0], scale_log2);
  const uint64_t V_start = wgmma_descriptor(V_smem, T::BLOCK_KV * PANEL_ROW_BYTES);
  float (&O)[T::HEAD_DIM / 2] = flat(O_rmem);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::BLOCK_KV / 16; ++step) {
    const uint64_t V = wgmma_descriptor_after(V_start, step * 16 * PANEL_ROW_BYTES);
    if constexpr (T::HEAD_DIM == 128)
      wgmma_m64n128k16_rs_bt(O, P_rmem[step], V, true);
    else
      wgmma_m64n64k16_rs_bt(O, P_rmem[step], V, true);
  }
  wgmma_commit();
#pragma unroll
  for (int step = 0; step < T::BLOCK_KV / 16; ++step)
    mma_m16n8k16_f32<ELEMENT_IS_BF16>(row_sum[0], P_rmem[step], ELEMENT2_ONES, ELEMENT2_ONES);
  wgmma_wait<0>();
  wgmma_hold(O);
}

}  // namespace warpgroup_products
