// The shortest sequences, at most 32 keys: fragments straight from global memory, 16 keys a warp, one softmax.
//
// Such a launch spends its time waiting (an empty kernel takes 0.8 us, this one 2.4 us, H200). So
// all loads are issued together and waited for once, and the code is short, because the instruction
// cache is empty. A product may sum the head dimension in any order: where an operand wants pairs,
// a lane loads 16 bytes of a row of Q and of K, both in the same order. Of V it loads neighbouring
// keys and pairs them itself; the columns of O follow that order, 16 consecutive ones for a lane.
#pragma once
#include "mechanisms/attention_form.cuh"
#include "mechanisms/element.cuh"
#include "primitives/exp2.cuh"
#include "primitives/mma.cuh"

namespace direct_rows {

constexpr int WARP = 32, ROWS = 16, KEYS = 16, MOST_KEYS = 32, MOST_WARPS = MOST_KEYS / KEYS;
constexpr float LOG2_E = 1.4426950408889634f;

template <int HEAD_DIM>
struct Tiling {
  static constexpr int PANELS = HEAD_DIM / 64;  // 64 columns: 16 bytes of each of eight lanes
  static constexpr int CHUNKS = HEAD_DIM / 32;  // 32 columns: 16 bytes of each of four lanes
  static constexpr int QUADS = HEAD_DIM / 8;  // float4 that a lane has of its warp's part of O
  static constexpr int SMEM_BYTES = MOST_WARPS * ROWS * (2 * sizeof(float) + HEAD_DIM * sizeof(float));
};

// Loads 16 bytes of a row. Returns zeros and reads nothing if the row is not wanted.
__device__ __forceinline__ uint4 load_16(const Element* row, bool wanted) {
  return wanted ? __ldg(reinterpret_cast<const uint4*>(row)) : make_uint4(0, 0, 0, 0);
}

// One CTA: 16 query rows of one head; warp w takes keys 16 w to 16 w + 15, blockDim.x / 32 warps all of them.
// blockIdx.x: batch and head; blockIdx.y: the tile of rows. Q and O are
// [heads][S][HEAD_DIM], K and V [heads / group][Skv][HEAD_DIM].
template <int HEAD_DIM>
__device__ __forceinline__ void attention(const Element* __restrict__ Q, const Element* __restrict__ K,
                                          const Element* __restrict__ V, Element* __restrict__ O,
                                          const AttentionForm& form, float scale) {
  using T = Tiling<HEAD_DIM>;
  extern __shared__ __align__(1024) unsigned char smem[];
  float* const maxima = reinterpret_cast<float*>(smem);  // [warp][row]
  float* const sums = maxima + MOST_WARPS * ROWS;
  float4* const parts = reinterpret_cast<float4*>(sums + MOST_WARPS * ROWS);  // [warp][quad][lane]

  const int S = form.S;
  const size_t head = size_t(blockIdx.x) * S * HEAD_DIM,
               kv_head = size_t(form.kv_head(blockIdx.x)) * form.Skv * HEAD_DIM;
  Q += head, K += kv_head, V += kv_head, O += head;

  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  const int group = lane >> 2, quad_lane = lane & 3;  // a fragment's row (key, column of B), and its pair of columns
  const int first_row = blockIdx.y * ROWS, first_key = warp * KEYS;
  const int keys = form.keys_before(first_row + ROWS);  // the number of keys that these rows see at most
  const Element* const Q_lane = Q + (first_row + group) * HEAD_DIM + 8 * quad_lane;
  const Element* const K_lane = K + (first_key + group) * HEAD_DIM + 8 * quad_lane;
  const Element* const V_lane = V + (first_key + 2 * quad_lane) * HEAD_DIM + 8 * group;

  uint4 Q_rmem[2][T::CHUNKS], K_rmem[2][T::CHUNKS], V_rmem[4][T::PANELS];
#pragma unroll
  for (int h = 0; h < 2; ++h)  // rows and keys `group` and `group` + 8
#pragma unroll
    for (int c = 0; c < T::CHUNKS; ++c) {
      Q_rmem[h][c] = load_16(Q_lane + h * 8 * HEAD_DIM + 32 * c, first_row + group + h * 8 < S);
      K_rmem[h][c] = load_16(K_lane + h * 8 * HEAD_DIM + 32 * c, first_key + group + h * 8 < keys);
    }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = (i >> 1) * 8 + (i & 1);  // after 2 quad_lane
#pragma unroll
    for (int p = 0; p < T::PANELS; ++p)
      V_rmem[i][p] = load_16(V_lane + key * HEAD_DIM + 64 * p, first_key + 2 * quad_lane + key < keys);
  }

