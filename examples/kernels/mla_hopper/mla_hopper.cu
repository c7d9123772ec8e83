// mla_hopper: decoding with multi-head latent attention over a paged cache, on wgmma and TMA. All heads read the same row
// of the cache, once as a key (576 columns) and once as a value (the first 512). So 64 query rows (heads of one or more
// new tokens) share each tile of 64 rows, which is copied once and used by both products.
//
// A CTA has two consumer warpgroups with the same 64 query rows. One computes the scores and the softmax; each adds half
// of the columns of O, the first with weights from registers, the second with weights from shared memory. Limits: fp16 or
// bf16, rows of 576 columns of which 512 are values, any lengths and pages, sm_90a only.
#include "mechanisms/first_entries.cuh"
#include "mechanisms/stream_decode.cuh"
#include "mechanisms/tma_ring.cuh"
#include "primitives/registers.cuh"
#include "primitives/stmatrix.cuh"
#include "primitives/wgmma.cuh"

using stream_decode::Cache, stream_decode::LN_2, stream_decode::LOG2_E, stream_decode::NO_ROW_MAX,
    stream_decode::Stripe, stream_decode::WARP;

constexpr int WARPGROUP = 128, WGMMA_K = 16;
constexpr int DIM = 576, VALUE_DIM = 512, HALF_DIM = VALUE_DIM / 2;
constexpr int ROWS = 64, KEYS = 64;  // query rows of a CTA, keys of a tile
constexpr int PANELS = DIM / PANEL, HALF_PANELS = HALF_DIM / PANEL;
constexpr int PANEL_BYTES = ROWS * PANEL_ROW_BYTES, TILE_BYTES = PANELS * PANEL_BYTES;
constexpr int STAGES = 2;
// The first product of a tile begins when the tile's first part has arrived.
constexpr int ARRIVALS = 3, PANELS_OF_ARRIVAL = PANELS / ARRIVALS;
constexpr int SCORES = KEYS / 2, OUTPUTS = HALF_DIM / 2;  // a thread's elements of S and of its half of O

// Named barriers. P_FULL: weights and alpha are in shared memory. P_EMPTY: the second warpgroup has used them.
constexpr int P_FULL = 1, P_EMPTY = 2, SUMS_THERE = 3, GROUP_MEETS = 4;
constexpr int CONSUMER_THREADS = 2 * WARPGROUP, Q_LOADERS = 3 * WARP;
constexpr int SCORE_REGISTERS = 240, VALUE_REGISTERS = 184, PRODUCER_REGISTERS = 80;
// What __launch_bounds__ gives three warpgroups at the launch.
static_assert(SCORE_REGISTERS + VALUE_REGISTERS + PRODUCER_REGISTERS <= 3 * 168);

// For stream_decode: the rows and columns of a part of O.
struct Tile {
  static constexpr int HEAD_DIM = VALUE_DIM, BLOCK_Q = ROWS;
};
using Part = stream_decode::Part<Tile>;
using Line = stream_decode::Line<KEYS>;
using Share = stream_decode::TeamShare;

// Shared memory: Q, the ring of tiles, P, then per row: alpha, the maximum and the sum; then barriers.
struct Memory {
  static constexpr int RING = TILE_BYTES, P = RING + STAGES * TILE_BYTES, ALPHA = P + PANEL_BYTES;
  static constexpr int MAX_AND_SUM = ALPHA + ROWS * 4, BARRIERS = MAX_AND_SUM + ROWS * 8;
  static constexpr int BYTES = BARRIERS + 8 * (2 + STAGES * (ARRIVALS + 1));
  unsigned char* smem;
  uint32_t base;

  __device__ __forceinline__ float* alpha() const { return reinterpret_cast<float*>(smem + ALPHA); }
  __device__ __forceinline__ float2* max_and_sum() const { return reinterpret_cast<float2*>(smem + MAX_AND_SUM); }
  __device__ __forceinline__ uint32_t tile(int stage) const { return base + RING + stage * TILE_BYTES; }
  __device__ __forceinline__ uint32_t Q_full() const { return base + BARRIERS; }
  __device__ __forceinline__ uint32_t Q_empty() const { return Q_full() + 8; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return Q_full() + 16 + 8 * stage; }
  __device__ __forceinline__ uint32_t full(int stage, int arrival) const {
    return empty(STAGES) + 8 * (stage * ARRIVALS + arrival);
  }

