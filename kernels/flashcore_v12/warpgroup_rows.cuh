// The work of a warpgroup on its 64 rows: products, softmax, storing O. T: a
// Tiling. wgmma.cuh describes the layout of accumulators: a thread's elements 0 and
// 1 modulo 4 belong to one row, elements 2 and 3 to the row eight further down.
#pragma once
#include "primitives/barrier.cuh"
#include "primitives/convert.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/smem.cuh"
#include "primitives/wgmma.cuh"
#include "tiling.cuh"

constexpr int PAIR = 10;  // first named barrier for merging; one for each warpgroup that hands over
constexpr float NO_ROW_MAX = -1e30f;  // below every realistic logit, and finite: (-inf) - NO_ROW_MAX is not NaN

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
                                             uint32_t Q_smem, uint32_t K_smem) {
  const uint64_t Q_start = wgmma_descriptor(Q_smem), K_start = wgmma_descriptor(K_smem);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step) {
    const int in_panel = step % 4 * WGMMA_K * 2;
    const uint64_t K = wgmma_descriptor_after(K_start, step / 4 * T::KV_PANEL_BYTES + in_panel);
    const uint64_t Q = wgmma_descriptor_after(Q_start, step / 4 * T::Q_PANEL_BYTES + in_panel);
    if constexpr (!T::Q_IN_REGISTERS && T::BLOCK_KV == 80)
      wgmma_m64n80k16_ss(S_rmem, Q, K, step > 0);
    else if constexpr (!T::Q_IN_REGISTERS && T::BLOCK_KV == 64)
      wgmma_m64n64k16_ss(S_rmem, Q, K, step > 0);
    else if constexpr (!T::Q_IN_REGISTERS)
      wgmma_m64n128k16_ss(S_rmem, Q, K, step > 0);
    else if constexpr (T::BLOCK_KV == 128)
      wgmma_m64n128k16_rs(S_rmem, Q_rmem[step], K, step > 0);
    else
      wgmma_m64n64k16_rs(S_rmem, Q_rmem[step], K, step > 0);
  }
  wgmma_commit();
}

// Starts O += P V. With ones next to V, also sums the rows of P, whose weights are already rounded to elements.
template <class T>
__device__ __forceinline__ void start_values(float (&O_rmem)[T::OUTPUTS + T::SUMS],
                                             const uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4], uint32_t V_smem,
                                             uint32_t ones_smem) {
  constexpr int STEP_BYTES = WGMMA_K * PANEL_ROW_BYTES;
  const uint64_t V_start = wgmma_descriptor(V_smem, T::ONES_BYTES > 0 ? ones_smem - V_smem : T::KV_PANEL_BYTES);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::BLOCK_KV / WGMMA_K; ++step) {
    const uint64_t V = wgmma_descriptor_after(V_start, step * STEP_BYTES, T::ONES_BYTES > 0 ? -step * STEP_BYTES : 0);
    if constexpr (T::SUMS_BY_ONES)
      wgmma_m64n72k16_rs_bt(O_rmem, P_rmem[step], V, true);
    else if constexpr (T::VALUE_DIM == 256)
      wgmma_m64n256k16_rs_bt(O_rmem, P_rmem[step], V, true);
    else if constexpr (T::VALUE_DIM == 128)
      wgmma_m64n128k16_rs_bt(O_rmem, P_rmem[step], V, true);
    else if constexpr (T::VALUE_DIM == 96)
      wgmma_m64n96k16_rs_bt(O_rmem, P_rmem[step], V, true);
    else
      wgmma_m64n64k16_rs_bt(O_rmem, P_rmem[step], V, true);
  }
  wgmma_commit();
}

// Keys that a row may not see (past the end, beyond the diagonal, before its window) score minus infinity. row: of
// S_rmem's elements 0 and 1 modulo 4.
template <class T>
__device__ __forceinline__ void mask_scores(float (&S_rmem)[T::SCORES], int row, int first_key, const Problem& problem,
                                            int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int own_row = row + (i >> 1) * 8;
    const int keys = problem.form.keys_before(own_row + 1) - first_key - 2 * (lane & 3) - (i & 1);
    const int hidden =
        T::FORMED ? problem.forms.keys_hidden(own_row, problem.form) - first_key - 2 * (lane & 3) - (i & 1) : 0;
#pragma unroll
    for (int n = 0; n < T::BLOCK_KV / 8; ++n)
      if (n * 8 >= keys || T::FORMED && n * 8 < hidden) S_rmem[4 * n + i] = -INFINITY;
  }
}

