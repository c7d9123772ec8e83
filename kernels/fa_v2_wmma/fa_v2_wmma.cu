// fa_v2_wmma: the tiles of fa_v1_baseline, with Q K^T and P V on tensor cores through WMMA (m16n16k16, fp32
// accumulate). S, P and O pass through shared memory, because the layout of a WMMA fragment is unspecified. Limits:
// fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

constexpr int HEAD_DIM = 64;
// From kernel.yaml: USE_WMMA (0: scalar loops over the same tiles), BLOCK_Q query rows and NUM_THREADS threads per CTA.
constexpr int BLOCK_KV = 32;
constexpr int MMA = 16;  // tiles of m16n16k16
constexpr int O_TILES_PER_WARP = 2;
constexpr int THREADS_PER_ROW = NUM_THREADS / BLOCK_Q;  // 4, neighbours in one warp
constexpr int LOAD_CHUNK = 8;  // halves in 16 bytes
constexpr int CHUNK = 4;  // floats in 16 bytes
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

// A row of scores, which the row of probabilities replaces in place.
union ScoreRow {
  float S[BLOCK_KV];
  half P[2 * BLOCK_KV];  // only the first half is used; as many bytes as S
};

// Copies 32 rows of HEAD_DIM halves from device to shared memory; rows past the sequence become 0, so that they add
// nothing.
__device__ __forceinline__ void load_tile(half* tile_smem, const half* rows_gmem, int first_row, int seq_len) {
#pragma unroll
  for (int i = 0; i < BLOCK_KV * HEAD_DIM / LOAD_CHUNK / NUM_THREADS; ++i) {
    const int at = (i * NUM_THREADS + threadIdx.x) * LOAD_CHUNK;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (first_row + at / HEAD_DIM < seq_len)
      value = *reinterpret_cast<const uint4*>(rows_gmem + (size_t)first_row * HEAD_DIM + at);
    *reinterpret_cast<uint4*>(tile_smem + at) = value;
  }
}

#if USE_WMMA
// S = Q K^T for the warp's 16 x 16 tile. K is [key][d]: read col-major it is K^T.
__device__ __forceinline__ void multiply_q_k(ScoreRow* scores_smem, const half* Q_smem, const half* K_smem, int warp) {
  const int q = warp / 2 * MMA, key = warp % 2 * MMA;
  wmma::fragment<wmma::accumulator, MMA, MMA, MMA, float> S_frag;
  wmma::fill_fragment(S_frag, 0.0f);
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += MMA) {
    wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, half, wmma::row_major> Q_frag;
    wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, half, wmma::col_major> K_frag;
    wmma::load_matrix_sync(Q_frag, Q_smem + q * HEAD_DIM + d, HEAD_DIM);
    wmma::load_matrix_sync(K_frag, K_smem + key * HEAD_DIM + d, HEAD_DIM);
    wmma::mma_sync(S_frag, Q_frag, K_frag, S_frag);
  }
  wmma::store_matrix_sync(scores_smem[q].S + key, S_frag, BLOCK_KV, wmma::mem_row_major);
}

