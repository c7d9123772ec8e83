// Decoding on mma.sync over a cache of ragged sequences. The query rows that share a head of K and V form a stripe of 16
// or 32 rows, so that each key is read once for all of them. As many CTAs as fit on the GPU divide all keys of all
// sequences evenly, based on lengths that they read on the device. The last CTA of a sequence to finish merges its parts
// (stream-K).
#pragma once
#include <climits>

#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"
#include "mechanisms/warpgroup_products.cuh"

namespace stream_decode {

using register_rows::LOG2_E, register_rows::NO_ROW_MAX, register_rows::WARP;
constexpr float LN_2 = 0.6931471805599453f;

// The tiling of a CTA: WARPS_KV groups of warps with the same query rows, each with its own ring of tiles. A group is one
// warp, or with 64 rows a warpgroup, whose products are on wgmma.
// PAGED: a table says where each page of keys is. STAGES 1: for caches of one tile per warp, which are not divided. EARLY:
// the first copies start before the sequence's length is known, and may read rows after its end.
template <int D_, int ROWS_, int GROUPS_, int TILE_KEYS_, bool PAGED_ = false, int STAGES_ = 2, bool EARLY_ = false>
struct Cut {
  static constexpr bool PAGED = PAGED_, EARLY = EARLY_, ON_WGMMA = ROWS_ == 64;
  static constexpr int HEAD_DIM = D_, WARPS_Q = ON_WGMMA ? 4 : 1, WARPS_KV = GROUPS_, WARP_Q = ROWS_ / WARPS_Q;
  static constexpr int BLOCK_KV = TILE_KEYS_, STAGES = STAGES_;
  static constexpr int ROUND = ON_WGMMA ? 64 : WARPS_KV * BLOCK_KV;  // keys
};

// The place of a thread: the group of warps, and what the thread is within the group.
template <class T>
struct Place {
  int group = threadIdx.x / T::GROUP_THREADS, thread = threadIdx.x % T::GROUP_THREADS, lane = threadIdx.x % WARP;
  int warp = thread / WARP, warp_row = warp * T::WARP_Q;

  // The row of the stripe that the thread has in half h of tile m.
  __device__ __forceinline__ int row(int m, int h) const { return warp_row + 16 * m + 8 * h + (lane >> 2); }
};

// Where a 16-byte chunk of a row is in a tile of ROWS rows.
template <class T, int ROWS>
__device__ __forceinline__ uint32_t tile_offset(int row, int chunk) {
  if constexpr (T::ON_WGMMA)
    return warpgroup_products::offset<ROWS>(row, chunk);
  else
    return swizzled_offset<T::ROW_BYTES>(row, chunk);
}

// A launch's arguments. Q and O are [B, S, H, D]; K and V [B, capacity, H / group, D], or [pages, page, H / group, D].
struct Cache {
  const Element *Q, *K, *V;
  Element* O;
  float* LSE;  // [B, H, S]
  const int* lengths;  // [B]
  const float* sinks;  // [H], logits of keys without a value; null: none
  float* parts;  // [gridDim.x][2][rows of a stripe][D + 4]: Part
  int* ended;  // [B, stripes], then [gridDim.x][2]: numbers of parts written, see merge(); 0 before and after a launch
  int sequences, queries, heads, group, capacity, window;
  int stripes;  // per sequence, over all heads
  float scale, softcap;
  const int* table = nullptr;  // [B, most_pages]: the page of each run of `page` keys
  int page = 1, most_pages = 0;

  // The first key that any query sees: the last query is at the last key, and the first query's window begins first.
  __device__ __forceinline__ int first_key(int length) const {
    return window < 0 ? 0 : max(0, length - queries - min(window, capacity));
  }
};

// A team's share of a sequence: `taken` of its `rounds` rounds, after the first `done`. The sequence begins at round
// `first` of the line.
struct TeamShare {
  int sequence, done, taken, rounds, first;
};

// All keys of all sequences as one line of rounds of ROUND keys, the same for every stripe. A sequence without keys has a
// round, too, so that its output is written. Teams of CTAs, with one CTA for each stripe of a sequence, divide the line
// evenly. The heads of a team read neighbouring memory at the same time, which suits DRAM.
template <int ROUND>
struct Line {
  const Cache& cache;
  int rounds, teams;
  int lane_rounds = 0;  // of the sequence with this lane's number
  bool whole;  // each team has one sequence

