// mla_hopper: decoding with multi-head latent attention over a paged cache, on wgmma and TMA. All heads read the same
// row of the cache, once as a key (576 columns) and once as a value (the first 512). So 64 query rows (heads of one or
// more new tokens) share each tile of 64 rows, which is copied once and used by both products.
//
// A CTA has two consumer warpgroups with the same 64 query rows. They compute the weights of tiles in turns, and each
// adds half of the columns of every tile's values to its half of O: with its own weights from registers, with the other
// warpgroup's from shared memory. While one computes weights, the other one's products keep the tensor cores busy (the
// "seesaw" of FlashMLA). Limits: fp16 or bf16, rows of 576 columns of which 512 are values, any lengths and pages,
// sm_90a only.
#include "half_output.cuh"
#include "latent_tiles.cuh"
#include "mechanisms/divided_sequences.cuh"
#include "mechanisms/first_entries.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/registers.cuh"
#include "primitives/stmatrix.cuh"

using namespace latent_tiles;
using stream_decode::LOG2_E;

constexpr int SCORES = KEYS / 2;  // a thread's elements of S
constexpr int CONSUMER_THREADS = 2 * WARPGROUP;
// This many panels of a tile's scores come before the product of the other warpgroup's weights, which need not be there
// before. The other panels follow it.
constexpr int PANELS_BEFORE_OTHER = 5;
// A row's maximum is raised only if a tile's is larger by more than this (log2 units). Weights are thus at most 2^8,
// and O is seldom rescaled.
constexpr float MAX_EXCESS = 8.0f;
constexpr int MERGING_THREADS = 512;
constexpr int CONSUMER_REGISTERS = 216, PRODUCER_REGISTERS = 72;
// What __launch_bounds__ gives three warpgroups at the launch.
static_assert(2 * CONSUMER_REGISTERS + PRODUCER_REGISTERS <= 3 * 168);

// Named barriers. WEIGHTS: the first warpgroup's weights of a tile are in shared memory, or (+ 1) the second one's.
constexpr int WEIGHTS = 1;

// A warpgroup that computes the weights of every other tile of a share. The first tile's is that with O's left half.
template <bool FIRST>
struct Consumer {
  const Cache& cache;
  HalfOutput<FIRST> half;
  int earlier = 0;  // tiles of earlier shares
  int shares = 0;
  float row_max[2], row_sum[2];  // the maximum of all tiles so far, and a sum over this warpgroup's tiles
  uint32_t P[KEYS / WGMMA_K][4];
  uint32_t Q_rmem[PANEL / WGMMA_K][4];  // Q's last panel

  __device__ __forceinline__ void load_Q() {
    const int lane = threadIdx.x % WARP, warp_row = threadIdx.x % WARPGROUP / WARP * 16;
    const uint32_t Q_smem = half.memory.base + (PANELS - 1) * PANEL_BYTES;
#pragma unroll
    for (int step = 0; step < PANEL / WGMMA_K; ++step)
      ldmatrix_x4(Q_rmem[step][0], Q_rmem[step][1], Q_rmem[step][2], Q_rmem[step][3],
                  Q_smem + swizzled_offset<PANEL_ROW_BYTES>(warp_row + (lane & 15), 2 * step + (lane >> 4)));
  }

  __device__ __forceinline__ Place place_of(int tile) const { return Place(earlier + tile); }