// For row h of a lane's two rows: raises the running maximum (log2 units) and rescales the row sum. O is multiplied
// by alpha when the product in flight has ended. (If P could first grow to 2^8, O would rarely be rescaled: 4 % faster
// at (4,16,2048,128,n) and 8 % at (2,16,4096,64,y), H200. But a row's greatest weight would not be exactly 1, and its
// rounding would show: max error 1.4e-4 instead of SDPA's 1.0e-4, mean 4 % higher. Dropped for that reason.)
template <class T>
__device__ __forceinline__ void raise_row_max(const float (&S_rmem)[T::SCORES], float (&row_max)[2],
                                              float (&row_sum)[2], float (&alpha)[2], float scale_log2, int h) {
  float tile_max = fmaxf(S_rmem[2 * h], S_rmem[2 * h + 1]);
#pragma unroll
  for (int i = 4 + 2 * h; i < T::SCORES; i += 4) tile_max = fmaxf(tile_max, fmaxf(S_rmem[i], S_rmem[i + 1]));
  tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
  tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
  const float raised = fmaxf(row_max[h], tile_max * scale_log2);
  alpha[h] = exp2_approx(row_max[h] - raised);
  row_max[h] = raised;
  if constexpr (!T::SUMS_BY_ONES) row_sum[h] *= alpha[h];
}

// Does this for both rows, in loops where most tiles raise no maximum. The lanes vote on the maxima of their own
// columns, and exchange them only if one was raised.
template <class T>
__device__ __forceinline__ void raise_row_maxima_by_vote(const float (&S_rmem)[T::SCORES], float (&row_max)[2],
                                                         float (&row_sum)[2], float (&alpha)[2], float scale_log2) {
  float own_max[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    own_max[h] = fmaxf(S_rmem[2 * h], S_rmem[2 * h + 1]);
#pragma unroll
    for (int i = 4 + 2 * h; i < T::SCORES; i += 4) own_max[h] = fmaxf(own_max[h], fmaxf(S_rmem[i], S_rmem[i + 1]));
    own_max[h] *= scale_log2;
    alpha[h] = 1.0f;
  }
  if (!__any_sync(0xffffffffu, own_max[0] > row_max[0] || own_max[1] > row_max[1])) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float raised = fmaxf(own_max[h], __shfl_xor_sync(0xffffffffu, own_max[h], 1));
    raised = fmaxf(row_max[h], fmaxf(raised, __shfl_xor_sync(0xffffffffu, raised, 2)));
    alpha[h] = exp2_approx(row_max[h] - raised);
    row_max[h] = raised;
    if constexpr (!T::SUMS_BY_ONES) row_sum[h] *= alpha[h];
  }
}

// S becomes P = exp2(S - max) in place, for a lane's elements [FIRST, LAST): first those of row 0, then of row 1.
template <class T, int FIRST, int LAST>
__device__ __forceinline__ void weigh(float (&S_rmem)[T::SCORES], const float (&row_max)[2], float (&row_sum)[2],
                                      float scale_log2) {
  constexpr int OF_A_ROW = T::SCORES / 2;
#pragma unroll
  for (int element = FIRST; element < LAST; ++element) {
    const int h = element / OF_A_ROW, i = element % OF_A_ROW / 2 * 4 + 2 * h + element % 2;
    // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
    S_rmem[i] = exp2_approx(fmaf(S_rmem[i], scale_log2, -row_max[h]));
    if constexpr (!T::SUMS_BY_ONES) row_sum[h] += S_rmem[i];
  }
}

template <class T>
__device__ __forceinline__ void round_weights(uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4],
                                              const float (&S_rmem)[T::SCORES]) {
#pragma unroll
  for (int i = 0; i < T::SCORES / 2; ++i) P_rmem[i / 4][i % 4] = pack_elements(S_rmem[2 * i], S_rmem[2 * i + 1]);
}

