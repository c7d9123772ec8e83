// Fault: 69 KB of static shared memory. The limit is 48 KB without an opt-in, and static shared memory has no
// opt-in.
#include "faulty/attend_row.cuh"

extern "C" __global__ void static_smem_69kb(const half* __restrict__ Q, const half* __restrict__ K,
                                            const half* __restrict__ V, half* __restrict__ O, int seq_len, float scale,
                                            int causal) {
  __shared__ float Q_smem[92 * HEAD_DIM];
  __shared__ float K_smem[92 * HEAD_DIM];
  __shared__ float V_smem[92 * HEAD_DIM];
  const size_t row_offset = (size_t)blockIdx.x * HEAD_DIM;
  for (int i = threadIdx.x; i < 92 * HEAD_DIM; i += blockDim.x) {
    Q_smem[i] = __half2float(Q[row_offset]);
    K_smem[i] = __half2float(K[row_offset]);
    V_smem[i] = __half2float(V[row_offset]);
  }
  __syncthreads();
  const int other = (threadIdx.x * 7) % (92 * HEAD_DIM);
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * blockDim.x + threadIdx.x;
  if (q_index >= seq_len) return;
  RowState state;
  attend_keys(state, Q + head_offset + (size_t)q_index * HEAD_DIM, K + head_offset, V + head_offset, 0,
              causal ? q_index + 1 : seq_len, scale);
  state.row_sum += 0.0f * (Q_smem[other] + K_smem[other] + V_smem[other]);  // so that the compiler keeps the buffers
  store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
