// Decoding on mma.sync over a cache of ragged sequences. The query rows that share a head of K and V fill a stripe of 16
// or 32 rows, so that a key is read once for all of them. As many CTAs as the GPU holds at once divide all keys of all
// sequences evenly, by lengths that they read on the device, and the last of a sequence's CTAs to end merges the parts
// of all (stream-K).
#pragma once
#include <climits>

#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"

namespace stream_decode {

using register_rows::LOG2_E, register_rows::NO_ROW_MAX, register_rows::WARP;
constexpr float LN_2 = 0.6931471805599453f;

// How a CTA is cut: WARPS_KV warps with the same query rows, each with a ring of tiles of its own.
// PAGED: a table says where each page of keys is.
template <int D_, int ROWS_, int WARPS_, int TILE_KEYS_, bool PAGED_ = false>
struct Cut {
  static constexpr bool PAGED = PAGED_;
  static constexpr int HEAD_DIM = D_, WARPS_Q = 1, WARPS_KV = WARPS_, WARP_Q = ROWS_;
  static constexpr int BLOCK_KV = TILE_KEYS_, STAGES = 2;
};

// A launch's arguments. Q and O are [B, S, H, D]; K and V [B, capacity, H / group, D], or [pages, page, H / group, D].
struct Cache {
  const Element *Q, *K, *V;
  Element* O;
  float* LSE;  // [B, H, S]
  const int* lengths;  // [B]
  const float* sinks;  // [H], logits of keys without a value; null: none
  float* parts;  // [gridDim.x][2][rows of a stripe][D + 2]: Part
  int* ended;  // [B, stripes]: CTAs that have written their part of a stripe; 0 before and after a launch
  int sequences, queries, heads, group, capacity, window;
  int stripes;  // of a sequence, all heads together
  float scale, softcap;
  const int* table = nullptr;  // [B, most_pages]: the page of each run of `page` keys
  int page = 1, most_pages = 0;

  // The last query is at the last key; its window, and that of the first query, begin so many keys before.
  __device__ __forceinline__ int first_key(int length) const {
    return window < 0 ? 0 : max(0, length - queries - min(window, capacity));
  }
};

// All keys of all sequences as one line of rounds of ROUND keys, the same for every stripe; a sequence without a key has
// one, too, so that its output is written. Teams of CTAs, one CTA for each stripe of a sequence, divide the line evenly:
// the heads of a team read neighbouring memory at the same time, as DRAM likes it.
template <int ROUND>
struct Line {
  const Cache& cache;
  int rounds, teams;

  __device__ __forceinline__ int rounds_of(int sequence) const {
    const int length = cache.lengths[sequence];
    return max(1, (length - cache.first_key(length) + ROUND - 1) / ROUND);
  }

  __device__ __forceinline__ explicit Line(const Cache& cache) : cache(cache) {
    int sum = 0, least = INT_MAX, most = 0;
    for (int sequence = threadIdx.x % WARP; sequence < cache.sequences; sequence += WARP) {
      const int own = rounds_of(sequence);
      sum += own, least = min(least, own), most = max(most, own);
    }
    rounds = __reduce_add_sync(0xffffffffu, sum);
    least = __reduce_min_sync(0xffffffffu, least), most = __reduce_max_sync(0xffffffffu, most);
    teams = min(int(gridDim.x) / cache.stripes, rounds);
    // A sequence that begins in the middle of a team's share costs a part more, and a fresh start of the ring: those of
    // one length are shared out without it, where nearly all teams have work then.
    if (least == most) {
      const int parts = teams / cache.sequences, whole = (cache.sequences + teams - 1) / teams;
      const int even = parts > 0 ? parts * cache.sequences : (cache.sequences + whole - 1) / whole;
      if (10 * even >= 9 * teams) teams = even;
    }
  }

