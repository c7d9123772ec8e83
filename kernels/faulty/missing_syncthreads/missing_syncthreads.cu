// Fault: no __syncthreads() between writing a tile and reading it, and none before the next tile overwrites it. The
// warps race.
#include "faulty/attend_row.cuh"

constexpr int BLOCK_KV = 32;
constexpr int NUM_THREADS = 128;

// Every thread copies single halves, so that each row of the tile is written by two warps.
__device__ __forceinline__ void load_tile(half* tile_smem, const half* head_gmem, int first_row, int seq_len) {
  for (int i = threadIdx.x; i < BLOCK_KV * HEAD_DIM; i += NUM_THREADS)
    tile_smem[i] =
        first_row + i / HEAD_DIM < seq_len ? head_gmem[(size_t)first_row * HEAD_DIM + i] : __float2half_rn(0.0f);
}

extern "C" __global__ void missing_syncthreads(const half* __restrict__ Q, const half* __restrict__ K,
                                               const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                               float scale, int causal) {
  __shared__ half K_smem[BLOCK_KV * HEAD_DIM];
  __shared__ half V_smem[BLOCK_KV * HEAD_DIM];
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * NUM_THREADS + threadIdx.x;
  const int q_row = min(q_index, seq_len - 1);  // threads of rows past the end help to load, and store nothing
  const int kv_end = causal ? q_row + 1 : seq_len;

  RowState state;
  for (int kv_start = 0; kv_start < seq_len; kv_start += BLOCK_KV) {
    load_tile(K_smem, K + head_offset, kv_start, seq_len);
    load_tile(V_smem, V + head_offset, kv_start, seq_len);
    // __syncthreads() belongs here
    attend_keys(state, Q + head_offset + (size_t)q_row * HEAD_DIM, K_smem, V_smem, 0, min(BLOCK_KV, kv_end - kv_start),
                scale);
    // and here
  }
  if (q_index < seq_len) store_row(O + head_offset + (size_t)q_index * HEAD_DIM, state);
}
