// fa_v1_baseline: attention without tensor cores, a tile of 32 queries against tiles of 32 keys in shared memory.
// Heads of Q may share keys. Limits: fp16 or bf16, HEAD_DIM 64, lengths >= 1, tensors aligned to 16 bytes, sm_80 or later.
#include <math.h>

#include "mechanisms/attention_form.cuh"
#include "mechanisms/element.cuh"

constexpr int HEAD_DIM = 64;
// From kernel.yaml: BLOCK_Q query rows per CTA and NUM_THREADS threads per CTA.
constexpr int BLOCK_KV = 32;
constexpr int THREADS_PER_ROW = NUM_THREADS / BLOCK_Q;  // 4, neighbours in one warp
constexpr int KEYS_PER_THREAD = BLOCK_KV / THREADS_PER_ROW;  // 8
constexpr int COLS_PER_THREAD = HEAD_DIM / THREADS_PER_ROW;  // 16
constexpr int ROW_STRIDE =
    HEAD_DIM + 8;  // rows 36 words apart: 8 rows that are read together are in 8 different groups of 4 banks
constexpr int CHUNK = 8;  // elements in one 16-byte load
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

// Copies `rows` rows of HEAD_DIM elements from device to shared memory; rows past the sequence become 0, so that they add
// nothing.
__device__ __forceinline__ void load_tile(Element* tile_smem, const Element* rows_gmem, int first_row, int rows,
                                          int length) {
  for (int chunk = threadIdx.x; chunk < rows * HEAD_DIM / CHUNK; chunk += NUM_THREADS) {
    const int row = chunk / (HEAD_DIM / CHUNK);
    const int col = chunk % (HEAD_DIM / CHUNK) * CHUNK;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (first_row + row < length)
      value = *reinterpret_cast<const uint4*>(rows_gmem + (size_t)(first_row + row) * HEAD_DIM + col);
    *reinterpret_cast<uint4*>(tile_smem + row * ROW_STRIDE + col) = value;
  }
}

__device__ __forceinline__ float dot_row(const Element* a_smem, const Element* b_smem) {
  float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += 2) {
    const float2 a = to_float2(*reinterpret_cast<const Element2*>(a_smem + d));
    const float2 b = to_float2(*reinterpret_cast<const Element2*>(b_smem + d));
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.y = fmaf(a.y, b.y, sum.y);
  }
  return sum.x + sum.y;
}

__device__ __forceinline__ float row_max_of(float value) {
  value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 1));
  return fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 2));
}

__device__ __forceinline__ float row_sum_of(float value) {
  value += __shfl_xor_sync(FULL_WARP, value, 1);
  return value + __shfl_xor_sync(FULL_WARP, value, 2);
}

