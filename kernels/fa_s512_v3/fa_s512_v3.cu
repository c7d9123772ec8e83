// fa_s512_v3: scalar attention in which every access to a tile moves 16 bytes. P is half and tiles are swizzled instead
// of padded, which saves the memory for a second stage of K and V. While one tile is computed, the next tile waits in
// registers. Limits: fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

#include "primitives/smem.cuh"

// From kernel.yaml, by CONFIG: BLOCK_M query rows per CTA, tiles of BLOCK_N keys with STAGES of them in shared memory,
// and NUM_THREADS threads per CTA.
constexpr int HEAD_DIM = 64;
constexpr int WARP = 32, NUM_WARPS = NUM_THREADS / WARP;
constexpr int WARP_M = BLOCK_M / NUM_WARPS;
constexpr int LANE_GROUPS = 4, GROUP_LANES = 8;  // a warp's stripe is split over 4 x 8 lanes
constexpr int LANE_M = WARP_M / LANE_GROUPS;  // rows group, group + 4, ...
constexpr int LANE_N = BLOCK_N / GROUP_LANES;  // keys member, member + 8, ...
constexpr int VECTOR = 8;  // halves in 16 bytes; of O, a lane owns columns 8 * member .. + 7
constexpr int ROW_VECTORS = HEAD_DIM / VECTOR;
constexpr int ROW_BYTES = HEAD_DIM * 2, P_ROW_BYTES = BLOCK_N * 2;
constexpr int Q_BYTES = BLOCK_M * ROW_BYTES, KV_BYTES = BLOCK_N * ROW_BYTES, STAGE_BYTES = 2 * KV_BYTES;
constexpr int TILE_VECTORS = BLOCK_N * ROW_VECTORS / NUM_THREADS;  // a thread's share of a tile of K or V
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

__device__ __forceinline__ uint4 load_vector(const unsigned char* smem, uint32_t offset) {
  return *reinterpret_cast<const uint4*>(smem + offset);
}

__device__ __forceinline__ void unpack_8(float (&values)[VECTOR], uint4 bits) {
  const uint32_t pairs[VECTOR / 2] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < VECTOR / 2; ++i) {
    const float2 pair = __half22float2(*reinterpret_cast<const half2*>(&pairs[i]));
    values[2 * i] = pair.x, values[2 * i + 1] = pair.y;
  }
}

__device__ __forceinline__ uint32_t pack_2(float low, float high) {
  const half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// A thread's COUNT vectors of a tile, from device memory to registers; rows past the sequence become 0, so that they
// add nothing.
template <int COUNT>
__device__ __forceinline__ void fetch_tile(uint4 (&tile_rmem)[COUNT], const half* rows_gmem, int first_row,
                                           int seq_len) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int vector = i * NUM_THREADS + threadIdx.x, row = first_row + vector / ROW_VECTORS;
    tile_rmem[i] = make_uint4(0, 0, 0, 0);
    if (row < seq_len)
      tile_rmem[i] =
          *reinterpret_cast<const uint4*>(rows_gmem + (size_t)row * HEAD_DIM + vector % ROW_VECTORS * VECTOR);
  }
}

// Stores these vectors to shared memory.
template <int COUNT>
__device__ __forceinline__ void place_tile(unsigned char* tile_smem, const uint4 (&tile_rmem)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int vector = i * NUM_THREADS + threadIdx.x;
    *reinterpret_cast<uint4*>(tile_smem + swizzled_offset<ROW_BYTES>(vector / ROW_VECTORS, vector % ROW_VECTORS)) =
        tile_rmem[i];
  }
}