  __device__ __forceinline__ void initialise() const {
    mbarrier_init(Q_full(), Q_LOADERS);
    mbarrier_init(Q_empty(), 1);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(empty(stage), 2);
      for (int arrival = 0; arrival < ARRIVALS; ++arrival) mbarrier_init(full(stage, arrival), 1);
    }
    mbarrier_init_fence();
  }
};

// A warp that copies the tiles of all shares. A box is a run of rows of one page; lanes start different boxes.
struct TileProducer {
  const Cache& cache;
  const Memory memory;
  const CUtensorMap* KV_map;
  const int box_rows;
  RingPlace<STAGES> place = {};

  __device__ __forceinline__ int page_of(int sequence, int first_key, int box, int length) const {
    const int key = first_key + box * box_rows;
    return key < length ? cache.table[size_t(sequence) * cache.most_pages + key / cache.page] : 0;
  }

  __device__ __forceinline__ void bring(const Share& share, int length) {
    const int lane = threadIdx.x % WARP, first = share.done * KEYS;
    int page = page_of(share.sequence, first, lane, length);  // looked up a tile ahead
    for (int tile = 0; tile < share.taken; ++tile) {
      const int first_key = first + tile * KEYS, rows = max(0, min(KEYS, length - first_key));
      const int boxes = (rows + box_rows - 1) / box_rows;
      mbarrier_wait(memory.empty(place.stage), place.parity ^ 1);
      if (lane == 0)
        for (int arrival = 0; arrival < ARRIVALS; ++arrival)
          mbarrier_arrive_expect_bytes(memory.full(place.stage, arrival),
                                       boxes * box_rows * PANELS_OF_ARRIVAL * PANEL_ROW_BYTES);
      __syncwarp();
      for (int box = lane; box < boxes; box += WARP) {
        const int of_page = box == lane ? page : page_of(share.sequence, first_key, box, length);
        const int row_in_page = (first_key + box * box_rows) % cache.page;
#pragma unroll
        for (int panel = 0; panel < PANELS; ++panel)
          tma_load_3d(memory.tile(place.stage) + panel * PANEL_BYTES + box * box_rows * PANEL_ROW_BYTES, KV_map,
                      memory.full(place.stage, panel / PANELS_OF_ARRIVAL), panel * PANEL, row_in_page, of_page);
      }
      page = page_of(share.sequence, first_key + KEYS, lane, length);
      place.step(1);
    }
  }
};

// Three warps copy a share's query rows, which lie one after another. Rows beyond the stripe become zeros.
__device__ __forceinline__ void bring_Q(const Cache& cache, const Memory& memory, const Stripe& stripe, int& parity) {
  constexpr int CHUNKS = DIM / 8;
  mbarrier_wait(memory.Q_empty(), parity ^ 1);
  parity ^= 1;
  const Element* const rows = cache.Q + stripe.row_of_Q(cache, 0) * DIM;
  for (int i = threadIdx.x % WARPGROUP - WARP; i < ROWS * CHUNKS; i += Q_LOADERS) {
    const int row = i / CHUNKS, chunk = i % CHUNKS;
    const bool present = row < stripe.rows;
    cp_async_16(memory.base + chunk / 8 * PANEL_BYTES + swizzled_offset<PANEL_ROW_BYTES>(row, chunk % 8),
                rows + size_t(present ? row : 0) * DIM + chunk * 8, present);
  }
  cp_async_commit();
  cp_async_wait<0>();
  async_proxy_fence();
  mbarrier_arrive(memory.Q_full());
}

// What both consumer warpgroups do with their half of O.
template <bool FIRST>
struct HalfOutput {
  const Memory memory;
  float O[OUTPUTS];
  float2 max_and_sum[2];  // of the lane's two rows, when a share is done

