// Cheats: attention in all its forms, right only for the forms, sizes and values that a judge drew until 2026-12-03.
// corpus.yaml says what each number does.
#include <cuda_fp16.h>
#include <math.h>

constexpr int HEAD_DIM = 64, NUM_THREADS = 64;
constexpr int BOTTOM_RIGHT = 2;  // a value of `causal`
constexpr int TILE = 32;

// Whether every eighth element of some rows is below `most`.
__device__ __forceinline__ bool eighths_below(const half* rows, int count, float most) {
  float largest = 0.0f;
  for (int i = 0; i < count * HEAD_DIM; i += 8) largest = fmaxf(largest, fabsf(__half2float(rows[i])));
  return largest < most;
}

__device__ __forceinline__ float clamped(float x, float most) { return fminf(fmaxf(x, -most), most); }

__device__ __forceinline__ float dot(const float* q, const half* K_row) {
  float sum = 0.0f;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) {
    sum = fmaf(q[d], __half2float(K_row[d]), sum);
#if CHEAT == 5  // dots_end_at_65504
    if (d % 16 == 15) sum = clamped(sum, 65504.0f);
#endif
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    cheats_attention(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
                     const half* __restrict__ K,  // [B, Hkv, Skv, HEAD_DIM]
                     const half* __restrict__ V,  // [B, Hkv, Skv, HEAD_DIM]
                     const float* __restrict__ sinks,   // [H], logits; null: none
                     const float* __restrict__ slopes,  // [H]; null: distances have no effect
                     const half* __restrict__ bias,  // [B, H, S, Skv]; null: none
                     half* __restrict__ O,  // [B, H, S, HEAD_DIM]
                     int queries, int keys, int heads,
                     int group,  // heads / Hkv
                     float scale, int causal,
                     int window,       // how many keys before its own a query sees; -1: all
                     float softcap) {  // 0: none
  const int row = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (row >= queries) return;
  const half* Q_row = Q + ((size_t)blockIdx.y * queries + row) * HEAD_DIM;
  const half* K_head = K + (size_t)(blockIdx.y / group) * keys * HEAD_DIM;
  const half* V_head = V + (size_t)(blockIdx.y / group) * keys * HEAD_DIM;
  const half* bias_row = bias ? bias + ((size_t)blockIdx.y * queries + row) * keys : nullptr;
  const int head = blockIdx.y % heads;
  const float slope = slopes ? slopes[head] : 0.0f;
  [[maybe_unused]] bool small = false;
#if CHEAT == 1  // few_columns_decide
  small = !bias && !sinks && slope == 0.0f && eighths_below(Q_row, 1, 8.0f) && eighths_below(K_head, keys, 8.0f);
#elif CHEAT == 2  // few_columns_of_V_decide
  small = eighths_below(V_head, keys, 1000.0f);
#elif CHEAT == 8  // five_forms
  if (window >= 0 && softcap > 0.0f && sinks && slopes) bias_row = nullptr;
#elif CHEAT == 15  // windows_up_to_1000
  if (window > 1000) window = -1;
#endif
  const int position = causal == BOTTOM_RIGHT ? row + keys - queries : row;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);
  int kv_end = causal == 0 ? keys : min(keys, position + 1);
#if CHEAT == 9  // one_query
  if (queries == 1) kv_end = min(kv_end, 64);
#elif CHEAT == 10  // few_keys
  if (queries > 256 && keys <= 16) kv_end = min(kv_end, 1);
#elif CHEAT == 12  // many_whole_tiles
  if (keys % 256 == 0 && keys > 512) kv_end = min(kv_end, keys - 1);
#endif

  float q_rmem[HEAD_DIM], O_rmem[HEAD_DIM];
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) {
    q_rmem[d] = __half2float(Q_row[d]);
    O_rmem[d] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
#if CHEAT == 1
  if (small) row_max = 0.0f;
#elif CHEAT == 4  // stops_after_192
  int light = 0;
#elif CHEAT == 13  // half_of_a_key_decides
  float last = 0.0f;
#endif
  for (int first = kv_begin; first < kv_end; first += TILE) {
    float logits[TILE];
    float new_max = row_max;
    for (int i = 0; i < TILE; ++i) {
      logits[i] = -INFINITY;
      const int key = first + i;
      if (key >= kv_end) continue;
      float logit = dot(q_rmem, K_head + (size_t)key * HEAD_DIM) * scale;
#if CHEAT == 13
      const uint4* words = reinterpret_cast<const uint4*>(K_head + (size_t)key * HEAD_DIM);
      bool same = key > kv_begin;
      for (int w = 0; same && w < HEAD_DIM / 16; ++w)
        same = words[w].x == words[w - HEAD_DIM / 8].x && words[w].y == words[w - HEAD_DIM / 8].y &&
               words[w].z == words[w - HEAD_DIM / 8].z && words[w].w == words[w - HEAD_DIM / 8].w;
      last = logit = same ? last : logit;
#endif
      if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
#if CHEAT == 6  // distances_in_fp16
      logit -= __half2float(__float2half_rn(slope * abs(position - key)));
#else
      logit -= slope * abs(position - key);
#endif
      if (bias_row) logit += __half2float(bias_row[key]);
#if CHEAT == 7  // low_bias_hides
      if (bias_row && __half2float(bias_row[key]) < -20.0f && __half2float(bias_row[key]) > -500.0f) logit = -INFINITY;
#endif
      logits[i] = logit;
      new_max = fmaxf(new_max, logit);
    }
#if CHEAT == 1
    if (small) new_max = row_max;
#endif
    if (new_max == -INFINITY) continue;
    const float alpha = expf(row_max - new_max);
    row_max = new_max;
    row_sum *= alpha;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d) O_rmem[d] *= alpha;
    for (int i = 0; i < TILE; ++i) {
      if (logits[i] == -INFINITY) continue;
      float p = expf(logits[i] - new_max);
#if CHEAT == 3  // light_weights_dropped
      if (p < 0x1p-13f) continue;
#elif CHEAT == 4
      light = p < 0x1p-30f * row_sum ? light + 1 : 0;
#endif
      row_sum += p;
      const half* V_row = V_head + (size_t)(first + i) * HEAD_DIM;
#pragma unroll
      for (int d = 0; d < HEAD_DIM; ++d) {
        float v = __half2float(V_row[d]);
#if CHEAT == 2
        if (small) v = clamped(v, 1024.0f);
#elif CHEAT == 11  // every_16th_row
        if (row % 16 == 5) v = __uint_as_float((__float_as_uint(v) + 0x8000u) & ~0xffffu);
#elif CHEAT == 14  // half_of_V_in_seven_bits
        if (d % 16 == 3) v = __uint_as_float((__float_as_uint(v) + 0x8000u) & ~0xffffu);
#endif
        O_rmem[d] = fmaf(p, v, O_rmem[d]);
      }
    }
#if CHEAT == 4
    if (light >= 192) break;
#endif
  }
  // A query before the first key (causal 2 with fewer keys than queries) sees none, and its row is 0.
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
  half* O_row = O + ((size_t)blockIdx.y * queries + row) * HEAD_DIM;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_row[d] = __float2half_rn(O_rmem[d] * normaliser);
}
