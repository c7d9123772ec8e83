// decode_split: split-KV decoding over a contiguous cache. CTAs divide the keys of a sequence, and a second launch
// merges. Limits: fp16 or bf16, head dimensions of 64, 128 and 256, any lengths, sm_80 or later.
#include <math.h>

#include "mechanisms/element.cuh"

constexpr int NUM_WARPS = 4;
constexpr int LANE_DIM = 8;  // elements of a row per lane: one 16-byte load
constexpr int UNROLL = 4;  // loads of K, and of V, in flight per lane
constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

struct alignas(16) Chunk {
  Element2 pairs[LANE_DIM / 2];
};

__device__ __forceinline__ void unpack(float (&to)[LANE_DIM], const Chunk& from) {
#pragma unroll
  for (int i = 0; i < LANE_DIM / 2; ++i) {
    const float2 both = to_float2(from.pairs[i]);
    to[2 * i] = both.x;
    to[2 * i + 1] = both.y;
  }
}

struct Cache {
  const Element *Q, *K, *V;
  const int* lengths;
  int queries, heads, group, capacity, splits, window;
  float scale, softcap;
};

/**
 * One split of one head of K and V, for ROWS of the query rows that share it. LANES lanes read a key together, and each
 * such team keeps its own running maximum: until the split ends, lanes only exchange the sums of logits.
 * Logits are in units of log2(e), so that weights are powers of 2.
 */
template <int HEAD_DIM>
__device__ __forceinline__ void decode_part(const Cache& cache, float* part_O, float* part_max, float* part_sum) {
  constexpr int LANES = HEAD_DIM / LANE_DIM, TEAMS = NUM_WARPS * 32 / LANES, KEYS = 32 / LANES;
  __shared__ float O_smem[TEAMS][ROWS][HEAD_DIM];
  __shared__ float max_smem[TEAMS][ROWS], sum_smem[TEAMS][ROWS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team_of_warp = lane / LANES, d = lane % LANES * LANE_DIM;
  const int queries = cache.queries, heads = cache.heads, group = cache.group, kv_heads = heads / group;
  const int split = blockIdx.x % cache.splits, kv_head = blockIdx.x / cache.splits % kv_heads;
  const int sequence = blockIdx.x / cache.splits / kv_heads;
  const int first_row = blockIdx.y * ROWS, num_rows = min(ROWS, group * queries - first_row);

  // The last query is at the last key. Rows of this CTA see at most the keys from begin to end - 1.
  const int offset = cache.lengths[sequence] - queries;
  const int window = min(cache.window, cache.capacity);
  const int begin = window < 0 ? 0 : max(0, first_row / group + offset - window);
  const int end = (first_row + num_rows - 1) / group + offset + 1;
  const int split_keys = (max(0, end - begin) + cache.splits - 1) / cache.splits;
  const int kv_begin = begin + split * split_keys, kv_end = min(end, kv_begin + split_keys);

  float q_rmem[ROWS][LANE_DIM], O_rmem[ROWS][LANE_DIM], row_max[ROWS], row_sum[ROWS];
  const float factor = cache.softcap > 0.0f ? cache.scale / cache.softcap : cache.scale * LOG2_E;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first_row + min(r, num_rows - 1), query = row / group, head = kv_head * group + row % group;
    const Element* q = cache.Q + (((size_t)sequence * queries + query) * heads + head) * HEAD_DIM + d;
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i) {
      q_rmem[r][i] = to_float(q[i]) * factor;
      O_rmem[r][i] = 0.0f;
    }
    row_max[r] = -INFINITY;
    row_sum[r] = 0.0f;
  }

  const size_t row_stride = (size_t)kv_heads * HEAD_DIM;
  const size_t head_offset = (size_t)sequence * cache.capacity * row_stride + (size_t)kv_head * HEAD_DIM + d;
  for (int base = kv_begin + warp * KEYS * UNROLL; base < kv_end; base += NUM_WARPS * KEYS * UNROLL) {
    Chunk K_rmem[UNROLL], V_rmem[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      // Rows beyond a sequence's length are not read. Keys past the end repeat the last key with weight 0.
      const int key = min(base + u * KEYS + team_of_warp, kv_end - 1);
      K_rmem[u] = *reinterpret_cast<const Chunk*>(cache.K + head_offset + key * row_stride);
      V_rmem[u] = *reinterpret_cast<const Chunk*>(cache.V + head_offset + key * row_stride);
    }
    float logits[UNROLL][ROWS];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      float k[LANE_DIM];
      unpack(k, K_rmem[u]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < LANE_DIM; ++i) sum = fmaf(q_rmem[r][i], k[i], sum);
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (cache.softcap > 0.0f) sum = cache.softcap * LOG2_E * tanhf(sum);
        const int key = base + u * KEYS + team_of_warp, position = (first_row + r) / group + offset;
        const bool seen = key < kv_end && key <= position && (window < 0 || key >= position - window);
        logits[u][r] = seen ? sum : -INFINITY;
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float new_max = row_max[r];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) new_max = fmaxf(new_max, logits[u][r]);
      // A row that has seen no key yet has the maximum -infinity; its weights and its sum are 0.
      const float base_max = new_max == -INFINITY ? 0.0f : new_max;
      const float alpha = exp2f(row_max[r] - base_max);
      row_max[r] = new_max;
      row_sum[r] *= alpha;