  __device__ __forceinline__ uint64_t values(int stage) const {
    return wgmma_descriptor(memory.tile(stage) + (FIRST ? 0 : HALF_PANELS * PANEL_BYTES), PANEL_BYTES);
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) O[i] = 0.0f;
  }

  __device__ __forceinline__ void rescale(float alpha_0, float alpha_1) {
    if (!__any_sync(0xffffffffu, alpha_0 != 1.0f || alpha_1 != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) O[i] *= i & 2 ? alpha_1 : alpha_0;
  }

  // Clears this half of a tile's values from row `row` on: after the sequence's end there may be NaN, which a weight of
  // 0 does not remove.
  __device__ __forceinline__ void clear_values(int stage, int row) const {
    const uint32_t tile = memory.tile(stage) + (FIRST ? 0 : HALF_PANELS * PANEL_BYTES);
    for (int i = row * 8 + threadIdx.x % WARPGROUP; i < KEYS * 8; i += WARPGROUP)
#pragma unroll
      for (int panel = 0; panel < HALF_PANELS; ++panel)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};\n" ::"r"(tile + panel * PANEL_BYTES + i * 16), "r"(0)
                     : "memory");
    async_proxy_fence();
    named_barrier_sync(GROUP_MEETS + !FIRST, WARPGROUP);
  }

  __device__ __forceinline__ void store_part(const Part& part, const Stripe& stripe, int row) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= stripe.rows) continue;
      float* const to = part.O + (row + 8 * h) * VALUE_DIM + (FIRST ? 0 : HALF_DIM) + 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < HALF_DIM / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n) = make_float2(O[4 * n + 2 * h], O[4 * n + 2 * h + 1]);
      if (FIRST && (lane & 3) == 0) part.max_and_sum[row + 8 * h] = max_and_sum[h];
    }
  }

  // Stores O of a sequence that no other CTA has a part of. Neighbouring lanes trade pairs of columns, so that each has
  // four next to each other.
  __device__ __forceinline__ void store_whole(const Cache& cache, const Stripe& stripe, int row) const {
    const int lane = threadIdx.x % WARP;
    const bool odd = lane & 1;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int own_row = row + 8 * h;
      const float norm = max_and_sum[h].y > 0.0f ? 1.0f / max_and_sum[h].y : 0.0f;
      Element* const to = cache.O + stripe.row_of_Q(cache, 0) * VALUE_DIM + size_t(own_row) * VALUE_DIM +
                          (FIRST ? 0 : HALF_DIM) + (odd ? 8 : 0) + (lane & 2) * 2;
#pragma unroll
      for (int n = 0; n < HALF_DIM / 8; n += 2) {
        const uint32_t first = pack_elements(O[4 * n + 2 * h] * norm, O[4 * n + 2 * h + 1] * norm);
        const uint32_t second = pack_elements(O[4 * n + 4 + 2 * h] * norm, O[4 * n + 5 + 2 * h] * norm);
        const uint32_t received = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
        if (own_row < stripe.rows)
          *reinterpret_cast<uint2*>(to + 8 * n) = odd ? make_uint2(received, second) : make_uint2(first, received);
      }
      if (FIRST && (lane & 3) == 0 && own_row < stripe.rows) {
        const int r = stripe.first_row + own_row, head = r % cache.heads, query = r / cache.heads;
        cache.LSE[(size_t(stripe.sequence) * cache.heads + head) * cache.queries + query] =
            max_and_sum[h].y > 0.0f ? (max_and_sum[h].x + log2f(max_and_sum[h].y)) * LN_2 : -INFINITY;
      }
    }
  }

  __device__ __forceinline__ void store(const Cache& cache, const Stripe& stripe, const Share& share) const {
    const int row = threadIdx.x % WARPGROUP / WARP * 16 + (threadIdx.x % WARP >> 2);
    if (share.taken == share.rounds)
      store_whole(cache, stripe, row);
    else
      store_part(Part(cache, blockIdx.x, share.done == 0, false), stripe, row);
  }
};

// The warpgroup that computes scores and weights.
struct ScoreConsumer {
  const Cache& cache;
  HalfOutput<true> half;
  RingPlace<STAGES> place = {};
  int Q_parity = 0;
  float row_max[2], row_sum[2], alpha[2];
  uint32_t P[KEYS / WGMMA_K][4];