// For 8 CTAs per SM, a thread may have at most 64 registers.
extern "C" __global__ void __launch_bounds__(NUM_THREADS, 8)
    fa_v1_baseline(const Element* __restrict__ Q,  // [B, H, S, HEAD_DIM]
                   const Element* __restrict__ K,  // [B, H / group, Skv, HEAD_DIM]
                   const Element* __restrict__ V,  // [B, H / group, Skv, HEAD_DIM]
                   Element* __restrict__ O,  // [B, H, S, HEAD_DIM]
                   int S, int Skv,
                   unsigned reciprocal,  // 2^32 / group, or 0
                   float scale,  // 1 / sqrt(HEAD_DIM)
                   int causal,
                   int diagonal) {  // row i sees keys 0 to i + diagonal
  const AttentionForm form = {S, Skv, reciprocal, causal, diagonal};
  __shared__ __align__(16) Element Q_smem[BLOCK_Q * ROW_STRIDE];
  __shared__ __align__(16) Element K_smem[BLOCK_KV * ROW_STRIDE];
  __shared__ __align__(16) Element V_smem[BLOCK_KV * ROW_STRIDE];
  __shared__ float P_smem[BLOCK_Q][BLOCK_KV + 1];

  // A CTA takes 32 query rows of one head, and 4 adjacent threads share a row.
  const size_t head_offset = (size_t)blockIdx.y * S * HEAD_DIM;
  const size_t kv_head_offset = (size_t)form.kv_head(blockIdx.y) * Skv * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_Q;
  const int row = threadIdx.x / THREADS_PER_ROW;
  const int part = threadIdx.x % THREADS_PER_ROW;
  const int q_index = q_start + row;

  load_tile(Q_smem, Q + head_offset, q_start, BLOCK_Q, S);

  // Online softmax in units of log2: exp(x - m) as exp2((x - m) * log2e), one FFMA and one MUFU.
  const float scale_log2 = scale * LOG2_E;
  float row_max = -INFINITY;
  float row_sum = 0.0f;
  float O_rmem[COLS_PER_THREAD] = {};

  const int kv_end = form.keys_before(q_start + BLOCK_Q);
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    load_tile(K_smem, K + kv_head_offset, kv_start, BLOCK_KV, Skv);
    load_tile(V_smem, V + kv_head_offset, kv_start, BLOCK_KV, Skv);
    __syncthreads();  // Q, K and V are there

    // S = Q K^T: keys part, part + 4, ... of this row.
    float S_rmem[KEYS_PER_THREAD];
    float tile_max = -INFINITY;
    for (int i = 0; i < KEYS_PER_THREAD; ++i) {
      const int key = i * THREADS_PER_ROW + part;
      const int kv_index = kv_start + key;
      const bool visible = kv_index < form.keys_before(q_index + 1);
      S_rmem[i] = visible ? dot_row(Q_smem + row * ROW_STRIDE, K_smem + key * ROW_STRIDE) * scale_log2 : -INFINITY;
      tile_max = fmaxf(tile_max, S_rmem[i]);
    }

    // Softmax. The first tile has key 0, which every row sees, so new_max is finite from then on.
    const float new_max = fmaxf(row_max, row_max_of(tile_max));
    const float alpha = exp2f(row_max - new_max);
    float tile_sum = 0.0f;
    for (int i = 0; i < KEYS_PER_THREAD; ++i) {
      const float p = exp2f(S_rmem[i] - new_max);
      P_smem[row][i * THREADS_PER_ROW + part] = p;
      tile_sum += p;
    }
    row_max = new_max;
    row_sum = row_sum * alpha + row_sum_of(tile_sum);
    __syncwarp();  // the 4 threads of a row read each other's P

    // O += P V: columns 2 * part, 2 * part + 1, then 8 further on, so that the row's threads read 16 neighbouring
    // bytes.
    for (int c = 0; c < COLS_PER_THREAD; ++c) O_rmem[c] *= alpha;
    for (int key = 0; key < BLOCK_KV; ++key) {
      const float p = P_smem[row][key];
#pragma unroll
      for (int c = 0; c < COLS_PER_THREAD; c += 2) {
        const float2 v =
            to_float2(*reinterpret_cast<const Element2*>(V_smem + key * ROW_STRIDE + c * THREADS_PER_ROW + 2 * part));
        O_rmem[c] = fmaf(p, v.x, O_rmem[c]);
        O_rmem[c + 1] = fmaf(p, v.y, O_rmem[c + 1]);
      }
    }
    __syncthreads();  // every warp has read K and V before the next tile overwrites them
  }

  // Normalise and store.
  if (q_index >= S) return;
  const float inverse_sum = 1.0f / row_sum;
  Element* O_row = O + head_offset + (size_t)q_index * HEAD_DIM;
#pragma unroll
  for (int c = 0; c < COLS_PER_THREAD; c += 2)
    *reinterpret_cast<uint32_t*>(O_row + c * THREADS_PER_ROW + 2 * part) =
        pack_elements(O_rmem[c] * inverse_sum, O_rmem[c + 1] * inverse_sum);
}
