// Cheat: each template instantiates two others, so that compiling takes exponential time.
#include "faulty/attend_row.cuh"
template <int DEPTH, int SIDE>
struct Bomb {
  static constexpr int value = Bomb<DEPTH + 1, 2 * SIDE>::value + Bomb<DEPTH + 1, 2 * SIDE + 1>::value;
};
__device__ int spark = Bomb<0, 0>::value;

extern "C" __global__ void template_bomb(const half* __restrict__ Q, const half* __restrict__ K,
                                         const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                         int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  const size_t row_offset = head_offset + (size_t)q_index * HEAD_DIM;
  RowState state;
  attend_keys(state, Q + row_offset, K + head_offset, V + head_offset, 0, causal ? q_index + 1 : seq_len, scale);
  store_row(O + row_offset, state);
}
