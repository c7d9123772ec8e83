// flashcore_v6: flashcore_v5 with Q K^T on tensor cores through WMMA. S comes back in fp32 through shared memory;
// softmax and P V stay scalar. V is unpacked to fp32 once, when it is loaded, and O waits in shared memory while the
// WMMA fragments need the registers. Limits: fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes, sm_80
// or later, 72 KB of dynamic shared memory.
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

constexpr int HEAD_DIM = 64;
// From kernel.yaml: USE_WMMA (0: the scalar loop of flashcore_v5), BLOCK_Q query rows per CTA, BLOCK_KV keys per tile,
// NUM_THREADS and SMEM_BYTES per CTA, and ROW_STRIDE: rows of 72 elements start 4 banks (half) or 8 banks (float)
// apart; WMMA wants a multiple of 8 halves.
constexpr int NUM_WARPS = NUM_THREADS / 32;
constexpr int WARP_Q = BLOCK_Q / NUM_WARPS;  // 16
constexpr int LANE_GROUPS = 4, GROUP_LANES = 8;  // a warp's stripe is split over 4 x 8 lanes
constexpr int LANE_Q = WARP_Q / LANE_GROUPS;  // 4: rows group, group + 4, ...
constexpr int LANE_KV = BLOCK_KV / GROUP_LANES;  // 8: keys member, member + 8, ...
constexpr int LANE_COLS = HEAD_DIM / GROUP_LANES;  // 8: columns 4 * member + 0..3, and 32 further on
static_assert(SMEM_BYTES ==
                  ROW_STRIDE * ((BLOCK_Q + BLOCK_KV) * sizeof(half) + (BLOCK_KV + 2 * BLOCK_Q) * sizeof(float)),
              "Q and K in fp16; V, S and O in fp32");
constexpr int HALF_CHUNK = 8;  // halves in 16 bytes
constexpr int CHUNK = 4;  // floats in 16 bytes
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

__device__ __forceinline__ float4 unpack_4(uint2 bits) {
  const float2 low = __half22float2(*reinterpret_cast<const half2*>(&bits.x));
  const float2 high = __half22float2(*reinterpret_cast<const half2*>(&bits.y));
  return make_float4(low.x, low.y, high.x, high.y);
}

// Copies 64 rows of HEAD_DIM halves from device to shared memory; rows past the sequence become 0, so that they add
// nothing.
__device__ __forceinline__ void load_tile(half* tile_smem, const half* rows_gmem, int first_row, int seq_len) {
#pragma unroll
  for (int i = 0; i < BLOCK_KV * HEAD_DIM / HALF_CHUNK / NUM_THREADS; ++i) {
    const int chunk = i * NUM_THREADS + threadIdx.x;
    const int row = chunk / (HEAD_DIM / HALF_CHUNK), col = chunk % (HEAD_DIM / HALF_CHUNK) * HALF_CHUNK;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (first_row + row < seq_len)
      value = *reinterpret_cast<const uint4*>(rows_gmem + (size_t)(first_row + row) * HEAD_DIM + col);
    *reinterpret_cast<uint4*>(tile_smem + row * ROW_STRIDE + col) = value;
  }
}

// Copies 64 rows of HEAD_DIM halves and unpacks them to fp32.
__device__ __forceinline__ void load_tile_fp32(float* tile_smem, const half* rows_gmem, int first_row, int seq_len) {
#pragma unroll
  for (int i = 0; i < BLOCK_KV * HEAD_DIM / CHUNK / NUM_THREADS; ++i) {
    const int chunk = i * NUM_THREADS + threadIdx.x;
    const int row = chunk / (HEAD_DIM / CHUNK), col = chunk % (HEAD_DIM / CHUNK) * CHUNK;
    uint2 value = make_uint2(0, 0);
    if (first_row + row < seq_len)
      value = *reinterpret_cast<const uint2*>(rows_gmem + (size_t)(first_row + row) * HEAD_DIM + col);
    *reinterpret_cast<float4*>(tile_smem + row * ROW_STRIDE + col) = unpack_4(value);
  }
}

#if USE_WMMA
constexpr int MMA = 16;  // tiles of m16n16k16

