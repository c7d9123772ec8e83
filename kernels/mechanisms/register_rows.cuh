// FlashAttention-2 on mma.sync: S and P never leave the registers; K and V come by a cp.async pipeline into swizzled
// shared memory; the warps of a CTA may divide the keys, too, and merge at the end. fp16 or bf16, HEAD_DIM 64 or 128, any
// lengths, sm_80 or later. A kernel says how a CTA is cut; Q and O are [heads][S][HEAD_DIM], K and V
// [heads / group][Skv][HEAD_DIM].
#pragma once
#include "attention_form.cuh"
#include "element.cuh"
#include "merge_parts.cuh"
#include "primitives/barrier.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"

namespace register_rows {

constexpr int WARP = 32, MMA_M = 16, MMA_N = 8, MMA_K = 16;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float NO_ROW_MAX = -1e30f;  // below every realistic logit, and finite: (-inf) - NO_ROW_MAX is not NaN

// The constants that follow from a CTA's tiling CUT: CUT::WARPS_Q x CUT::WARPS_KV warps; each takes WARP_Q query rows
// and every WARPS_KV-th tile of BLOCK_KV keys.
template <class CUT>
struct Tiling : CUT {
  using CUT::HEAD_DIM, CUT::WARPS_Q, CUT::WARPS_KV, CUT::WARP_Q, CUT::BLOCK_KV, CUT::STAGES;
  static constexpr int BLOCK_Q = WARPS_Q * WARP_Q;
  static constexpr int GROUP_THREADS = WARPS_Q * WARP;  // the warps that share a tile of K and V
  static constexpr int THREADS = GROUP_THREADS * WARPS_KV;
  static constexpr int M_TILES = WARP_Q / MMA_M, KV_TILES = BLOCK_KV / MMA_N, D_TILES = HEAD_DIM / MMA_N,
                       D_STEPS = HEAD_DIM / MMA_K;
  static constexpr int ROW_BYTES = HEAD_DIM * 2;
  static constexpr int Q_BYTES = BLOCK_Q * ROW_BYTES, KV_BYTES = BLOCK_KV * ROW_BYTES;
  static constexpr int STAGE_BYTES = 2 * KV_BYTES;  // K, then V
  static constexpr int GROUP_BYTES = STAGES * STAGE_BYTES;
  static constexpr int SMEM_BYTES = Q_BYTES + WARPS_KV * GROUP_BYTES;
  static constexpr bool Q_IN_REGISTERS = M_TILES * D_STEPS <= 8;  // two stripes of 128 columns would take 64 registers
  // One vote can spare a tile that raises no row's maximum the pass over O. It cuts the tile's code in two: 64 columns
  // are 1 to 4 % faster without (H200, S = 512), 128 columns spill without.
  static constexpr bool SKIP_RESCALE = HEAD_DIM == 128;
};

// Starts the copies of ROWS rows into a swizzled tile; rows past the sequence's end become zeros.
template <int ROWS, int HEAD_DIM, int THREADS>
__device__ __forceinline__ void load_rows(uint32_t tile_smem, const Element* rows, int first_row, int S, int thread) {
  constexpr int CHUNKS = HEAD_DIM / 8, ROWS_A_PASS = THREADS / CHUNKS;
  const int chunk = thread % CHUNKS;
#pragma unroll
  for (int pass = 0; pass < ROWS; pass += ROWS_A_PASS) {
    const int row = pass + thread / CHUNKS;
    if (ROWS % ROWS_A_PASS == 0 || row < ROWS)
      cp_async_16(tile_smem + swizzled_offset<HEAD_DIM * 2>(row, chunk),
                  rows + size_t(first_row + row) * HEAD_DIM + chunk * 8, first_row + row < S);
  }
}

// Synchronises the warps that share KV tiles.
template <class T>
__device__ __forceinline__ void group_barrier(int group) {
  if constexpr (T::WARPS_KV == 1)
    __syncthreads();
  else if constexpr (T::WARPS_Q == 1)
    __syncwarp();
  else
    named_barrier_sync(1 + group, T::GROUP_THREADS);
}

template <class T>
__device__ __forceinline__ void load_Q_fragments(uint32_t (&Q_rmem)[4], uint32_t Q_smem, int row, int step, int lane) {
  const uint32_t offset = swizzled_offset<T::ROW_BYTES>(row + (lane & 15), 2 * step + (lane >> 4));
  ldmatrix_x4(Q_rmem[0], Q_rmem[1], Q_rmem[2], Q_rmem[3], Q_smem + offset);
}

// S = Q K^T for one tile.
template <class T>
__device__ __forceinline__ void scores(float (&S_rmem)[T::M_TILES][T::KV_TILES][4],
                                       const uint32_t (&Q_rmem)[T::M_TILES][T::D_STEPS][4], uint32_t Q_smem,
                                       uint32_t K_smem, int warp_row, int lane) {
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step) {
    uint32_t A_rmem[T::M_TILES][4];
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m) {
      if constexpr (T::Q_IN_REGISTERS) {
#pragma unroll
        for (int i = 0; i < 4; ++i) A_rmem[m][i] = Q_rmem[m][step][i];
      } else {
        load_Q_fragments<T>(A_rmem[m], Q_smem, warp_row + m * MMA_M, step, lane);
      }
    }
#pragma unroll
    for (int n = 0; n < T::KV_TILES; n += 2) {
      uint32_t K_rmem[4];  // 16 keys x 16 of the head dimension
      const int row = n * MMA_N + (lane & 7) + ((lane >> 4) << 3), chunk = 2 * step + ((lane >> 3) & 1);
      ldmatrix_x4(K_rmem[0], K_rmem[1], K_rmem[2], K_rmem[3], K_smem + swizzled_offset<T::ROW_BYTES>(row, chunk));
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m) {
        mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_rmem[m][n], A_rmem[m], K_rmem[0], K_rmem[1]);
        mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_rmem[m][n + 1], A_rmem[m], K_rmem[2], K_rmem[3]);
      }
    }
  }
}

