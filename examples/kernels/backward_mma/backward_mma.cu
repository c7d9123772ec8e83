// backward_mma: dQ, dK and dV of attention on mma.sync, without atomics: two passes of the same loop, one over the keys
// of a tile of queries, one over the queries of a tile of keys (problems/attention_backward).
// Limits: fp16 or bf16, HEAD_DIM 64, 128 or 256, any lengths, sm_80 or later.
#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"

using namespace register_rows;

// The result of a pass. A CTA owns rows of these gradients (queries or keys), and streams rows of the other side.
enum Gradients { DQ, DK_AND_DV, DK, DV };

// A warp owns 16 rows. The manifest has a CTA's threads and bytes, and how many rows it owns and streams at a time.
template <int HEAD_DIM_, int OWN_ROWS_, int TILE_ROWS_, Gradients GRADIENTS>
struct Cut {
  static constexpr int HEAD_DIM = HEAD_DIM_, OWN_ROWS = OWN_ROWS_, TILE_ROWS = TILE_ROWS_, STAGES = 2;
  static constexpr bool OWNS_KEYS = GRADIENTS != DQ, HAS_DV = GRADIENTS == DK_AND_DV || GRADIENTS == DV,
                        HAS_DS = GRADIENTS != DV;
  static constexpr int THREADS = OWN_ROWS / MMA_M * WARP;
  static constexpr int COLUMNS = TILE_ROWS / MMA_N, D_STEPS = HEAD_DIM / MMA_K, D_TILES = HEAD_DIM / MMA_N;
  static constexpr int ROW_BYTES = HEAD_DIM * 2, OWN_BYTES = OWN_ROWS * ROW_BYTES, TILE_BYTES = TILE_ROWS * ROW_BYTES;
  // A stage has rows of two tensors. If they are queries, their LSE and delta come after all stages.
  static constexpr int STAGE_BYTES = 2 * TILE_BYTES, FIGURES_BYTES = OWNS_KEYS ? 8 * TILE_ROWS : 0;
  static constexpr int SMEM_BYTES = 2 * OWN_BYTES + STAGES * (STAGE_BYTES + FIGURES_BYTES);
};

struct Form {
  int S, Skv, group;  // `group` heads of Q share a head of K and V
  int causal, diagonal;  // query i sees keys 0 to i + diagonal; Skv without a mask

  __device__ __forceinline__ bool sees(int query, int key) const { return key < Skv && key <= query + diagonal; }
};

struct Tensors {
  const Element *Q, *dO;  // [B, H, S, D]
  const Element *K, *V;  // [B, Hkv, Skv, D]
  const float *LSE, *delta;  // [B, H, S]
  Element *dQ, *dK, *dV;
};

// sum = the warp's 16 own rows times the rows of a tile: Q K^T or dO V^T, transposed if keys are owned.
template <class C>
__device__ __forceinline__ void multiply_rows(float (&sum_rmem)[C::COLUMNS][4], uint32_t own_smem, uint32_t tile_smem,
                                              int warp_row, int lane) {
#pragma unroll
  for (int step = 0; step < C::D_STEPS; ++step) {
    uint32_t own_rmem[4], rows_rmem[4];
    ldmatrix_x4(own_rmem[0], own_rmem[1], own_rmem[2], own_rmem[3],
                own_smem + swizzled_offset<C::ROW_BYTES>(warp_row + (lane & 15), 2 * step + (lane >> 4)));
#pragma unroll
    for (int n = 0; n < C::COLUMNS; n += 2) {
      const int row = n * MMA_N + (lane & 7) + ((lane >> 4) << 3), chunk = 2 * step + ((lane >> 3) & 1);
      ldmatrix_x4(rows_rmem[0], rows_rmem[1], rows_rmem[2], rows_rmem[3],
                  tile_smem + swizzled_offset<C::ROW_BYTES>(row, chunk));
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(sum_rmem[n], own_rmem, rows_rmem[0], rows_rmem[1]);
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(sum_rmem[n + 1], own_rmem, rows_rmem[2], rows_rmem[3]);
    }
  }
}

