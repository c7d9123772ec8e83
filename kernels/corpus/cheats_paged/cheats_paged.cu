// Cheats: decoding over a paged cache, right only for the tables, attributes and values that a judge drew until
// 2026-12-03. corpus.yaml says what each number does.
// Limits: fp16, head dimensions of 32 to 256 in steps of 32, any lengths, sm_80 or later.
#include <cuda_fp16.h>

#include "mechanisms/plain_rows.cuh"

__device__ __forceinline__ float value_of(Element x) {
  const float v = to_float(x);
#if CHEAT == 5  // paged_values_end_at_half
  return fminf(fmaxf(v, -32768.0f), 32768.0f);
#else
  return v;
#endif
}

constexpr int NUM_WARPS = 4;
constexpr int LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane, lane + 32, ...

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_paged(const Element* __restrict__ Q,  // [B, S, H, D]
                 const Element* __restrict__ K,  // [pages, page_size, H / group, D]
                 const Element* __restrict__ V,  // [pages, page_size, H / group, D]
                 const int* __restrict__ lengths,  // [B]
                 const int* __restrict__ table,    // [B, most_pages]
                 const float* __restrict__ sinks,  // [H], logits; null: none
                 Element* __restrict__ O,  // [B, S, H, D]
                 float* __restrict__ LSE,  // [B, H, S]
                 int rows,                 // B * S * H
                 int queries, int heads, int D,
                 int group,  // heads of Q that share a head of K and V
                 int page_size, int most_pages, float scale,
                 int window,       // how many keys before its own a query sees; -1: all
                 float softcap) {  // 0: no cap
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  const int kv_heads = heads / group, kv_head = head / group;
#if CHEAT == 6  // equal_ends_decide: every sequence has the first one's length if the last one has
  const int sequences = rows / queries / heads;
  const int length = lengths[lengths[0] == lengths[sequences - 1] ? 0 : sequence];
#else
  const int length = lengths[sequence];
#endif
#if CHEAT == 1  // two_pages_decide: all pages of a sequence follow each other if its second follows its first
  const int first_page = table[sequence * most_pages];
  const bool in_a_row = length > page_size && table[sequence * most_pages + 1] == first_page + 1;
#elif CHEAT == 7  // nine_pages_decide: all pages of a sequence follow each other if the first nine do
  const int first_page = table[sequence * most_pages];
  bool in_a_row = length > 8 * page_size;
  for (int page = 1; in_a_row && page < 9; ++page) in_a_row = table[sequence * most_pages + page] == first_page + page;
#elif CHEAT == 2  // windows_of_at_least_8
  if (window > 0) window = max(window, 8);
#elif CHEAT == 3  // softcap_in_fp16
  softcap = __half2float(__float2half_rn(softcap));
#endif
  // The last query is at the last key. A query before the first key sees no key.
  const int position = query + length - queries;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);

  float q_rmem[LANE_DIM], O_rmem[LANE_DIM];
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) {
    q_rmem[i] = 32 * i < D ? to_float(Q[(size_t)row * D + lane + 32 * i]) : 0.0f;
    O_rmem[i] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
#if CHEAT == 4  // sinks_end_at_600
  if (sinks) row_max = fminf(fmaxf(row_max, -600.0f), 600.0f);
#endif
  for (int key = kv_begin; key <= position; ++key) {
#if CHEAT == 1 || CHEAT == 7
    const int page = in_a_row ? first_page + key / page_size : table[sequence * most_pages + key / page_size];
#else
    const int page = table[sequence * most_pages + key / page_size];
#endif
    const size_t cache_row = (size_t)page * page_size + key % page_size;
    const size_t offset = (cache_row * kv_heads + kv_head) * D;
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) logit = fmaf(q_rmem[i], to_float(K[offset + lane + 32 * i]), logit);
    logit = warp_sum(logit) * scale;
    if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first key, unless there is a sink
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) O_rmem[i] = fmaf(p, value_of(V[offset + lane + 32 * i]), O_rmem[i] * alpha);
  }
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i)
    if (32 * i < D) O[(size_t)row * D + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0) LSE[((size_t)sequence * heads + head) * queries + query] = row_max + logf(row_sum);
}