// Keys that a row may not see (past the end, or later than the row) score minus infinity.
template <class T>
__device__ __forceinline__ void mask_scores(float (&S_rmem)[T::M_TILES][T::KV_TILES][4], int first_row, int first_key,
                                            const AttentionForm& form, int lane) {
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + m * MMA_M + (lane >> 2) + (i >> 1) * 8;
      const int keys = form.keys_before(row + 1) - first_key - 2 * (lane & 3) - (i & 1);
#pragma unroll
      for (int n = 0; n < T::KV_TILES; ++n)
        if (n * MMA_N >= keys) S_rmem[m][n][i] = -INFINITY;
    }
}

// Raises the running row maxima (log2 units) where this tile outgrows them, and brings O and the row sums to the new
// scale. Letting P grow to 2^8 before rescaling saved 5 to 7 % at S >= 2048 (H200), but then a row's greatest weight is
// no longer exactly 1 and its rounding shows: max error 2.3e-4 instead of 1.5e-4 at S = 512 on N(0,1).
template <class T>
__device__ __forceinline__ void raise_row_max(const float (&S_rmem)[T::M_TILES][T::KV_TILES][4],
                                              float (&O_rmem)[T::M_TILES][T::D_TILES][4],
                                              float (&row_max)[T::M_TILES][2], float (&row_sum)[T::M_TILES][4],
                                              float scale_log2) {
  float tile_max[T::M_TILES][2];
  bool outgrown = false;
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      tile_max[m][h] = fmaxf(S_rmem[m][0][2 * h], S_rmem[m][0][2 * h + 1]);
#pragma unroll
      for (int n = 1; n < T::KV_TILES; ++n)
        tile_max[m][h] = fmaxf(tile_max[m][h], fmaxf(S_rmem[m][n][2 * h], S_rmem[m][n][2 * h + 1]));
      tile_max[m][h] *= scale_log2;
      outgrown |= tile_max[m][h] > row_max[m][h];
    }
  if constexpr (T::SKIP_RESCALE)
    if (!__any_sync(0xffffffffu, outgrown)) return;
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float raised = fmaxf(tile_max[m][h], row_max[m][h]);
      raised = fmaxf(raised, __shfl_xor_sync(0xffffffffu, raised, 1));
      raised = fmaxf(raised, __shfl_xor_sync(0xffffffffu, raised, 2));
      const float alpha = exp2_approx(row_max[m][h] - raised);
      row_max[m][h] = raised;
      row_sum[m][2 * h] *= alpha;
#pragma unroll
      for (int n = 0; n < T::D_TILES; ++n) O_rmem[m][n][2 * h] *= alpha, O_rmem[m][n][2 * h + 1] *= alpha;
    }
}

// P = exp2(S - max), rounded to elements, as A operands: those of 16 keys each from S's tiles `first` on.
template <class T, int STEPS>
__device__ __forceinline__ void weights(uint32_t (&P_rmem)[STEPS][4], const float (&S_rmem)[T::KV_TILES][4],
                                        const float (&row_max)[2], float scale_log2, int first = 0) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float (&pair)[4] = S_rmem[first + 2 * step + (i >> 1)];
      const int h = i & 1;
      // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
      const float p0 = exp2_approx(fmaf(pair[2 * h], scale_log2, -row_max[h]));
      const float p1 = exp2_approx(fmaf(pair[2 * h + 1], scale_log2, -row_max[h]));
      P_rmem[step][i] = pack_elements(p0, p1);
    }
}