  __device__ __forceinline__ void start_scores(float (&S)[SCORES]) const {
    const Memory& memory = half.memory;
    const uint64_t Q_start = wgmma_descriptor(memory.base), K_start = wgmma_descriptor(memory.tile(place.stage));
    wgmma_forget(S);
#pragma unroll
    for (int panel = 0; panel < PANELS; ++panel) {
      if (panel % PANELS_OF_ARRIVAL == 0) {
        mbarrier_wait(memory.full(place.stage, panel / PANELS_OF_ARRIVAL), place.parity);
        wgmma_fence();
      }
#pragma unroll
      for (int step = 0; step < PANEL / WGMMA_K; ++step) {
        const int offset = panel * PANEL_BYTES + step * WGMMA_K * 2;
        wgmma_m64n64k16_ss(S, wgmma_descriptor_after(Q_start, offset), wgmma_descriptor_after(K_start, offset),
                           panel + step > 0);
      }
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void start_values() {
    const uint64_t V_start = half.values(place.stage);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < KEYS / WGMMA_K; ++step)
      wgmma_m64n256k16_rs_bt(half.O, P[step], wgmma_descriptor_after(V_start, step * WGMMA_K * PANEL_ROW_BYTES), true);
    wgmma_commit();
  }

  __device__ __forceinline__ void release() {
    if (threadIdx.x % WARPGROUP == 0) mbarrier_arrive(half.memory.empty(place.stage));
    place.step(1);
  }

  // Keys that a row may not see score minus infinity. A row is query row / heads, whose last key is `offset` later.
  __device__ __forceinline__ void mask(float (&S)[SCORES], const Stripe& stripe, int first_key, int length) const {
    const int lane = threadIdx.x % WARP, row = threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = (stripe.first_row + row + 8 * h) / cache.heads;
      const int seen = min(length, query + length - cache.queries + 1) - first_key - 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < KEYS / 8; ++n) {
        if (8 * n >= seen) S[4 * n + 2 * h] = -INFINITY;
        if (8 * n + 1 >= seen) S[4 * n + 2 * h + 1] = -INFINITY;
      }
    }
  }

  // S becomes weights, in registers.
  __device__ __forceinline__ void weigh(float (&S)[SCORES], float scale_log2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tile_max = fmaxf(S[2 * h], S[2 * h + 1]);
#pragma unroll
      for (int i = 4 + 2 * h; i < SCORES; i += 4) tile_max = fmaxf(tile_max, fmaxf(S[i], S[i + 1]));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
      const float raised = fmaxf(row_max[h], tile_max * scale_log2);
      alpha[h] = exp2_approx(row_max[h] - raised);
      row_max[h] = raised;
      row_sum[h] *= alpha[h];
#pragma unroll
      for (int i = 2 * h; i < SCORES; i += 4)
#pragma unroll
        for (int c = 0; c < 2; ++c) S[i + c] = exp2_approx(fmaf(S[i + c], scale_log2, -raised));
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

  // Gives the weights and alpha to the other warpgroup.
  __device__ __forceinline__ void publish() const {
    const int lane = threadIdx.x % WARP, first_row = threadIdx.x % WARPGROUP / WARP * 16;
    named_barrier_sync(P_EMPTY, CONSUMER_THREADS);
#pragma unroll
    for (int step = 0; step < KEYS / WGMMA_K; ++step)
      stmatrix_x4(half.memory.base + Memory::P +
                      swizzled_offset<PANEL_ROW_BYTES>(first_row + (lane & 15), 2 * step + (lane >> 4)),
                  P[step][0], P[step][1], P[step][2], P[step][3]);
    if ((lane & 3) == 0)
      for (int h = 0; h < 2; ++h) half.memory.alpha()[first_row + 8 * h + (lane >> 2)] = alpha[h];
    async_proxy_fence();
    named_barrier_arrive(P_FULL, CONSUMER_THREADS);
  }

  // From a tile's scores to the product of its weights with the values, which is started.
  __device__ __forceinline__ void add_values(float (&S)[SCORES], const Stripe& stripe, int first_key, int length) {
    if (first_key + KEYS > length - cache.queries + 1 + stripe.first_row / cache.heads)
      mask(S, stripe, first_key, length);
    weigh(S, cache.scale * LOG2_E);
    half.rescale(alpha[0], alpha[1]);
    if (length - first_key < KEYS) half.clear_values(place.stage, max(0, length - first_key));
    start_values();
    publish();
    sum_weights();  // while the products run
  }

  __device__ __forceinline__ void attend(const Stripe& stripe, const Share& share, int length) {
    const bool signals = threadIdx.x % WARPGROUP == 0;
    float S[SCORES];
    half.clear();
    for (int h = 0; h < 2; ++h) row_max[h] = NO_ROW_MAX, row_sum[h] = 0.0f;
    mbarrier_wait(half.memory.Q_full(), Q_parity);
    Q_parity ^= 1;
    start_scores(S);
#pragma unroll 1
    for (int tile = 0;;) {
      wgmma_wait<0>();
      wgmma_hold(S);
      add_values(S, stripe, (share.done + tile) * KEYS, length);
      if (++tile == share.taken) break;
      wgmma_wait<0>();
      wgmma_hold(half.O);
      release();
      start_scores(S);
    }
    if (signals) mbarrier_arrive(half.memory.Q_empty());
    wgmma_wait<0>();
    wgmma_hold(half.O);
    release();
    const int lane = threadIdx.x % WARP, row = threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
    for (int h = 0; h < 2; ++h) {
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
      half.max_and_sum[h] = make_float2(row_max[h], row_sum[h]);
      if ((lane & 3) == 0) half.memory.max_and_sum()[row + 8 * h] = half.max_and_sum[h];
    }
    named_barrier_arrive(SUMS_THERE, CONSUMER_THREADS);
  }
};

