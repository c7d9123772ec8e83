// fa_tc_s512: a tensor-core main loop in the manner of CUTLASS/CuTe. Tiles, copies and products are types: a swizzled
// layout in shared memory, a tiled copy (which thread moves which 16 bytes), a tiled MMA (which warp multiplies which
// rows); the loop below uses only these. K and V have one buffer each. V is copied during Q K^T, and the next K during
// P V. With 24 KB four CTAs fit an L4's SM. Limits: fp16, HEAD_DIM 64, S any length >= 1, tensors aligned to 16 bytes,
// sm_80 or later.
#include <cuda_fp16.h>
#include <math.h>

#include "primitives/convert.cuh"
#include "primitives/cp_async.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/mma.cuh"
#include "primitives/smem.cuh"

// From kernel.yaml: CONFIG (1: 64 x 64 tiles, 4 warps; 2: 128 x 64 tiles, 8 warps), REGISTER_LIMIT (a thread's: 96, or
// 0: as many as ptxas chooses), BLOCK_Q query rows a CTA, BLOCK_KV keys a tile, NUM_THREADS and SMEM_BYTES a CTA.
constexpr int WARP = 32;
constexpr int HEAD_DIM = 64;
constexpr int VECTOR = 8;  // halves in 16 bytes
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float NO_ROW_MAX = -1e30f;  // below every logit of fp16 inputs, and finite: (-inf) - NO_ROW_MAX is not NaN
constexpr unsigned FULL_WARP = 0xffffffffu;

// Like CuTe's Swizzle: XORs the BITS bits that are SHIFT above bit BASE into the bits from BASE on. On rows of 64
// halves, <3, 3, 3> XORs the 16-byte vector's number (bits 3 to 5) with the row's lower bits (6 to 8), so 8 rows of a
// column are in different banks.
template <int BITS, int BASE, int SHIFT>
struct Swizzle {
  static __device__ __forceinline__ int apply(int offset) {
    return offset ^ ((offset >> SHIFT) & (((1 << BITS) - 1) << BASE));
  }
};

// A tile of HEAD_DIM columns in shared memory: Swizzle<3, 3, 3> after the row-major layout (_, HEAD_DIM):(HEAD_DIM, 1).
struct SmemTile {
  half* data;
  __device__ __forceinline__ half* at(int row, int col) const {
    return data + Swizzle<3, 3, 3>::apply(row * HEAD_DIM + col);
  }
  __device__ __forceinline__ uint32_t address(int row, int col) const {
    return smem_address(data) + 2 * Swizzle<3, 3, 3>::apply(row * HEAD_DIM + col);
  }
};

// The part of a tile that a lane reads: one row and column of each 16 x 16 block. The swizzle only XORs, so a step of
// 16 columns is an XOR too, and one address in one register serves the whole tile.
struct LaneTile {
  uint32_t first;
  __device__ __forceinline__ LaneTile(SmemTile tile, int row, int col) : first(tile.address(row, col)) {}
  __device__ __forceinline__ uint32_t block(int row_block, int col_block) const {
    return (first ^ (col_block * 32)) + row_block * 16 * HEAD_DIM * 2;
  }
};

// A tile in device memory, of which only the first `rows` rows exist.
template <class T>
struct GmemTile {
  T* data;
  int rows;
};

// How a CTA copies a tile. The threads form (THREADS / 8) x 8, and each one copies a vector of 8 halves per row.
template <int THREADS>
struct TiledCopy {
  static constexpr int THREAD_COLS = HEAD_DIM / VECTOR, THREAD_ROWS = THREADS / THREAD_COLS;
};

template <int ROWS, int THREADS>
__device__ __forceinline__ void copy(TiledCopy<THREADS>, GmemTile<const half> from, SmemTile to) {
  using Copy = TiledCopy<THREADS>;
  const int thread_row = threadIdx.x / Copy::THREAD_COLS, col = threadIdx.x % Copy::THREAD_COLS * VECTOR;
#pragma unroll
  for (int pass = 0; pass < ROWS; pass += Copy::THREAD_ROWS)
    cp_async_16(to.address(pass + thread_row, col), from.data + (pass + thread_row) * HEAD_DIM + col,
                pass + thread_row < from.rows);  // missing rows become 0
}

// How a CTA multiplies: with atoms m16n8k16, and with its warps side by side along M.
template <int WARPS>
struct TiledMma {
  static constexpr int M = 16, N = 8, K = 16, THREADS = WARPS * WARP;
  using A = uint32_t[4];  // 16 x 16
  using B = uint32_t[4];  // two atoms: 16 x 16
  template <int COLS>
  using C = float[COLS / N][4];  // 16 x COLS; elements 0 1 in row lane / 4, 2 3 in row lane / 4 + 8
};
using Mma = TiledMma<BLOCK_Q / 16>;
using Copy = TiledCopy<Mma::THREADS>;
static_assert(NUM_THREADS == Mma::THREADS, "a warp takes 16 query rows");
static_assert(SMEM_BYTES == (BLOCK_Q + 2 * BLOCK_KV) * HEAD_DIM * sizeof(half), "Q, K, V");