// P = exp2(S - max), O += P V; P becomes the A operand in the registers of S. The row sums are one more column
// of O, for which V is all ones: one more product in nine saves two additions per weight. It sums P as rounded
// to an element, so that numerator and denominator have the same rounding errors (3 to 4 % faster at S >= 2048,
// H200).
template <class T>
__device__ __forceinline__ void weigh_values(float (&S_rmem)[T::M_TILES][T::KV_TILES][4],
                                             float (&O_rmem)[T::M_TILES][T::D_TILES][4],
                                             const float (&row_max)[T::M_TILES][2], float (&row_sum)[T::M_TILES][4],
                                             uint32_t V_smem, float scale_log2, int lane) {
#pragma unroll
  for (int k = 0; k < T::KV_TILES; k += 2) {
    uint32_t P_rmem[T::M_TILES][1][4];
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m) weights<T>(P_rmem[m], S_rmem[m], row_max[m], scale_log2, k);
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(row_sum[m], P_rmem[m][0], ELEMENT2_ONES, ELEMENT2_ONES);
#pragma unroll
    for (int n = 0; n < T::D_TILES; n += 2) {
      uint32_t V_rmem[4];  // 16 keys x 16 of the head dimension, transposed by the load
      const uint32_t offset = swizzled_offset<T::ROW_BYTES>(k * MMA_N + (lane & 15), n + (lane >> 4));
      ldmatrix_x4_trans(V_rmem[0], V_rmem[1], V_rmem[2], V_rmem[3], V_smem + offset);
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m) {
        mma_m16n8k16_f32<ELEMENT_IS_BF16>(O_rmem[m][n], P_rmem[m][0], V_rmem[0], V_rmem[1]);
        mma_m16n8k16_f32<ELEMENT_IS_BF16>(O_rmem[m][n + 1], P_rmem[m][0], V_rmem[2], V_rmem[3]);
      }
    }
  }
}

// Moves a warp's rows of O through its rows of Q's tile, so that they can be written as 16-byte stores.
template <class T>
__device__ __forceinline__ void store_rows(const float (&O_rmem)[T::M_TILES][T::D_TILES][4],
                                           const float (&row_sum)[T::M_TILES][4], unsigned char* Q_tile, Element* O,
                                           int first_row, int warp_row, int S, int lane) {
  __syncwarp();  // every lane has read the warp's rows of Q
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float norm = 1.0f / row_sum[m][2 * h];
      const int row = warp_row + m * MMA_M + h * 8 + (lane >> 2);
#pragma unroll
      for (int n = 0; n < T::D_TILES; ++n)
        *reinterpret_cast<uint32_t*>(Q_tile + swizzled_offset<T::ROW_BYTES>(row, n) + 4 * (lane & 3)) =
            pack_elements(O_rmem[m][n][2 * h] * norm, O_rmem[m][n][2 * h + 1] * norm);
    }
  __syncwarp();
  constexpr int CHUNKS = T::HEAD_DIM / 8;
#pragma unroll
  for (int pass = 0; pass < T::WARP_Q; pass += WARP / CHUNKS) {
    const int row = warp_row + pass + lane / CHUNKS, chunk = lane % CHUNKS;
    if (first_row + row < S)
      *reinterpret_cast<uint4*>(O + size_t(first_row + row) * T::HEAD_DIM + chunk * 8) =
          *reinterpret_cast<const uint4*>(Q_tile + swizzled_offset<T::ROW_BYTES>(row, chunk));
  }
}

// Merges the groups' parts of O in log2(WARPS_KV) steps: the upper half of the groups hands over to the lower half.
template <class T>
__device__ __forceinline__ void merge_groups(float (&O_rmem)[T::M_TILES][T::D_TILES][4],
                                             float (&row_max)[T::M_TILES][2], float (&row_sum)[T::M_TILES][4],
                                             unsigned char* smem, int warp_row, int group, int lane) {
  const MergeBuffer<T::D_TILES, T::BLOCK_Q / MMA_M> buffer{smem};
#pragma unroll
  for (int half = T::WARPS_KV / 2; half > 0; half /= 2) {
    __syncthreads();  // every warp has read its last K and V or its partner's part, so the buffer is free
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
      if (half <= group && group < 2 * half)
        buffer.hand_over(&O_rmem[m][0][0], row_max[m][0], row_max[m][1], row_sum[m][0], row_sum[m][2], group - half,
                         warp_row / MMA_M + m, lane);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
      if (group < half)
        buffer.take_over(&O_rmem[m][0][0], row_max[m][0], row_max[m][1], row_sum[m][0], row_sum[m][2], group,
                         warp_row / MMA_M + m, lane);
  }
}

