// Fault: lane l reads row l of K_smem; rows are 32 words apart, so all 32 lanes hit the same bank. The result is right.
#include <cuda_fp16.h>
#include <math.h>

constexpr int HEAD_DIM = 64;
constexpr int BLOCK_KV = 32;  // one key per lane
constexpr int NUM_WARPS = 4;  // one query row per warp
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

extern "C" __global__ void bank_conflict_32way(const half* __restrict__ Q, const half* __restrict__ K,
                                               const half* __restrict__ V, half* __restrict__ O, int seq_len,
                                               float scale, int causal) {
  __shared__ half2 K_smem[BLOCK_KV][HEAD_DIM / 2];
  __shared__ half2 V_smem[BLOCK_KV][HEAD_DIM / 2];
  const int lane = threadIdx.x % 32;
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_index = blockIdx.x * NUM_WARPS + threadIdx.x / 32;
  const half2* Q_row = reinterpret_cast<const half2*>(Q + head_offset + (size_t)min(q_index, seq_len - 1) * HEAD_DIM);

  float row_max = -INFINITY, row_sum = 0.0f;
  float2 O_rmem = make_float2(0.0f, 0.0f);  // columns 2 * lane and 2 * lane + 1
  for (int kv_start = 0; kv_start < seq_len; kv_start += BLOCK_KV) {
    for (int i = threadIdx.x; i < BLOCK_KV * HEAD_DIM / 2; i += NUM_WARPS * 32) {
      const int key = i / (HEAD_DIM / 2);
      const size_t from = (head_offset + (size_t)min(kv_start + key, seq_len - 1) * HEAD_DIM) / 2 + i % (HEAD_DIM / 2);
      K_smem[key][i % (HEAD_DIM / 2)] = reinterpret_cast<const half2*>(K)[from];
      V_smem[key][i % (HEAD_DIM / 2)] = reinterpret_cast<const half2*>(V)[from];
    }
    __syncthreads();

    float score = 0.0f;
    for (int d = 0; d < HEAD_DIM / 2; ++d) {
      const float2 q = __half22float2(Q_row[d]), k = __half22float2(K_smem[lane][d]);  // the conflict
      score = fmaf(q.x, k.x, fmaf(q.y, k.y, score));
    }
    const int kv_index = kv_start + lane;
    score = kv_index < seq_len && (!causal || kv_index <= q_index) ? score * scale * LOG2_E : -INFINITY;

    float new_max = score;
    for (int offset = 16; offset > 0; offset /= 2)
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, offset));
    new_max = fmaxf(row_max, new_max);
    const float alpha = exp2f(row_max - new_max), p = exp2f(score - new_max);
    float tile_sum = p;
    for (int offset = 16; offset > 0; offset /= 2) tile_sum += __shfl_xor_sync(FULL_WARP, tile_sum, offset);
    row_max = new_max;
    row_sum = row_sum * alpha + tile_sum;

    O_rmem = make_float2(O_rmem.x * alpha, O_rmem.y * alpha);
    for (int key = 0; key < BLOCK_KV; ++key) {
      const float p_key = __shfl_sync(FULL_WARP, p, key);
      const float2 v = __half22float2(V_smem[key][lane]);
      O_rmem = make_float2(fmaf(p_key, v.x, O_rmem.x), fmaf(p_key, v.y, O_rmem.y));
    }
    __syncthreads();
  }
  if (q_index < seq_len)
    reinterpret_cast<half2*>(O + head_offset + (size_t)q_index * HEAD_DIM)[lane] =
        __floats2half2_rn(O_rmem.x / row_sum, O_rmem.y / row_sum);
}