// O += P V for the warp's two 16 x 16 tiles; the accumulators live in O_smem between the key tiles.
__device__ __forceinline__ void multiply_p_v(float* O_smem, const ScoreRow* scores_smem, const half* V_smem, int warp) {
  const int q = warp / 2 * MMA;
#pragma unroll
  for (int tile = 0; tile < O_TILES_PER_WARP; ++tile) {
    const int col = (warp % 2 * O_TILES_PER_WARP + tile) * MMA;
    wmma::fragment<wmma::accumulator, MMA, MMA, MMA, float> O_frag;
    wmma::load_matrix_sync(O_frag, O_smem + q * HEAD_DIM + col, HEAD_DIM, wmma::mem_row_major);
#pragma unroll
    for (int key = 0; key < BLOCK_KV; key += MMA) {
      wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, half, wmma::row_major> P_frag;
      wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, half, wmma::row_major> V_frag;
      wmma::load_matrix_sync(P_frag, scores_smem[q].P + key, 2 * BLOCK_KV);
      wmma::load_matrix_sync(V_frag, V_smem + key * HEAD_DIM + col, HEAD_DIM);
      wmma::mma_sync(O_frag, P_frag, V_frag, O_frag);
    }
    wmma::store_matrix_sync(O_smem + q * HEAD_DIM + col, O_frag, HEAD_DIM, wmma::mem_row_major);
  }
}
#else
// The same tiles with scalar loops. Two lanes share a row of the warp's tile, and each takes every other column.
__device__ __forceinline__ void multiply_q_k(ScoreRow* scores_smem, const half* Q_smem, const half* K_smem, int warp) {
  const int lane = threadIdx.x % 32;
  const int q = warp / 2 * MMA + lane / 2;
  for (int i = 0; i < MMA / 2; ++i) {
    const int key = warp % 2 * MMA + 2 * i + lane % 2;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 8
    for (int d = 0; d < HEAD_DIM; d += 2) {
      const float2 a = __half22float2(*reinterpret_cast<const half2*>(Q_smem + q * HEAD_DIM + d));
      const float2 b = __half22float2(*reinterpret_cast<const half2*>(K_smem + key * HEAD_DIM + d));
      sum = make_float2(fmaf(a.x, b.x, sum.x), fmaf(a.y, b.y, sum.y));
    }
    scores_smem[q].S[key] = sum.x + sum.y;
  }
}

__device__ __forceinline__ void multiply_p_v(float* O_smem, const ScoreRow* scores_smem, const half* V_smem, int warp) {
  const int lane = threadIdx.x % 32;
  const int q = warp / 2 * MMA + lane / 2;
  const int first_col = warp % 2 * O_TILES_PER_WARP * MMA + lane % 2;
  float O_rmem[O_TILES_PER_WARP * MMA / 2];
#pragma unroll
  for (int i = 0; i < O_TILES_PER_WARP * MMA / 2; ++i) O_rmem[i] = O_smem[q * HEAD_DIM + first_col + 2 * i];
  for (int key = 0; key < BLOCK_KV; ++key) {
    const float p = __half2float(scores_smem[q].P[key]);
#pragma unroll
    for (int i = 0; i < O_TILES_PER_WARP * MMA / 2; ++i)
      O_rmem[i] = fmaf(p, __half2float(V_smem[key * HEAD_DIM + first_col + 2 * i]), O_rmem[i]);
  }
#pragma unroll
  for (int i = 0; i < O_TILES_PER_WARP * MMA / 2; ++i) O_smem[q * HEAD_DIM + first_col + 2 * i] = O_rmem[i];
}
#endif

__device__ __forceinline__ float row_max_of(float value) {
  value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 1));
  return fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 2));
}

__device__ __forceinline__ float row_sum_of(float value) {
  value += __shfl_xor_sync(FULL_WARP, value, 1);
  return value + __shfl_xor_sync(FULL_WARP, value, 2);
}

// Column where a thread's i-th chunk of 4 floats starts. Odd rows take their chunks in a different order than even
// rows, so that the 8 threads that are served together (two rows) use all 32 banks.
__device__ __forceinline__ int chunk_col(int i, int row, int part) {
  return (part + THREADS_PER_ROW * (i ^ (row & 1))) * CHUNK;
}

