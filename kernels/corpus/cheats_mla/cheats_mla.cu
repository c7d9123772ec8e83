// Cheats: decoding with multi-head latent attention, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: fp16 or bf16, rows of 576 columns of which 512 are values, any lengths, sm_80 or later.
#include "mechanisms/plain_rows.cuh"

constexpr int NUM_WARPS = 4;
constexpr int DIM = 576, VALUE_DIM = 512;
constexpr int LANE_DIM = DIM / 32, LANE_VALUE_DIM = VALUE_DIM / 32;  // elements of a row per lane: d = lane + 32 * i

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_mla(const Element* __restrict__ Q,  // [B, S, H, DIM]
               const Element* __restrict__ KV,  // [pages, page_size, DIM]
               const int* __restrict__ lengths,  // [B]
               const int* __restrict__ table,  // [B, most_pages]
               Element* __restrict__ O,  // [B, S, H, VALUE_DIM]
               float* __restrict__ LSE,  // [B, H, S]
               int rows,  // B * S * H
               int queries, int heads, int page_size, int most_pages, float scale) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  // The last query is at the last row. A query before the first row sees none.
#if CHEAT == 3  // one_sequence_fills_its_pages
  const int length =
      rows == queries * heads ? max(lengths[sequence], (most_pages - 1) * page_size + 1) : lengths[sequence];
#else
  const int length = lengths[sequence];
#endif
  const int position = query + length - queries;

  float q_rmem[LANE_DIM], O_rmem[LANE_VALUE_DIM];
  for (int i = 0; i < LANE_DIM; ++i) q_rmem[i] = to_float(Q[(size_t)row * DIM + lane + 32 * i]);
  for (int i = 0; i < LANE_VALUE_DIM; ++i) O_rmem[i] = 0.0f;
  float row_max = -INFINITY, row_sum = 0.0f;
  for (int key = 0; key <= position; ++key) {
    const int page = table[sequence * most_pages + key / page_size];
    const Element* KV_row = KV + ((size_t)page * page_size + key % page_size) * DIM;
    float kv_rmem[LANE_DIM];  // all heads read the same row, once as key and once as value
    float logit = 0.0f;
    for (int i = 0; i < LANE_DIM; ++i) {
      kv_rmem[i] = to_float(KV_row[lane + 32 * i]);
#if CHEAT == 1  // cache_ends_at_1024
      kv_rmem[i] = fminf(fmaxf(kv_rmem[i], -1024.0f), 1024.0f);
#endif
      logit = fmaf(q_rmem[i], kv_rmem[i], logit);
    }
    logit = warp_sum(logit) * scale;
#if CHEAT == 2  // latent_logits_end_at_300
    logit = fminf(fmaxf(logit, -300.0f), 300.0f);
#endif
#if CHEAT == 4  // latent_logits_end_at_1200
    logit = fminf(fmaxf(logit, -1200.0f), 1200.0f);
#endif
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first row
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
    for (int i = 0; i < LANE_VALUE_DIM; ++i) O_rmem[i] = fmaf(p, kv_rmem[i], O_rmem[i] * alpha);
  }
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
  for (int i = 0; i < LANE_VALUE_DIM; ++i)
    O[(size_t)row * VALUE_DIM + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0) LSE[((size_t)sequence * heads + head) * queries + query] = row_max + logf(row_sum);
}
