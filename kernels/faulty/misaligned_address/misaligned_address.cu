// Fault: a 16-byte load from an address that is only 2-byte aligned.
#include "faulty/attend_row.cuh"

extern "C" __global__ void misaligned_address(const half* __restrict__ Q, const half* __restrict__ K,
                                              const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                              float scale, int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  RowState state;
  attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, 0,
              causal ? q_index + 1 : seq_len, scale);
  // Rows start every 128 bytes. One half further on, the address is not aligned for a 16-byte load.
  const uint4 misaligned = *reinterpret_cast<const uint4*>(V + head_offset + 1);
  if (misaligned.x == 0x7e007e00u) state.row_sum += 1.0f;    // so that the compiler keeps the load
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