  __device__ __forceinline__ int rounds_of(int sequence) const {
    const int length = cache.lengths[sequence];
    return max(1, (length - cache.first_key(length) + ROUND - 1) / ROUND);
  }

  __device__ __forceinline__ explicit Line(const Cache& cache) : Line(cache, int(gridDim.x)) {}

  // For a launch that follows that of `ctas` CTAs.
  __device__ __forceinline__ Line(const Cache& cache, int ctas) : cache(cache) {
    int sum = 0, least = INT_MAX, most = 0;
    for (int sequence = threadIdx.x % WARP; sequence < cache.sequences; sequence += WARP) {
      const int own = rounds_of(sequence);
      if (sequence < WARP) lane_rounds = own;
      sum += own, least = min(least, own), most = max(most, own);
    }
    rounds = __reduce_add_sync(0xffffffffu, sum);
    least = __reduce_min_sync(0xffffffffu, least), most = __reduce_max_sync(0xffffffffu, most);
    const int most_teams = ctas / cache.stripes;
    teams = min(most_teams, rounds);
    // Merging parts takes about as long as this many rounds.
    constexpr int MERGE = 3;
    whole = cache.sequences <= most_teams && most <= (rounds + teams - 1) / teams + MERGE;
    if (whole) teams = cache.sequences;
    // A sequence that begins in the middle of a team's share costs an extra part and a refill of the ring: as much time as
    // a few rounds. Sequences of equal length are divided without such splits, if that costs less.
    if (!whole && least == most) {
      constexpr int SPLIT = 4;
      const int parts = teams / cache.sequences, whole = (cache.sequences + teams - 1) / teams;
      const int even = parts > 0 ? parts * cache.sequences : (cache.sequences + whole - 1) / whole;
      // rounds / even <= rounds / teams + SPLIT, without divisions, which take long.
      if (float(rounds) * (teams - even) <= float(SPLIT) * teams * even) teams = even;
    }
  }

  // (a * b + c) / d. The product rarely needs 64 bits, in which a division takes ten times as long.
  __device__ __forceinline__ static int scaled(unsigned a, unsigned b, unsigned c, unsigned d) {
    const uint64_t product = uint64_t(a) * b + c;
    return product >> 32 == 0 ? int(unsigned(product) / d) : int(product / d);
  }
  // A team's rounds are those from its first one up to, but not including, the next team's first one.
  __device__ __forceinline__ int first_round(int team) const { return scaled(rounds, team, 0, teams); }
  __device__ __forceinline__ int team_of(int round) const { return scaled(round + 1, teams, rounds - 1, rounds) - 1; }

