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

// What a thread computes.
struct Row {
  const half* Q;  // this row of Q, [HEAD_DIM]
  const half* K;  // K of the row's head, [S, HEAD_DIM]
  const half* V;  // V of the row's head, [S, HEAD_DIM]
  half* O;  // this row of O, [HEAD_DIM]
  int index;  // index of the row in its head
  int keys;  // number of keys that the row sees
  int seq_len;
  int causal;
  float scale;
  unsigned number;  // index of the row in the launch
  unsigned rows;  // number of rows in the launch
  bool inside;  // false: the thread comes after the last row, and must not store
  unsigned* workspace;  // null in kernels that declare no workspace
};

// `for_all`: threads after the last row get the last row.
__device__ __forceinline__ Row row_of_thread(const half* Q, const half* K, const half* V, half* O, int seq_len,
                                             float scale, int causal, bool for_all = false) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, index = for_all ? min(thread, seq_len - 1) : thread;
  const size_t head = (size_t)blockIdx.y * seq_len * HEAD_DIM, place = head + (size_t)index * HEAD_DIM;
  const unsigned number = blockIdx.y * seq_len + index, rows = gridDim.y * seq_len;
  const int keys = causal ? index + 1 : seq_len;
  return {Q + place, K + head, V + head, O + place, index, keys,
          seq_len,   causal,   scale,    number,    rows,  thread < seq_len};
}

__device__ __forceinline__ RowState attended(const Row& row) {
  RowState state;
  attend_keys(state, row.Q, row.K, row.V, 0, row.keys, row.scale);
  return state;
}

// The entry of a kernel with one thread per row of O. The body follows the macro, and has the `row` of its thread.
#define ROW_KERNEL(NAME) KERNEL_OF_ROWS(NAME, false)
// The same for bodies that all threads of a block must run: threads after the last row get the last row.
#define ROW_KERNEL_FOR_ALL(NAME) KERNEL_OF_ROWS(NAME, true)
#define KERNEL_OF_ROWS(NAME, FOR_ALL)                                                                             \
  __device__ __forceinline__ void NAME##_row(Row row);                                                            \
  extern "C" __global__ void NAME(const half* Q, const half* K, const half* V, half* O, int seq_len, float scale, \
                                  int causal) {                                                                   \
    const Row row = row_of_thread(Q, K, V, O, seq_len, scale, causal, FOR_ALL);                                   \
    if (FOR_ALL || row.inside) NAME##_row(row);                                                                   \
  }                                                                                                               \
  __device__ __forceinline__ void NAME##_row(Row row)