// S = Q K^T for the warp's stripe, four 16 x 16 tiles. K is [key][d]: read col-major it is K^T.
__device__ __forceinline__ void multiply_q_k(float* S_stripe, const half* Q_stripe, const half* K_smem, int, int) {
  wmma::fragment<wmma::accumulator, MMA, MMA, MMA, float> S_frag[BLOCK_KV / MMA];
#pragma unroll
  for (int tile = 0; tile < BLOCK_KV / MMA; ++tile) wmma::fill_fragment(S_frag[tile], 0.0f);
#pragma unroll
  for (int d = 0; d < HEAD_DIM; d += MMA) {
    wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, half, wmma::row_major> Q_frag;
    wmma::load_matrix_sync(Q_frag, Q_stripe + d, ROW_STRIDE);
#pragma unroll
    for (int tile = 0; tile < BLOCK_KV / MMA; ++tile) {
      wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, half, wmma::col_major> K_frag;
      wmma::load_matrix_sync(K_frag, K_smem + tile * MMA * ROW_STRIDE + d, ROW_STRIDE);
      wmma::mma_sync(S_frag[tile], Q_frag, K_frag, S_frag[tile]);
    }
  }
#pragma unroll
  for (int tile = 0; tile < BLOCK_KV / MMA; ++tile)
    wmma::store_matrix_sync(S_stripe + tile * MMA, S_frag[tile], ROW_STRIDE, wmma::mem_row_major);
}
#else
// S = Q K^T by flashcore_v5's loop: 12 loads of 4 halves feed 128 FMAs.
__device__ __forceinline__ void multiply_q_k(float* S_stripe, const half* Q_stripe, const half* K_smem, int group,
                                             int member) {
  float S_rmem[LANE_Q][LANE_KV] = {};
#pragma unroll 2
  for (int d = 0; d < HEAD_DIM; d += 4) {
    float4 q[LANE_Q];
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i)
      q[i] = unpack_4(*reinterpret_cast<const uint2*>(Q_stripe + (i * LANE_GROUPS + group) * ROW_STRIDE + d));
#pragma unroll
    for (int j = 0; j < LANE_KV; ++j) {
      const float4 k = unpack_4(*reinterpret_cast<const uint2*>(K_smem + (j * GROUP_LANES + member) * ROW_STRIDE + d));
#pragma unroll
      for (int i = 0; i < LANE_Q; ++i)
        S_rmem[i][j] = fmaf(q[i].w, k.w, fmaf(q[i].z, k.z, fmaf(q[i].y, k.y, fmaf(q[i].x, k.x, S_rmem[i][j]))));
    }
  }
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i)
#pragma unroll
    for (int j = 0; j < LANE_KV; ++j)
      S_stripe[(i * LANE_GROUPS + group) * ROW_STRIDE + j * GROUP_LANES + member] = S_rmem[i][j];
}
#endif

__device__ __forceinline__ void add_row_times(float (&O_row)[LANE_COLS], float p, const float4& low,
                                              const float4& high) {
  const float v[LANE_COLS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int c = 0; c < LANE_COLS; ++c) O_row[c] = fmaf(p, v[c], O_row[c]);
}