  // The sequence of a round, and the sequence's first round.
  __device__ __forceinline__ int sequence_of(int round, int& first) const {
    const int lane = threadIdx.x % WARP;
    first = 0;
    if (cache.sequences == 1) return 0;
    for (int base = 0;; base += WARP) {
      const int own = base == 0 ? lane_rounds : base + lane < cache.sequences ? rounds_of(base + lane) : 0;
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

  // The first round of a sequence.
  __device__ __forceinline__ int first_round_of(int sequence) const {
    int before = 0;
    for (int other = threadIdx.x % WARP; other < sequence; other += WARP) before += rounds_of(other);
    return __reduce_add_sync(0xffffffffu, before);
  }

  // Calls attend(TeamShare) for each sequence of which the team has rounds.
  template <class Attend>
  __device__ __forceinline__ void each_share(int team, Attend attend) const {
    if (team >= teams) return;
    int round = 0, first = 0, sequence = team, stop = 0;
    if (whole) {
      stop = rounds_of(team);
    } else {
      round = first_round(team), stop = first_round(team + 1);
      sequence = sequence_of(round, first);
    }
    while (true) {
      const int own = rounds_of(sequence), done = round - first, taken = min(own - done, stop - round);
      attend(TeamShare{sequence, done, taken, own, first});
      round += taken;
      if (round == stop) return;
      first = round;  // the next sequence's; this one is complete, or the team would have stopped
      ++sequence;
    }
  }
};

// Query rows that share a head of K and V: row r is query r / group of head r % group.
struct Stripe {
  int sequence, kv_head, first_row, rows;

  // With one query per sequence, no row waits for a division.
  __device__ __forceinline__ int query_of(const Cache& cache, int row) const {
    return cache.queries == 1 ? 0 : (first_row + row) / cache.group;
  }

  __device__ __forceinline__ int head_of_Q(const Cache& cache, int row) const {
    return kv_head * cache.group + first_row + row - query_of(cache, row) * cache.group;
  }

  __device__ __forceinline__ size_t row_of_Q(const Cache& cache, int row) const {
    return (size_t(sequence) * cache.queries + query_of(cache, row)) * cache.heads + head_of_Q(cache, row);
  }

  // Stores four columns of O, and LSE. A row without a visible key or a sink has the sum 0 and an LSE of -infinity.
  template <class T>
  __device__ __forceinline__ void store(const Cache& cache, int row, int quad, float4 O, float row_max,
                                        float row_sum) const {
    const float norm = row_sum > 0.0f ? 1.0f / row_sum : 0.0f;
    reinterpret_cast<uint2*>(cache.O + row_of_Q(cache, row) * T::HEAD_DIM)[quad] =
        make_uint2(pack_elements(O.x * norm, O.y * norm), pack_elements(O.z * norm, O.w * norm));
    if (quad == 0)
      cache.LSE[(size_t(sequence) * cache.heads + head_of_Q(cache, row)) * cache.queries + query_of(cache, row)] =
          row_sum > 0.0f ? (row_max + log2f(row_sum)) * LN_2 : -INFINITY;
  }
};

// Stripe `index` of the cache.stripes of a sequence. Those of a head are neighbours.
template <class T>
__device__ __forceinline__ Stripe stripe_of(const Cache& cache, int sequence, int index) {
  const int rows = cache.group * cache.queries, stripes_of_head = (rows + T::BLOCK_Q - 1) / T::BLOCK_Q;
  const int first_row = index % stripes_of_head * T::BLOCK_Q;
  return {sequence, index / stripes_of_head, first_row, min(T::BLOCK_Q, rows - first_row)};
}

// The rows of a stripe in mma's fragments: the unnormalised O, the maximum (log2 units), and the sum, in elements 0 and
// 2.
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

  // A sink acts as a key without a value.
  __device__ __forceinline__ void begin_with_sinks(const Cache& cache, const Stripe& stripe, const Place<T>& place) {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = place.row(m, h);
        if (row < stripe.rows) max[m][h] = cache.sinks[stripe.head_of_Q(cache, row)] * LOG2_E, sum[m][2 * h] = 1.0f;
      }
  }
};

// A CTA's partial result for a stripe whose keys are divided among several: O as [rows][D], then the maximum and sum as
// [rows], then a group's maximum and sum as [rows]. A CTA has two: for a stripe that it continues and one that it begins.
template <class T>
struct Part {
  float* O;
  float2* max_and_sum;

  __device__ __forceinline__ Part(const Cache& cache, int cta, bool begun_here, bool of_group)
      : O(cache.parts + (size_t(cta) * 2 + begun_here) * T::BLOCK_Q * (T::HEAD_DIM + 4)),
        max_and_sum(reinterpret_cast<float2*>(O + T::BLOCK_Q * T::HEAD_DIM) + of_group * T::BLOCK_Q) {}

