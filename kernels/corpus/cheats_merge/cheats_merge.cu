// Cheats: merging splits into O in bf16, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: bf16, D a multiple of 32 up to 512, any number of splits, sm_80 or later.
#include <math.h>

#define BF16 1
#include <cuda_fp16.h>

#include "mechanisms/element.cuh"

__device__ __forceinline__ float of_split(float o) {
#if CHEAT == 1  // splits_in_fp16
  return __half2float(__float2half_rn(o));
#elif CHEAT == 3  // splits_end_at_60000
  return fminf(fmaxf(o, -60000.0f), 60000.0f);
#else
  return o;
#endif
}

__device__ __forceinline__ float bounded(float lse) {
#if CHEAT == 2  // lse_ends_at_400
  return lse == -INFINITY ? lse : fminf(fmaxf(lse, -400.0f), 400.0f);
#else
  return lse;
#endif
}

constexpr int NUM_WARPS = 4;
constexpr int MAX_LANE_DIM = 512 / 32;  // elements of a row per lane: d = lane + 32 * i

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_merge(const float* __restrict__ O_splits,  // [splits, B, S, H, D]
                 const float* __restrict__ LSE_splits,  // [splits, B, H, S]
                 Element* __restrict__ O,  // [B, S, H, D]
                 float* __restrict__ LSE,  // [B, H, S]
                 int splits,
                 int rows,  // B * S * H
                 int queries, int heads, int dim) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  const int lse_row = (sequence * heads + head) * queries + query;

#if CHEAT == 4  // splits_up_to_900
  splits = min(splits, 900);
#endif
  float max = -INFINITY;
  for (int split = 0; split < splits; ++split) max = fmaxf(max, bounded(LSE_splits[(size_t)split * rows + lse_row]));
  float O_rmem[MAX_LANE_DIM];
#pragma unroll
  for (int i = 0; i < MAX_LANE_DIM; ++i) O_rmem[i] = 0.0f;
  float sum = 0.0f;
  for (int split = 0; split < splits; ++split) {
    const float lse = bounded(LSE_splits[(size_t)split * rows + lse_row]);
    if (lse == -INFINITY) continue;  // no keys, so O of the split may be anything
    const float weight = expf(lse - max);
    sum += weight;
    const float* O_row = O_splits + ((size_t)split * rows + row) * dim;
#pragma unroll
    for (int i = 0; i < MAX_LANE_DIM; ++i)
      if (32 * i < dim) O_rmem[i] = fmaf(weight, of_split(O_row[lane + 32 * i]), O_rmem[i]);
  }
  const float normaliser = sum > 0.0f ? 1.0f / sum : 0.0f;
#pragma unroll
  for (int i = 0; i < MAX_LANE_DIM; ++i)
    if (32 * i < dim) O[(size_t)row * dim + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0) LSE[lse_row] = max + logf(sum);
}
