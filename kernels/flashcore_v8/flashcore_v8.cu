// flashcore_v8: flashcore_v7 with the tile size as a parameter, one warp per 16 query rows. More keys per tile mean
// fewer rescalings and barriers per key, but more shared memory and so fewer CTAs per SM. With more rows per tile,
// fewer CTAs read K and V. Limits: fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes, sm_80 or later,
// BLOCK_Q and BLOCK_KV multiples of 16.
#include <cuda_fp16.h>
#include <math.h>
#include <mma.h>

using namespace nvcuda;

// From kernel.yaml: BLOCK_Q query rows per CTA, BLOCK_KV keys per tile, ROW_STRIDE (of Q, K, V in halves, of O in
// floats), S_STRIDE (of S in floats; P is in the same rows, S_STRIDE * 2 halves apart), NUM_THREADS and SMEM_BYTES per
// CTA. Rows are padded by 8 elements: they start 4 banks (half) or 8 banks (float) apart; WMMA wants strides that are
// multiples of 16 bytes.
constexpr int HEAD_DIM = 64;
constexpr int MMA = 16;  // tiles of m16n16k16
constexpr int NUM_WARPS = BLOCK_Q / MMA;  // each owns a stripe of 16 query rows
static_assert(NUM_THREADS == NUM_WARPS * 32);
constexpr int LANE_GROUPS = 4, GROUP_LANES = 8;  // softmax: a warp's stripe is split over 4 x 8 lanes
constexpr int LANE_Q = MMA / LANE_GROUPS;  // 4: rows group, group + 4, ...
constexpr int LANE_KV = BLOCK_KV / GROUP_LANES;  // keys member, member + 8, ...
constexpr int HALF_CHUNK = 8;  // halves in 16 bytes
static_assert(SMEM_BYTES == (BLOCK_Q + 2 * BLOCK_KV) * ROW_STRIDE * sizeof(half) +
                                BLOCK_Q * (S_STRIDE + ROW_STRIDE) * sizeof(float),
              "Q, K and V in fp16; S and O in fp32");
constexpr float LOG2_E = 1.4426950408889634f;
constexpr unsigned FULL_WARP = 0xffffffffu;

using Accumulator = wmma::fragment<wmma::accumulator, MMA, MMA, MMA, float>;

// Copies ROWS rows of HEAD_DIM halves from device to shared memory; rows past the sequence become 0, so that they add
// nothing.
template <int ROWS>
__device__ __forceinline__ void load_tile(half* tile_smem, const half* rows_gmem, int first_row, int seq_len) {
#pragma unroll
  for (int chunk = threadIdx.x; chunk < ROWS * HEAD_DIM / HALF_CHUNK; chunk += NUM_THREADS) {
    const int row = chunk / (HEAD_DIM / HALF_CHUNK), col = chunk % (HEAD_DIM / HALF_CHUNK) * HALF_CHUNK;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (first_row + row < seq_len)
      value = *reinterpret_cast<const uint4*>(rows_gmem + (size_t)(first_row + row) * HEAD_DIM + col);
    *reinterpret_cast<uint4*>(tile_smem + row * ROW_STRIDE + col) = value;
  }
}

// S = Q K^T for the warp's stripe. K is [key][d]: read col-major it is K^T.
__device__ __forceinline__ void multiply_q_k(float* S_stripe, const half* Q_stripe, const half* K_smem) {
  Accumulator S_frag[BLOCK_KV / MMA];
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
    wmma::store_matrix_sync(S_stripe + tile * MMA, S_frag[tile], S_STRIDE, wmma::mem_row_major);
}

// O += P V for the warp's stripe, O through shared memory.
__device__ __forceinline__ void multiply_p_v(float* O_stripe, const half* P_stripe, const half* V_smem) {
  Accumulator O_frag[HEAD_DIM / MMA];
#pragma unroll
  for (int tile = 0; tile < HEAD_DIM / MMA; ++tile)
    wmma::load_matrix_sync(O_frag[tile], O_stripe + tile * MMA, ROW_STRIDE, wmma::mem_row_major);
#pragma unroll
  for (int key = 0; key < BLOCK_KV; key += MMA) {
    wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, half, wmma::row_major> P_frag;
    wmma::load_matrix_sync(P_frag, P_stripe + key, 2 * S_STRIDE);
#pragma unroll
    for (int tile = 0; tile < HEAD_DIM / MMA; ++tile) {
      wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, half, wmma::row_major> V_frag;
      wmma::load_matrix_sync(V_frag, V_smem + key * ROW_STRIDE + tile * MMA, ROW_STRIDE);
      wmma::mma_sync(O_frag[tile], P_frag, V_frag, O_frag[tile]);
    }
  }
#pragma unroll
  for (int tile = 0; tile < HEAD_DIM / MMA; ++tile)
    wmma::store_matrix_sync(O_stripe + tile * MMA, O_frag[tile], ROW_STRIDE, wmma::mem_row_major);
}

// The maximum and the sum over the 8 lanes that share a row.
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

