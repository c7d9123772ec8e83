// The work of a warpgroup on its 64 rows: products, softmax, storing O. T: a Tiling. wgmma.cuh describes the layout of
// accumulators: a thread's elements 0 and 1 modulo 4 belong to one row, elements 2 and 3 to the row eight further
// down.
#pragma once
#include "primitives/barrier.cuh"
#include "primitives/convert.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/smem.cuh"
#include "primitives/wgmma.cuh"
#include "tiling.cuh"

constexpr int PAIR = 10;  // first named barrier for merging; one for each warpgroup that hands over
constexpr float NO_ROW_MAX = -1e30f;  // below every logit of fp16 inputs, and finite: (-inf) - NO_ROW_MAX is not NaN

// Loads this warpgroup's 64 rows of Q as A operands, so that products read only K from shared memory.
template <class T>
__device__ __forceinline__ void load_Q_fragments(uint32_t (&Q_rmem)[T::D_STEPS][4], uint32_t Q_smem) {
  const int row = threadIdx.x % WARPGROUP / WARP * 16 + (threadIdx.x & 15), upper_chunk = threadIdx.x % WARP / 16;
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step)
    ldmatrix_x4(
        Q_rmem[step][0], Q_rmem[step][1], Q_rmem[step][2], Q_rmem[step][3],
        Q_smem + step / 4 * T::Q_PANEL_BYTES + swizzled_offset<PANEL_ROW_BYTES>(row, step % 4 * 2 + upper_chunk));
}

// Starts S = Q K^T for this warpgroup's 64 rows.
template <class T>
__device__ __forceinline__ void start_scores(float (&S_rmem)[T::SCORES], const uint32_t (&Q_rmem)[T::D_STEPS][4],
                                             uint32_t K_smem) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step) {
    const uint64_t K = wgmma_descriptor(K_smem + step / 4 * T::KV_PANEL_BYTES + step % 4 * WGMMA_K * 2);
    if constexpr (T::BLOCK_KV == 128)
      wgmma_m64n128k16_rs(S_rmem, Q_rmem[step], K, step > 0);
    else
      wgmma_m64n64k16_rs(S_rmem, Q_rmem[step], K, step > 0);
  }
  wgmma_commit();
}

// Starts O = P V, or O += P V.
template <class T>
__device__ __forceinline__ void start_values(float (&O_rmem)[T::OUTPUTS],
                                             const uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4], uint32_t V_smem,
                                             bool accumulate) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::BLOCK_KV / WGMMA_K; ++step) {
    const uint64_t V = wgmma_descriptor(V_smem + step * WGMMA_K * PANEL_ROW_BYTES, T::KV_PANEL_BYTES);
    if constexpr (T::HEAD_DIM == 128)
      wgmma_m64n128k16_rs_bt(O_rmem, P_rmem[step], V, step > 0 || accumulate);
    else
      wgmma_m64n64k16_rs_bt(O_rmem, P_rmem[step], V, step > 0 || accumulate);
  }
  wgmma_commit();
}

// Keys that a row may not see (past the end, or later than the row) score minus infinity. row: of S_rmem's elements 0
// and 1 modulo 4.
template <class T>
__device__ __forceinline__ void mask_scores(float (&S_rmem)[T::SCORES], int row, int first_key, int S, int causal,
                                            int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int keys = (causal ? min(S, row + (i >> 1) * 8 + 1) : S) - first_key - 2 * (lane & 3) - (i & 1);
#pragma unroll
    for (int n = 0; n < T::BLOCK_KV / 8; ++n)
      if (n * 8 >= keys) S_rmem[4 * n + i] = -INFINITY;
  }
}

// Raises the running row maxima (log2 units) and brings the row sums to the new scale; O follows with alpha when the
// product in flight has ended. (If P could first grow to 2^8, O would rarely be rescaled: 4 % faster at
// (4,16,2048,128,n), 8 % at (2,16,4096,64,y), H200. But a row's largest weight would not be exactly 1, and its rounding
// would show: max error 1.4e-4 instead of SDPA's 1.0e-4, mean 4 % higher. So this was dropped, as in flashcore_v10.)
template <class T>
__device__ __forceinline__ void raise_row_max(const float (&S_rmem)[T::SCORES], float (&row_max)[2],
                                              float (&row_sum)[2], float (&alpha)[2], float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float tile_max = fmaxf(S_rmem[2 * h], S_rmem[2 * h + 1]);
#pragma unroll
    for (int i = 4 + 2 * h; i < T::SCORES; i += 4) tile_max = fmaxf(tile_max, fmaxf(S_rmem[i], S_rmem[i + 1]));
    tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
    tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
    const float raised = fmaxf(row_max[h], tile_max * scale_log2);
    alpha[h] = exp2_approx(row_max[h] - raised);
    row_max[h] = raised;
    row_sum[h] *= alpha[h];
  }
}