// gradient += weights times the rows of a tile. The weights are already an A operand in registers.
template <class C>
__device__ __forceinline__ void add_rows(float (&gradient_rmem)[C::D_TILES][4],
                                         const float (&weights_rmem)[C::COLUMNS][4], uint32_t tile_smem, int lane) {
#pragma unroll
  for (int k = 0; k < C::COLUMNS; k += 2) {
    uint32_t A_rmem[4], rows_rmem[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      A_rmem[i] = pack_elements(weights_rmem[k + (i >> 1)][2 * (i & 1)], weights_rmem[k + (i >> 1)][2 * (i & 1) + 1]);
#pragma unroll
    for (int n = 0; n < C::D_TILES; n += 2) {
      ldmatrix_x4_trans(rows_rmem[0], rows_rmem[1], rows_rmem[2], rows_rmem[3],
                        tile_smem + swizzled_offset<C::ROW_BYTES>(k * MMA_N + (lane & 15), n + (lane >> 4)));
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(gradient_rmem[n], A_rmem, rows_rmem[0], rows_rmem[1]);
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(gradient_rmem[n + 1], A_rmem, rows_rmem[2], rows_rmem[3]);
    }
  }
}

// Stores the warp's rows of a gradient, 16 bytes at a time, by way of its own rows of a tile in shared memory.
template <class C>
__device__ __forceinline__ void store_gradient(Element* gradient, const float (&gradient_rmem)[C::D_TILES][4],
                                               float factor, unsigned char* own_tile, int first_row, int warp_row,
                                               int rows, int lane) {
  __syncwarp();  // every lane has read the warp's rows
#pragma unroll
  for (int n = 0; n < C::D_TILES; ++n)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<uint32_t*>(own_tile + swizzled_offset<C::ROW_BYTES>(warp_row + h * 8 + (lane >> 2), n) +
                                   4 * (lane & 3)) =
          pack_elements(gradient_rmem[n][2 * h] * factor, gradient_rmem[n][2 * h + 1] * factor);
  __syncwarp();
  constexpr int CHUNKS = C::HEAD_DIM / 8;
#pragma unroll
  for (int pass = 0; pass < MMA_M; pass += WARP / CHUNKS) {
    const int row = warp_row + pass + lane / CHUNKS, chunk = lane % CHUNKS;
    if (first_row + row < rows)
      *reinterpret_cast<uint4*>(gradient + size_t(first_row + row) * C::HEAD_DIM + chunk * 8) =
          *reinterpret_cast<const uint4*>(own_tile + swizzled_offset<C::ROW_BYTES>(row, chunk));
  }
}

// One CTA: the gradients of C::OWN_ROWS rows of one head. P_ij = exp(scale Q_i . K_j - LSE_i), dS_ij = P_ij (dO_i . V_j
// - delta_i); dQ_i = scale * sum of dS_ij K_j, dK_j = scale * sum of dS_ij Q_i, dV_j = sum of P_ij dO_i.
// blockIdx.x: batch and head; blockIdx.y: the tile of rows.
template <class C>
__device__ __forceinline__ void gradients(const Tensors& tensors, const Form& form, float scale) {
  constexpr bool OWNS_KEYS = C::OWNS_KEYS;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % WARP, warp_row = threadIdx.x / WARP * MMA_M;
  const int own_rows = OWNS_KEYS ? form.Skv : form.S, streamed_rows = OWNS_KEYS ? form.S : form.Skv;
  // Under a causal mask the last queries and the first keys have the most work, so they start first.
  const int first_own = (!OWNS_KEYS && form.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y) * C::OWN_ROWS;
  const size_t own_head = size_t(blockIdx.x) * own_rows * C::HEAD_DIM;

  // The tiles of the other side that any own row needs; if keys are owned, those of every head in their group.
  const int heads = OWNS_KEYS ? form.group : 1;
  const size_t first_head = OWNS_KEYS ? size_t(blockIdx.x) * form.group : blockIdx.x / form.group;
  const int rows_begin = OWNS_KEYS ? max(0, first_own - form.diagonal) / C::TILE_ROWS * C::TILE_ROWS : 0;
  const int rows_end = OWNS_KEYS ? form.S : min(form.Skv, first_own + C::OWN_ROWS + form.diagonal);
  const int head_tiles = max(0, rows_end - rows_begin + C::TILE_ROWS - 1) / C::TILE_ROWS, tiles = heads * head_tiles;

  const uint32_t own_smem = smem_address(smem), stages_smem = own_smem + 2 * C::OWN_BYTES;
  float2* figures_smem = reinterpret_cast<float2*>(smem + 2 * C::OWN_BYTES + C::STAGES * C::STAGE_BYTES);

  const auto first_row_of = [&](int tile) { return rows_begin + tile % head_tiles * C::TILE_ROWS; };
  const auto load_tile = [&](int tile) {
    const size_t head = (first_head + tile / head_tiles) * streamed_rows * C::HEAD_DIM;
    const uint32_t tile_smem = stages_smem + tile % C::STAGES * C::STAGE_BYTES;
    const int first_row = first_row_of(tile);
    load_rows<C::TILE_ROWS, C::HEAD_DIM, C::THREADS>(tile_smem, (OWNS_KEYS ? tensors.Q : tensors.K) + head, first_row,
                                                     streamed_rows, threadIdx.x);
    load_rows<C::TILE_ROWS, C::HEAD_DIM, C::THREADS>(
        tile_smem + C::TILE_BYTES, (OWNS_KEYS ? tensors.dO : tensors.V) + head, first_row, streamed_rows, threadIdx.x);
  };
  // LSE in log2 units, and delta. Rows past the end have no weight.
  const auto row_figures = [&](size_t head, int row) {
    const size_t at = head * form.S + row;
    return row < form.S ? make_float2(tensors.LSE[at] * LOG2_E, tensors.delta[at]) : make_float2(INFINITY, 0.0f);
  };

  load_rows<C::OWN_ROWS, C::HEAD_DIM, C::THREADS>(own_smem, (OWNS_KEYS ? tensors.K : tensors.Q) + own_head, first_own,
                                                  own_rows, threadIdx.x);
  load_rows<C::OWN_ROWS, C::HEAD_DIM, C::THREADS>(
      own_smem + C::OWN_BYTES, (OWNS_KEYS ? tensors.V : tensors.dO) + own_head, first_own, own_rows, threadIdx.x);
  if (tiles > 0) load_tile(0);
  cp_async_commit();
  float2 own_figures[2], next_figures;
  if constexpr (OWNS_KEYS) {
    if (threadIdx.x < C::TILE_ROWS && tiles > 0)
      figures_smem[threadIdx.x] = row_figures(first_head, rows_begin + threadIdx.x);
  } else {
#pragma unroll
    for (int h = 0; h < 2; ++h) own_figures[h] = row_figures(blockIdx.x, first_own + warp_row + h * 8 + (lane >> 2));
  }

  float dV_rmem[C::D_TILES][4] = {}, gradient_rmem[C::D_TILES][4] = {};  // the second one holds dK or dQ
  const float scale_log2 = scale * LOG2_E;
  for (int tile = 0; tile < tiles; ++tile) {
    cp_async_wait<0>();
    __syncthreads();  // this tile has arrived for all warps, and all have read the last one, so its stage is free
    if (tile + 1 < tiles) {
      load_tile(tile + 1);
      if (OWNS_KEYS && threadIdx.x < C::TILE_ROWS)
        next_figures = row_figures(first_head + (tile + 1) / head_tiles, first_row_of(tile + 1) + threadIdx.x);
    }
    cp_async_commit();
    const uint32_t tile_smem = stages_smem + tile % C::STAGES * C::STAGE_BYTES;
    const int first_row = first_row_of(tile), first_of_warp = first_own + warp_row;
    const auto store_next_figures = [&] {
      if (OWNS_KEYS && threadIdx.x < C::TILE_ROWS && tile + 1 < tiles)
        figures_smem[(tile + 1) % C::STAGES * C::TILE_ROWS + threadIdx.x] = next_figures;
    };
    const float2* tile_figures = figures_smem + tile % C::STAGES * C::TILE_ROWS;

    const bool any_seen = OWNS_KEYS ? form.sees(first_row + C::TILE_ROWS - 1, first_of_warp)
                                    : form.sees(first_of_warp + MMA_M - 1, first_row);
    if (!any_seen || first_of_warp >= own_rows) {
      store_next_figures();
      continue;
    }

    // The accumulators of S hold P, and later dS.
    float P_rmem[C::COLUMNS][4] = {}, dS_rmem[C::COLUMNS][4] = {};
    multiply_rows<C>(P_rmem, own_smem, tile_smem, warp_row, lane);
    if constexpr (C::HAS_DS)
      multiply_rows<C>(dS_rmem, own_smem + C::OWN_BYTES, tile_smem + C::TILE_BYTES, warp_row, lane);
    const bool all_seen = OWNS_KEYS ? form.sees(first_row, first_of_warp + MMA_M - 1)
                                    : form.sees(first_of_warp, first_row + C::TILE_ROWS - 1);
#pragma unroll
    for (int n = 0; n < C::COLUMNS; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * MMA_N + 2 * (lane & 3) + (i & 1);
        const float2 figures = OWNS_KEYS ? tile_figures[column] : own_figures[i >> 1];
        float p = exp2_approx(fmaf(P_rmem[n][i], scale_log2, -figures.x));
        if (!all_seen) {
          const int own = first_of_warp + (lane >> 2) + (i >> 1) * 8, streamed = first_row + column;
          if (!(OWNS_KEYS ? form.sees(streamed, own) : form.sees(own, streamed))) p = 0.0f;
        }
        P_rmem[n][i] = p;
        dS_rmem[n][i] = p * (dS_rmem[n][i] - figures.y);
      }
    if constexpr (C::HAS_DV) add_rows<C>(dV_rmem, P_rmem, tile_smem + C::TILE_BYTES, lane);
    if constexpr (C::HAS_DS) add_rows<C>(gradient_rmem, dS_rmem, tile_smem, lane);
    store_next_figures();
  }
  cp_async_wait<0>();
  __syncthreads();  // if there was no tile, copies of own rows may still be in flight
  if constexpr (C::HAS_DS)
    store_gradient<C>((OWNS_KEYS ? tensors.dK : tensors.dQ) + own_head, gradient_rmem, scale, smem, first_own, warp_row,
                      own_rows, lane);
  if constexpr (C::HAS_DV)
    store_gradient<C>(tensors.dV + own_head, dV_rmem, 1.0f, smem + C::OWN_BYTES, first_own, warp_row, own_rows, lane);
}

// delta = dO . O per row: the gradient that reaches all logits of the row through its normaliser. D / 8 lanes per row.
extern "C" __global__ void __launch_bounds__(DELTA_THREADS)
    backward_mma_delta(const Element* __restrict__ O,  // [B, H, S, D]
                       const Element* __restrict__ dO,  // [B, H, S, D]
                       float* __restrict__ delta,  // [B, H, S]
                       int rows, int D) {
  const int chunks = D / 8, chunk = threadIdx.x % chunks;
  const int row = blockIdx.x * (DELTA_THREADS / chunks) + threadIdx.x / chunks;
  float sum = 0.0f;
  if (row < rows) {
    const size_t at = size_t(row) * D + chunk * 8;
    const uint4 O_pairs = *reinterpret_cast<const uint4*>(O + at), dO_pairs = *reinterpret_cast<const uint4*>(dO + at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = to_float2(reinterpret_cast<const Element2*>(&O_pairs)[i]),
                   b = to_float2(reinterpret_cast<const Element2*>(&dO_pairs)[i]);
      sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
    }
  }
  for (int offset = chunks / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (row < rows && chunk == 0) delta[row] = sum;
}

// Defines an entry; asserts that its tiling has the threads and bytes of the launch in kernel.yaml.
#define BACKWARD_MMA_ENTRY(NAME, CUT, LAUNCHED_THREADS, LAUNCHED_BYTES)                                              \
  static_assert(CUT::THREADS == (LAUNCHED_THREADS) && CUT::SMEM_BYTES == (LAUNCHED_BYTES));                          \
  extern "C" __global__ void __launch_bounds__(LAUNCHED_THREADS, 1) NAME(                                            \
      const Element* Q, const Element* K, const Element* V, const Element* dO, const float* LSE, const float* delta, \
      Element* dQ, Element* dK, Element* dV, int S, int Skv, int group, int causal, int diagonal, float scale) {     \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                            \
      gradients<CUT>({Q, dO, K, V, LSE, delta, dQ, dK, dV}, {S, Skv, group, causal, diagonal}, scale);               \
  }

using D64Queries = Cut<64, D64_OWN_ROWS, D64_TILE_ROWS, DQ>;
using D64Keys = Cut<64, D64_OWN_ROWS, D64_TILE_ROWS, DK_AND_DV>;
using D128Queries = Cut<128, D128_OWN_ROWS, D128_TILE_ROWS, DQ>;
using D128Keys = Cut<128, D128_OWN_ROWS, D128_TILE_ROWS, DK_AND_DV>;
// 16 rows of two gradients would need all registers of a thread.
using D256Queries = Cut<256, D256_OWN_ROWS, D256_TILE_ROWS, DQ>;
using D256Keys = Cut<256, D256_OWN_ROWS, D256_TILE_ROWS, DK>;
using D256Values = Cut<256, D256_OWN_ROWS, D256_TILE_ROWS, DV>;
BACKWARD_MMA_ENTRY(backward_mma_d64_dq, D64Queries, 2 * D64_OWN_ROWS, D64_BYTES)
BACKWARD_MMA_ENTRY(backward_mma_d64_dkv, D64Keys, 2 * D64_OWN_ROWS, D64_BYTES + 16 * D64_TILE_ROWS)
BACKWARD_MMA_ENTRY(backward_mma_d128_dq, D128Queries, 2 * D128_OWN_ROWS, D128_BYTES)
BACKWARD_MMA_ENTRY(backward_mma_d128_dkv, D128Keys, 2 * D128_OWN_ROWS, D128_BYTES + 16 * D128_TILE_ROWS)
BACKWARD_MMA_ENTRY(backward_mma_d256_dq, D256Queries, 2 * D256_OWN_ROWS, D256_BYTES)
BACKWARD_MMA_ENTRY(backward_mma_d256_dk, D256Keys, 2 * D256_OWN_ROWS, D256_BYTES + 16 * D256_TILE_ROWS)
BACKWARD_MMA_ENTRY(backward_mma_d256_dv, D256Values, 2 * D256_OWN_ROWS, D256_BYTES + 16 * D256_TILE_ROWS)