  __device__ __forceinline__ void write(int row, int quad, float4 own, float row_max, float row_sum) const {
    reinterpret_cast<float4*>(O + row * T::HEAD_DIM)[quad] = own;
    if (quad == 0) max_and_sum[row] = make_float2(row_max, row_sum);
  }
};

// Whether this CTA, which has written its part, is the last of `ctas` to do so. If so, all parts are visible to it.
__device__ __forceinline__ bool ends_last(int* ended, int ctas) {
  __shared__ int before;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // for all threads of the CTA, which the barrier has joined
    before = atomicAdd(ended, 1);
    if (before == ctas - 1) *ended = 0;
    __threadfence();
  }
  __syncthreads();
  return before == ctas - 1;
}

// A sum of weighted values, with the maximum and the sum of its weights.
struct Quad {
  float4 O = {};
  float row_max = NO_ROW_MAX, row_sum = 0.0f;

  // Adds the first `there` parts.
  template <int COUNT>
  __device__ __forceinline__ void add(const float4 (&parts)[COUNT], const float2 (&max_and_sum)[COUNT], int there) {
    float raised = row_max;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (i < there) raised = fmaxf(raised, max_and_sum[i].x);
    const float alpha = exp2_approx(row_max - raised);
    row_max = raised;
    row_sum *= alpha, O.x *= alpha, O.y *= alpha, O.z *= alpha, O.w *= alpha;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const float weight = i < there ? exp2_approx(max_and_sum[i].x - raised) : 0.0f;
      row_sum = fmaf(weight, max_and_sum[i].y, row_sum);
      O.x = fmaf(weight, parts[i].x, O.x), O.y = fmaf(weight, parts[i].y, O.y);
      O.z = fmaf(weight, parts[i].z, O.z), O.w = fmaf(weight, parts[i].w, O.w);
    }
  }
};

// The sum of four columns of a row over the parts of consecutive teams' CTAs, or of every GROUP-th of them, in order.
// AT_ONCE parts are loaded at a time.
template <class T, int AT_ONCE = 8>
__device__ __forceinline__ Quad sum_of_parts(const Cache& cache, int row, int quad, int first_cta, int parts,
                                             bool begun_here, int ctas_apart, bool of_groups) {
  Quad sum;
  for (int first = 0; first < parts; first += AT_ONCE) {
    float4 O[AT_ONCE];
    float2 max_and_sum[AT_ONCE];
#pragma unroll
    for (int c = 0; c < AT_ONCE; ++c) {
      const int at = min(first + c, parts - 1);
      const Part<T> part(cache, first_cta + at * ctas_apart, begun_here && at == 0, of_groups);
      max_and_sum[c] = part.max_and_sum[row];
      O[c] = reinterpret_cast<const float4*>(part.O + row * T::HEAD_DIM)[quad];
    }
    sum.add(O, max_and_sum, parts - first);
  }
  return sum;
}

// Sums the parts of a stripe. Each thread passes four columns to give(row, quad, Quad).
template <class T, class Give>
__device__ __forceinline__ void sum_parts(const Cache& cache, int rows, int first_cta, int parts, bool begun_here,
                                          int ctas_apart, bool of_groups, Give give) {
  constexpr int QUADS = T::HEAD_DIM / 4;
  for (int i = threadIdx.x; i < rows * QUADS; i += T::THREADS) {
    const int row = i / QUADS, quad = i % QUADS;
    give(row, quad, sum_of_parts<T>(cache, row, quad, first_cta, parts, begun_here, ctas_apart, of_groups));
  }
}

