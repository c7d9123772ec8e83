// fa_s512_v3_wmma: warp-level matrix products (mma.sync) on 128 x 64 tiles, 8 warps, K and V by a 2-stage cp.async
// pipeline into XOR-swizzled shared memory, softmax by shuffles. S and P stay in registers; the tile sizes of every
// step are build parameters. It does not use nvcuda::wmma, whose load_matrix_sync takes one stride for a whole
// fragment, so it can neither follow a swizzle nor read every fourth row. Limits: fp16, HEAD_DIM 64, S any length >= 1,
// tensors aligned to 16 bytes, sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

#include "primitives/convert.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"

// From kernel.yaml: the parameters USE_WMMA (0: scalar loops over the same tiles), TILE_M query rows a CTA, TILE_N keys a
// tile, TILE_K (depth of a step of both products: columns of Q and K, keys of P and V), STAGES of K and V in shared
// memory (1: no overlap of copies and products), ACCUM_F32 (0: the tensor cores add up in fp16, twice the rate on Ada;
// see NOTES.md for the error), and what follows from them: NUM_THREADS and SMEM_BYTES a CTA.
constexpr int HEAD_DIM = 64;
constexpr int WARP = 32, WARP_M = 16, MMA_N = 8, MMA_K = 16;
constexpr int N_TILES = TILE_N / MMA_N, D_TILES = HEAD_DIM / MMA_N;
constexpr int ROW_BYTES = HEAD_DIM * 2;
constexpr int VECTOR = 8;  // halves in 16 bytes
constexpr int ROW_VECTORS = HEAD_DIM / VECTOR;
constexpr int KV_BYTES = TILE_N * ROW_BYTES, STAGE_BYTES = 2 * KV_BYTES;
static_assert(NUM_THREADS == TILE_M / WARP_M * WARP, "a warp takes WARP_M query rows");
static_assert(SMEM_BYTES == TILE_M * ROW_BYTES + STAGES * STAGE_BYTES, "Q, and K and V of each stage");
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float NO_ROW_MAX = -1e30f;  // below every logit of fp16 inputs, and finite: (-inf) - NO_ROW_MAX is not NaN
constexpr unsigned FULL_WARP = 0xffffffffu;
static_assert(TILE_M % 32 == 0 && TILE_N % 32 == 0, "fragments take every fourth row of 32");
static_assert(TILE_K % MMA_K == 0 && TILE_K <= TILE_N && TILE_K <= HEAD_DIM, "a step lies within a tile");

// Byte offset of a 16-byte vector in a tile: vector number ((row >> 2) ^ (col >> 4)) & 7, col in bytes. Rows that are 4
// apart are in different banks, adjacent rows are not. The 8 rows that ldmatrix reads together are therefore 4 apart:
// row i of matrix j is row 4 i + j of a block of 32. Softmax allows any order of keys, if K, V and the mask agree on
// it.
__device__ __forceinline__ uint32_t swizzled(int row, int vector) {
  const int col = vector * 16;
  return row * ROW_BYTES + ((((row >> 2) ^ (col >> 4)) & 7) << 4);
}
__device__ __forceinline__ int row_of(int matrix, int i) { return matrix / 4 * 32 + 4 * i + matrix % 4; }

// Starts the copies of ROWS rows into a swizzled tile; rows past the sequence become 0, so that they add nothing.
template <int ROWS>
__device__ __forceinline__ void load_tile(uint32_t tile_smem, const half* rows_gmem, int first_row, int seq_len) {
  constexpr int PASS_ROWS = NUM_THREADS / ROW_VECTORS;
  const int vector = threadIdx.x % ROW_VECTORS;
#pragma unroll
  for (int pass = 0; pass < ROWS; pass += PASS_ROWS) {
    const int row = pass + threadIdx.x / ROW_VECTORS;
    if (ROWS % PASS_ROWS == 0 || row < ROWS)
      cp_async_16(tile_smem + swizzled(row, vector), rows_gmem + (size_t)(first_row + row) * HEAD_DIM + vector * VECTOR,
                  first_row + row < seq_len);
  }
}

