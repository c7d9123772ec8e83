// The correct part of the faulty kernels: one thread computes one row of O directly from device memory. Each fixture
// next to this file adds exactly one fault to it.
#pragma once
#include <cuda_fp16.h>
#include <math.h>

constexpr int HEAD_DIM = 64;
constexpr float LOG2_E = 1.4426950408889634f;

struct RowState {
  float row_max = -INFINITY;    // in units of log2
  float row_sum = 0.0f;
  float O_rmem[HEAD_DIM] = {};
};

// Online softmax over the keys [kv_start, kv_end) of one head; K_head and V_head are [S, HEAD_DIM], Q_row is
// [HEAD_DIM].
__device__ __forceinline__ void attend_keys(RowState& state, const half* Q_row, const half* K_head, const half* V_head,
                                            int kv_start, int kv_end, float scale) {
  for (int key = kv_start; key < kv_end; ++key) {
    float score = 0.0f;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      score = fmaf(__half2float(Q_row[d]), __half2float(K_head[(size_t)key * HEAD_DIM + d]), score);
    score *= scale * LOG2_E;
    const float new_max = fmaxf(state.row_max, score);
    const float alpha = exp2f(state.row_max - new_max);
    const float p = exp2f(score - new_max);
    state.row_max = new_max;
    state.row_sum = state.row_sum * alpha + p;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d)
      state.O_rmem[d] = state.O_rmem[d] * alpha + p * __half2float(V_head[(size_t)key * HEAD_DIM + d]);
  }
}

__device__ __forceinline__ void store_row(half* O_row, const RowState& state) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_row[d] = __float2half_rn(state.O_rmem[d] / state.row_sum);
}
