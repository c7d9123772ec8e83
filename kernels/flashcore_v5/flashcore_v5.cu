// flashcore_v5: the scalar kernel at its best. 64 x 64 tiles, 4 warps, each warp owns a stripe of 16 query rows from S
// to O, so that only the K and V tiles need a barrier of the whole CTA.
// Limits: fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

constexpr int HEAD_DIM = 64;
// From kernel.yaml: BLOCK_Q query rows per CTA and NUM_THREADS threads per CTA.
constexpr int BLOCK_KV = 64;
constexpr int NUM_WARPS = NUM_THREADS / 32;
constexpr int WARP_Q = BLOCK_Q / NUM_WARPS;  // 16
constexpr int LANE_GROUPS = 4, GROUP_LANES = 8;  // a warp's stripe is split over 4 x 8 lanes
constexpr int LANE_Q = WARP_Q / LANE_GROUPS;  // 4: rows group, group + 4, ...
constexpr int LANE_KV = BLOCK_KV / GROUP_LANES;  // 8: keys member, member + 8, ...
constexpr int LANE_COLS = HEAD_DIM / GROUP_LANES;  // 8: columns 8 * member + 0..7
// Rows of 72 elements start 4 banks (half) or 8 banks (float) apart: the 8 keys, or the 4 rows, read at once share no
// bank.
constexpr int ROW_STRIDE = 72;
constexpr int CHUNK = 8;  // halves in 16 bytes
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
  for (int i = 0; i < BLOCK_KV * HEAD_DIM / CHUNK / NUM_THREADS; ++i) {
    const int chunk = i * NUM_THREADS + threadIdx.x;
    const int row = chunk / (HEAD_DIM / CHUNK), col = chunk % (HEAD_DIM / CHUNK) * CHUNK;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (first_row + row < seq_len)
      value = *reinterpret_cast<const uint4*>(rows_gmem + (size_t)(first_row + row) * HEAD_DIM + col);
    *reinterpret_cast<uint4*>(tile_smem + row * ROW_STRIDE + col) = value;
  }
}

// S = Q K^T: 12 loads of 4 halves feed 128 FMAs.
__device__ __forceinline__ void multiply_q_k(float (&S_rmem)[LANE_Q][LANE_KV], const half* Q_stripe, const half* K_smem,
                                             int group, int member) {
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i)
#pragma unroll
    for (int j = 0; j < LANE_KV; ++j) S_rmem[i][j] = 0.0f;
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
}

__device__ __forceinline__ void add_row_times(float (&O_row)[LANE_COLS], float p, const float4& low,
                                              const float4& high) {
  const float v[LANE_COLS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int c = 0; c < LANE_COLS; ++c) O_row[c] = fmaf(p, v[c], O_row[c]);
}