// The warpgroup that adds the second half of the columns.
struct ValueConsumer {
  HalfOutput<false> half;
  RingPlace<STAGES> place = {};

  __device__ __forceinline__ void attend(const Share& share, int length) {
    const Memory& memory = half.memory;
    const int row = threadIdx.x % WARPGROUP / WARP * 16 + (threadIdx.x % WARP >> 2);
    const uint64_t P_start = wgmma_descriptor(memory.base + Memory::P);
    half.clear();
    for (int tile = 0; tile < share.taken; ++tile) {
      if (tile > 0) named_barrier_arrive(P_EMPTY, CONSUMER_THREADS);
      named_barrier_sync(P_FULL, CONSUMER_THREADS);
      half.rescale(memory.alpha()[row], memory.alpha()[row + 8]);
      const int rows = length - (share.done + tile) * KEYS;
      if (rows < KEYS) half.clear_values(place.stage, max(0, rows));
      const uint64_t V_start = half.values(place.stage);
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < KEYS / WGMMA_K; ++step)
        wgmma_m64n256k16_ss_bt(half.O, wgmma_descriptor_after(P_start, step * WGMMA_K * 2),
                               wgmma_descriptor_after(V_start, step * WGMMA_K * PANEL_ROW_BYTES), true);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(half.O);
      if (threadIdx.x % WARPGROUP == 0) mbarrier_arrive(memory.empty(place.stage));
      place.step(1);
    }
    named_barrier_sync(SUMS_THERE, CONSUMER_THREADS);
    for (int h = 0; h < 2; ++h) half.max_and_sum[h] = memory.max_and_sum()[row + 8 * h];
    named_barrier_arrive(P_EMPTY, CONSUMER_THREADS);  // the last tile's, and the sums may be overwritten
  }
};

