// Decoding over caches of few keys, where a launch spends its time waiting: fragments straight from global memory. All
// loads of a warp start together. They wait for the sequence's length (in pages: and for its table), but not for shared
// memory, a division or another warp. A CTA has a warp for each KEYS keys, and one barrier, after which its warps sum
// their parts; a single warp stores its own.
//
// A product may sum the head dimension in any order: where an operand wants pairs, a lane loads 16 bytes of a row of Q
// and of K, both in the same order. Of V it loads neighboring keys and pairs them itself.
#pragma once
#include "mechanisms/stream_decode.cuh"

namespace direct_decode {

using register_rows::LOG2_E, register_rows::NO_ROW_MAX, register_rows::WARP;
using stream_decode::Cache, stream_decode::LN_2, stream_decode::Quad;

// KEYS: of a warp. PAGED: a table says where each page of keys is.
template <int HEAD_DIM_, int KEYS_, bool PAGED_ = false>
struct Tiling {
  static constexpr bool PAGED = PAGED_;
  static constexpr int HEAD_DIM = HEAD_DIM_, KEYS = KEYS_, ROWS = 16;
  static constexpr int PANELS = HEAD_DIM / 64;  // 64 columns: 16 bytes of each of eight lanes
  static constexpr int CHUNKS = HEAD_DIM / 32;  // 32 columns: 16 bytes of each of four lanes
  static constexpr int KEY_TILES = KEYS / 8, KEY_STEPS = KEYS / 16;
  static constexpr int QUADS = HEAD_DIM / 16;  // float4 that a lane has of eight rows of O
};

// A lane's place in a warp's fragments: the row (key, column of B), and the pair of columns.
struct Place {
  int lane = threadIdx.x % WARP, group = lane >> 2, pair = lane & 3;
};

__device__ __forceinline__ uint4 load_16(const Element* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }

// A query row that shares the CTA's head of K and V, or the first one where there is no such row.
struct QueryRow {
  bool present;
  int query, head;

  __device__ __forceinline__ QueryRow(const Cache& cache, int row)
      : present(row < cache.group * cache.queries), query(0) {
    if (!present) row = 0;
    if (cache.queries > 1) query = unsigned(row) / unsigned(cache.group);  // no other launch waits for a division
    head = blockIdx.x * cache.group + row - query * cache.group;
  }
  // Where the row begins in Q and O, in elements.
  template <class T>
  __device__ __forceinline__ size_t begin(const Cache& cache) const {
    return size_t((blockIdx.y * cache.queries + query) * cache.heads + head) * T::HEAD_DIM;
  }
  // Stores four columns of O.
  template <class T>
  __device__ __forceinline__ void store(const Cache& cache, int column, float4 O, float row_sum) const {
    const float norm = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
    *reinterpret_cast<uint2*>(cache.O + begin<T>(cache) + column) =
        make_uint2(pack_elements(O.x * norm, O.y * norm), pack_elements(O.z * norm, O.w * norm));
  }
  __device__ __forceinline__ void store_LSE(const Cache& cache, float row_max, float row_sum) const {
    cache.LSE[(blockIdx.y * cache.heads + head) * cache.queries + query] =
        row_sum > 0.0f ? (row_max + log2f(row_sum)) * LN_2 : -INFINITY;
  }
};

// The rows `group` and `group` + 8 of a warp's part: the unnormalised O, in which product j of a panel has columns
// 8 n + j, n being the fragment's column; maxima in log2 units; and sums in elements 0 and 2.
template <class T>
struct Rows {
  float O[T::PANELS][8][4], max[2], sum[4];