// S = Q K^T: LANE_M + LANE_N loads of 8 halves feed 8 * LANE_M * LANE_N FMAs. The 8 members read 8 adjacent rows, which
// are in different banks.
__device__ __forceinline__ void multiply_q_k(float (&S_rmem)[LANE_M][LANE_N], const unsigned char* Q_smem,
                                             const unsigned char* K_smem, int stripe, int group, int member) {
#pragma unroll 1
  for (int vector = 0; vector < ROW_VECTORS; ++vector) {
    float q[LANE_M][VECTOR];
#pragma unroll
    for (int i = 0; i < LANE_M; ++i)
      unpack_8(q[i], load_vector(Q_smem, swizzled_offset<ROW_BYTES>(stripe + i * LANE_GROUPS + group, vector)));
#pragma unroll
    for (int j = 0; j < LANE_N; ++j) {
      float k[VECTOR];
      unpack_8(k, load_vector(K_smem, swizzled_offset<ROW_BYTES>(j * GROUP_LANES + member, vector)));
#pragma unroll
      for (int i = 0; i < LANE_M; ++i)
#pragma unroll
        for (int d = 0; d < VECTOR; ++d) S_rmem[i][j] = fmaf(q[i][d], k[d], S_rmem[i][j]);
    }
  }
}

// O += P V: for 8 keys, LANE_M loads of P and 8 of V feed 64 * LANE_M FMAs.
__device__ __forceinline__ void multiply_p_v(float (&O_rmem)[LANE_M][VECTOR], const unsigned char* P_smem,
                                             const unsigned char* V_smem, int stripe, int group, int member) {
#pragma unroll 1
  for (int key = 0; key < BLOCK_N; key += VECTOR) {
    float p[LANE_M][VECTOR];
#pragma unroll
    for (int i = 0; i < LANE_M; ++i)
      unpack_8(p[i], load_vector(P_smem, swizzled_offset<P_ROW_BYTES>(stripe + i * LANE_GROUPS + group, key / VECTOR)));
#pragma unroll
    for (int k = 0; k < VECTOR; ++k) {
      float v[VECTOR];
      unpack_8(v, load_vector(V_smem, swizzled_offset<ROW_BYTES>(key + k, member)));
#pragma unroll
      for (int i = 0; i < LANE_M; ++i)
#pragma unroll
        for (int c = 0; c < VECTOR; ++c) O_rmem[i][c] = fmaf(p[i][k], v[c], O_rmem[i][c]);
    }
  }
}

// Reduces over the 8 lanes that share a row.
__device__ __forceinline__ float row_max_of(float value) {
#pragma unroll
  for (int offset = GROUP_LANES / 2; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, offset));
  return value;
}

