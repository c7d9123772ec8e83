// Fault: no cp_async_wait_group() between copying a tile and reading it.
#include "faulty/attend_row.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/smem.cuh"
extern "C" __global__ void lost_copy_wait(const half* __restrict__ Q, const half* __restrict__ K,
                                          const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                          int causal) {
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);
  const int kv_end = causal ? q_row + 1 : seq_len;
  const half* Q_row = Q + head_offset + (size_t)q_row * HEAD_DIM;
  RowState state;
  __shared__ __align__(16) half K_smem[64 * HEAD_DIM];
  for (int first = 0; first < seq_len; first += 64) {
    for (int i = threadIdx.x * 8; i < 64 * HEAD_DIM; i += 64 * 8) {
      const int row = min(first + i / HEAD_DIM, seq_len - 1);
      cp_async_16(smem_address(&K_smem[i]), K + head_offset + (size_t)row * HEAD_DIM + i % HEAD_DIM);
    }
    cp_async_commit();
    // cp_async_wait_group<0>() belongs here
    __syncthreads();
    attend_keys(state, Q_row, K_smem, V + head_offset + (size_t)first * HEAD_DIM, 0, min(64, kv_end - first), scale);
    __syncthreads();
  }
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