  // Four consecutive columns of a row: those from column_of() on.
  __device__ __forceinline__ float4 quad(int half, int number) const {
    const int p = number / 4, i = number / 2 % 2, j = 4 * (number % 2), at = 2 * half + i;
    return make_float4(O[p][j][at], O[p][j + 1][at], O[p][j + 2][at], O[p][j + 3][at]);
  }
  __device__ __forceinline__ static int column_of(int number, const Place& place) {
    return number / 4 * 64 + 16 * place.pair + 4 * (number % 4);
  }
};

// The row of a paged cache that has a key. A key after the sequence's end, for which the table may have anything, has the
// first row. The table and the length are loaded at the same time.
__device__ __forceinline__ unsigned row_in_pages(const Cache& cache, int key, int length) {
  const unsigned within = min(key, cache.capacity - 1), size = cache.page;
  // Nearly always a power of 2, with which no load waits for a division.
  const unsigned page = (size & (size - 1)) == 0 ? within >> (31 - __clz(size)) : within / size;
  const int found = cache.table[size_t(blockIdx.y) * cache.most_pages + page];
  return key < length ? found * size + within - page * size : 0;
}

// O and the sums of the query rows over a warp's keys. `first_key`: the first of them.
template <class T>
__device__ __forceinline__ Rows<T> attend(const Cache& cache, const QueryRow (&rows)[2], int first_key,
                                          const Place& place) {
  const int kv_heads = gridDim.x, row_stride = kv_heads * T::HEAD_DIM;
  // Not to wait for the length would save 0.05 us, but load rows after the end of every short sequence.
  const int length = cache.lengths[blockIdx.y], last = max(length, 1) - 1;
  // The row of the cache that has the warp's key number `key`. After the last key, a row is loaded again and not used.
  const unsigned own_row = T::PAGED ? row_in_pages(cache, first_key + place.lane % T::KEYS, length) : 0;
  const auto row_of = [&](int key) -> unsigned {
    if constexpr (T::PAGED) return __shfl_sync(0xffffffffu, own_row, key);
    return blockIdx.y * cache.capacity + min(first_key + key, last);
  };
  const Element* const K_lane = cache.K + blockIdx.x * T::HEAD_DIM + 8 * place.pair;
  const Element* const V_lane = cache.V + blockIdx.x * T::HEAD_DIM + 8 * place.group;
  uint4 Q_rmem[2][T::CHUNKS], K_rmem[T::KEY_TILES][T::CHUNKS], V_rmem[T::KEY_STEPS][4][T::PANELS];
#pragma unroll
  for (int n = 0; n < T::KEY_TILES; ++n) {
    const Element* const row = K_lane + size_t(row_of(8 * n + place.group)) * row_stride;
#pragma unroll
    for (int c = 0; c < T::CHUNKS; ++c) K_rmem[n][c] = load_16(row + 32 * c);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const Element* const row = cache.Q + rows[h].template begin<T>(cache) + 8 * place.pair;
#pragma unroll
    for (int c = 0; c < T::CHUNKS; ++c) Q_rmem[h][c] = load_16(row + 32 * c);
  }
#pragma unroll
  for (int k = 0; k < T::KEY_STEPS; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = 16 * k + 8 * (i >> 1) + 2 * place.pair + (i & 1);
      const Element* const row = V_lane + size_t(row_of(key)) * row_stride;
#pragma unroll
      for (int p = 0; p < T::PANELS; ++p) V_rmem[k][i][p] = load_16(row + 64 * p);
    }
  const int V_key = first_key + 2 * place.pair;

  // Two chains of products, because each product waits for the one before.
  float S_rmem[T::KEY_TILES][4] = {}, S_second[T::KEY_TILES][4] = {};
#pragma unroll
  for (int c = 0; c < T::CHUNKS; ++c) {
    const uint4 low = Q_rmem[0][c], high = Q_rmem[1][c];
    const uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int n = 0; n < T::KEY_TILES; ++n) {
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_rmem[n], first, K_rmem[n][c].x, K_rmem[n][c].y);
      mma_m16n8k16_f32<ELEMENT_IS_BF16>(S_second[n], second, K_rmem[n][c].z, K_rmem[n][c].w);
    }
  }
  const bool capped = cache.softcap > 0.0f;
  const float scale_log2 = capped ? LOG2_E : cache.scale * LOG2_E;
#pragma unroll
  for (int n = 0; n < T::KEY_TILES; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) S_rmem[n][i] += S_second[n][i];
  if (capped) {
    const float inner_scale = cache.scale / cache.softcap;
#pragma unroll
    for (int n = 0; n < T::KEY_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) S_rmem[n][i] = cache.softcap * tanhf(S_rmem[n][i] * inner_scale);
  }

  Rows<T> own = {};
  uint32_t P_rmem[T::KEY_STEPS][4];
  const int window = min(cache.window, cache.capacity);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int position = length - cache.queries + rows[h].query;
    const int begin = window < 0 ? 0 : position - window;
    float row_max = -INFINITY;
#pragma unroll
    for (int n = 0; n < T::KEY_TILES; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = V_key + 8 * n + i;
        float& score = S_rmem[n][2 * h + i];
        if (key > position || key < begin) score = -INFINITY;
        row_max = fmaxf(row_max, score);
      }
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 1));
    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 2));
    own.max[h] = fmaxf(row_max * scale_log2, NO_ROW_MAX);
    // A sink acts as a key without a value.
    if (cache.sinks != nullptr && first_key == 0) {
      const float sink = cache.sinks[rows[h].head] * LOG2_E;
      own.max[h] = fmaxf(own.max[h], sink);
      own.sum[2 * h] = exp2_approx(sink - own.max[h]);
    }
