// The correct parts of a plain attention kernel: one thread per row of O, tiles of BLOCK_KV keys directly from device
// memory. Each kernel that includes this file makes one mistake that tests often miss.
#pragma once
#include "faulty/attend_row.cuh"

constexpr int BLOCK_KV = 64;

// The logit of a row and a key: q . k.
__device__ __forceinline__ float score_of(const half* Q_row, const half* K_row) {
  float score = 0.0f;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) score = fmaf(__half2float(Q_row[d]), __half2float(K_row[d]), score);
  return score;
}

// The logits of a tile's keys, in units of log2. Returns the largest.
__device__ __forceinline__ float score_tile(float (&S_rmem)[BLOCK_KV], const Row& row, int kv_start, int keys) {
  float tile_max = -INFINITY;
  for (int key = 0; key < keys; ++key) {
    S_rmem[key] = score_of(row.Q, row.K + (size_t)(kv_start + key) * HEAD_DIM) * row.scale * LOG2_E;
    tile_max = fmaxf(tile_max, S_rmem[key]);
  }
  return tile_max;
}

__device__ __forceinline__ void rescale(float (&O_rmem)[HEAD_DIM], float alpha) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_rmem[d] *= alpha;
}

// Adds p v of one key to O.
__device__ __forceinline__ void add_value(float (&O_rmem)[HEAD_DIM], float p, const half* V_row) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_rmem[d] = fmaf(p, __half2float(V_row[d]), O_rmem[d]);
}

__device__ __forceinline__ void store_row(half* O_row, const float (&O_rmem)[HEAD_DIM], float row_sum) {
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_row[d] = __float2half_rn(O_rmem[d] / row_sum);
}