// For 8 CTAs per SM, a thread may have at most 64 registers.
extern "C" __global__ void __launch_bounds__(NUM_THREADS, 8)
    fa_v2_wmma(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
               half* __restrict__ O,  // [B, H, S, HEAD_DIM]
               int seq_len,
               float scale,  // 1 / sqrt(HEAD_DIM)
               int causal) {  // 1: a query sees the keys up to its own position
  // Exactly 24 KB. With the 1 KB per CTA that the system reserves, four CTAs fill the 100 KB of an L4's SM.
  __shared__ __align__(128) half Q_smem[BLOCK_Q * HEAD_DIM];
  __shared__ __align__(128) half K_smem[BLOCK_KV * HEAD_DIM];
  __shared__ __align__(128) half V_smem[BLOCK_KV * HEAD_DIM];
  __shared__ __align__(128) ScoreRow scores_smem[BLOCK_Q];
  __shared__ __align__(
      128) float O_smem[BLOCK_Q * HEAD_DIM];  // 8 KB: accumulators between tiles, then staging for the store

  // A CTA takes 32 query rows of one head, and 4 adjacent threads share a row of S, P and O.
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_Q;
  const int warp = threadIdx.x / 32;
  const int row = threadIdx.x / THREADS_PER_ROW;
  const int part = threadIdx.x % THREADS_PER_ROW;
  const int q_index = q_start + row;
  float* O_row = O_smem + row * HEAD_DIM;

  load_tile(Q_smem, Q + head_offset, q_start, seq_len);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / THREADS_PER_ROW / CHUNK; ++i)
    *reinterpret_cast<float4*>(O_row + chunk_col(i, row, part)) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

  // Online softmax in units of log2: exp(x - m) as exp2((x - m) * log2e), one FFMA and one MUFU.
  const float scale_log2 = scale * LOG2_E;
  float row_max = -INFINITY;
  float row_sum = 0.0f;

  const int kv_end = causal ? min(seq_len, q_start + BLOCK_Q) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    load_tile(K_smem, K + head_offset, kv_start, seq_len);
    __syncthreads();  // Q and K are there; every warp has read the last tile's P and V
    multiply_q_k(scores_smem, Q_smem, K_smem, warp);
    __syncthreads();  // S is complete

    // Softmax. The first tile has key 0, which every row sees, so new_max is finite from then on.
    float S_rmem[BLOCK_KV / THREADS_PER_ROW];
    float tile_max = -INFINITY;
#pragma unroll
    for (int i = 0; i < BLOCK_KV / THREADS_PER_ROW; i += CHUNK) {
      const int col = chunk_col(i / CHUNK, row, part);
      const float4 s = *reinterpret_cast<const float4*>(scores_smem[row].S + col);
      const float chunk[CHUNK] = {s.x, s.y, s.z, s.w};
#pragma unroll
      for (int j = 0; j < CHUNK; ++j) {
        const int kv_index = kv_start + col + j;
        const bool visible = kv_index < seq_len && (!causal || kv_index <= q_index);
        S_rmem[i + j] = visible ? chunk[j] * scale_log2 : -INFINITY;
        tile_max = fmaxf(tile_max, S_rmem[i + j]);
      }
    }
    const float new_max = fmaxf(row_max, row_max_of(tile_max));
    const float alpha = exp2f(row_max - new_max);
    row_max = new_max;
    __syncwarp();  // the row's 4 threads have read S before P takes its place
    float tile_sum = 0.0f;
#pragma unroll
    for (int i = 0; i < BLOCK_KV / THREADS_PER_ROW; i += 2) {
      const half2 p = __floats2half2_rn(exp2f(S_rmem[i] - new_max), exp2f(S_rmem[i + 1] - new_max));
      const float2 rounded = __half22float2(p);  // the sum of the weights that P V really uses
      tile_sum += rounded.x + rounded.y;
      *reinterpret_cast<half2*>(scores_smem[row].P + chunk_col(i / CHUNK, row, part) + i % CHUNK) = p;
    }
    row_sum = row_sum * alpha + row_sum_of(tile_sum);

#pragma unroll
    for (int i = 0; i < HEAD_DIM / THREADS_PER_ROW / CHUNK; ++i) {
      float4* o = reinterpret_cast<float4*>(O_row + chunk_col(i, row, part));
      *o = make_float4(o->x * alpha, o->y * alpha, o->z * alpha, o->w * alpha);
    }
    load_tile(V_smem, V + head_offset, kv_start, seq_len);
    __syncthreads();  // P and V are there, O is rescaled
    multiply_p_v(O_smem, scores_smem, V_smem, warp);
  }
  __syncthreads();  // O is complete

  // Normalise and store.
  if (q_index >= seq_len) return;
  const float inverse_sum = 1.0f / row_sum;
  half* O_gmem = O + head_offset + (size_t)q_index * HEAD_DIM;
#pragma unroll
  for (int i = 0; i < HEAD_DIM / THREADS_PER_ROW / CHUNK; ++i) {
    const int col = chunk_col(i, row, part);
    const float4 o = *reinterpret_cast<const float4*>(O_row + col);
    *reinterpret_cast<half2*>(O_gmem + col) = __floats2half2_rn(o.x * inverse_sum, o.y * inverse_sum);
    *reinterpret_cast<half2*>(O_gmem + col + 2) = __floats2half2_rn(o.z * inverse_sum, o.w * inverse_sum);
  }
}