// A 16 x 8 accumulator of a warp. Elements 0 and 1 are in the lane's first row, 2 and 3 in its second row.
#if ACCUM_F32
struct Accumulator {
  float x[4];
  __device__ __forceinline__ float2 row(int h) const { return make_float2(x[2 * h], x[2 * h + 1]); }
  __device__ __forceinline__ void set_row(int h, float2 value) { x[2 * h] = value.x, x[2 * h + 1] = value.y; }
  __device__ __forceinline__ void add_product(const uint32_t (&A)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16_f32(x, A, b0, b1);
  }
};
#else
struct Accumulator {
  uint32_t x[2];
  __device__ __forceinline__ float2 row(int h) const { return __half22float2(*reinterpret_cast<const half2*>(&x[h])); }
  __device__ __forceinline__ void set_row(int h, float2 value) { x[h] = pack_half2(value.x, value.y); }
  __device__ __forceinline__ void add_product(const uint32_t (&A)[4], uint32_t b0, uint32_t b1) {
    mma_m16n8k16_f16(x, A, b0, b1);
  }
};
#endif

#if USE_WMMA
constexpr int STEPS_K = TILE_K / MMA_K;  // products per step

// S = Q K^T for the warp's 16 rows, with TILE_K columns of Q and K per step.
__device__ __forceinline__ void multiply_q_k(Accumulator (&S_rmem)[N_TILES], const unsigned char* Q_tile,
                                             const unsigned char* K_tile, int warp, int lane) {
  const uint32_t Q_smem = smem_address(Q_tile), K_smem = smem_address(K_tile);
#pragma unroll
  for (int step = 0; step < HEAD_DIM / MMA_K; step += STEPS_K) {
    uint32_t Q_rmem[STEPS_K][4];
#pragma unroll
    for (int k = 0; k < STEPS_K; ++k)
      ldmatrix_x4(Q_rmem[k][0], Q_rmem[k][1], Q_rmem[k][2], Q_rmem[k][3],
                  Q_smem + swizzled(row_of(2 * warp + lane / 8 % 2, lane % 8), 2 * (step + k) + lane / 16));
#pragma unroll
    for (int n = 0; n < N_TILES; n += 2)
#pragma unroll
      for (int k = 0; k < STEPS_K; ++k) {
        uint32_t K_rmem[4];  // 16 keys x 16 columns; K is [key][d]: its rows are the columns of K^T
        ldmatrix_x4(K_rmem[0], K_rmem[1], K_rmem[2], K_rmem[3],
                    K_smem + swizzled(row_of(n + lane / 16, lane % 8), 2 * (step + k) + lane / 8 % 2));
        S_rmem[n].add_product(Q_rmem[k], K_rmem[0], K_rmem[1]);
        S_rmem[n + 1].add_product(Q_rmem[k], K_rmem[2], K_rmem[3]);
      }
  }
}

// O += P V, with TILE_K keys per step. The packed accumulators of S have the layout of this product's A operand.
__device__ __forceinline__ void multiply_p_v(Accumulator (&O_rmem)[D_TILES], const uint32_t (&P_rmem)[N_TILES][2],
                                             const unsigned char* V_tile, int lane) {
  const uint32_t V_smem = smem_address(V_tile);
#pragma unroll
  for (int step = 0; step < TILE_N / MMA_K; step += STEPS_K)
#pragma unroll
    for (int n = 0; n < D_TILES; n += 2)
#pragma unroll
      for (int k = step; k < step + STEPS_K; ++k) {
        uint32_t V_rmem[4];  // 16 keys x 16 columns, transposed by the load
        const uint32_t A_rmem[4] = {P_rmem[2 * k][0], P_rmem[2 * k][1], P_rmem[2 * k + 1][0], P_rmem[2 * k + 1][1]};
        ldmatrix_x4_trans(V_rmem[0], V_rmem[1], V_rmem[2], V_rmem[3],
                          V_smem + swizzled(row_of(2 * k + lane / 8 % 2, lane % 8), n + lane / 16));
        O_rmem[n].add_product(A_rmem, V_rmem[0], V_rmem[1]);
        O_rmem[n + 1].add_product(A_rmem, V_rmem[2], V_rmem[3]);
      }
}
#else
__device__ __forceinline__ float2 load_pair(const unsigned char* tile, int row, int col) {    // col: even
  return __half22float2(*reinterpret_cast<const half2*>(tile + swizzled(row, col / VECTOR) + col % VECTOR * 2));
}

// A lane computes the scores that it would hold after mma.sync: its two rows, columns 2 (lane % 4) and + 1 of every
// matrix of 8 keys.
__device__ __forceinline__ void multiply_q_k(Accumulator (&S_rmem)[N_TILES], const unsigned char* Q_tile,
                                             const unsigned char* K_tile, int warp, int lane) {
#pragma unroll
  for (int n = 0; n < N_TILES; ++n) {
    float sum[2][2] = {};
#pragma unroll 4
    for (int d = 0; d < HEAD_DIM; d += 2) {
      const float2 k[2] = {load_pair(K_tile, row_of(n, 2 * (lane % 4)), d),
                           load_pair(K_tile, row_of(n, 2 * (lane % 4) + 1), d)};
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float2 q = load_pair(Q_tile, row_of(2 * warp + h, lane / 4), d);
#pragma unroll
        for (int i = 0; i < 2; ++i) sum[h][i] = fmaf(q.y, k[i].y, fmaf(q.x, k[i].x, sum[h][i]));
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) S_rmem[n].set_row(h, make_float2(sum[h][0], sum[h][1]));
  }
}