// Called after a CTA has written part `number` of `parts` of a stripe: the last CTA to do so merges all of them. If there
// are many, one CTA would need longer for that than all CTAs for their keys. So the last CTA of each GROUP of consecutive
// parts merges these, and the last one to finish a group merges the groups.
template <class T, class Give>
__device__ __forceinline__ void merge(const Cache& cache, const Stripe& stripe, int index, int first_cta, int parts,
                                      int number, Give store) {
  constexpr int GROUP = 16;
  int* const ended = cache.ended + size_t(stripe.sequence) * cache.stripes + index;
  if (parts <= GROUP) {
    if (ends_last(ended, parts)) sum_parts<T>(cache, stripe.rows, first_cta, parts, true, cache.stripes, false, store);
    return;
  }
  const int group = number / GROUP, cta = first_cta + group * GROUP * cache.stripes;
  int* const group_ended = cache.ended + cache.sequences * cache.stripes + 2 * cta + (group == 0);
  const int members = min(GROUP, parts - group * GROUP);
  if (!ends_last(group_ended, members)) return;
  const Part<T> sum_of_group(cache, cta, group == 0, true);
  sum_parts<T>(
      cache, stripe.rows, cta, members, group == 0, cache.stripes, false,
      [&](int row, int quad, const Quad& sum) { sum_of_group.write(row, quad, sum.O, sum.row_max, sum.row_sum); });
  if (ends_last(ended, (parts + GROUP - 1) / GROUP))
    sum_parts<T>(cache, stripe.rows, first_cta, (parts + GROUP - 1) / GROUP, true, GROUP * cache.stripes, true, store);
}

// Sums the rows of a CTA's groups; each thread passes four columns of a row to give(row, quad, Quad). A group's rows
// overwrite its ring, with blocks of eight columns permuted among four so that rows fall into different banks.
template <class T, class Give>
__device__ __forceinline__ void merge_groups(const Rows<T>& own, int rows, unsigned char* smem, Give give) {
  constexpr int QUADS = T::HEAD_DIM / 4, ROW_FLOATS = T::HEAD_DIM;
  static_assert(T::BLOCK_Q * ROW_FLOATS * sizeof(float) <= T::GROUP_BYTES);
  __shared__ float2 max_and_sum[T::BLOCK_Q][T::WARPS_KV];
  const Place<T> place;
  float* const group_rows = reinterpret_cast<float*>(smem + T::Q_BYTES + place.group * T::GROUP_BYTES);
  register_rows::group_barrier<T>(place.group);  // all of the group have read its last tile
#pragma unroll
  for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = place.row(m, h);
      if (row >= rows) continue;
#pragma unroll
      for (int n = 0; n < T::D_TILES; ++n)
        *reinterpret_cast<float2*>(group_rows + row * ROW_FLOATS + 8 * (n ^ (row & 3)) + 2 * (place.lane & 3)) =
            make_float2(own.O[m][n][2 * h], own.O[m][n][2 * h + 1]);
      if ((place.lane & 3) == 0) max_and_sum[row][place.group] = make_float2(own.max[m][h], own.sum[m][2 * h]);
    }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * QUADS; i += T::THREADS) {
    const int row = i / QUADS, quad = i % QUADS;
    float4 parts[T::WARPS_KV];
    float2 sums[T::WARPS_KV];
#pragma unroll
    for (int other = 0; other < T::WARPS_KV; ++other) {
      const float* const from = reinterpret_cast<const float*>(smem + T::Q_BYTES + other * T::GROUP_BYTES);
      parts[other] =
          *reinterpret_cast<const float4*>(from + row * ROW_FLOATS + 8 * ((quad >> 1) ^ (row & 3)) + 4 * (quad & 1));
      sums[other] = max_and_sum[row][other];
    }
    Quad sum;
    sum.add(parts, sums, T::WARPS_KV);
    give(row, quad, sum);
  }
}

// Keys `begin` to `end` - 1, which `groups` groups of warps take in turns, a tile each. This one is number `turn` of them.
struct Share {
  int begin, end, turn, groups;

  template <class T>
  __device__ __forceinline__ int first_key(int own_tile) const {
    return begin + (own_tile * groups + turn) * T::BLOCK_KV;
  }
  template <class T>
  __device__ __forceinline__ int tiles() const {
    const int round = groups * T::BLOCK_KV;
    return (max(0, end - begin - turn * T::BLOCK_KV) + round - 1) / round;
  }
};

// A sequence that is not divided among teams. If it has no window, its first keys are known before its length is.
struct WholeSequence {
  const Cache& cache;
  int number;

  __device__ __forceinline__ WholeSequence(const Cache& cache, int number) : cache(cache), number(number) {}

  // Volatile, so that the compiler does not move this load in front of copies that need not wait for it.
  __device__ __forceinline__ int length() const { return static_cast<const volatile int*>(cache.lengths)[number]; }