// C += A B, DEPTH deep. load_A(A, k) and load_B(B, k, n) fetch fragments; as in CUTLASS' main loop, the next step's
// fragments are loaded while this step's are multiplied. A step is one B fragment. With a whole row of fragments per
// step, a thread would need 32 registers more.
template <int DEPTH, int COLS, class LoadA, class LoadB>
__device__ __forceinline__ void gemm(Mma::C<COLS>& C_rmem, LoadA load_A, LoadB load_B) {
  constexpr int N_STEPS = COLS / (2 * Mma::N), STEPS = DEPTH / Mma::K * N_STEPS;
  Mma::A A_rmem[2];
  Mma::B B_rmem[2];
  load_A(A_rmem[0], 0);
  load_B(B_rmem[0], 0, 0);
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    const int next = step + 1, k = step / N_STEPS, n = step % N_STEPS;
    if (next < STEPS) {
      if (next % N_STEPS == 0) load_A(A_rmem[next / N_STEPS % 2], next / N_STEPS);
      load_B(B_rmem[next % 2], next / N_STEPS, next % N_STEPS);
    }
    mma_m16n8k16_f32(C_rmem[2 * n], A_rmem[k % 2], B_rmem[step % 2][0], B_rmem[step % 2][1]);
    mma_m16n8k16_f32(C_rmem[2 * n + 1], A_rmem[k % 2], B_rmem[step % 2][2], B_rmem[step % 2][3]);
  }
}

// Scores of keys that a row may not see (past the end, or later than the row) become minus infinity.
__device__ __forceinline__ void mask(Mma::C<BLOCK_KV>& S_rmem, int first_row, int first_key, int seq_len, int causal,
                                     int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + lane / 4 + i / 2 * 8;
    const int keys = (causal ? min(seq_len, row + 1) : seq_len) - first_key - 2 * (lane % 4) - i % 2;
#pragma unroll
    for (int n = 0; n < BLOCK_KV / Mma::N; ++n)
      if (n * Mma::N >= keys) S_rmem[n][i] = -INFINITY;
  }
}

// The online softmax of a lane's two rows: m_i is in units of log2, and l_i is the sum of this lane's columns only (the
// four lanes of a row add these at the end).
struct Softmax {
  float m_i[2] = {NO_ROW_MAX, NO_ROW_MAX};
  float l_i[2] = {0.0f, 0.0f};

  // S becomes P, and O is rescaled to the new maximum.
  __device__ __forceinline__ void update(Mma::C<BLOCK_KV>& S_rmem, Mma::C<HEAD_DIM>& O_rmem, float scale_log2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tile_max = fmaxf(S_rmem[0][2 * h], S_rmem[0][2 * h + 1]);
#pragma unroll
      for (int n = 1; n < BLOCK_KV / Mma::N; ++n)
        tile_max = fmaxf(tile_max, fmaxf(S_rmem[n][2 * h], S_rmem[n][2 * h + 1]));
      float new_max = fmaxf(m_i[h], tile_max * scale_log2);
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 1));
      new_max = fmaxf(new_max, __shfl_xor_sync(FULL_WARP, new_max, 2));
      const float alpha = exp2_approx(m_i[h] - new_max);
      m_i[h] = new_max;
      l_i[h] *= alpha;
#pragma unroll
      for (int n = 0; n < HEAD_DIM / Mma::N; ++n) O_rmem[n][2 * h] *= alpha, O_rmem[n][2 * h + 1] *= alpha;
      // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
#pragma unroll
      for (int n = 0; n < BLOCK_KV / Mma::N; ++n)
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          S_rmem[n][i] = exp2_approx(fmaf(S_rmem[n][i], scale_log2, -new_max));
          l_i[h] += S_rmem[n][i];
        }
    }
  }

  __device__ __forceinline__ float row_sum(int h) const {
    const float pair = l_i[h] + __shfl_xor_sync(FULL_WARP, l_i[h], 1);
    return pair + __shfl_xor_sync(FULL_WARP, pair, 2);
  }
};

#if REGISTER_LIMIT == 96
constexpr int BOUND_THREADS = 320, BOUND_CTAS = 2;  // 640 threads in an SM's 64 K registers
#else
constexpr int BOUND_THREADS = Mma::THREADS,
              BOUND_CTAS = CONFIG == 2 ? 2 : 1;    // without a bound, 8 warps take 135 registers on sm_89
#endif