// Brings O to the raised maxima. A vote can skip the multiplication if no row
// of the warp was raised, which happens more often the more tiles there are.
template <class T>
__device__ __forceinline__ void rescale(float (&O_rmem)[T::OUTPUTS + T::SUMS], const float (&alpha)[2]) {
  if constexpr (T::SKIP_RESCALE)
    if (!__any_sync(0xffffffffu, alpha[0] != 1.0f || alpha[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < T::OUTPUTS + T::SUMS; ++i) O_rmem[i] *= alpha[(i >> 1) & 1];
}

// Adds the row sums of the lanes. Before this, each lane has only the sum of its own columns.
template <class T>
__device__ __forceinline__ void add_lanes(const float (&O_rmem)[T::OUTPUTS + T::SUMS], float (&row_sum)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if constexpr (T::SUMS_BY_ONES) {
      row_sum[h] = O_rmem[T::OUTPUTS + 2 * h];
    } else {
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
    }
  }
}

// O / row sum as 16-byte stores: four lanes hold eight columns of a row in pairs, and trade them for eight in one lane.
template <class T>
__device__ __forceinline__ void store_rows(const float (&O_rmem)[T::OUTPUTS + T::SUMS], const float (&row_sum)[2],
                                           const Problem& problem, int head, int row, int lane) {
  const int quad_lane = lane & 3;
  const HeadRows rows = rows_of_head(head, problem.form.S, T::VALUE_DIM, problem.H);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float norm = T::FORMED && row_sum[h] == 0.0f ? 0.0f : 1.0f / row_sum[h];  // 0: the row sees no key
#pragma unroll
    for (int block = 0; block < T::VALUE_DIM / 32; ++block) {
      uint32_t pair[4];
#pragma unroll
      for (int n = 0; n < 4; ++n)
        pair[n] =
            pack_elements(O_rmem[16 * block + 4 * n + 2 * h] * norm, O_rmem[16 * block + 4 * n + 2 * h + 1] * norm);
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
      if (row + 8 * h < problem.form.S)
        *reinterpret_cast<uint4*>(problem.O + rows.first + (row + 8 * h) * rows.stride + 32 * block + 8 * quad_lane) =
            make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
  }
}

// For each of a lane's two rows, the natural logarithm of the sum of exp(score); minus infinity for a row without keys.
// row_max is in log2 units, and row_sum relative to it. If the row's sink is far above all scores, row_sum is infinite,
// and the sink is the logarithm of the whole sum.
template <class T>
__device__ __forceinline__ void store_lse(const float (&row_max)[2], const float (&row_sum)[2], const Problem& problem,
                                          int head, int row, int lane) {
  constexpr float LN_2 = 0.6931471805599453f;
  if (lane & 3) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= problem.form.S) continue;
    float lse = LN_2 * (row_max[h] + log2f(row_sum[h]));
    if constexpr (T::FORMED)
      if (isinf(row_sum[h])) lse = problem.forms.sinks[head % problem.forms.heads];
    problem.LSE[size_t(head) * problem.form.S + row + 8 * h] = lse;
  }
}

// Merges the groups' parts of O in log2(WGS_KV) steps: in each, the
// upper half of the groups hands over to the lower half and is done.
template <class T>
__device__ __forceinline__ void merge_groups(float (&O_rmem)[T::OUTPUTS + T::SUMS], float (&row_max)[2],
                                             float (&row_sum)[2], unsigned char* smem, int consumer, int lane) {
  const typename T::Merge buffer{smem};  // indexed by the consumer that hands over
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

// Merges the CTAs' parts of O in the first CTA of the cluster. A CTA's shared memory is only
// accessible once it has started, so each thread arrives at the barrier when the kernel begins.
template <class T>
__device__ __forceinline__ void merge_cluster(float (&O_rmem)[T::OUTPUTS + T::SUMS], float (&row_max)[2],
                                              float (&row_sum)[2], unsigned char* smem, int rank, int lane) {
  const int stripe = threadIdx.x % WARPGROUP / WARP;
  cluster_wait();
  if (rank > 0)
    typename T::Merge{cluster_smem(smem, 0)}.hand_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], rank - 1,
                                                       stripe, lane);
  cluster_arrive();
  if (rank > 0) return;
  cluster_wait();
#pragma unroll
  for (int other = 1; other < T::CLUSTER; ++other)
    typename T::Merge{smem}.take_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], other - 1, stripe, lane);
}