  // a * b + c over d, of which the product seldom needs 64 bits: their division takes ten times as long.
  __device__ __forceinline__ static int scaled(unsigned a, unsigned b, unsigned c, unsigned d) {
    const uint64_t product = uint64_t(a) * b + c;
    return product >> 32 == 0 ? int(unsigned(product) / d) : int(product / d);
  }
  // A team has the rounds from its first to before the next team's first.
  __device__ __forceinline__ int first_round(int team) const { return scaled(rounds, team, 0, teams); }
  __device__ __forceinline__ int team_of(int round) const { return scaled(round + 1, teams, rounds - 1, rounds) - 1; }

  // The sequence of a round, and the sequence's first round.
  __device__ __forceinline__ int sequence_of(int round, int& first) const {
    const int lane = threadIdx.x % WARP;
    first = 0;
    for (int base = 0;; base += WARP) {
      const int own = base + lane < cache.sequences ? rounds_of(base + lane) : 0;
      int end = own;
#pragma unroll
      for (int step = 1; step < WARP; step *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, end, step);
        if (lane >= step) end += before;
      }
      const unsigned later = __ballot_sync(0xffffffffu, first + end > round);
      if (later != 0) {
        const int found = __ffs(later) - 1;
        first += __shfl_sync(0xffffffffu, end - own, found);
        return base + found;
      }
      first += __shfl_sync(0xffffffffu, end, WARP - 1);
    }
  }
};

// Query rows that share a head of K and V: row r of all of them is query r / group of head r % group.
struct Stripe {
  int sequence, kv_head, first_row, rows;

  __device__ __forceinline__ size_t row_of_Q(const Cache& cache, int row) const {
    const int r = first_row + row;
    return (size_t(sequence) * cache.queries + r / cache.group) * cache.heads + kv_head * cache.group + r % cache.group;
  }

  __device__ __forceinline__ int head_of_Q(const Cache& cache, int row) const {
    return kv_head * cache.group + (first_row + row) % cache.group;
  }

  // A row that sees no key, and has no sink, has the sum 0, and an LSE of -infinity.
  __device__ __forceinline__ void store_LSE(const Cache& cache, int row, float row_max, float row_sum) const {
    const int r = first_row + row, head = head_of_Q(cache, row);
    cache.LSE[(size_t(sequence) * cache.heads + head) * cache.queries + r / cache.group] =
        row_sum > 0.0f ? (row_max + log2f(row_sum)) * LN_2 : -INFINITY;
  }
};

// Of the rows of a stripe, in mma's fragments: the unnormalised O, the maximum (log2 units) and the sum, of which
// elements 0 and 2 are used.
template <class T>
struct Rows {
  float O[T::M_TILES][T::D_TILES][4], max[T::M_TILES][2], sum[T::M_TILES][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m) {
      max[m][0] = max[m][1] = NO_ROW_MAX;
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[m][i] = 0.0f;
#pragma unroll
      for (int n = 0; n < T::D_TILES; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) O[m][n][i] = 0.0f;
    }
  }

  // A sink is a key without a value.
  __device__ __forceinline__ void begin_with_sinks(const Cache& cache, const Stripe& stripe, int lane) {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * m + 8 * h + (lane >> 2);
        if (row < stripe.rows) max[m][h] = cache.sinks[stripe.head_of_Q(cache, row)] * LOG2_E, sum[m][2 * h] = 1.0f;
      }
  }

  // O and LSE, by the one warp that has all of them.
  __device__ __forceinline__ void store(const Cache& cache, const Stripe& stripe, int lane) const {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * m + 8 * h + (lane >> 2);
        if (row >= stripe.rows) continue;
        const float row_sum = sum[m][2 * h], norm = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
        uint32_t* to = reinterpret_cast<uint32_t*>(cache.O + stripe.row_of_Q(cache, row) * T::HEAD_DIM) + (lane & 3);
#pragma unroll
        for (int n = 0; n < T::D_TILES; ++n)
          to[4 * n] = pack_elements(O[m][n][2 * h] * norm, O[m][n][2 * h + 1] * norm);
        if ((lane & 3) == 0) stripe.store_LSE(cache, row, max[m][h], row_sum);
      }
  }
};

// What a CTA hands over of a stripe that others have keys of, too: [rows][D] of O, then [rows] of maximum and sum. It
// has two, one of a stripe that it goes on with, one of a stripe that it begins.
template <class T>
struct Part {
  float* O;
  float2* max_and_sum;