// One CTA: BLOCK_Q query rows of one head against all their keys. blockIdx.x: batch and head; blockIdx.y: the tile of
// rows.
template <class T>
__device__ __forceinline__ void attention(const Element* __restrict__ Q, const Element* __restrict__ K,
                                          const Element* __restrict__ V, Element* __restrict__ O,
                                          const AttentionForm& form, float scale) {
  static_assert(T::STAGES >= 2, "one stage is read while the others fill");
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int group = warp / T::WARPS_Q, group_thread = threadIdx.x % T::GROUP_THREADS,
            warp_row = warp % T::WARPS_Q * T::WARP_Q;
  // Under a causal mask the last rows see the most keys. They
  // start first, so that shorter ones fill the gaps at the end.
  const int first_row = (form.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * T::BLOCK_Q;
  const size_t head = size_t(blockIdx.x) * form.S * T::HEAD_DIM,
               kv_head = size_t(form.kv_head(blockIdx.x)) * form.Skv * T::HEAD_DIM;
  Q += head, K += kv_head, V += kv_head, O += head;

  const int keys = form.keys_before(first_row + T::BLOCK_Q);
  const int kv_tiles = (keys + T::BLOCK_KV - 1) / T::BLOCK_KV;
  const int own_tiles = (kv_tiles - group + T::WARPS_KV - 1) / T::WARPS_KV;
  const uint32_t Q_smem = smem_address(smem), group_smem = Q_smem + T::Q_BYTES + group * T::GROUP_BYTES;

  const auto load_tile = [&](int own_tile) {
    const int first_key = (own_tile * T::WARPS_KV + group) * T::BLOCK_KV;
    const uint32_t K_smem = group_smem + own_tile % T::STAGES * T::STAGE_BYTES;
    if (own_tile < own_tiles) {
      load_rows<T::BLOCK_KV, T::HEAD_DIM, T::GROUP_THREADS>(K_smem, K, first_key, form.Skv, group_thread);
      load_rows<T::BLOCK_KV, T::HEAD_DIM, T::GROUP_THREADS>(K_smem + T::KV_BYTES, V, first_key, form.Skv, group_thread);
    }
    cp_async_commit();  // even if the group is empty, because the waits count groups
  };
  load_rows<T::BLOCK_Q, T::HEAD_DIM, T::THREADS>(Q_smem, Q, first_row, form.S, threadIdx.x);
#pragma unroll
  for (int stage = 0; stage < T::STAGES; ++stage) load_tile(stage);

  float O_rmem[T::M_TILES][T::D_TILES][4] = {};
  float row_max[T::M_TILES][2], row_sum[T::M_TILES][4] = {};  // elements 0 and 2 of a row_sum fragment are used
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m) row_max[m][0] = row_max[m][1] = NO_ROW_MAX;

  cp_async_wait<T::STAGES - 1>();
  __syncthreads();  // Q and every group's first tile have arrived
  uint32_t Q_rmem[T::M_TILES][T::D_STEPS][4];
  if constexpr (T::Q_IN_REGISTERS) {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int step = 0; step < T::D_STEPS; ++step)
        load_Q_fragments<T>(Q_rmem[m][step], Q_smem, warp_row + m * MMA_M, step, lane);
  }

  const float scale_log2 = scale * LOG2_E;
  const int warp_first_row = first_row + warp_row;
  for (int own_tile = 0; own_tile < own_tiles; ++own_tile) {
    if (own_tile > 0) {
      cp_async_wait<T::STAGES - 2>();
      group_barrier<T>(
          group);  // this tile has arrived for all warps, and all have read the last one, so its stage may be refilled
      load_tile(own_tile - 1 + T::STAGES);
    }
    const int first_key = (own_tile * T::WARPS_KV + group) * T::BLOCK_KV;
    if (first_key >= form.keys_before(warp_first_row + T::WARP_Q))
      continue;  // the tile is above the diagonal for all rows of this warp
    const uint32_t K_smem = group_smem + own_tile % T::STAGES * T::STAGE_BYTES;

    float S_rmem[T::M_TILES][T::KV_TILES][4] = {};
    scores<T>(S_rmem, Q_rmem, Q_smem, K_smem, warp_row, lane);
    if (first_key + T::BLOCK_KV > form.keys_before(warp_first_row + 1))
      mask_scores<T>(S_rmem, warp_first_row, first_key, form, lane);
    raise_row_max<T>(S_rmem, O_rmem, row_max, row_sum, scale_log2);
    weigh_values<T>(S_rmem, O_rmem, row_max, row_sum, K_smem + T::KV_BYTES, scale_log2, lane);
  }

  if constexpr (T::WARPS_KV > 1) merge_groups<T>(O_rmem, row_max, row_sum, smem + T::Q_BYTES, warp_row, group, lane);
  if (group == 0) store_rows<T>(O_rmem, row_sum, smem, O, first_row, warp_row, form.S, lane);
}

}  // namespace register_rows
