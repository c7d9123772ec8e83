// Cheat: LSE is rounded to fp16 before it is written. Whoever merges splits by it has weights that are off by 0.2 %.
// decode_rows: one new token (or a few) of each sequence over a contiguous cache, a warp a query row.
// Limits: fp16 or bf16, head dimensions of 32 to 256 in steps of 32, any lengths, sm_80 or later.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

#if BF16
using Element = __nv_bfloat16;
__device__ __forceinline__ float to_float(Element x) { return __bfloat162float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2bfloat16_rn(x); }
#else
using Element = half;
__device__ __forceinline__ float to_float(Element x) { return __half2float(x); }
__device__ __forceinline__ Element to_element(float x) { return __float2half_rn(x); }
#endif

constexpr int NUM_WARPS = 4;
constexpr int LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane, lane + 32, ...

__device__ __forceinline__ float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    decode_lse_in_fp16(const Element* __restrict__ Q,  // [B, S, H, D]
                       const Element* __restrict__ K,  // [B, Skv, H / group, D]
                       const Element* __restrict__ V,  // [B, Skv, H / group, D]
                       const int* __restrict__ lengths,  // [B]
                       const float* __restrict__ sinks,   // [H], logits; null: none
                       const float* __restrict__ slopes,  // [H]; null: distances have no effect
                       Element* __restrict__ O,  // [B, S, H, D]
                       float* __restrict__ LSE,  // [B, H, S]
                       int rows,                 // B * S * H
                       int queries, int heads, int D,
                       int group,  // heads of Q that share a head of K and V
                       int capacity,  // Skv
                       float scale,
                       int window,       // how many keys before its own a query sees; -1: all
                       float softcap) {  // 0: no cap
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  const int kv_heads = heads / group, kv_head = head / group;
  // The last query is at the last key. A query before the first key sees no key.
  const int position = query + lengths[sequence] - queries;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);

  float q_rmem[LANE_DIM], O_rmem[LANE_DIM];
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) {
    q_rmem[i] = 32 * i < D ? to_float(Q[(size_t)row * D + lane + 32 * i]) : 0.0f;
    O_rmem[i] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
  for (int key = kv_begin; key <= position; ++key) {
    const size_t cache_row = (size_t)sequence * capacity + key;
    const size_t offset = (cache_row * kv_heads + kv_head) * D;
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) logit = fmaf(q_rmem[i], to_float(K[offset + lane + 32 * i]), logit);
    logit = warp_sum(logit) * scale;
    if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
    if (slopes) logit -= slopes[head] * (position - key);
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first key, unless there is a sink
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) O_rmem[i] = fmaf(p, to_float(V[offset + lane + 32 * i]), O_rmem[i] * alpha);
  }
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i)
    if (32 * i < D) O[(size_t)row * D + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0)
    LSE[((size_t)sequence * heads + head) * queries + query] = __half2float(__float2half_rn(row_max + logf(row_sum)));
}