// Rows of S become rows of P in place, as exp2(S - new row maximum),
// in log2 units; alpha is the factor by which O must be multiplied.
__device__ __forceinline__ void online_softmax(float* S_stripe, float (&row_max)[LANE_Q], float (&row_sum)[LANE_Q],
                                               float (&alpha)[LANE_Q], float scale_log2, int first_row, int first_key,
                                               int seq_len, int causal, int group, int member) {
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    const int row = i * LANE_GROUPS + group;
    const float* S_row = S_stripe + row * S_STRIDE + member;
    const int keys =
        (causal ? min(seq_len, first_row + row + 1) : seq_len) - first_key;  // the row sees the tile's keys below this
    float S_rmem[LANE_KV], tile_max = -INFINITY;
#pragma unroll
    for (int j = 0; j < LANE_KV; ++j) {
      S_rmem[j] = j * GROUP_LANES + member < keys ? S_row[j * GROUP_LANES] * scale_log2 : -INFINITY;
      tile_max = fmaxf(tile_max, S_rmem[j]);
    }
    const float new_max =
        fmaxf(row_max[i], row_max_of(tile_max));  // finite: the first tile has key 0, which every row sees
    alpha[i] = exp2f(row_max[i] - new_max);
    row_max[i] = new_max;
    __syncwarp();  // the row's lanes have read S, which P overwrites
    half* P_row = reinterpret_cast<half*>(S_stripe) + row * 2 * S_STRIDE + member;
    float tile_sum = 0.0f;
#pragma unroll
    for (int j = 0; j < LANE_KV; ++j) {
      const float p = exp2f(S_rmem[j] - new_max);
      P_row[j * GROUP_LANES] = __float2half(p);
      tile_sum += p;
    }
    row_sum[i] = row_sum[i] * alpha[i] + row_sum_of(tile_sum);
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 1)
    flashcore_v8(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
                 const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
                 half* __restrict__ O,  // [B, H, S, HEAD_DIM]
                 int seq_len,
                 float scale,  // 1 / sqrt(HEAD_DIM)
                 int causal) {  // 1: a query sees the keys up to its own position
  extern __shared__ __align__(128) unsigned char smem[];
  half* Q_smem = reinterpret_cast<half*>(smem);
  half* K_smem = Q_smem + BLOCK_Q * ROW_STRIDE;
  half* V_smem = K_smem + BLOCK_KV * ROW_STRIDE;
  float* S_smem = reinterpret_cast<float*>(V_smem + BLOCK_KV * ROW_STRIDE);  // S, then P in its place
  float* O_smem = S_smem + BLOCK_Q * S_STRIDE;

  // A CTA takes BLOCK_Q query rows of one head, and a warp takes 16 of these rows.
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = blockIdx.x * BLOCK_Q;
  const int warp = threadIdx.x / 32, stripe = warp * MMA;
  const int group = threadIdx.x % 32 / GROUP_LANES, member = threadIdx.x % GROUP_LANES;
  const half* Q_stripe = Q_smem + stripe * ROW_STRIDE;
  float* S_stripe = S_smem + stripe * S_STRIDE;
  const half* P_stripe = reinterpret_cast<const half*>(S_stripe);
  float* O_stripe = O_smem + stripe * ROW_STRIDE;

  load_tile<BLOCK_Q>(Q_smem, Q + head_offset, q_start, seq_len);
  for (int i = threadIdx.x; i < BLOCK_Q * ROW_STRIDE; i += NUM_THREADS) O_smem[i] = 0.0f;

  const float scale_log2 = scale * LOG2_E;
  float row_max[LANE_Q], row_sum[LANE_Q], alpha[LANE_Q];
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    row_max[i] = -INFINITY;
    row_sum[i] = 0.0f;
  }

  const int kv_end = causal ? min(seq_len, q_start + BLOCK_Q) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    load_tile<BLOCK_KV>(K_smem, K + head_offset, kv_start, seq_len);
    load_tile<BLOCK_KV>(V_smem, V + head_offset, kv_start, seq_len);
    __syncthreads();  // Q, K and V are there

    multiply_q_k(S_stripe, Q_stripe, K_smem);
    __syncwarp();  // the stripe's S is complete; no other warp reads it
    online_softmax(S_stripe, row_max, row_sum, alpha, scale_log2, q_start + stripe, kv_start, seq_len, causal, group,
                   member);
#pragma unroll
    for (int i = 0; i < LANE_Q; ++i)
#pragma unroll
      for (int col = member; col < HEAD_DIM; col += GROUP_LANES)
        O_stripe[(i * LANE_GROUPS + group) * ROW_STRIDE + col] *= alpha[i];
    __syncwarp();  // the stripe's P is complete and its O rescaled
    multiply_p_v(O_stripe, P_stripe, V_smem);
    __syncthreads();  // every warp has read K and V before the next tile overwrites them
  }

  // Normalise and store: the 8 lanes of a row write 16 bytes each.
#pragma unroll
  for (int i = 0; i < LANE_Q; ++i) {
    const int row = i * LANE_GROUPS + group;
    if (q_start + stripe + row >= seq_len) continue;
    const float inverse_sum = 1.0f / row_sum[i];
    const float* o = O_stripe + row * ROW_STRIDE + member * HALF_CHUNK;
    uint4 packed;
    half2* pairs = reinterpret_cast<half2*>(&packed);
#pragma unroll
    for (int c = 0; c < 4; ++c) pairs[c] = __floats2half2_rn(o[2 * c] * inverse_sum, o[2 * c + 1] * inverse_sum);
    *reinterpret_cast<uint4*>(O + head_offset + (size_t)(q_start + stripe + row) * HEAD_DIM + member * HALF_CHUNK) =
        packed;
  }
}