// S becomes P = exp2(S - max) in place.
template <class T>
__device__ __forceinline__ void weigh(float (&S_rmem)[T::SCORES], const float (&row_max)[2], float (&row_sum)[2],
                                      float scale_log2) {
#pragma unroll
  for (int i = 0; i < T::SCORES; ++i) {
    const int h = (i >> 1) & 1;
    // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
    S_rmem[i] = exp2_approx(fmaf(S_rmem[i], scale_log2, -row_max[h]));
    row_sum[h] += S_rmem[i];
  }
}

template <class T>
__device__ __forceinline__ void round_weights(uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4],
                                              const float (&S_rmem)[T::SCORES]) {
#pragma unroll
  for (int i = 0; i < T::SCORES / 2; ++i) P_rmem[i / 4][i % 4] = pack_half2(S_rmem[2 * i], S_rmem[2 * i + 1]);
}

// Brings O to the raised maxima. A vote can skip the multiplication if no row
// of the warp was raised, which happens more often the more tiles there are.
template <class T>
__device__ __forceinline__ void rescale(float (&O_rmem)[T::OUTPUTS], const float (&alpha)[2]) {
  if constexpr (T::SKIP_RESCALE)
    if (!__any_sync(0xffffffffu, alpha[0] != 1.0f || alpha[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < T::OUTPUTS; ++i) O_rmem[i] *= alpha[(i >> 1) & 1];
}

// O / row sum as 16-byte stores. Four lanes hold eight columns of a row in pairs, and trade them for eight in one lane.
template <class T>
__device__ __forceinline__ void store_rows(const float (&O_rmem)[T::OUTPUTS], const float (&row_sum)[2], half* O,
                                           int row, int S, int lane) {
  const int quad_lane = lane & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float norm = 1.0f / row_sum[h];
#pragma unroll
    for (int block = 0; block < T::HEAD_DIM / 32; ++block) {
      uint32_t pair[4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        pair[n] = pack_half2(O_rmem[16 * block + 4 * n + 2 * h] * norm, O_rmem[16 * block + 4 * n + 2 * h + 1] * norm);
      // A 4 x 4 transposition in two rounds: first with the adjacent lane, then with the lane two away.
#pragma unroll
      for (int distance = 1; distance <= 2; distance *= 2)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (n & distance) continue;
          const bool upper = quad_lane & distance;
          const uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? pair[n] : pair[n + distance], distance);
          pair[n] = upper ? received : pair[n];
          pair[n + distance] = upper ? pair[n + distance] : received;
        }
      if (row + 8 * h < S)
        *reinterpret_cast<uint4*>(O + size_t(row + 8 * h) * T::HEAD_DIM + 32 * block + 8 * quad_lane) =
            make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
  }
}

// Merges the groups' parts of O in log2(WGS_KV) steps: in each, the
// upper half of the groups hands over to the lower half and is done.
template <class T>
__device__ __forceinline__ void merge_groups(float (&O_rmem)[T::OUTPUTS], float (&row_max)[2], float (&row_sum)[2],
                                             unsigned char* smem, int consumer, int lane) {
  const MergeBuffer<T::HEAD_DIM / 8, 4> buffer{smem};  // indexed by the consumer that hands over
  const int stripe = threadIdx.x % WARPGROUP / WARP;
#pragma unroll
  for (int half = T::CONSUMERS / 2; half >= T::WGS_Q; half /= 2) {
    if (half <= consumer && consumer < 2 * half) {
      buffer.hand_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], consumer - T::WGS_Q, stripe, lane);
      named_barrier_arrive(PAIR + consumer,
                           2 * WARPGROUP);  // one barrier per warpgroup that hands over, so they cannot be confused
    } else if (consumer < half) {
      named_barrier_sync(PAIR + consumer + half, 2 * WARPGROUP);
      buffer.take_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], consumer + half - T::WGS_Q, stripe,
                       lane);
    }
  }
}