  // Starts the product of Q and a tile's keys, and calls between() on the way. Panels are used in the order in which
  // they arrive.
  template <class Between>
  __device__ __forceinline__ void start_scores(float (&S)[SCORES], const Place& place, Between between) {
    const Memory& memory = half.memory;
    const uint64_t Q_start = wgmma_descriptor(memory.base), K_start = wgmma_descriptor(memory.tile(place.stage));
    wgmma_forget(S);
#pragma unroll
    for (int i = 0; i < PANELS; ++i) {
      if (i == PANELS_BEFORE_OTHER) between();
      const int panel = i == 0 ? PANELS - 1 : (i - 1 + (FIRST ? 0 : HALF_PANELS)) % (PANELS - 1);
      mbarrier_wait(memory.full(place.stage, panel), place.parity);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < PANEL / WGMMA_K; ++step) {
        const int offset = panel * PANEL_BYTES + step * WGMMA_K * 2;
        if (panel == PANELS - 1)
          wgmma_m64n64k16_rs(S, Q_rmem[step], wgmma_descriptor_after(K_start, offset), i + step > 0);
        else
          wgmma_m64n64k16_ss(S, wgmma_descriptor_after(Q_start, offset), wgmma_descriptor_after(K_start, offset),
                             i + step > 0);
      }
    }
    wgmma_commit();
  }

  // Keys that a row may not see score minus infinity. A row is query row / heads, whose last key is `offset` later.
  __device__ __forceinline__ void mask(float (&S)[SCORES], const Stripe& stripe, int first_key, int length) const {
    if (first_key + KEYS <= length - cache.queries + 1 + stripe.first_row / cache.heads) return;
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = (stripe.first_row + half.first_row() + 8 * h) / cache.heads;
      const int seen = min(length, query + length - cache.queries + 1) - first_key - 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < KEYS / 8; ++n) {
        if (8 * n >= seen) S[4 * n + 2 * h] = -INFINITY;
        if (8 * n + 1 >= seen) S[4 * n + 2 * h + 1] = -INFINITY;
      }
    }
  }

  // Replaces the maximum of row h, and returns the factor for what has been summed with the maximum before.
  __device__ __forceinline__ float raise(int h, float raised) {
    const float alpha = exp2_approx(row_max[h] - raised);
    row_max[h] = raised;
    row_sum[h] *= alpha;
    return alpha;
  }

  // S becomes weights, in registers.
  __device__ __forceinline__ void weigh(float (&S)[SCORES], float (&alpha)[2]) {
    const float scale_log2 = cache.scale * LOG2_E;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tile_max = fmaxf(S[2 * h], S[2 * h + 1]);
#pragma unroll
      for (int i = 4 + 2 * h; i < SCORES; i += 4) tile_max = fmaxf(tile_max, fmaxf(S[i], S[i + 1]));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
      tile_max *= scale_log2;
      alpha[h] = raise(h, tile_max > row_max[h] + MAX_EXCESS ? tile_max : row_max[h]);
#pragma unroll
      for (int i = 2 * h; i < SCORES; i += 4)
#pragma unroll
        for (int c = 0; c < 2; ++c) S[i + c] = exp2_approx(fmaf(S[i + c], scale_log2, -row_max[h]));
    }