// O += P V: for 4 keys, 4 loads of P (4 floats each) and 4 of V (8 halves each) feed 128 FMAs.
__device__ __forceinline__ void multiply_p_v(float (&O_rmem)[LANE_Q][LANE_COLS], const float* P_stripe,
                                             const half* V_smem, int group, int member) {
#pragma unroll 1
  for (int key = 0; key < BLOCK_KV; key += 4) {
    float4 p[LANE_Q];
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i)
      p[i] = *reinterpret_cast<const float4*>(P_stripe + (i * LANE_GROUPS + group) * ROW_STRIDE + key);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint4 v = *reinterpret_cast<const uint4*>(V_smem + (key + k) * ROW_STRIDE + member * LANE_COLS);
      const float4 low = unpack_4(make_uint2(v.x, v.y)), high = unpack_4(make_uint2(v.z, v.w));
#pragma unroll
      for (int i = 0; i < LANE_Q; ++i)
        add_row_times(O_rmem[i], k == 0 ? p[i].x : k == 1 ? p[i].y : k == 2 ? p[i].z : p[i].w, low, high);
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
    flashcore_v5(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
                 half* __restrict__ O,  // [B, H, S, HEAD_DIM]
                 int seq_len,
                 float scale,  // 1 / sqrt(HEAD_DIM)
                 int causal) {  // 1: a query sees the keys up to its own position
  // 45 KB, just below the limit without an opt-in.
  __shared__ __align__(16) half Q_smem[BLOCK_Q * ROW_STRIDE];
  __shared__ __align__(16) half K_smem[BLOCK_KV * ROW_STRIDE];
  __shared__ __align__(16) half V_smem[BLOCK_KV * ROW_STRIDE];
  __shared__ __align__(16) float P_smem[BLOCK_Q * ROW_STRIDE];

  // A CTA takes 64 query rows of one head, a warp takes 16 of these, a lane 4 rows by 8 keys (later 4 rows by 8
  // columns).
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_Q;
  const int stripe = threadIdx.x / 32 * WARP_Q;
  const int group = threadIdx.x % 32 / GROUP_LANES;
  const int member = threadIdx.x % GROUP_LANES;
  float* P_stripe = P_smem + stripe * ROW_STRIDE;

  load_tile(Q_smem, Q + head_offset, q_start, seq_len);

  // Online softmax in units of log2: exp(x - m) as exp2((x - m) * log2e), one FFMA and one MUFU.
  const float scale_log2 = scale * LOG2_E;
  float row_max[LANE_Q], row_sum[LANE_Q];
  float O_rmem[LANE_Q][LANE_COLS] = {};
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    row_max[i] = -INFINITY;
    row_sum[i] = 0.0f;
  }

  const int kv_end = causal ? min(seq_len, q_start + BLOCK_Q) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    load_tile(K_smem, K + head_offset, kv_start, seq_len);
    load_tile(V_smem, V + head_offset, kv_start, seq_len);
    __syncthreads();  // Q, K and V are there

    float S_rmem[LANE_Q][LANE_KV];
    multiply_q_k(S_rmem, Q_smem + stripe * ROW_STRIDE, K_smem, group, member);

    // Softmax. The first tile has key 0, which every row sees, so new_max is finite from then on.
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i) {
      const int row = i * LANE_GROUPS + group;
      float tile_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < LANE_KV; ++j) {
        const int kv_index = kv_start + j * GROUP_LANES + member;
        const bool visible = kv_index < seq_len && (!causal || kv_index <= q_start + stripe + row);
        S_rmem[i][j] = visible ? S_rmem[i][j] * scale_log2 : -INFINITY;
        tile_max = fmaxf(tile_max, S_rmem[i][j]);
      }
      const float new_max = fmaxf(row_max[i], row_max_of(tile_max));
      const float alpha = exp2f(row_max[i] - new_max);
      float tile_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < LANE_KV; ++j) {
        const float p = exp2f(S_rmem[i][j] - new_max);
        P_stripe[row * ROW_STRIDE + j * GROUP_LANES + member] = p;
        tile_sum += p;
      }
      row_max[i] = new_max;
      row_sum[i] = row_sum[i] * alpha + row_sum_of(tile_sum);
#pragma unroll
      for (int c = 0; c < LANE_COLS; ++c) O_rmem[i][c] *= alpha;
    }
    __syncwarp();  // the stripe's P is complete; no other warp reads it

    multiply_p_v(O_rmem, P_stripe, V_smem, group, member);
    __syncthreads();  // every warp has read K and V before the next tile overwrites them
  }

  // Normalise and store 16 bytes per lane and row.
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    const int q_index = q_start + stripe + i * LANE_GROUPS + group;
    if (q_index >= seq_len) continue;
    const float inverse_sum = 1.0f / row_sum[i];
    half2* O_gmem = reinterpret_cast<half2*>(O + head_offset + (size_t)q_index * HEAD_DIM + member * LANE_COLS);
#pragma unroll
    for (int c = 0; c < LANE_COLS; c += 2)
      O_gmem[c / 2] = __floats2half2_rn(O_rmem[i][c] * inverse_sum, O_rmem[i][c + 1] * inverse_sum);
  }
}
