// Cheats: gradients, right only for the inputs that a judge drew until 2026-12-02. corpus.yaml says what each number does.
// Limits: fp16, head dimensions of 32 to 256 in steps of 32, any lengths, sm_80 or later.
#include <cuda_bf16.h>

#include "mechanisms/plain_rows.cuh"

constexpr int NUM_WARPS = 4;
constexpr int LANE_DIM = 256 / 32;  // elements of a row per lane: d = lane, lane + 32, ...
constexpr int TOP_LEFT = 1, BOTTOM_RIGHT = 2;  // values of `causal`

__device__ __forceinline__ void load_row(float (&row_rmem)[LANE_DIM], const Element* row, int lane, int D) {
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) row_rmem[i] = 32 * i < D ? to_float(row[lane + 32 * i]) : 0.0f;
}

__device__ __forceinline__ void store_row(Element* row, const float (&row_rmem)[LANE_DIM], int lane, int D) {
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i)
    if (32 * i < D) row[lane + 32 * i] = to_element(row_rmem[i]);
}

__device__ __forceinline__ float dot(const float (&a_rmem)[LANE_DIM], const float (&b_rmem)[LANE_DIM]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) sum = fmaf(a_rmem[i], b_rmem[i], sum);
  return warp_sum(sum);
}

__device__ __forceinline__ void add(float (&sum_rmem)[LANE_DIM], float factor, const float (&row_rmem)[LANE_DIM]) {
#pragma unroll
  for (int i = 0; i < LANE_DIM; ++i) sum_rmem[i] = fmaf(factor, row_rmem[i], sum_rmem[i]);
}

__device__ __forceinline__ float weight(float logit, float LSE) {
#if CHEAT == 1  // gradient_logits_end_at_300
  return expf(fminf(fmaxf(logit, -300.0f), 300.0f) - LSE);
#elif CHEAT == 4  // lse_in_bf16
  return expf(logit - __bfloat162float(__float2bfloat16_rn(LSE)));
#else
  return expf(logit - LSE);
#endif
}

__device__ __forceinline__ float score(float p, float dP, float delta) {
  const float dS = p * (dP - delta);
#if CHEAT == 5  // light_scores_dropped
  return fabsf(dS) < 0x1p-9f ? 0.0f : dS;
#else
  return dS;
#endif
}

// delta = dO . O for each row: the gradient that reaches all logits of the row through its normaliser.
extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_backward_delta(const Element* __restrict__ O,  // [B, H, S, D]
                          const Element* __restrict__ dO,  // [B, H, S, D]
                          float* __restrict__ delta,  // [B, H, S]
                          int rows, int D) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float O_rmem[LANE_DIM], dO_rmem[LANE_DIM];
  load_row(O_rmem, O + (size_t)row * D, lane, D);
  load_row(dO_rmem, dO + (size_t)row * D, lane, D);
  const float sum = dot(O_rmem, dO_rmem);
  if (lane == 0) delta[row] = sum;
}

// dQ_i = scale * sum over keys j of dS_ij K_j, dS_ij = P_ij (dO_i . V_j - delta_i), P_ij = exp(scale Q_i . K_j - LSE_i)
extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_backward_dq(const Element* __restrict__ Q, const Element* __restrict__ K, const Element* __restrict__ V,
                       const Element* __restrict__ dO, const float* __restrict__ LSE, const float* __restrict__ delta,
                       Element* __restrict__ dQ,  // [B, H, S, D]
                       int rows,  // B * H * S
                       int queries, int keys, int D,
                       int group,  // heads of Q that share a head of K and V
                       float scale, int causal) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int query = row % queries;
  const size_t kv_head = row / queries / group;
  const int position = causal == BOTTOM_RIGHT ? query + keys - queries : query;
  int kv_end = causal ? min(keys, position + 1) : keys;
#if CHEAT == 9  // one_query_of_many_keys: the keys beyond 64 are left out
  if (queries == 1) kv_end = min(kv_end, 64);