extern "C" __global__ void __launch_bounds__(BOUND_THREADS, BOUND_CTAS)
    fa_tc_s512(const half* __restrict__ Q,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ K,  // [B, H, S, HEAD_DIM]
               const half* __restrict__ V,  // [B, H, S, HEAD_DIM]
               half* __restrict__ O,  // [B, H, S, HEAD_DIM]
               int seq_len,
               float scale,  // 1 / sqrt(HEAD_DIM)
               int causal) {  // 1: a query sees the keys up to its own position
  extern __shared__ __align__(1024) half smem[];
  const SmemTile Q_smem{smem}, K_smem{smem + BLOCK_Q * HEAD_DIM}, V_smem{smem + (BLOCK_Q + BLOCK_KV) * HEAD_DIM};

  // A CTA takes BLOCK_Q query rows of one head, and a warp takes 16 of these rows. Under a causal mask the longest rows
  // start first.
  const size_t head_offset = (size_t)blockIdx.y * seq_len * HEAD_DIM;
  const int q_start = (causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * BLOCK_Q;
  const int lane = threadIdx.x % WARP;
  const int warp_row = threadIdx.x / WARP * Mma::M;
  const auto tile_of = [&](const half* tensor, int first_row) {
    return GmemTile<const half>{tensor + head_offset + (size_t)first_row * HEAD_DIM, seq_len - first_row};
  };

  copy<BLOCK_Q>(Copy{}, tile_of(Q, q_start), Q_smem);
  copy<BLOCK_KV>(Copy{}, tile_of(K, 0), K_smem);
  cp_async_commit();

  const LaneTile Q_lane(Q_smem, warp_row + lane % 16, lane / 16 * 8);
  const LaneTile K_lane(K_smem, lane % 8 + lane / 16 * 8,
                        lane / 8 % 2 * 8);  // K is [key][d]: its rows are the columns of K^T
  const LaneTile V_lane(V_smem, lane % 16, lane / 16 * 8);
  Mma::C<HEAD_DIM> O_rmem = {};
  Softmax softmax;
  const float scale_log2 = scale * LOG2_E;
  const int kv_end = causal ? min(seq_len, q_start + BLOCK_Q) : seq_len;
  for (int kv_start = 0; kv_start < kv_end; kv_start += BLOCK_KV) {
    cp_async_wait<0>();
    __syncthreads();  // Q and K are there; every warp has read the last tile's V
    copy<BLOCK_KV>(Copy{}, tile_of(V, kv_start), V_smem);
    cp_async_commit();

    Mma::C<BLOCK_KV> S_rmem = {};
    gemm<HEAD_DIM, BLOCK_KV>(
        S_rmem, [&](Mma::A& A, int k) { ldmatrix_x4(A[0], A[1], A[2], A[3], Q_lane.block(0, k)); },
        [&](Mma::B& B, int k, int n) { ldmatrix_x4(B[0], B[1], B[2], B[3], K_lane.block(n, k)); });

    cp_async_wait<0>();
    __syncthreads();  // V is there; every warp has read K
    if (kv_start + BLOCK_KV < kv_end) copy<BLOCK_KV>(Copy{}, tile_of(K, kv_start + BLOCK_KV), K_smem);
    cp_async_commit();

    const int first_row = q_start + warp_row;
    if (kv_start + BLOCK_KV > (causal ? min(seq_len, first_row + 1) : seq_len))
      mask(S_rmem, first_row, kv_start, seq_len, causal, lane);
    softmax.update(S_rmem, O_rmem, scale_log2);

    // P is the packed accumulators of S: two adjacent 8-column atoms have the layout of the next product's A.
    gemm<BLOCK_KV, HEAD_DIM>(
        O_rmem,
        [&](Mma::A& A, int k) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            A[i] = pack_half2(S_rmem[2 * k + i / 2][i % 2 * 2], S_rmem[2 * k + i / 2][i % 2 * 2 + 1]);
        },
        [&](Mma::B& B, int k, int n) { ldmatrix_x4_trans(B[0], B[1], B[2], B[3], V_lane.block(k, n)); });
  }

  // Normalise and store through the warp's own rows of Q, so that O is stored in vectors.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float inverse_sum = 1.0f / softmax.row_sum(h);
#pragma unroll
    for (int n = 0; n < HEAD_DIM / Mma::N; ++n)
      *reinterpret_cast<uint32_t*>(Q_smem.at(warp_row + h * 8 + lane / 4, n * Mma::N + 2 * (lane % 4))) =
          pack_half2(O_rmem[n][2 * h] * inverse_sum, O_rmem[n][2 * h + 1] * inverse_sum);
  }
  __syncwarp();
#pragma unroll
  for (int row = warp_row + lane / 8; row < warp_row + Mma::M; row += WARP / 8)
    if (q_start + row < seq_len)
      *reinterpret_cast<uint4*>(O + head_offset + (size_t)(q_start + row) * HEAD_DIM + lane % 8 * VECTOR) =
          *reinterpret_cast<const uint4*>(Q_smem.at(row, lane % 8 * VECTOR));
}
