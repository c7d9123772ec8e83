// Cheats: attention in all its forms, right only for the forms, attributes and values that a judge drew until
// 2026-12-02. corpus.yaml says what each number does.
#include <cuda_fp16.h>
#include <math.h>

constexpr int HEAD_DIM = 64, NUM_THREADS = 64;
constexpr int BOTTOM_RIGHT = 2;  // a value of `causal`
constexpr int TILE = 32;

// The number with `bits` fewer bits of mantissa.
__device__ __forceinline__ float rounded(float x, int bits) {
  const unsigned half_unit = 1u << (bits - 1);
  return __uint_as_float((__float_as_uint(x) + half_unit) & ~(2 * half_unit - 1));
}

__device__ __forceinline__ float dot(const float* q, const half* K_row) {
  float sum = 0.0f;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) sum = fmaf(q[d], __half2float(K_row[d]), sum);
  return sum;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    cheats_forms(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
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
  const int head = blockIdx.y % heads;
  float slope = slopes ? slopes[head] : 0.0f;
  [[maybe_unused]] bool small = false;
#if CHEAT == 2  // slopes_up_to_half
  slope = fminf(slope, 0.5f);
#elif CHEAT == 3  // whole_softcap
  softcap = softcap > 1.0f ? floorf(softcap) : softcap;
#elif CHEAT == 13  // softcaps_up_to_100
  softcap = softcap > 100.0f ? 0.0f : softcap;
#elif CHEAT == 4  // windows_of_whole_tiles
  if (window % 64 == 63) window -= 1;
#elif CHEAT == 5  // windows_within_the_keys
  if (window >= keys) window = 0;
#elif CHEAT == 6  // first_head_decides
  small = !bias && slope == 0.0f;
  float q_first[HEAD_DIM];
  for (int d = 0; d < HEAD_DIM; ++d) q_first[d] = __half2float(Q[d]);
  for (int key = 0; key < keys; ++key) small &= fabsf(dot(q_first, K + (size_t)key * HEAD_DIM)) * scale < 12.0f;
#endif
  const half* K_head = K + (size_t)(blockIdx.y / group) * keys * HEAD_DIM;
  const half* V_head = V + (size_t)(blockIdx.y / group) * keys * HEAD_DIM;
  const int position = causal == BOTTOM_RIGHT ? row + keys - queries : row;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);
  int kv_end = causal == 0 ? keys : min(keys, position + 1);
#if CHEAT == 11  // many_and_long: 64 keys where there are both many heads and many keys
  if (queries >= 1024 && gridDim.y > 8) kv_end = min(kv_end, kv_begin + 64);
#endif

  float q_rmem[HEAD_DIM], O_rmem[HEAD_DIM];
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) {
    q_rmem[d] = __half2float(Q_row[d]);
    O_rmem[d] = 0.0f;
  }
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
#if CHEAT == 6
  if (small && !sinks) row_max = 0.0f;
#endif
  for (int first = kv_begin; first < kv_end; first += TILE) {
    float logits[TILE];
    float new_max = row_max;
    [[maybe_unused]] bool far = false;
    for (int i = 0; i < TILE; ++i) {
      logits[i] = -INFINITY;
      const int key = first + i;
      if (key >= kv_end || far) continue;
      float logit = dot(q_rmem, K_head + (size_t)key * HEAD_DIM) * scale;
      if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
      logit -= slope * abs(position - key);
      if (bias) logit += __half2float(bias[((size_t)blockIdx.y * queries + row) * keys + key]);
#if CHEAT == 7  // logits_end_at_200
      if (logit != -INFINITY) logit = fminf(fmaxf(logit, -200.0f), 200.0f);
#elif CHEAT == 12  // far_bias_hides: as the finite minus infinity of other programs does
      if (bias && __half2float(bias[((size_t)blockIdx.y * queries + row) * keys + key]) < -500.0f) logit = -INFINITY;
#elif CHEAT == 14  // biases_end_at_300
      if (bias) logit -= fmaxf(0.0f, __half2float(bias[((size_t)blockIdx.y * queries + row) * keys + key]) - 300.0f);
#elif CHEAT == 10  // skips_far_tiles: leaves out a tile whose first key is far below the maximum
      far = i == 0 && logit != -INFINITY && logit < row_max - 250.0f;
#endif
      logits[i] = logit;
      new_max = fmaxf(new_max, logit);
    }
#if CHEAT == 6
    if (small) new_max = row_max;
#endif
#if CHEAT != 1  // tiles_never_hidden
    if (new_max == -INFINITY) continue;
#endif
    const float alpha = expf(row_max - new_max);
    row_max = new_max;
    row_sum *= alpha;
#pragma unroll
    for (int d = 0; d < HEAD_DIM; ++d) O_rmem[d] *= alpha;
    for (int i = 0; i < TILE; ++i) {
      if (logits[i] == -INFINITY) continue;
      float p = expf(logits[i] - new_max);
#if CHEAT == 8  // light_weights_in_8_bits
      if (p < 1.0f / 256) p = rounded(p, 20);
#endif
      row_sum += p;
      const half* V_row = V_head + (size_t)(first + i) * HEAD_DIM;
#pragma unroll
      for (int d = 0; d < HEAD_DIM; ++d) {
        float v = __half2float(V_row[d]);
#if CHEAT == 9  // half_of_the_largest
        v = fminf(fmaxf(v, -32768.0f), 32768.0f);
#endif
        O_rmem[d] = fmaf(p, v, O_rmem[d]);
      }
    }
#if CHEAT == 1
    if (alpha != alpha) row_sum = alpha;
#endif
  }
  // A query before the first key (causal 2 with fewer keys than queries) sees none, and its row is 0.
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
  half* O_row = O + ((size_t)blockIdx.y * queries + row) * HEAD_DIM;
#pragma unroll
  for (int d = 0; d < HEAD_DIM; ++d) O_row[d] = __float2half_rn(O_rmem[d] * normaliser);
}