  float S_rmem[2][4] = {};  // [8 keys each]
#pragma unroll
  for (int c = 0; c < T::CHUNKS; ++c) {
    const uint4 low = Q_rmem[0][c], high = Q_rmem[1][c];
    const uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_rmem[n], first, K_rmem[n][c].x, K_rmem[n][c].y);
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_rmem[n], second, K_rmem[n][c].z, K_rmem[n][c].w);
    }
  }

  float row_max[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // Like form.keys_before(), with `keys` as the limit: taking the minimum with Skv again would make ptxas spill.
    const int seen = min(keys, first_row + group + h * 8 + 1 + form.diagonal) - first_key - 2 * quad_lane;
    row_max[h] = -INFINITY;
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = S_rmem[n][2 * h + i];
        if (8 * n + i >= seen) score = -INFINITY;
        row_max[h] = fmaxf(row_max[h], score);
      }
    row_max[h] = fmaxf(row_max[h], __shfl_xor_sync(0xffffffffu, row_max[h], 1));
    row_max[h] = fmaxf(row_max[h], __shfl_xor_sync(0xffffffffu, row_max[h], 2));
    if (quad_lane == 0) maxima[warp * ROWS + h * 8 + group] = row_max[h];
  }
  __syncthreads();
  // The maximum over all warps. It is finite, because every row sees key 0.
  const float scale_log2 = scale * LOG2_E;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll 1
    for (int other = 0; other < warps; ++other) row_max[h] = fmaxf(row_max[h], maxima[other * ROWS + h * 8 + group]);
    row_max[h] *= scale_log2;
  }

  uint32_t P_rmem[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float (&pair)[4] = S_rmem[i >> 1];
    const int h = i & 1;
    P_rmem[i] = pack_elements(exp2_approx(fmaf(pair[2 * h], scale_log2, -row_max[h])),
                              exp2_approx(fmaf(pair[2 * h + 1], scale_log2, -row_max[h])));
  }
  float row_sum[4] = {};  // sums of the weights after rounding; elements 0 and 2 are used
  mma_m16n8k16_f32<ELEMENT_IS_BF16>(row_sum, P_rmem, ELEMENT2_ONES, ELEMENT2_ONES);
  if (quad_lane == 0) {
    sums[warp * ROWS + group] = row_sum[0];
    sums[warp * ROWS + 8 + group] = row_sum[2];
  }
  float4* const own = parts + warp * T::QUADS * WARP + lane;
#pragma unroll
  for (int p = 0; p < T::PANELS; ++p) {
    const uint32_t V_pairs[4][4] = {{V_rmem[0][p].x, V_rmem[0][p].y, V_rmem[0][p].z, V_rmem[0][p].w},
                                    {V_rmem[1][p].x, V_rmem[1][p].y, V_rmem[1][p].z, V_rmem[1][p].w},
                                    {V_rmem[2][p].x, V_rmem[2][p].y, V_rmem[2][p].z, V_rmem[2][p].w},
                                    {V_rmem[3][p].x, V_rmem[3][p].y, V_rmem[3][p].z, V_rmem[3][p].w}};
    float O_rmem[8][4] = {};  // product j makes columns 8 group + j
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t halves = j & 1 ? 0x7632 : 0x5410;
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(O_rmem[j], P_rmem, __byte_perm(V_pairs[0][j / 2], V_pairs[1][j / 2], halves),
                                        __byte_perm(V_pairs[2][j / 2], V_pairs[3][j / 2], halves));
    }
    // Of row group + 8 h a lane has columns 64 p + 16 quad_lane + 8 i + 4 j and three more: quad (h, p, i, j).
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          own[(((h * T::PANELS + p) * 2 + i) * 2 + j) * WARP] =
              make_float4(O_rmem[4 * j][2 * h + i], O_rmem[4 * j + 1][2 * h + i], O_rmem[4 * j + 2][2 * h + i],
                          O_rmem[4 * j + 3][2 * h + i]);
  }
  __syncthreads();

  // Two quads are 16 bytes of O. The lanes of a warp stay where they are.
#pragma unroll 1
  for (int part = warp; part < T::QUADS / 2; part += warps) {
    const int h = part / (2 * T::PANELS), p = part / 2 % T::PANELS, i = part & 1;
    const int row = h * 8 + group;
    float sum = 0.0f, O_sum[8] = {};
#pragma unroll 1
    for (int other = 0; other < warps; ++other) {
      const float4* const from = parts + (other * T::QUADS + 2 * part) * WARP + lane;
      const float4 low = from[0], high = from[WARP];
      O_sum[0] += low.x, O_sum[1] += low.y, O_sum[2] += low.z, O_sum[3] += low.w;
      O_sum[4] += high.x, O_sum[5] += high.y, O_sum[6] += high.z, O_sum[7] += high.w;
      sum += sums[other * ROWS + row];
    }
    const float norm = 1.0f / sum;
    if (first_row + row < S)
      *reinterpret_cast<uint4*>(O + (first_row + row) * HEAD_DIM + 64 * p + 16 * quad_lane + 8 * i) =
          make_uint4(pack_elements(O_sum[0] * norm, O_sum[1] * norm), pack_elements(O_sum[2] * norm, O_sum[3] * norm),
                     pack_elements(O_sum[4] * norm, O_sum[5] * norm), pack_elements(O_sum[6] * norm, O_sum[7] * norm));
  }
}

}  // namespace direct_rows