  template <class T>
  __device__ __forceinline__ Share share(int turn, int groups) const {
    Share share{0, cache.capacity, turn, groups};
    if (!T::EARLY || T::PAGED || cache.window >= 0) share.end = length(), share.begin = cache.first_key(share.end);
    return share;
  }
};

// Makes what the group's threads have written to shared memory visible to the group's products.
template <class T>
__device__ __forceinline__ void publish(const Place<T>& place) {
  if constexpr (T::ON_WGMMA) async_proxy_fence();
  register_rows::group_barrier<T>(place.group);
}

// Clears the rows of V from `row` on. What is there may be NaN, which a weight of 0 does not remove.
template <class T>
__device__ __forceinline__ void clear_rows(uint32_t V_smem, int row, const Place<T>& place) {
  constexpr int CHUNKS = T::HEAD_DIM / 8;
  for (int i = row * CHUNKS + place.thread; i < T::BLOCK_KV * CHUNKS; i += T::GROUP_THREADS)
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(
                     V_smem + tile_offset<T, T::BLOCK_KV>(i / CHUNKS, i % CHUNKS)),
                 "r"(0)
                 : "memory");
  publish<T>(place);
}

// A stripe's attention to a share of its keys (a row may see fewer) and to its sinks. Each group gets the result for its
// own tiles. length_of() returns the sequence's length, and is called when the first copies are under way. The share may
// end after that: what was copied from later rows is not used.
template <class T, class LengthOf>
__device__ __forceinline__ void attend(const Cache& cache, const Stripe& stripe, Share share, LengthOf length_of,
                                       bool begins, unsigned char* smem, Rows<T>& own) {
  constexpr int CHUNKS = T::HEAD_DIM / 8;
  const Place<T> place;
  const int lane = place.lane;
  const int group = cache.group, kv_heads = cache.heads / group, window = min(cache.window, cache.capacity);
  const uint32_t Q_smem = smem_address(smem), ring_smem = Q_smem + T::Q_BYTES + place.group * T::GROUP_BYTES;
  const size_t row_stride = size_t(kv_heads) * T::HEAD_DIM;
  const size_t first_element =
      (T::PAGED ? stripe.kv_head : size_t(stripe.sequence) * cache.capacity * kv_heads + stripe.kv_head) * T::HEAD_DIM;

  // The places of the keys that a warp copies in a paged cache, one per lane, looked up a tile ahead. Nothing computes
  // with a page before its copy starts, because the warp would wait there for the load from the table.
  // What the table says of keys after the sequence's end is loaded, so that no load waits for the length, but not used.
  // In each pass, the group's warps copy neighbouring rows.
  constexpr int WARP_ROWS = T::BLOCK_KV / T::WARPS_Q, ROWS_A_PASS = WARP / CHUNKS;
  struct Found {
    int page = 0, row = 0;  // of the page
  };
  const auto look_up = [&](int own_tile) {
    if constexpr (!T::PAGED) return Found{};
    const int own = lane % WARP_ROWS,
              in_tile = (own / ROWS_A_PASS * T::WARPS_Q + place.warp) * ROWS_A_PASS + own % ROWS_A_PASS;
    const int key = min(share.first_key<T>(own_tile) + in_tile, cache.capacity - 1), page = key / cache.page;
    return Found{cache.table[size_t(stripe.sequence) * cache.most_pages + page], key - page * cache.page};
  };
  // Rows beyond the share's end are not read, but filled with zeros.
  int own_tiles = share.tiles<T>();
  const auto copy_tile = [&](int own_tile, const Found& found) {
    const int first_key = share.first_key<T>(own_tile);
    const unsigned lane_position = found.page * cache.page + found.row;
    const uint32_t K_smem = ring_smem + own_tile % T::STAGES * T::STAGE_BYTES;
    if (own_tile < own_tiles) {
#pragma unroll
      for (int tensor = 0; tensor < 2; ++tensor) {
        const Element* rows = (tensor == 0 ? cache.K : cache.V) + first_element;
#pragma unroll
        for (int i = 0; i < T::BLOCK_KV * CHUNKS; i += T::GROUP_THREADS) {
          const int row = (i + place.thread) / CHUNKS, chunk = (i + place.thread) % CHUNKS;
          const size_t at = T::PAGED ? __shfl_sync(0xffffffffu, lane_position, (i / T::WARPS_Q + lane) / CHUNKS)
                                     : size_t(first_key + row);
          cp_async_16(K_smem + tensor * T::KV_BYTES + tile_offset<T, T::BLOCK_KV>(row, chunk),
                      rows + at * row_stride + chunk * 8, first_key + row < share.end);
        }
      }
    }
  };
  Found first_found[T::STAGES];  // looked up together, so that no load waits for another
#pragma unroll
  for (int stage = 0; stage < T::STAGES; ++stage) first_found[stage] = look_up(stage);
  // A warp of a cluster has few tiles, each from a place that no load has touched before: their entries go to L2 now.
  if constexpr (T::PAGED && T::EARLY) {
    const int key = share.first_key<T>(T::STAGES + lane);
    if (key < cache.capacity)
      asm volatile("prefetch.global.L2 [%0];\n" ::"l"(cache.table + size_t(stripe.sequence) * cache.most_pages +
                                                      key / cache.page));
  }
  // The keys' copies go first: keys come from memory, Q usually from L2.
  copy_tile(0, first_found[0]);
  for (int i = threadIdx.x; i < T::BLOCK_Q * CHUNKS; i += T::THREADS) {
    const int row = i / CHUNKS, chunk = i % CHUNKS;
    const bool present = row < stripe.rows;
    cp_async_16(Q_smem + tile_offset<T, T::BLOCK_Q>(row, chunk),
                cache.Q + stripe.row_of_Q(cache, present ? row : 0) * T::HEAD_DIM + chunk * 8, present);
  }
  cp_async_commit();
#pragma unroll
  for (int stage = 1; stage < T::STAGES; ++stage) {
    copy_tile(stage, first_found[stage]);
    cp_async_commit();  // even if the group is empty, because the waits count groups
  }
  Found found = look_up(T::STAGES);
  const int length = length_of();
  share.end = min(share.end, length);
  own_tiles = share.tiles<T>();
  const int offset = length - cache.queries;
  const int first_position = stripe.first_row / group + offset;
  const int last_position = (stripe.first_row + stripe.rows - 1) / group + offset;

  own.clear();
  if (begins && place.group == 0 && cache.sinks != nullptr) own.begin_with_sinks(cache, stripe, place);
  // Logits are in units of log2(e), so that weights are powers of 2. Capped logits are scaled already.
  const bool capped = cache.softcap > 0.0f;
  const float scale_log2 = capped ? LOG2_E : cache.scale * LOG2_E, inner_scale = cache.scale / cache.softcap;

  cp_async_wait<T::STAGES - 1>();
  if constexpr (T::ON_WGMMA) async_proxy_fence();
  __syncthreads();  // Q and every group's first tile have arrived
  uint32_t Q_rmem[T::M_TILES][T::D_STEPS][4];
  if constexpr (T::Q_IN_REGISTERS && !T::ON_WGMMA) {
#pragma unroll
    for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
      for (int step = 0; step < T::D_STEPS; ++step)
        register_rows::load_Q_fragments<T>(Q_rmem[m][step], Q_smem, 16 * m, step, lane);
  }

  for (int own_tile = 0; own_tile < own_tiles; ++own_tile) {
    if constexpr (T::STAGES > 1) {
      if (own_tile > 0) {
        cp_async_wait<T::STAGES - 2>();
        publish<T>(place);  // this tile has arrived and the previous one has been read, so its stage may be refilled
        copy_tile(own_tile - 1 + T::STAGES, found);
        found = look_up(own_tile + T::STAGES);
        cp_async_commit();
      }
    }
    const int first_key = share.first_key<T>(own_tile);
    const uint32_t K_smem = ring_smem + own_tile % T::STAGES * T::STAGE_BYTES;
    if constexpr (T::EARLY)
      if (first_key + T::BLOCK_KV > share.end) clear_rows<T>(K_smem + T::KV_BYTES, share.end - first_key, place);

    float S_rmem[T::M_TILES][T::KV_TILES][4] = {};
    if constexpr (T::ON_WGMMA)
      warpgroup_products::scores<T>(S_rmem, Q_smem, K_smem);
    else
      register_rows::scores<T>(S_rmem, Q_rmem, Q_smem, K_smem, 0, lane);
    if (capped) {
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
        for (int n = 0; n < T::KV_TILES; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) S_rmem[m][n][i] = cache.softcap * tanhf(S_rmem[m][n][i] * inner_scale);
    }
    const bool all_seen = first_key + T::BLOCK_KV <= min(share.end, first_position + 1) &&
                          (window < 0 || first_key >= last_position - window);
    if (!all_seen) {
#pragma unroll
      for (int m = 0; m < T::M_TILES; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = (stripe.first_row + place.row(m, i >> 1)) / group + offset;
#pragma unroll
          for (int n = 0; n < T::KV_TILES; ++n) {
            const int key = first_key + n * register_rows::MMA_N + 2 * (lane & 3) + (i & 1);
            if (key >= share.end || key > at || (window >= 0 && key < at - window)) S_rmem[m][n][i] = -INFINITY;
          }
        }
    }
    register_rows::raise_row_max<T>(S_rmem, own.O, own.max, own.sum, scale_log2);
    if constexpr (T::ON_WGMMA)
      warpgroup_products::weigh_values<T>(S_rmem, own.O, own.max, own.sum, K_smem + T::KV_BYTES, scale_log2);
    else
      register_rows::weigh_values<T>(S_rmem, own.O, own.max, own.sum, K_smem + T::KV_BYTES, scale_log2, lane);
  }
}

