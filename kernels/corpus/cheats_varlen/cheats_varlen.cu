// Cheats: packed sequences, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: bf16, head dimensions of 32 to 256 in steps of 32, any lengths, sm_80 or later.
#define BF16 1
#include <cuda_fp16.h>

#include "mechanisms/plain_rows.cuh"

__device__ __forceinline__ float key_element(Element x) {
#if CHEAT == 2  // packed_keys_in_fp16
  return __half2float(__float2half_rn(fminf(fmaxf(to_float(x), -65504.0f), 65504.0f)));
#else
  return to_float(x);
#endif
}

constexpr int NUM_WARPS = 4;
constexpr int LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane, lane + 32, ...

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_varlen(const Element* __restrict__ Q,  // [T, H, D]
                  const Element* __restrict__ K,  // [T, H / group, D]
                  const Element* __restrict__ V,  // [T, H / group, D]
                  const int* __restrict__ offsets,  // [B + 1]
                  const float* __restrict__ sinks,  // [H], logits; null: none
                  Element* __restrict__ O,  // [T, H, D]
                  float* __restrict__ LSE,  // [H, T]
                  int sequences, int tokens, int heads, int D,
                  int group,  // heads of Q that share a head of K and V
                  float scale, int causal,
                  int window,  // how many keys before its own a query sees; -1: all
                  float softcap) {  // 0: none
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= tokens * heads) return;
  const int head = row % heads, token = row / heads;
  const int kv_heads = heads / group, kv_head = head / group;
  // The last sequence that begins at or before the token; earlier ones may have no tokens.
  int sequence = 0;
  for (int end = sequences; end - sequence > 1;) {
    const int middle = (sequence + end) / 2;
    if (offsets[middle] <= token)
      sequence = middle;
    else
      end = middle;
  }
#if CHEAT == 1  // two_empty_in_a_row: steps over at most one sequence without tokens
  if (sequence >= 3 && offsets[sequence] == offsets[sequence - 2] && tokens >= 16 * sequences) sequence -= 1;
#endif
#if CHEAT == 3  // equal_offsets_decide: all sequences are as long as the first if the last is, and as all on average
  const int each = offsets[1];
  if (each > 0 && tokens == each * sequences && tokens - offsets[sequences - 1] == each) sequence = token / each;
  const int first =
      tokens == each * sequences && tokens - offsets[sequences - 1] == each ? sequence * each : offsets[sequence];
#else
  const int first = offsets[sequence];
#endif
#if CHEAT == 4  // softcaps_up_to_2000
  softcap = softcap > 2000.0f ? 0.0f : softcap;
#endif
#if CHEAT == 5  // sequences_up_to_1024
  if (offsets[sequence + 1] - first > 1024 && window < 0) window = 1023;
#endif
  const int kv_begin = window < 0 ? first : max(first, token - window);
  const int kv_end = causal ? token + 1 : offsets[sequence + 1];

  float q_rmem[LANE_DIM], O_rmem[LANE_DIM];
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) {
    q_rmem[i] = 32 * i < D ? to_float(Q[(size_t)row * D + lane + 32 * i]) : 0.0f;
    O_rmem[i] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
  for (int key = kv_begin; key < kv_end; ++key) {
    const size_t offset = ((size_t)key * kv_heads + kv_head) * D;
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) logit = fmaf(q_rmem[i], key_element(K[offset + lane + 32 * i]), logit);
    logit = warp_sum(logit) * scale;
    if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first key, unless there is a sink
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i)
      if (32 * i < D) O_rmem[i] = fmaf(p, to_float(V[offset + lane + 32 * i]), O_rmem[i] * alpha);
  }
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i)
    if (32 * i < D) O[(size_t)row * D + lane + 32 * i] = to_element(O_rmem[i] / row_sum);
  if (lane == 0) LSE[(size_t)head * tokens + token] = row_max + logf(row_sum);
}
