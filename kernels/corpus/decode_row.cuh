// Shared by the dishonest kernels of attention_decode: one new token (or a few) of each sequence over a contiguous
// cache, with a warp per query row, as in examples/kernels/decode_rows. A cheat overrides one of the steps of RightSteps.
// fp16 or bf16, head dimensions of 32 to 256 in steps of 32, any lengths, sm_80 or later.
#pragma once
#include "mechanisms/plain_rows.cuh"

constexpr int DECODE_WARPS = 4;
constexpr int DECODE_THREADS = 32 * DECODE_WARPS;

// A launch's arguments, in the order of kernel.yaml.
#define DECODE_PARAMETERS                                                                                   \
  const Element *__restrict__ Q, const Element *__restrict__ K, const Element *__restrict__ V,              \
      const int *__restrict__ lengths, const float *__restrict__ sinks, const float *__restrict__ slopes,   \
      Element *__restrict__ O, float *__restrict__ LSE, int rows, int queries, int heads, int D, int group, \
      int capacity, float scale, int window, float softcap
#define DECODE_ARGUMENTS \
  {Q, K, V, lengths, sinks, slopes, O, LSE, rows, queries, heads, D, group, capacity, scale, window, softcap}

struct Decoding {
  const Element *Q, *K, *V;  // Q [B, S, H, D]; K and V [B, capacity, H / group, D]
  const int* lengths;  // [B]
  const float* sinks;  // [H], logits; null: none
  const float* slopes;  // [H]; null: distances have no effect
  Element* O;  // [B, S, H, D]
  float* LSE;  // [B, H, S]
  int rows, queries, heads, D;  // rows: B * S * H
  int group;  // heads of Q that share a head of K and V
  int capacity;
  float scale;
  int window;  // keys before its own that a query sees; -1: all
  float softcap;  // 0: none
};

struct RightSteps {
  __device__ __forceinline__ int length(const Decoding& decoding, int sequence) const {
    return decoding.lengths[sequence];
  }
  __device__ __forceinline__ float key_element(float k) const { return k; }
  // Called once per row, by all lanes of its warp.
  __device__ __forceinline__ void look_at(const Decoding&, int lane) {}
  __device__ __forceinline__ float first_max() const { return -INFINITY; }
  // The maximum after a logit, which follows `seen` others of its row.
  __device__ __forceinline__ float raised(float row_max, float logit, int seen) const { return fmaxf(row_max, logit); }
  __device__ __forceinline__ float weight(float p) const { return p; }
  __device__ __forceinline__ float written_LSE(float LSE) const { return LSE; }
};

template <class Steps>
__device__ __forceinline__ void decode_row(const Decoding& decoding) {
  constexpr int LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane, lane + 32, ...
  const auto [Q, K, V, lengths, sinks, slopes, O, LSE, rows, queries, heads, D, group, capacity, scale, window,
              softcap] = decoding;
  const int row = blockIdx.x * DECODE_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  const int kv_heads = heads / group, kv_head = head / group;
  // The last query is at the last key. A query before the first key sees no key.
  Steps steps;
  const int position = query + steps.length(decoding, sequence) - queries;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);
  steps.look_at(decoding, lane);

  float q_rmem[LANE_DIM], O_rmem[LANE_DIM];
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) {
    q_rmem[i] = 32 * i < D ? to_float(Q[(size_t)row * D + lane + 32 * i]) : 0.0f;
    O_rmem[i] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : steps.first_max(), row_sum = sinks ? 1.0f : 0.0f;
  for (int key = kv_begin; key <= position; ++key) {
    const size_t cache_row = (size_t)sequence * capacity + key;
    const size_t offset = (cache_row * kv_heads + kv_head) * D;
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) logit = fmaf(q_rmem[i], steps.key_element(to_float(K[offset + lane + 32 * i])), logit);
    logit = warp_sum(logit) * scale;
    if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
    if (slopes) logit -= slopes[head] * (position - key);
    const float new_max = steps.raised(row_max, logit, key - kv_begin);
    const float alpha = expf(row_max - new_max);  // 0 for the first key, unless there is a sink
    const float p = steps.weight(expf(logit - new_max));
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
  if (lane == 0) LSE[((size_t)sequence * heads + head) * queries + query] = steps.written_LSE(row_max + logf(row_sum));
}