  __device__ __forceinline__ Part(const Cache& cache, int cta, bool begun_here)
      : O(cache.parts + (size_t(cta) * 2 + begun_here) * T::BLOCK_Q * (T::HEAD_DIM + 2)),
        max_and_sum(reinterpret_cast<float2*>(O + T::BLOCK_Q * T::HEAD_DIM)) {}

  __device__ __forceinline__ void write(const Rows<T>& own, int rows, int lane) const {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = 16 * m + 8 * h + (lane >> 2);
        if (row >= rows) continue;
        float2* to = reinterpret_cast<float2*>(O + row * T::HEAD_DIM) + (lane & 3);
#pragma unroll
        for (int n = 0; n < T::D_TILES; ++n) to[4 * n] = make_float2(own.O[m][n][2 * h], own.O[m][n][2 * h + 1]);
        if ((lane & 3) == 0) max_and_sum[row] = make_float2(own.max[m][h], own.sum[m][2 * h]);
      }
  }
};

// Whether this CTA, whose first warp has written its part, is the last of so many to do so: then it sees all parts.
__device__ __forceinline__ bool ends_last(int* ended, int ctas) {
  __shared__ int before;
  if (threadIdx.x < WARP) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    before = atomicAdd(ended, 1);
    if (before == ctas - 1) *ended = 0;
    __threadfence();
  }
  __syncthreads();
  return before == ctas - 1;
}

// The sum of the parts of consecutive teams' CTAs, in their order, whichever of them ends last. A thread has four
// columns.
template <class T>
__device__ __forceinline__ void merge_parts(const Cache& cache, const Stripe& stripe, int first_cta, int ctas) {
  constexpr int QUADS = T::HEAD_DIM / 4;
  for (int i = threadIdx.x; i < stripe.rows * QUADS; i += T::THREADS) {
    const int row = i / QUADS, quad = i % QUADS;
    float row_max = NO_ROW_MAX, row_sum = 0.0f;
#pragma unroll 8
    for (int c = 0; c < ctas; ++c)
      row_max = fmaxf(row_max, Part<T>(cache, first_cta + c * cache.stripes, c == 0).max_and_sum[row].x);
    float4 O = {};
#pragma unroll 8
    for (int c = 0; c < ctas; ++c) {
      const Part<T> part(cache, first_cta + c * cache.stripes, c == 0);
      const float2 max_and_sum = part.max_and_sum[row];
      const float4 own = reinterpret_cast<const float4*>(part.O + row * T::HEAD_DIM)[quad];
      const float weight = exp2_approx(max_and_sum.x - row_max);
      row_sum = fmaf(weight, max_and_sum.y, row_sum);
      O.x = fmaf(weight, own.x, O.x), O.y = fmaf(weight, own.y, O.y);
      O.z = fmaf(weight, own.z, O.z), O.w = fmaf(weight, own.w, O.w);
    }
    const float norm = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
    reinterpret_cast<uint2*>(cache.O + stripe.row_of_Q(cache, row) * T::HEAD_DIM)[quad] =
        make_uint2(pack_elements(O.x * norm, O.y * norm), pack_elements(O.z * norm, O.w * norm));
    if (quad == 0) stripe.store_LSE(cache, row, row_max, row_sum);
  }
}