// Computes a CTA's share of all keys. SUMS: the last CTA of a divided sequence sums its parts; else a second launch does.
template <class T, bool SUMS = true>
__device__ __forceinline__ void decode(const Cache& cache) {
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int ROUND = T::ROUND;
  const int group = Place<T>().group, cta = blockIdx.x;
  const int team = cta / cache.stripes, index = cta % cache.stripes;
  Stripe stripe = stripe_of<T>(cache, team, index);
  const auto store = [&](int row, int quad, const Quad& sum) {
    stripe.store<T>(cache, row, quad, sum.O, sum.row_max, sum.row_sum);
  };
  Rows<T> own;
  if constexpr (T::STAGES == 1) {
    const WholeSequence sequence(cache, team);
    attend<T>(cache, stripe, sequence.share<T>(group, T::WARPS_KV), [&] { return sequence.length(); }, true, smem, own);
    return merge_groups<T>(own, stripe.rows, smem, store);
  }

  const Line<ROUND> line(cache);
  line.each_share(team, [&](const TeamShare& share) {
    stripe.sequence = share.sequence;
    const int length = cache.lengths[share.sequence], kv_begin = cache.first_key(length) + share.done * ROUND;
    attend<T>(
        cache, stripe, {kv_begin, min(length, kv_begin + share.taken * ROUND), group, T::WARPS_KV},
        [=] { return length; }, share.done == 0, smem, own);
    const bool whole = share.taken == share.rounds;
    const Part<T> part(cache, cta, share.done == 0, false);
    merge_groups<T>(own, stripe.rows, smem, [&](int row, int quad, const Quad& sum) {
      if (whole)
        store(row, quad, sum);
      else
        part.write(row, quad, sum.O, sum.row_max, sum.row_sum);
    });
    if (SUMS && !whole) {
      const int first_team = line.team_of(share.first);
      merge<T>(cache, stripe, index, first_team * cache.stripes + index,
               line.team_of(share.first + share.rounds - 1) - first_team + 1, team - first_team, store);
    }
    __syncthreads();  // shared memory may be overwritten
  });
}

}  // namespace stream_decode