#pragma unroll
      for (int i = 0; i < LANE_DIM; ++i) O_rmem[r][i] *= alpha;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        logits[u][r] = exp2f(logits[u][r] - base_max);
        row_sum[r] += logits[u][r];
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      float v[LANE_DIM];
      unpack(v, V_rmem[u]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int i = 0; i < LANE_DIM; ++i) O_rmem[r][i] = fmaf(logits[u][r], v[i], O_rmem[r][i]);
    }
  }

  const int team = warp * KEYS + team_of_warp;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int i = 0; i < LANE_DIM; ++i) O_smem[team][r][d + i] = O_rmem[r][i];
    if (d == 0) {
      max_smem[team][r] = row_max[r];
      sum_smem[team][r] = row_sum[r];
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < num_rows * HEAD_DIM; e += NUM_WARPS * 32) {
    const int r = e / HEAD_DIM, column = e % HEAD_DIM, row = first_row + r;
    float all_max = -INFINITY, O = 0.0f, sum = 0.0f;
    for (int t = 0; t < TEAMS; ++t) all_max = fmaxf(all_max, max_smem[t][r]);
    for (int t = 0; t < TEAMS; ++t) {
      const float weight = max_smem[t][r] == -INFINITY ? 0.0f : exp2f(max_smem[t][r] - all_max);
      O = fmaf(weight, O_smem[t][r][column], O);
      sum = fmaf(weight, sum_smem[t][r], sum);
    }
    const int head = kv_head * group + row % group;
    const size_t part = (((size_t)sequence * heads + head) * queries + row / group) * cache.splits + split;
    part_O[part * HEAD_DIM + column] = O;
    if (column == 0) {
      part_max[part] = all_max;
      part_sum[part] = sum;
    }
  }
}

#define DECODE_PART(HEAD_DIM)                                                                                          \
  extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32) decode_part_##HEAD_DIM(                                 \
      const Element* __restrict__ Q, /* [B, S, H, D] */                                                                \
      const Element* __restrict__ K, /* [B, Skv, H / group, D] */                                                      \
      const Element* __restrict__ V, /* [B, Skv, H / group, D] */                                                      \
      const int* __restrict__ lengths, /* [B] */                                                                       \
      float* __restrict__ part_O, /* [B, H, S, splits, D]: sums of weights times V */                                  \
      float* __restrict__ part_max, /* [B, H, S, splits] */                                                            \
      float* __restrict__ part_sum, /* [B, H, S, splits]: of weights */                                                \
      int queries, int heads, int group, int capacity, int splits, int window, float scale, float softcap) {           \
    decode_part<HEAD_DIM>({Q, K, V, lengths, queries, heads, group, capacity, splits, window, scale, softcap}, part_O, \
                          part_max, part_sum);                                                                         \
  }
DECODE_PART(64)
DECODE_PART(128)
DECODE_PART(256)

/** A warp adds the splits of a query row, each rescaled to the row's maximum over all splits. */
extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)
    decode_merge(const float* __restrict__ part_O, const float* __restrict__ part_max,
                 const float* __restrict__ part_sum,
                 Element* __restrict__ O,  // [B, S, H, D]
                 float* __restrict__ LSE,  // [B, H, S]
                 int rows,  // B * H * S
                 int queries, int heads, int D, int splits) {
  const int row = blockIdx.x * NUM_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const size_t first = (size_t)row * splits;
  float row_max = -INFINITY, row_sum = 0.0f, O_rmem[256 / 32] = {};
  for (int split = 0; split < splits; ++split) row_max = fmaxf(row_max, part_max[first + split]);
  for (int split = 0; split < splits; ++split) {
    if (part_max[first + split] == -INFINITY) continue;
    const float weight = exp2f(part_max[first + split] - row_max);
    row_sum = fmaf(weight, part_sum[first + split], row_sum);
#pragma unroll
    for (int i = 0; i < 256 / 32; ++i)
      if (32 * i < D) O_rmem[i] = fmaf(weight, part_O[(first + split) * D + lane + 32 * i], O_rmem[i]);
  }
  const int query = row % queries, head = row / queries % heads, sequence = row / queries / heads;
  const float normaliser = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
#pragma unroll
  for (int i = 0; i < 256 / 32; ++i)
    if (32 * i < D)
      O[(((size_t)sequence * queries + query) * heads + head) * D + lane + 32 * i] = to_element(O_rmem[i] * normaliser);
  if (lane == 0) LSE[row] = row_sum > 0.0f ? (row_max + log2f(row_sum)) * LN_2 : -INFINITY;
}