// A stripe's attention to keys kv_begin to kv_end - 1, or fewer of a row, and to its sinks; the result is the first
// warp's.
template <class T>
__device__ __forceinline__ void attend(const Cache& cache, const Stripe& stripe, int kv_begin, int kv_end, bool begins,
                                       unsigned char* smem, Rows<T>& own) {
  constexpr int ROUND = T::WARPS_KV * T::BLOCK_KV, CHUNKS = T::HEAD_DIM / 8;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int group = cache.group, kv_heads = cache.heads / group, window = min(cache.window, cache.capacity);
  const int offset = cache.lengths[stripe.sequence] - cache.queries;
  const int first_position = stripe.first_row / group + offset;
  const int last_position = (stripe.first_row + stripe.rows - 1) / group + offset;
  const int own_tiles = (max(0, kv_end - kv_begin - warp * T::BLOCK_KV) + ROUND - 1) / ROUND;
  const uint32_t Q_smem = smem_address(smem), ring_smem = Q_smem + T::Q_BYTES + warp * T::GROUP_BYTES;
  const size_t row_stride = size_t(kv_heads) * T::HEAD_DIM;
  const size_t first_element =
      (T::PAGED ? stripe.kv_head : size_t(stripe.sequence) * cache.capacity * kv_heads + stripe.kv_head) * T::HEAD_DIM;

  // Where in a paged cache a tile's keys are, one a lane, looked up a tile ahead: copies wait for nothing.
  const auto look_up = [&](int own_tile) {
    const int key = kv_begin + (own_tile * T::WARPS_KV + warp) * T::BLOCK_KV + lane % T::BLOCK_KV;
    if (!T::PAGED || key >= kv_end) return 0;
    const int page = key / cache.page;
    return cache.table[size_t(stripe.sequence) * cache.most_pages + page] * cache.page + key - page * cache.page;
  };
  constexpr bool LOOKS_AHEAD = T::HEAD_DIM < 256;  // one register more would spill
  int found = look_up(0);

  // Rows behind a sequence's length are never read: they stand as zeros.
  const auto load_tile = [&](int own_tile) {
    const int first_key = kv_begin + (own_tile * T::WARPS_KV + warp) * T::BLOCK_KV;
    const int looked_up = LOOKS_AHEAD ? found : look_up(own_tile);
    if constexpr (LOOKS_AHEAD) found = look_up(own_tile + 1);
    const uint32_t K_smem = ring_smem + own_tile % T::STAGES * T::STAGE_BYTES;
    if (own_tile < own_tiles) {
#pragma unroll
      for (int tensor = 0; tensor < 2; ++tensor) {
        const Element* rows = (tensor == 0 ? cache.K : cache.V) + first_element;
#pragma unroll
        for (int i = 0; i < T::BLOCK_KV * CHUNKS; i += WARP) {
          const int row = (i + lane) / CHUNKS, chunk = (i + lane) % CHUNKS;
          const size_t at = T::PAGED ? unsigned(__shfl_sync(0xffffffffu, looked_up, row)) : size_t(first_key + row);
          cp_async_16(K_smem + tensor * T::KV_BYTES + swizzled_offset<T::ROW_BYTES>(row, chunk),
                      rows + at * row_stride + chunk * 8, first_key + row < kv_end);
        }
      }
    }
    cp_async_commit();  // an empty group too: the waits count groups
  };
  for (int i = threadIdx.x; i < T::BLOCK_Q * CHUNKS; i += T::THREADS) {
    const int row = i / CHUNKS, chunk = i % CHUNKS;
    const bool present = row < stripe.rows;
    cp_async_16(Q_smem + swizzled_offset<T::ROW_BYTES>(row, chunk),
                cache.Q + stripe.row_of_Q(cache, present ? row : 0) * T::HEAD_DIM + chunk * 8, present);
  }
#pragma unroll
  for (int stage = 0; stage < T::STAGES; ++stage) load_tile(stage);

  own.clear();
  if (begins && warp == 0 && cache.sinks != nullptr) own.begin_with_sinks(cache, stripe, lane);
  // Logits are in units of log2(e), so that weights are powers of 2; those that softcap has bounded are scaled already.
  const bool capped = cache.softcap > 0.0f;
  const float scale_log2 = capped ? LOG2_E : cache.scale * LOG2_E, inner_scale = cache.scale / cache.softcap;

  cp_async_wait<T::STAGES - 1>();
  __syncthreads();  // Q and every warp's first tile are there
  uint32_t Q_rmem[T::M_TILES][T::D_STEPS][4];
  if constexpr (T::Q_IN_REGISTERS) {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int step = 0; step < T::D_STEPS; ++step)
        register_rows::load_Q_fragments<T>(Q_rmem[m][step], Q_smem, 16 * m, step, lane);
  }

  for (int own_tile = 0; own_tile < own_tiles; ++own_tile) {
    if (own_tile > 0) {
      cp_async_wait<T::STAGES - 2>();
      __syncwarp();  // this tile has landed, and the one before has been read: its stage may be refilled
      load_tile(own_tile - 1 + T::STAGES);
    }
    const int first_key = kv_begin + (own_tile * T::WARPS_KV + warp) * T::BLOCK_KV;
    const uint32_t K_smem = ring_smem + own_tile % T::STAGES * T::STAGE_BYTES;

    float S_rmem[T::M_TILES][T::KV_TILES][4] = {};
    register_rows::scores<T>(S_rmem, Q_rmem, Q_smem, K_smem, 0, lane);
    if (capped) {
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
        for (int n = 0; n < T::KV_TILES; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) S_rmem[m][n][i] = cache.softcap * tanhf(S_rmem[m][n][i] * inner_scale);
    }
    const bool all_seen = first_key + T::BLOCK_KV <= min(kv_end, first_position + 1) &&
                          (window < 0 || first_key >= last_position - window);
    if (!all_seen) {
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (stripe.first_row + 16 * m + 8 * (i >> 1) + (lane >> 2)) / group + offset;
#pragma unroll
          for (int n = 0; n < T::KV_TILES; ++n) {
            const int key = first_key + n * register_rows::MMA_N + 2 * (lane & 3) + (i & 1);
            if (key >= kv_end || key > at || (window >= 0 && key < at - window)) S_rmem[m][n][i] = -INFINITY;
          }
        }
    }
    register_rows::raise_row_max<T>(S_rmem, own.O, own.max, own.sum, scale_log2);
    register_rows::weigh_values<T>(S_rmem, own.O, own.max, own.sum, K_smem + T::KV_BYTES, scale_log2, lane);
  }
  register_rows::merge_groups<T>(own.O, own.max, own.sum, smem + T::Q_BYTES, 0, warp, lane);
}