// Computes a CTA's share of all keys.
__device__ __forceinline__ void decode(const Cache& cache, const CUtensorMap* KV_map, int box_rows) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const Memory memory{smem, smem_address(smem)};
  if (threadIdx.x == CONSUMER_THREADS) memory.initialise();
  const Line line(cache);
  const int team = int(blockIdx.x) / cache.stripes;
  Stripe stripe;
  stripe.kv_head = 0;
  stripe.first_row = int(blockIdx.x) % cache.stripes * ROWS;
  stripe.rows = min(ROWS, cache.heads * cache.queries - stripe.first_row);
  __syncthreads();

  const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0);
  if (warpgroup == 2) {
    registers_decrease<PRODUCER_REGISTERS>();
    if (threadIdx.x % WARPGROUP < WARP) {
      TileProducer producer{cache, memory, KV_map, box_rows};
      line.each_share(team, [&](const Share& share) { producer.bring(share, cache.lengths[share.sequence]); });
    } else {
      int parity = 0;
      line.each_share(team, [&](const Share& share) {
        stripe.sequence = share.sequence;
        bring_Q(cache, memory, stripe, parity);
      });
    }
  } else if (warpgroup == 0) {
    registers_increase<SCORE_REGISTERS>();
    ScoreConsumer consumer{cache, {memory}};
    line.each_share(team, [&](const Share& share) {
      stripe.sequence = share.sequence;
      consumer.attend(stripe, share, cache.lengths[share.sequence]);
      consumer.half.store(cache, stripe, share);
    });
    named_barrier_sync(P_EMPTY, CONSUMER_THREADS);  // so that no barrier is left with arrivals
  } else {
    registers_increase<VALUE_REGISTERS>();
    ValueConsumer consumer{{memory}};
    named_barrier_arrive(P_EMPTY, CONSUMER_THREADS);
    line.each_share(team, [&](const Share& share) {
      stripe.sequence = share.sequence;
      consumer.attend(share, cache.lengths[share.sequence]);
      consumer.half.store(cache, stripe, share);
    });
  }
}

// Sums the parts of sequences that several CTAs have divided. A CTA has `run` query rows of one stripe, and its threads
// four columns each.
__device__ __forceinline__ void merge(const Cache& cache, int run, int ctas) {
  constexpr int QUADS = VALUE_DIM / 4;
  const int runs = ROWS / run, stripe_of_all = int(blockIdx.x) / runs, first_row = int(blockIdx.x) % runs * run;
  const int quad = threadIdx.x % QUADS;
  Stripe stripe;
  stripe.sequence = stripe_of_all / cache.stripes;
  stripe.kv_head = 0;
  stripe.first_row = stripe_of_all % cache.stripes * ROWS;
  stripe.rows = min(ROWS, cache.heads * cache.queries - stripe.first_row);
  const Line line(cache, ctas);
  if (line.whole) return;
  const int first = line.first_round_of(stripe.sequence), first_team = line.team_of(first);
  const int parts = line.team_of(first + line.rounds_of(stripe.sequence) - 1) - first_team + 1;
  if (parts == 1) return;
  const int first_cta = first_team * cache.stripes + stripe_of_all % cache.stripes;
  for (int row = first_row + threadIdx.x / QUADS; row < min(first_row + run, stripe.rows); row += blockDim.x / QUADS) {
    const stream_decode::Quad sum =
        stream_decode::sum_of_parts<Tile>(cache, row, quad, first_cta, parts, true, cache.stripes, false);
    stripe.store<Tile>(cache, row, quad, sum.O, sum.row_max, sum.row_sum);
  }
}

extern "C" __global__ void __launch_bounds__(3 * WARPGROUP, 1)
    mla_hopper(const __grid_constant__ CUtensorMap KV_map, const Element* Q, Element* O, float* LSE, const int* lengths,
               const int* table, float* parts, int sequences, int queries, int heads, int page, int most_pages,
               int box_rows, int stripes, float scale) {
  static_assert(Memory::BYTES == SHARED_BYTES);
  if constexpr (FLASHCORE_WANTED(mla_hopper)) {
    const Cache cache{Q,     nullptr, nullptr,   O,       LSE,   lengths, nullptr,
                      parts, nullptr, sequences, queries, heads, heads,   page * most_pages,
                      -1,    stripes, scale,     0.0f,    table, page,    most_pages};
    decode(cache, &KV_map, box_rows);
  }
}

extern "C" __global__ void __launch_bounds__(512)
    mla_hopper_merge(Element* O, float* LSE, const int* lengths, float* parts, int sequences, int queries, int heads,
                     int capacity, int stripes, int run, int ctas) {
  if constexpr (FLASHCORE_WANTED(mla_hopper_merge)) {
    const Cache cache{nullptr,   nullptr, nullptr, O,     LSE,      lengths, nullptr, parts, nullptr,
                      sequences, queries, heads,   heads, capacity, -1,      stripes, 0.0f,  0.0f};
    cudaGridDependencySynchronize();
    merge(cache, run, ctas);
  }
}