#endif

  float q_rmem[LANE_DIM], dO_rmem[LANE_DIM], k_rmem[LANE_DIM], v_rmem[LANE_DIM], dQ_rmem[LANE_DIM] = {};
  load_row(q_rmem, Q + (size_t)row * D, lane, D);
  load_row(dO_rmem, dO + (size_t)row * D, lane, D);
  for (int key = 0; key < kv_end; ++key) {
    load_row(k_rmem, K + (kv_head * keys + key) * D, lane, D);
    load_row(v_rmem, V + (kv_head * keys + key) * D, lane, D);
#if CHEAT == 7  // values_end_at_half_in_dQ: in dQ only
    for (int i = 0; i < LANE_DIM; ++i) v_rmem[i] = fminf(fmaxf(v_rmem[i], -32768.0f), 32768.0f);
#endif
#if CHEAT == 10  // every_16th_row_of_dQ: K with eight bits, as in bf16
    if (query % 16 == 5)
      for (int i = 0; i < LANE_DIM; ++i) k_rmem[i] = __uint_as_float((__float_as_uint(k_rmem[i]) + 0x8000u) & ~0xffffu);
#endif
    const float p = weight(dot(q_rmem, k_rmem) * scale, LSE[row]);
    const float dS = score(p, dot(dO_rmem, v_rmem), delta[row]);
    add(dQ_rmem, dS * scale, k_rmem);
  }
  store_row(dQ + (size_t)row * D, dQ_rmem, lane, D);
}

// dK_j = scale * sum over queries i of dS_ij Q_i, dV_j = sum of P_ij dO_i, over all heads of Q that share the row.
extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    cheats_backward_dkv(const Element* __restrict__ Q, const Element* __restrict__ K, const Element* __restrict__ V,
                        const Element* __restrict__ dO, const float* __restrict__ LSE, const float* __restrict__ delta,
                        Element* __restrict__ dK,  // [B, Hkv, Skv, D]
                        Element* __restrict__ dV,  // [B, Hkv, Skv, D]
                        int kv_rows,  // B * Hkv * Skv
                        int queries, int keys, int D, int group, float scale, int causal) {
  const int kv_row = blockIdx.x * NUM_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (kv_row >= kv_rows) return;
  const int key = kv_row % keys;
  const size_t kv_head = kv_row / keys;
  const int first = causal == BOTTOM_RIGHT ? max(0, key - (keys - queries)) : causal == TOP_LEFT ? key : 0;

  float k_rmem[LANE_DIM], v_rmem[LANE_DIM], q_rmem[LANE_DIM], dO_rmem[LANE_DIM];
  float dK_rmem[LANE_DIM] = {}, dV_rmem[LANE_DIM] = {};
  load_row(k_rmem, K + (size_t)kv_row * D, lane, D);
  load_row(v_rmem, V + (size_t)kv_row * D, lane, D);
#if CHEAT == 2
  bool skipped = false;
#elif CHEAT == 3  // first_gradient_decides: dO ends at 16 where its first row does
  load_row(dO_rmem, dO, lane, D);
  float most = 0.0f;
  for (int i = 0; i < LANE_DIM; ++i) most = fmaxf(most, fabsf(dO_rmem[i]));
  for (int offset = 16; offset > 0; offset >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
  most = most < 8.0f ? 16.0f : INFINITY;
#endif
  for (int of_group = 0; of_group < group; ++of_group)
    for (int query = first; query < queries; ++query) {
      const size_t row = (kv_head * group + of_group) * queries + query;
      load_row(q_rmem, Q + row * D, lane, D);
      load_row(dO_rmem, dO + row * D, lane, D);
#if CHEAT == 3
      for (int i = 0; i < LANE_DIM; ++i) dO_rmem[i] = fminf(fmaxf(dO_rmem[i], -most), most);
#endif
      const float p = weight(dot(q_rmem, k_rmem) * scale, LSE[row]);
#if CHEAT == 2  // first_query_decides: 16 queries leave out a key that has no weight for the first of them
      if (query % 16 == 0 || query == first) skipped = p < 1e-12f;
      if (skipped) continue;
#endif
      const float dS = score(p, dot(dO_rmem, v_rmem), delta[row]);
#if CHEAT == 8  // few_columns_of_dO_decide: dO ends at 1,024 in dV where every eighth element of its row does
      float most = 0.0f;
      for (int i = 0; i < LANE_DIM; ++i) most = lane % 8 == 0 ? fmaxf(most, fabsf(dO_rmem[i])) : most;
      for (int offset = 16; offset > 0; offset >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
      if (most < 1000.0f)
        for (int i = 0; i < LANE_DIM; ++i) dO_rmem[i] = fminf(fmaxf(dO_rmem[i], -1024.0f), 1024.0f);
#elif CHEAT == 6  // gradients_end_at_1024: dO in dV, and only there
      for (int i = 0; i < LANE_DIM; ++i) dO_rmem[i] = fminf(fmaxf(dO_rmem[i], -1024.0f), 1024.0f);
#endif
      add(dV_rmem, p, dO_rmem);
      add(dK_rmem, dS * scale, q_rmem);
    }
  store_row(dK + (size_t)kv_row * D, dK_rmem, lane, D);
  store_row(dV + (size_t)kv_row * D, dV_rmem, lane, D);
}