// The weights of a row come from the four lanes that hold them.
__device__ __forceinline__ void multiply_p_v(Accumulator (&O_rmem)[D_TILES], const uint32_t (&P_rmem)[N_TILES][2],
                                             const unsigned char* V_tile, int lane) {
  float2 O_sum[D_TILES][2];
#pragma unroll
  for (int n = 0; n < D_TILES; ++n) O_sum[n][0] = O_rmem[n].row(0), O_sum[n][1] = O_rmem[n].row(1);
#pragma unroll
  for (int tile = 0; tile < N_TILES; ++tile)
#pragma unroll 1
    for (int owner = 0; owner < 4; ++owner) {
      float2 p[2];  // two keys of each row
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t packed = __shfl_sync(FULL_WARP, P_rmem[tile][h], owner, 4);
        p[h] = __half22float2(*reinterpret_cast<const half2*>(&packed));
      }
#pragma unroll
      for (int n = 0; n < D_TILES; ++n) {
        const float2 v[2] = {load_pair(V_tile, row_of(tile, 2 * owner), n * MMA_N + 2 * (lane % 4)),
                             load_pair(V_tile, row_of(tile, 2 * owner + 1), n * MMA_N + 2 * (lane % 4))};
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          O_sum[n][h].x = fmaf(p[h].y, v[1].x, fmaf(p[h].x, v[0].x, O_sum[n][h].x));
          O_sum[n][h].y = fmaf(p[h].y, v[1].y, fmaf(p[h].x, v[0].y, O_sum[n][h].y));
        }
      }
    }
#pragma unroll
  for (int n = 0; n < D_TILES; ++n) O_rmem[n].set_row(0, O_sum[n][0]), O_rmem[n].set_row(1, O_sum[n][1]);
}
#endif

// Reduces over the 4 lanes that share a row.
__device__ __forceinline__ float row_max_of(float value) {
  value = fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 1));
  return fmaxf(value, __shfl_xor_sync(FULL_WARP, value, 2));
}

__device__ __forceinline__ float row_sum_of(float value) {
  value += __shfl_xor_sync(FULL_WARP, value, 1);
  return value + __shfl_xor_sync(FULL_WARP, value, 2);
}

// Keys that a row may not see (past the end, or later than the row) score minus infinity.
__device__ __forceinline__ void mask(Accumulator (&S_rmem)[N_TILES], const int (&keys)[2], int lane) {
#pragma unroll
  for (int n = 0; n < N_TILES; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 s = S_rmem[n].row(h);
      const int key = row_of(n, 2 * (lane % 4)), next_key = row_of(n, 2 * (lane % 4) + 1);
      S_rmem[n].set_row(h, make_float2(key < keys[h] ? s.x : -INFINITY, next_key < keys[h] ? s.y : -INFINITY));
    }
}