#pragma unroll
    for (int i = 0; i < SCORES / 2; ++i) P[i / 4][i % 4] = pack_elements(S[2 * i], S[2 * i + 1]);
  }

  // Adds the weights as rounded to elements, so that a row's numerator and denominator have the same rounding errors.
  __device__ __forceinline__ void sum_weights() {
#pragma unroll
    for (int i = 0; i < SCORES / 2; ++i) {
      const float2 pair = to_float2(reinterpret_cast<const Element2&>(P[i / 4][i % 4]));
      row_sum[i & 1] += pair.x + pair.y;
    }
  }

  // Gives the weights and maxima to the other warpgroup. They overwrite those of the tile before, which this warpgroup
  // got from the other and has used.
  __device__ __forceinline__ void publish() const {
    const int lane = threadIdx.x % WARP, warp_row = threadIdx.x % WARPGROUP / WARP * 16;
#pragma unroll
    for (int step = 0; step < KEYS / WGMMA_K; ++step)
      stmatrix_x4(
          half.memory.weights() + swizzled_offset<PANEL_ROW_BYTES>(warp_row + (lane & 15), 2 * step + (lane >> 4)),
          P[step][0], P[step][1], P[step][2], P[step][3]);
    if ((lane & 3) == 0)
      for (int h = 0; h < 2; ++h) half.memory.maxima()[half.first_row() + 8 * h] = row_max[h];
    async_proxy_fence();
    named_barrier_arrive(WEIGHTS + !FIRST, CONSUMER_THREADS);
  }

  // Starts to add the other warpgroup's tile.
  __device__ __forceinline__ void start_adding_other(const Place& place, int rows) {
    named_barrier_sync(WEIGHTS + FIRST, CONSUMER_THREADS);
    float alpha[2];
    for (int h = 0; h < 2; ++h) alpha[h] = raise(h, half.memory.maxima()[half.first_row() + 8 * h]);
    half.rescale(alpha);
    if (rows < KEYS) half.clear_values(place.stage, max(0, rows));
    half.start_adding(place.stage);
  }

  // The last reader of a piece of a tile lets the next tile overwrite it.
  __device__ __forceinline__ void release(const Place& place, int piece) const {
    if (threadIdx.x % WARPGROUP == 0) mbarrier_arrive(half.memory.empty(place.stage, piece));
  }
  __device__ __forceinline__ void release_Q() const {
    if (threadIdx.x % WARPGROUP == 0) mbarrier_arrive(half.memory.Q_empty());
  }

  // From the scores of an own tile to its weights. Meanwhile the tile before it, one of the other warpgroup, is added.
  __device__ __forceinline__ void attend_tile(const Stripe& stripe, const Share& share, int tile, int length) {
    const Place place = place_of(tile), place_before = place_of(tile - 1);
    const int first_key = (share.done + tile) * KEYS, rows = length - first_key;
    float S[SCORES], alpha[2];
    start_scores(S, place, [&] {
      if (tile > 0)
        start_adding_other(place_before, rows + KEYS);
      else
        wgmma_commit();  // a group for the first wait
    });
    wgmma_wait<1>();
    wgmma_hold(half.O);
    if (tile > 0) release(place_before, half.PIECE);
    wgmma_wait<0>();
    wgmma_hold(S);
    release(place, ONLY_KEYS);
    if (tile + 2 >= share.taken) release_Q();
    mask(S, stripe, first_key, length);
    weigh(S, alpha);
    half.rescale(alpha);
    if (rows < KEYS) half.clear_values(place.stage, max(0, rows));
    half.start_adding(P, place.stage);
    publish();
    sum_weights();  // while the product runs
    wgmma_wait<0>();
    wgmma_hold(half.O);
    release(place, half.PIECE);
  }

  __device__ __forceinline__ void attend(const Stripe& stripe, const Share& share, int length) {
    half.clear();
    for (int h = 0; h < 2; ++h) row_max[h] = NO_ROW_MAX, row_sum[h] = 0.0f;
    mbarrier_wait(half.memory.Q_full(), shares % 2);
    if (FIRST || share.taken > 1)
      load_Q();
    else
      release_Q();
#pragma unroll 1
    for (int tile = FIRST ? 0 : 1; tile < share.taken; tile += 2) attend_tile(stripe, share, tile, length);
    if (share.taken % 2 != FIRST) {
      const Place place = place_of(share.taken - 1);
      start_adding_other(place, length - (share.done + share.taken - 1) * KEYS);
      wgmma_wait<0>();
      wgmma_hold(half.O);
      release(place, half.PIECE);
    }
    add_sums();
    earlier += share.taken;
    ++shares;
  }

  // Adds the sums of both warpgroups. Two sets of sums are used in turns: one warpgroup may write those of the next
  // share before the other has read these.
  __device__ __forceinline__ void add_sums() {
    const auto sums = [&](int warpgroup, int h) -> float& {
      return half.memory.sums(shares % 2, warpgroup)[half.first_row() + 8 * h];
    };
    for (int h = 0; h < 2; ++h) {
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
      if (threadIdx.x % 4 == 0) sums(!FIRST, h) = row_sum[h];
    }
    __syncwarp();
    if (threadIdx.x % WARP == 0) mbarrier_arrive(half.memory.sums_full());
    mbarrier_wait(half.memory.sums_full(), shares % 2);
    for (int h = 0; h < 2; ++h) half.max_and_sum[h] = make_float2(row_max[h], row_sum[h] + sums(FIRST, h));
  }
};

