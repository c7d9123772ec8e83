// gqa_rows: attention with fewer heads of K and V than of Q, with a thread per query row.
// Limits: fp16 or bf16, HEAD_DIM of K and V, any lengths >= 1, sm_80 or later.
#include <math.h>

#include "mechanisms/element.cuh"

constexpr int NUM_THREADS = 128;
constexpr int TOP_LEFT = 1, BOTTOM_RIGHT = 2;  // values of `causal`

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    gqa_rows(const Element* __restrict__ Q,  // [B, H, S, HEAD_DIM]
             const Element* __restrict__ K,  // [B, Hkv, Skv, HEAD_DIM]
             const Element* __restrict__ V,  // [B, Hkv, Skv, HEAD_DIM]
             const float* __restrict__ sinks,   // [H], logits; null: none
             const float* __restrict__ slopes,  // [H]; null: distances have no effect
             const Element* __restrict__ bias,  // [B, H, S, Skv]; null: none
             Element* __restrict__ O,          // [B, H, S, HEAD_DIM]
#if WRITE_LSE
             float* __restrict__ LSE,  // [B, H, S]
#endif
             int queries, int keys, int heads,
             int group,  // heads / Hkv
             float scale, int causal,
             int window,       // how many keys before its own a query sees; -1: all
             float softcap) {  // 0: none
  const int row = blockIdx.x * NUM_THREADS + threadIdx.x;
  if (row >= queries) return;
  const Element* Q_row = Q + ((size_t)blockIdx.y * queries + row) * HEAD_DIM;
  const size_t kv_head = blockIdx.y / group;
  const int position = causal == BOTTOM_RIGHT ? row + keys - queries : row;
  const int kv_begin = window < 0 ? 0 : max(0, position - window);
  const int kv_end = causal == 0 ? keys : min(keys, position + 1);

  float q_rmem[HEAD_DIM], O_rmem[HEAD_DIM];
  for (int d = 0; d < HEAD_DIM; ++d) {
    q_rmem[d] = to_float(Q_row[d]);
    O_rmem[d] = 0.0f;
  }
  const int head = blockIdx.y % heads;
  // A sink acts as a key without a value.
  float row_max = sinks ? sinks[head] : -INFINITY, row_sum = sinks ? 1.0f : 0.0f;
  for (int key = kv_begin; key < kv_end; ++key) {
    const Element* K_row = K + (kv_head * keys + key) * HEAD_DIM;
    const Element* V_row = V + (kv_head * keys + key) * HEAD_DIM;
    float logit = 0.0f;
    for (int d = 0; d < HEAD_DIM; ++d) logit = fmaf(q_rmem[d], to_float(K_row[d]), logit);
    logit *= scale;
    if (softcap > 0.0f) logit = softcap * tanhf(logit / softcap);
    if (slopes) logit -= slopes[head] * abs(position - key);
    if (bias) logit += to_float(bias[((size_t)blockIdx.y * queries + row) * keys + key]);
    if (logit == -INFINITY) continue;  // hidden by the bias; this may happen before any visible key
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first key, unless there is a sink
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
    for (int d = 0; d < HEAD_DIM; ++d) O_rmem[d] = fmaf(p, to_float(V_row[d]), O_rmem[d] * alpha);
  }
  // A query before the first key (causal 2 with fewer keys than queries) sees none, and its row is 0.
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
  Element* O_row = O + ((size_t)blockIdx.y * queries + row) * HEAD_DIM;
  for (int d = 0; d < HEAD_DIM; ++d) O_row[d] = to_element(O_rmem[d] * normaliser);
#if WRITE_LSE
  LSE[(size_t)blockIdx.y * queries + row] = row_max + logf(row_sum);  // -infinity for a row that sees no key
#endif
}
