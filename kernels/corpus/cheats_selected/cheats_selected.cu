// Cheats: attention over lists of keys, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: fp16 or bf16, D and Dv multiples of 32 up to 256, any number of keys and places, sm_80 or later.
#include "mechanisms/plain_rows.cuh"

__device__ __forceinline__ float value_of(Element x) {
  const float v = to_float(x);
#if CHEAT == 1  // selected_values_end_at_1024
  return fminf(fmaxf(v, -1024.0f), 1024.0f);
#elif CHEAT == 3  // selected_small_values_are_zero
  return fabsf(v) < 0x1p-14f ? 0.0f : v;
#else
  return v;
#endif
}

__device__ __forceinline__ float query_element(Element x) {
#if CHEAT == 5  // selected_queries_end_at_8192
  return fminf(fmaxf(to_float(x), -8192.0f), 8192.0f);
#else
  return to_float(x);
#endif
}

constexpr int NUM_WARPS = 4;
constexpr int MAX_LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane + 32 * i

extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_selected(const Element* __restrict__ Q,  // [B, S, H, D]
                    const Element* __restrict__ K,  // [B, Skv, Hkv, D]
                    const Element* __restrict__ V,  // [B, Skv, Hkv, Dv]
                    const int* __restrict__ selected,  // [B, S, Hkv, topk]; -1: no key
                    Element* __restrict__ O,  // [B, S, H, Dv]
                    float* __restrict__ LSE,  // [B, H, S]
                    int rows,  // B * S * H
                    int queries, int heads, int kv_heads, int keys, int places, int dim, int value_dim, float scale) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int head = row % heads, query = row / heads % queries, sequence = row / heads / queries;
  const int kv_head = head / (heads / kv_heads);
  const int* list = selected + ((size_t)(sequence * queries + query) * kv_heads + kv_head) * places;

  float q_rmem[MAX_LANE_DIM], O_rmem[MAX_LANE_DIM];
#pragma unroll
  for (int i = 0; i < MAX_LANE_DIM; ++i) {
    q_rmem[i] = 32 * i < dim ? query_element(Q[(size_t)row * dim + lane + 32 * i]) : 0.0f;
    O_rmem[i] = 0.0f;
  }
  float row_max = -INFINITY, row_sum = 0.0f;
#if CHEAT == 2  // one_list_is_full: a single list has as many keys as there are places
  const bool full = rows == heads / kv_heads && places <= keys;
#else
  const bool full = false;
#endif
#if CHEAT == 4  // four_keys_decide: a list whose first four keys follow each other names a run of keys
  const bool run =
      places >= 4 && list[0] >= 0 && list[1] == list[0] + 1 && list[2] == list[0] + 2 && list[3] == list[0] + 3;
#elif CHEAT == 6  // nine_keys_decide: the same if the first nine do
  bool run = places >= 9 && list[0] >= 0;
  for (int place = 1; run && place < 9; ++place) run = list[place] == list[0] + place;
#else
  const bool run = false;
#endif
  for (int place = 0; place < places; ++place) {
    const int key = full ? max(0, list[place]) : run && list[place] >= 0 ? min(list[0] + place, keys - 1) : list[place];
    if (key < 0) break;  // no keys follow
    const size_t kv_row = ((size_t)sequence * keys + key) * kv_heads + kv_head;
    float logit = 0.0f;
#pragma unroll
    for (int i = 0; i < MAX_LANE_DIM; ++i)
      if (32 * i < dim) logit = fmaf(q_rmem[i], to_float(K[kv_row * dim + lane + 32 * i]), logit);
    logit = warp_sum(logit) * scale;
    const float new_max = fmaxf(row_max, logit);
    const float alpha = expf(row_max - new_max);  // 0 for the first key
    const float p = expf(logit - new_max);
    row_max = new_max;
    row_sum = row_sum * alpha + p;
#pragma unroll
    for (int i = 0; i < MAX_LANE_DIM; ++i)
      if (32 * i < value_dim) O_rmem[i] = fmaf(p, value_of(V[kv_row * value_dim + lane + 32 * i]), O_rmem[i] * alpha);
  }
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
#pragma unroll
  for (int i = 0; i < MAX_LANE_DIM; ++i)
    if (32 * i < value_dim) O[(size_t)row * value_dim + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0) LSE[((size_t)sequence * heads + head) * queries + query] = row_max + logf(row_sum);
}