// Computes a CTA's share of all keys.
__device__ __forceinline__ void decode(const Cache& cache, const CUtensorMap* KV_map, int box_rows,
                                       const CUtensorMap* Q_map, int Q_box_rows) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const Memory memory{smem, smem_address(smem)};
  if (threadIdx.x == CONSUMER_THREADS) memory.initialise();
  const Line line(cache);
  const int team = int(blockIdx.x) / cache.stripes;
  Stripe stripe;
  stripe.kv_head = 0;
  stripe.first_row = int(blockIdx.x) % cache.stripes * ROWS;
  stripe.rows = min(ROWS, cache.heads * cache.queries - stripe.first_row);
  clear_Q(memory, stripe.rows);
  __syncthreads();

  const auto consume = [&](auto consumer) {
    line.each_share(team, [&](const Share& share) {
      stripe.sequence = share.sequence;
      consumer.attend(stripe, share, cache.lengths[share.sequence]);
      consumer.half.store(cache, stripe, share);
    });
  };
  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0);
  if (warpgroup == 0) {
    registers_increase<CONSUMER_REGISTERS>();
    consume(Consumer<true>{cache, {memory}});
  } else if (warpgroup == 1) {
    registers_increase<CONSUMER_REGISTERS>();
    consume(Consumer<false>{cache, {memory}});
  } else {
    registers_decrease<PRODUCER_REGISTERS>();
    if (threadIdx.x % WARPGROUP < WARP) {
      TileProducer producer{cache, memory, KV_map, box_rows};
      line.each_share(team, [&](const Share& share) { producer.bring(share, cache.lengths[share.sequence]); });
    } else if (threadIdx.x % WARPGROUP < 2 * WARP) {
      QProducer producer{cache, memory, Q_map, Q_box_rows};
      line.each_share(team, [&](const Share& share) {
        stripe.sequence = share.sequence;
        producer.bring(stripe);
      });
    }
  }
}

extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    mla_hopper(const __grid_constant__ CUtensorMap KV_map, const __grid_constant__ CUtensorMap Q_map, Element* O,
               float* LSE, const int* lengths, const int* table, float* parts, int sequences, int queries, int heads,
               int page, int most_pages, int box_rows, int Q_box_rows, int stripes, float scale) {
  static_assert(Memory::BYTES == SHARED_BYTES);
  if constexpr (FLASHCORE_WANTED(mla_hopper)) {
    const Cache cache{nullptr, nullptr, nullptr,   O,       LSE,   lengths, nullptr,
                      parts,   nullptr, sequences, queries, heads, heads,   page * most_pages,
                      -1,      stripes, scale,     0.0f,    table, page,    most_pages};
    decode(cache, &KV_map, box_rows, &Q_map, Q_box_rows);
  }
}

extern "C" __global__ void __launch_bounds__(MERGING_THREADS, 2)
    mla_hopper_merge(Element* O, float* LSE, const int* lengths, float* parts, int sequences, int queries, int heads,
                     int capacity, int stripes, int run, int ctas) {
  if constexpr (FLASHCORE_WANTED(mla_hopper_merge)) {
    const Cache cache{nullptr,   nullptr, nullptr, O,     LSE,      lengths, nullptr, parts, nullptr,
                      sequences, queries, heads,   heads, capacity, -1,      stripes, 0.0f,  0.0f};
    cudaGridDependencySynchronize();
    divided_sequences::merge<OutputTile, KEYS, MERGING_THREADS>(cache, run, ctas);
  }
}