#pragma unroll
    for (int n = 0; n < T::KEY_TILES; ++n)
      P_rmem[n / 2][2 * (n % 2) + h] = pack_elements(exp2_approx(fmaf(S_rmem[n][2 * h], scale_log2, -own.max[h])),
                                                     exp2_approx(fmaf(S_rmem[n][2 * h + 1], scale_log2, -own.max[h])));
  }
#pragma unroll
  for (int k = 0; k < T::KEY_STEPS; ++k) {
    // The sum of the weights after rounding, so that numerator and denominator have the same rounding errors.
    mma_m16n8k16_f32<ELEMENT_IS_BF16>(own.sum, P_rmem[k], ELEMENT2_ONES, ELEMENT2_ONES);
#pragma unroll
    for (int p = 0; p < T::PANELS; ++p) {
      uint32_t V_pairs[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // What is after the sequence's end may be NaN, which a weight of 0 does not remove.
        const bool there = V_key + 16 * k + 8 * (i >> 1) + (i & 1) < length;
        const uint4 row = V_rmem[k][i][p];
        V_pairs[i][0] = there ? row.x : 0, V_pairs[i][1] = there ? row.y : 0;
        V_pairs[i][2] = there ? row.z : 0, V_pairs[i][3] = there ? row.w : 0;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint32_t low_or_high = j & 1 ? 0x7632 : 0x5410;
        mma_m16n8k16_f32<ELEMENT_IS_BF16>(own.O[p][j], P_rmem[k],
                                          __byte_perm(V_pairs[0][j / 2], V_pairs[1][j / 2], low_or_high),
                                          __byte_perm(V_pairs[2][j / 2], V_pairs[3][j / 2], low_or_high));
      }
    }
  }
  return own;
}

// Computes the attention of the sequence blockIdx.y for the head blockIdx.x of K and V, which at most 16 query rows
// share. The CTA's warps have all keys of the cache.
template <class T>
__device__ __forceinline__ void decode(const Cache& cache) {
  extern __shared__ __align__(16) unsigned char smem[];
  const Place place;
  const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
  const QueryRow rows[2] = {QueryRow(cache, place.group), QueryRow(cache, place.group + 8)};
  const Rows<T> own = attend<T>(cache, rows, warp * T::KEYS, place);
  if (warps == 1) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (!rows[h].present) return;
#pragma unroll
      for (int number = 0; number < T::QUADS; ++number)
        rows[h].template store<T>(cache, own.column_of(number, place), own.quad(h, number), own.sum[2 * h]);
      if (place.pair == 0) rows[h].store_LSE(cache, own.max[h], own.sum[2 * h]);
    }
    return;
  }

  // Parts of O as [warp][half][quad][lane], then maxima and sums as [warp][row]. Lanes without a row have garbage.
  const int halves = cache.group * cache.queries > 8 ? 2 : 1, quads = halves * T::QUADS;
  float4* const parts = reinterpret_cast<float4*>(smem) + place.lane;
  float2* const max_and_sum = reinterpret_cast<float2*>(smem + warps * quads * WARP * sizeof(float4)) + place.group;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (h == halves) break;
#pragma unroll
    for (int number = 0; number < T::QUADS; ++number)
      parts[(warp * quads + h * T::QUADS + number) * WARP] = own.quad(h, number);
    if (place.pair == 0) max_and_sum[warp * T::ROWS + 8 * h] = make_float2(own.max[h], own.sum[2 * h]);
  }
  __syncthreads();
  constexpr int AT_ONCE = 4;
#pragma unroll 1
  for (int i = warp; i < quads; i += warps) {
    const int h = i / T::QUADS, number = i % T::QUADS;
    const QueryRow row = h == 0 ? rows[0] : rows[1];
    Quad sum;
#pragma unroll 1
    for (int first = 0; first < warps; first += AT_ONCE) {
      float4 O[AT_ONCE];
      float2 of_part[AT_ONCE];
#pragma unroll
      for (int c = 0; c < AT_ONCE; ++c) {
        const int part = min(first + c, warps - 1);
        O[c] = parts[(part * quads + i) * WARP];
        of_part[c] = max_and_sum[part * T::ROWS + 8 * h];
      }
      sum.add(O, of_part, warps - first);
    }
    if (!row.present) continue;
    row.template store<T>(cache, Rows<T>::column_of(number, place), sum.O, sum.row_sum);
    if (number == 0 && place.pair == 0) row.store_LSE(cache, sum.row_max, sum.row_sum);
  }
}

}  // namespace direct_decode