// A CTA's share of all keys.
template <class T>
__device__ __forceinline__ void decode(const Cache& cache) {
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int ROUND = T::WARPS_KV * T::BLOCK_KV;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, cta = blockIdx.x;
  const int team = cta / cache.stripes, index = cta % cache.stripes;
  const Line<ROUND> line(cache);
  if (team >= line.teams) return;
  const int rows = cache.group * cache.queries, stripes_of_head = (rows + T::BLOCK_Q - 1) / T::BLOCK_Q;
  Stripe stripe;
  stripe.kv_head = index / stripes_of_head;
  stripe.first_row = index % stripes_of_head * T::BLOCK_Q;
  stripe.rows = min(T::BLOCK_Q, rows - stripe.first_row);

  const int stop = line.first_round(team + 1);
  int round = line.first_round(team), first;
  stripe.sequence = line.sequence_of(round, first);
  while (true) {
    const int rounds = line.rounds_of(stripe.sequence), done = round - first, taken = min(rounds - done, stop - round);
    const bool whole = taken == rounds;
    const int length = cache.lengths[stripe.sequence], kv_begin = cache.first_key(length) + done * ROUND;
    Rows<T> own;
    attend<T>(cache, stripe, kv_begin, min(length, kv_begin + taken * ROUND), done == 0, smem, own);
    if (whole) {
      if (warp == 0) own.store(cache, stripe, lane);
    } else {
      const int first_team = line.team_of(first),
                ctas = line.team_of(first + line.rounds_of(stripe.sequence) - 1) - first_team + 1;
      if (warp == 0) Part<T>(cache, cta, done == 0).write(own, stripe.rows, lane);
      if (ends_last(cache.ended + size_t(stripe.sequence) * cache.stripes + index, ctas))
        merge_parts<T>(cache, stripe, first_team * cache.stripes + index, ctas);
    }
    round += taken;
    if (round == stop) return;
    first = round;  // the next sequence's: this one is done, else the CTA would have stopped
    ++stripe.sequence;
    __syncthreads();  // shared memory is free again
  }
}

}  // namespace stream_decode