// Updates one of the lane's rows: S becomes P, and O is rescaled to the new maximum.
__device__ __forceinline__ void softmax_row(int h, const Accumulator (&S_rmem)[N_TILES], uint32_t (&P_rmem)[N_TILES][2],
                                            Accumulator (&O_rmem)[D_TILES], float& row_max, float& row_sum,
                                            float scale_log2) {
  float2 S_row[N_TILES];
  float tile_max = -INFINITY;
#pragma unroll
  for (int n = 0; n < N_TILES; ++n) {
    S_row[n] = S_rmem[n].row(h);
    tile_max = fmaxf(tile_max, fmaxf(S_row[n].x, S_row[n].y));
  }
  const float new_max = fmaxf(row_max, row_max_of(tile_max * scale_log2));
  const float alpha = exp2_approx(row_max - new_max);
  row_max = new_max;
  row_sum *= alpha;
  // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
#pragma unroll
  for (int n = 0; n < N_TILES; ++n) {
    const float p0 = exp2_approx(fmaf(S_row[n].x, scale_log2, -new_max)),
                p1 = exp2_approx(fmaf(S_row[n].y, scale_log2, -new_max));
    row_sum += p0 + p1;
    P_rmem[n][h] = pack_half2(p0, p1);
  }
#pragma unroll
  for (int n = 0; n < D_TILES; ++n) {
    const float2 o = O_rmem[n].row(h);
    O_rmem[n].set_row(h, make_float2(o.x * alpha, o.y * alpha));
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, 512 / NUM_THREADS)
    fa_s512_v3_wmma(  // 512 threads per SM: 128 registers
        const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
        const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
        const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
        half* __restrict__ O,  // [B, H, S, HEAD_DIM]
        int seq_len,
        float scale,  // 1 / sqrt(HEAD_DIM)
        int causal) {  // 1: a query sees the keys up to its own position
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned char* Q_tile = smem;
  unsigned char* KV_tiles = smem + TILE_M * ROW_BYTES;  // stage by stage: K, then V

  // A CTA takes TILE_M query rows of one head, and two warps share a block of 32 of these rows. Under a causal mask the
  // longest rows start first.
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = (causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * TILE_M;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row[2] = {row_of(2 * warp, lane / 4), row_of(2 * warp + 1, lane / 4)};

  const int kv_end = causal ? min(seq_len, q_start + TILE_M) : seq_len;
  const int kv_tiles = (kv_end + TILE_N - 1) / TILE_N;
  const auto load_stage = [&](int tile) {
    const uint32_t stage_smem = smem_address(KV_tiles) + tile % STAGES * STAGE_BYTES;
    if (tile < kv_tiles) {
      load_tile<TILE_N>(stage_smem, K + head_offset, tile * TILE_N, seq_len);
      load_tile<TILE_N>(stage_smem + KV_BYTES, V + head_offset, tile * TILE_N, seq_len);
    }
    cp_async_commit();  // even if the group is empty, because the waits count groups
  };
  load_tile<TILE_M>(smem_address(Q_tile), Q + head_offset, q_start, seq_len);
#pragma unroll
  for (int tile = 0; tile < (STAGES > 1 ? STAGES - 1 : 1); ++tile) load_stage(tile);

  Accumulator O_rmem[D_TILES] = {};
  float row_max[2] = {NO_ROW_MAX, NO_ROW_MAX}, row_sum[2] = {0.0f, 0.0f};
  const float scale_log2 = scale * LOG2_E;
  for (int tile = 0; tile < kv_tiles; ++tile) {
    cp_async_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
    // this tile has landed for all warps; with more stages, all have also read the tile that the next copy overwrites
    __syncthreads();
    if (STAGES > 1) load_stage(tile + STAGES - 1);

    const unsigned char* K_tile = KV_tiles + tile % STAGES * STAGE_BYTES;
    Accumulator S_rmem[N_TILES] = {};
    multiply_q_k(S_rmem, Q_tile, K_tile, warp, lane);
    const int keys[2] = {
        (causal ? min(seq_len, q_start + row[0] + 1) : seq_len) - tile * TILE_N,
        (causal ? min(seq_len, q_start + row[1] + 1) : seq_len) - tile * TILE_N};  // of this tile, that the row sees
    if (__any_sync(FULL_WARP, min(keys[0], keys[1]) < TILE_N)) mask(S_rmem, keys, lane);
    uint32_t P_rmem[N_TILES][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) softmax_row(h, S_rmem, P_rmem, O_rmem, row_max[h], row_sum[h], scale_log2);
    multiply_p_v(O_rmem, P_rmem, K_tile + KV_BYTES, lane);
    if (STAGES == 1) {
      __syncthreads();  // every warp has read K and V
      load_stage(tile + 1);
    }
  }

  // Normalise and store through the warp's own rows of Q, so that O is stored in vectors.
  __syncwarp();  // every lane has read the warp's rows of Q
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float inverse_sum = 1.0f / row_sum_of(row_sum[h]);
#pragma unroll
    for (int n = 0; n < D_TILES; ++n) {
      const float2 o = O_rmem[n].row(h);
      *reinterpret_cast<uint32_t*>(Q_tile + swizzled(row[h], n) + 4 * (lane % 4)) =
          pack_half2(o.x * inverse_sum, o.y * inverse_sum);
    }
  }
  __syncwarp();
#pragma unroll
  for (int pass = 0; pass < WARP_M; pass += WARP / ROW_VECTORS) {
    const int i = pass + lane / ROW_VECTORS,
              out_row = row_of(2 * warp + i % 2, i / 2);  // the warp's rows come in pairs
    if (q_start + out_row < seq_len)
      *reinterpret_cast<uint4*>(O + head_offset + (size_t)(q_start + out_row) * HEAD_DIM +
                                lane % ROW_VECTORS * VECTOR) =
          *reinterpret_cast<const uint4*>(Q_tile + swizzled(out_row, lane % ROW_VECTORS));
  }
}