// O = alpha O + P V: for 4 keys, 4 loads of P and 8 of V (4 floats each) feed 128 FMAs.
__device__ __forceinline__ void multiply_p_v(float* O_stripe, const float (&alpha)[LANE_Q], const float* P_stripe,
                                             const float* V_smem, int group, int member) {
  float O_rmem[LANE_Q][LANE_COLS] = {};
#pragma unroll 1
  for (int key = 0; key < BLOCK_KV; key += 4) {
    float4 p[LANE_Q];
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i)
      p[i] = *reinterpret_cast<const float4*>(P_stripe + (i * LANE_GROUPS + group) * ROW_STRIDE + key);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float* V_row = V_smem + (key + k) * ROW_STRIDE + member * CHUNK;
      const float4 low = *reinterpret_cast<const float4*>(V_row),
                   high = *reinterpret_cast<const float4*>(V_row + HEAD_DIM / 2);
#pragma unroll
      for (int i = 0; i < LANE_Q; ++i)
        add_row_times(O_rmem[i], k == 0 ? p[i].x : k == 1 ? p[i].y : k == 2 ? p[i].z : p[i].w, low, high);
    }
  }
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i)
#pragma unroll
    for (int c = 0; c < LANE_COLS; c += CHUNK) {
      float4* o = reinterpret_cast<float4*>(O_stripe + (i * LANE_GROUPS + group) * ROW_STRIDE +
                                            c / CHUNK * (HEAD_DIM / 2) + member * CHUNK);
      *o = make_float4(fmaf(o->x, alpha[i], O_rmem[i][c]), fmaf(o->y, alpha[i], O_rmem[i][c + 1]),
                       fmaf(o->z, alpha[i], O_rmem[i][c + 2]), fmaf(o->w, alpha[i], O_rmem[i][c + 3]));
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
    flashcore_v6(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
                 half* __restrict__ O,  // [B, H, S, HEAD_DIM]
                 int seq_len,
                 float scale,  // 1 / sqrt(HEAD_DIM)
                 int causal) {  // 1: a query sees the keys up to its own position
  extern __shared__ __align__(128) unsigned char smem[];
  half* Q_smem = reinterpret_cast<half*>(smem);
  half* K_smem = Q_smem + BLOCK_Q * ROW_STRIDE;
  float* V_smem = reinterpret_cast<float*>(K_smem + BLOCK_KV * ROW_STRIDE);
  float* S_smem = V_smem + BLOCK_KV * ROW_STRIDE;  // S, then P in its place
  float* O_smem = S_smem + BLOCK_Q * ROW_STRIDE;

  // A CTA takes 64 query rows of one head, a warp takes 16 of these, a lane 4 rows by 8 keys (later 4 rows by 8
  // columns).
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_Q;
  const int stripe = threadIdx.x / 32 * WARP_Q;
  const int group = threadIdx.x % 32 / GROUP_LANES;
  const int member = threadIdx.x % GROUP_LANES;
  float* S_stripe = S_smem + stripe * ROW_STRIDE;
  float* O_stripe = O_smem + stripe * ROW_STRIDE;

  load_tile(Q_smem, Q + head_offset, q_start, seq_len);
  for (int i = threadIdx.x * CHUNK; i < BLOCK_Q * ROW_STRIDE; i += NUM_THREADS * CHUNK)
    *reinterpret_cast<float4*>(O_smem + i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

  // Online softmax in units of log2: exp(x - m) as exp2((x - m) * log2e), one FFMA and one MUFU.
  const float scale_log2 = scale * LOG2_E;
  float row_max[LANE_Q], row_sum[LANE_Q];
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    row_max[i] = -INFINITY;
    row_sum[i] = 0.0f;
  }

  const int kv_end = causal ? min(seq_len, q_start + BLOCK_Q) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    load_tile(K_smem, K + head_offset, kv_start, seq_len);
    load_tile_fp32(V_smem, V + head_offset, kv_start, seq_len);
    __syncthreads();  // Q, K and V are there

    multiply_q_k(S_stripe, Q_smem + stripe * ROW_STRIDE, K_smem, group, member);
    __syncwarp();  // the stripe's S is complete; no other warp reads it

    // Softmax. The first tile has key 0, which every row sees, so new_max is finite from then on.
    float alpha[LANE_Q];
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i) {
      const int row = i * LANE_GROUPS + group;
      float* S_row = S_stripe + row * ROW_STRIDE + member;
      float S_rmem[LANE_KV];
      float tile_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < LANE_KV; ++j) {
        const int kv_index = kv_start + j * GROUP_LANES + member;
        const bool visible = kv_index < seq_len && (!causal || kv_index <= q_start + stripe + row);
        S_rmem[j] = visible ? S_row[j * GROUP_LANES] * scale_log2 : -INFINITY;
        tile_max = fmaxf(tile_max, S_rmem[j]);
      }
      const float new_max = fmaxf(row_max[i], row_max_of(tile_max));
      alpha[i] = exp2f(row_max[i] - new_max);
      float tile_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < LANE_KV; ++j) {
        const float p = exp2f(S_rmem[j] - new_max);
        S_row[j * GROUP_LANES] = p;
        tile_sum += p;
      }
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * alpha[i] + row_sum_of(tile_sum);
    }
    __syncwarp();  // the stripe's P is complete

    multiply_p_v(O_stripe, alpha, S_stripe, V_smem, group, member);
    __syncthreads();  // every warp has read K and V before the next tile overwrites them
  }

  // Normalise and store. Each lane reads back only what it has written.
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    const int row = i * LANE_GROUPS + group;
    if (q_start + stripe + row >= seq_len) continue;
    const float inverse_sum = 1.0f / row_sum[i];
#pragma unroll
    for (int col = member * CHUNK; col < HEAD_DIM; col += HEAD_DIM / 2) {
      const float4 o = *reinterpret_cast<const float4*>(O_stripe + row * ROW_STRIDE + col);
      half2* O_gmem = reinterpret_cast<half2*>(O + head_offset + (size_t)(q_start + stripe + row) * HEAD_DIM + col);
      O_gmem[0] = __floats2half2_rn(o.x * inverse_sum, o.y * inverse_sum);
      O_gmem[1] = __floats2half2_rn(o.z * inverse_sum, o.w * inverse_sum);
    }
  }
}