__device__ __forceinline__ float row_sum_of(float value) {
#pragma unroll
  for (int offset = GROUP_LANES / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(FULL_WARP, value, offset);
  return value;
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS)
    fa_s512_v3(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
               half* __restrict__ O,  // [B, H, S, HEAD_DIM]
               int seq_len,
               float scale,  // 1 / sqrt(HEAD_DIM)
               int causal) {  // 1: a query sees the keys up to its own position
  __shared__ __align__(128) unsigned char Q_smem[Q_BYTES];
  __shared__ __align__(128) unsigned char KV_smem[STAGES * STAGE_BYTES];  // stage by stage: K, then V
  __shared__ __align__(128) unsigned char P_smem[BLOCK_M * P_ROW_BYTES];

  // A CTA takes BLOCK_M query rows of one head, a warp takes a stripe of these rows, and a lane takes LANE_M rows by
  // LANE_N keys (later by 8 columns).
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_M;
  const int stripe = threadIdx.x / WARP * WARP_M;
  const int group = threadIdx.x % WARP / GROUP_LANES;
  const int member = threadIdx.x % GROUP_LANES;

  uint4 Q_rmem[BLOCK_M * ROW_VECTORS / NUM_THREADS], K_rmem[TILE_VECTORS], V_rmem[TILE_VECTORS];
  fetch_tile(Q_rmem, Q + head_offset, q_start, seq_len);
  fetch_tile(K_rmem, K + head_offset, 0, seq_len);
  fetch_tile(V_rmem, V + head_offset, 0, seq_len);
  place_tile(Q_smem, Q_rmem);
  place_tile(KV_smem, K_rmem);
  place_tile(KV_smem + KV_BYTES, V_rmem);

  // Online softmax in units of log2: exp(x - m) as exp2((x - m) * log2e), one FFMA and one MUFU.
  const float scale_log2 = scale * LOG2_E;
  float O_rmem[LANE_M][VECTOR] = {};
  float row_max[LANE_M], row_sum[LANE_M];
#pragma unroll
  for (int i = 0; i < LANE_M; ++i) {
    row_max[i] = -INFINITY;
    row_sum[i] = 0.0f;
  }

  const int kv_end = causal ? min(seq_len, q_start + BLOCK_M) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_N) {
    const int stage = kv_start / BLOCK_N % STAGES, next_stage = (kv_start / BLOCK_N + 1) % STAGES;
    const bool has_next = kv_start + BLOCK_N < kv_end;
    if (has_next) {
      fetch_tile(K_rmem, K + head_offset, kv_start + BLOCK_N, seq_len);
      fetch_tile(V_rmem, V + head_offset, kv_start + BLOCK_N, seq_len);
    }
    __syncthreads();  // this tile is stored, and every warp has read the previous one

    const unsigned char* K_smem = KV_smem + stage * STAGE_BYTES;
    float S_rmem[LANE_M][LANE_N] = {};
    multiply_q_k(S_rmem, Q_smem, K_smem, stripe, group, member);

    // Softmax. The first tile has key 0, which every row sees, so new_max is finite from then on.
#pragma unroll
    for (int i = 0; i < LANE_M; ++i) {
      const int row = stripe + i * LANE_GROUPS + group;
      float tile_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < LANE_N; ++j) {
        const int kv_index = kv_start + j * GROUP_LANES + member;
        const bool visible = kv_index < seq_len && (!causal || kv_index <= q_start + row);
        S_rmem[i][j] = visible ? S_rmem[i][j] * scale_log2 : -INFINITY;
        tile_max = fmaxf(tile_max, S_rmem[i][j]);
      }
      const float new_max = fmaxf(row_max[i], row_max_of(tile_max));
      const float alpha = exp2f(row_max[i] - new_max);
      float tile_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < LANE_N; ++j) {
        const half p = __float2half(exp2f(S_rmem[i][j] - new_max));
        *reinterpret_cast<half*>(P_smem + swizzled_offset<P_ROW_BYTES>(row, j) + member * 2) = p;
        tile_sum += __half2float(p);  // the sum of the weights that P V really uses
      }
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * alpha + row_sum_of(tile_sum);
#pragma unroll
      for (int c = 0; c < VECTOR; ++c) O_rmem[i][c] *= alpha;
    }
    __syncwarp();  // the stripe's P is complete; no other warp reads it

    multiply_p_v(O_rmem, P_smem, K_smem + KV_BYTES, stripe, group, member);
    __syncwarp();  // the stripe's P has been read
    if (STAGES == 1) __syncthreads();  // and every warp has read K and V
    if (has_next) {
      place_tile(KV_smem + next_stage * STAGE_BYTES, K_rmem);
      place_tile(KV_smem + next_stage * STAGE_BYTES + KV_BYTES, V_rmem);
    }
  }

  // Normalise and store 16 bytes per lane and row.
#pragma unroll
  for (int i = 0; i < LANE_M; ++i) {
    const int q_index = q_start + stripe + i * LANE_GROUPS + group;
    if (q_index >= seq_len) continue;
    const float inverse_sum = 1.0f / row_sum[i];
    float (&o)[VECTOR] = O_rmem[i];
    *reinterpret_cast<uint4*>(O + head_offset + (size_t)q_index * HEAD_DIM + member * VECTOR) =
        make_uint4(pack_2(o[0] * inverse_sum, o[1] * inverse_sum), pack_2(o[2] * inverse_sum, o[3] * inverse_sum),
                   pack_2(o[4] * inverse_sum, o[5] * inverse_sum), pack_2(o[6] * inverse_sum, o[7] * inverse_sum));
  }
}
