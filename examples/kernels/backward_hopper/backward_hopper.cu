// backward_hopper: dQ, dK and dV of attention on wgmma and TMA, in one pass over the queries of a tile of keys
// (problems/attention_backward). dK and dV stay in registers; dQ is added up in fp32 in device memory.
// Limits: fp16 or bf16, HEAD_DIM 64 or 128, any lengths, sm_90a only.
#include <cuda.h>

#include "mechanisms/element.cuh"
#include "mechanisms/first_entries.cuh"
#include "mechanisms/head_layout.cuh"
#include "primitives/barrier.cuh"
#include "primitives/exp2.cuh"
#include "primitives/reduce.cuh"
#include "primitives/registers.cuh"
#include "primitives/smem.cuh"
#include "primitives/stmatrix.cuh"
#include "primitives/wgmma.cuh"

constexpr int WARP = 32, WARPGROUP = 128, WGMMA_M = 64, WGMMA_K = 16;
constexpr int STEP_BYTES = WGMMA_K * PANEL_ROW_BYTES;  // 16 rows of a panel: a step of an MN-major operand
constexpr int READY = 1, DS_WRITTEN = 2, DQ_WRITTEN = 3;  // named barriers; DQ_WRITTEN has one per warpgroup
constexpr float LOG2_E = 1.4426950408889634f;
constexpr int NEVER = 1 << 30;  // a query after all others

// How a CTA divides its work: two consumer warpgroups with 64 keys each, and a producer.
template <int HEAD_DIM_, int BLOCK_Q_>
struct Cut {
  static constexpr int HEAD_DIM = HEAD_DIM_, BLOCK_Q = BLOCK_Q_, CONSUMERS = 2, BLOCK_KV = CONSUMERS * WGMMA_M;
  static constexpr int STAGES = 2, PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
  static constexpr int CONSUMER_THREADS = CONSUMERS * WARPGROUP, CONSUMER_WARPS = CONSUMER_THREADS / WARP;
  static constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
  static constexpr int PANELS = HEAD_DIM / PANEL, D_STEPS = HEAD_DIM / WGMMA_K, Q_STEPS = BLOCK_Q / WGMMA_K;
  // dV and dK are computed in steps. A step starts as soon as its queries' P or dS has been computed, and half of dV's
  // steps start before dP is complete. If more steps started early, ptxas would run out of registers.
  static constexpr int EARLY_STEPS = Q_STEPS / 2;
  static constexpr int SCORES = BLOCK_Q / 2, OUTPUTS = HEAD_DIM / 2;  // accumulators per thread
  static constexpr int Q_PANEL_BYTES = BLOCK_Q * PANEL_ROW_BYTES, KV_PANEL_BYTES = BLOCK_KV * PANEL_ROW_BYTES;
  static constexpr int Q_BYTES = PANELS * Q_PANEL_BYTES, KV_BYTES = PANELS * KV_PANEL_BYTES;
  // dS^T is [BLOCK_KV][BLOCK_Q] in panels of 64 queries. A warpgroup computes 64 x 64 of dQ from it: one panel of
  // columns if HEAD_DIM is 128, one panel of queries if it is 64.
  static constexpr int DS_BYTES = BLOCK_Q / PANEL * KV_PANEL_BYTES;
  static constexpr bool SPLITS_COLUMNS = BLOCK_Q == WGMMA_M;
  static_assert(CONSUMERS * 2 * WGMMA_M * HEAD_DIM * 4 <= 2 * KV_BYTES + 2 * STAGES * Q_BYTES);  // see add_to_sums
  static_assert(SPLITS_COLUMNS ? PANELS == CONSUMERS : PANELS == 1 && BLOCK_Q == CONSUMERS * WGMMA_M);
  static constexpr int DQ_OUTPUTS = WGMMA_M / 2;
  static constexpr int V_OFFSET = KV_BYTES, Q_OFFSET = 2 * KV_BYTES, DO_OFFSET = Q_OFFSET + STAGES * Q_BYTES;
  static constexpr int DS_OFFSET = DO_OFFSET + STAGES * Q_BYTES, FIGURES_OFFSET = DS_OFFSET + STAGES * DS_BYTES;
  static constexpr int FIGURE_BYTES = BLOCK_Q * 4;  // LSE or delta of a stage
  static constexpr int DQ_OFFSET = FIGURES_OFFSET + 2 * STAGES * FIGURE_BYTES;
  static constexpr int DQ_BYTES = WGMMA_M * WGMMA_M * 4;  // dQ of a warpgroup
  static constexpr int BARRIERS_OFFSET = DQ_OFFSET + CONSUMERS * DQ_BYTES;
  static constexpr int SMEM_BYTES = BARRIERS_OFFSET + 8 * (2 + 4 * STAGES);
};

// The barriers of a CTA, by address. full: the bytes have arrived. empty: every consumer warp is done.
template <class C>
struct Barriers {
  uint32_t base;
  __device__ __forceinline__ uint32_t K_full() const { return base; }
  __device__ __forceinline__ uint32_t V_full() const { return base + 8; }
  __device__ __forceinline__ uint32_t Q_full(int stage) const { return base + 16 + 8 * stage; }
  __device__ __forceinline__ uint32_t dO_full(int stage) const { return base + 16 + 8 * (C::STAGES + stage); }
  __device__ __forceinline__ uint32_t Q_empty(int stage) const { return base + 16 + 8 * (2 * C::STAGES + stage); }
  __device__ __forceinline__ uint32_t dO_empty(int stage) const { return base + 16 + 8 * (3 * C::STAGES + stage); }

  __device__ __forceinline__ void initialise() const {
    mbarrier_init(K_full(), 1);
    mbarrier_init(V_full(), 1);
    for (int stage = 0; stage < C::STAGES; ++stage) {
      mbarrier_init(Q_full(stage), 2);  // rows, and their LSE
      mbarrier_init(dO_full(stage), 2);  // rows, and their delta
      mbarrier_init(Q_empty(stage), C::CONSUMER_WARPS);
      mbarrier_init(dO_empty(stage), C::CONSUMER_WARPS);
    }
    mbarrier_init_fence();
  }
};

// A launch's arguments. The heads of all batches follow one another; with BSHD, head_layout.cuh describes the layout.
struct Problem {
  const CUtensorMap *Q_map, *K_map, *V_map, *dO_map;  // [heads][rows][HEAD_DIM]
  const float *LSE, *delta;  // [heads][queries of whole tiles]; LSE in log2 units
  float* dQ_sums;  // [heads][tiles of queries][CONSUMERS][DQ_OUTPUTS / 4][WARPGROUP][4]: as a warpgroup holds them
  float* dKV_sums;  // of dV, then of dK: [kv_heads][tiles of keys][CONSUMERS][OUTPUTS / 4][WARPGROUP][4]
  Element *dK, *dV;  // [kv_heads][Skv][HEAD_DIM]
  int shares, S, Skv;  // a share is `group` heads of Q that use the same head of K and V
  int group, sharers;  // `sharers` shares use the same head of K and V; if more than 1, they add up dK, dV in dKV_sums
  int diagonal;  // query i sees keys 0 to i + diagonal; Skv without a mask
  int section_shares, last_shares;  // see Work
  float scale;
  int H, Hkv;  // heads per batch, of Q, and of K and V; only BSHD uses them
};

// A CTA's work item: 128 keys of one head and, for each head of Q in a share, the tiles of queries that see such a key.
// Items are ordered in sections of shares, so that a section's Q, dO and dQ stay in L2. A section begins with the first
// keys, which most queries see under a causal mask. The last section has enough items for short ones to fill the gaps.
template <class C>
struct Work {
  int share, kv_head, first_key, first_tile, q_tiles;

  __device__ __forceinline__ static Work of_grid(const Problem& problem) {
    const int kv_tiles = (problem.Skv + C::BLOCK_KV - 1) / C::BLOCK_KV;
    const int last_section = problem.shares - problem.last_shares, index = blockIdx.x;
    const bool in_last = index >= last_section * kv_tiles;
    const int first = in_last ? last_section : index / (problem.section_shares * kv_tiles) * problem.section_shares;
    const int shares = in_last ? problem.last_shares : min(problem.section_shares, last_section - first);
    const int rest = index - first * kv_tiles, first_key = rest / shares * C::BLOCK_KV, share = first + rest % shares;
    return {share, share / problem.sharers, first_key, max(0, first_key - problem.diagonal) / C::BLOCK_Q,
            (problem.S + C::BLOCK_Q - 1) / C::BLOCK_Q};
  }
  __device__ __forceinline__ int steps(const Problem& problem) const {
    return problem.group * max(0, q_tiles - first_tile);
  }
};

// A position in the loop over the tiles of queries of a work item: the head, the tile and the stage.
template <class C>
struct Place : RingPlace<C::STAGES> {
  const Work<C>& work;
  int head, tile;
  __device__ __forceinline__ Place(const Work<C>& work, const Problem& problem)
      : work(work), head(work.share * problem.group), tile(work.first_tile) {}
  __device__ __forceinline__ void next() {
    this->step(1);
    if (++tile == work.q_tiles) tile = work.first_tile, ++head;
  }
  __device__ __forceinline__ int first_query() const { return tile * C::BLOCK_Q; }
  __device__ __forceinline__ int tile_of_all() const { return head * work.q_tiles + tile; }
};

// Called by one thread. Copies K and V once, and tiles of Q and dO with LSE and delta of their rows.
template <class C>
__device__ __forceinline__ void produce(const Problem& problem, const Work<C>& work, uint32_t smem,
                                        const Barriers<C>& barriers) {
  const int steps = work.steps(problem);
  if (steps == 0) return;
  const int batch = batch_of_head(work.kv_head, problem.Hkv);
  load_head_tile<C::BLOCK_KV, C::PANELS>(smem, problem.K_map, barriers.K_full(), work.first_key, work.kv_head, batch,
                                         problem.Hkv);
  Place<C> place(work, problem);
#pragma unroll 1
  for (int step = 0; step < steps; ++step, place.next()) {
    const int stage = place.stage;
    const auto load = [&](const CUtensorMap* map, const float* figures, uint32_t full, int tile_offset, int kind) {
      load_head_tile<C::BLOCK_Q, C::PANELS>(smem + tile_offset + stage * C::Q_BYTES, map, full, place.first_query(),
                                            place.head, batch, problem.H);
      mbarrier_arrive_expect_bytes(full, C::FIGURE_BYTES);
      bulk_load(smem + C::FIGURES_OFFSET + (kind * C::STAGES + stage) * C::FIGURE_BYTES,
                figures + size_t(place.tile_of_all()) * C::BLOCK_Q, full, C::FIGURE_BYTES);
    };
    mbarrier_wait(barriers.Q_empty(stage), place.parity ^ 1);  // the first lap does not wait
    load(problem.Q_map, problem.LSE, barriers.Q_full(stage), C::Q_OFFSET, 0);
    if (step == 0)
      load_head_tile<C::BLOCK_KV, C::PANELS>(smem + C::V_OFFSET, problem.V_map, barriers.V_full(), work.first_key,
                                             work.kv_head, batch, problem.Hkv);
    mbarrier_wait(barriers.dO_empty(stage), place.parity ^ 1);
    load(problem.dO_map, problem.delta, barriers.dO_full(stage), C::DO_OFFSET, 1);
  }
}

// Starts scores = this warpgroup's 64 keys times the rows of a tile of queries: S^T = K Q^T, dP^T = V dO^T.
template <class C>
__device__ __forceinline__ void start_scores(float (&scores_rmem)[C::SCORES], uint32_t keys_smem, uint32_t tile_smem) {
  const uint64_t keys = wgmma_descriptor(keys_smem), tile = wgmma_descriptor(tile_smem);
  wgmma_forget(scores_rmem);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < C::D_STEPS; ++step) {
    const int panel = step / 4, in_panel = step % 4 * WGMMA_K * 2;
    const uint64_t A = wgmma_descriptor_after(keys, panel * C::KV_PANEL_BYTES + in_panel),
                   B = wgmma_descriptor_after(tile, panel * C::Q_PANEL_BYTES + in_panel);
    if constexpr (C::BLOCK_Q == 64)
      wgmma_m64n64k16_ss(scores_rmem, A, B, step > 0);
    else
      wgmma_m64n128k16_ss(scores_rmem, A, B, step > 0);
  }
  wgmma_commit();
}

// Starts a step of gradient += weights times the rows of a tile of queries: dV += P^T dO, dK += dS^T Q.
template <class C>
__device__ __forceinline__ void start_gradient(float (&gradient_rmem)[C::OUTPUTS], const uint32_t (&weights_rmem)[4],
                                               uint32_t tile_smem, int step) {
  wgmma_fence();
  const uint64_t B = wgmma_descriptor_after(wgmma_descriptor(tile_smem, C::Q_PANEL_BYTES), step * STEP_BYTES);
  if constexpr (C::HEAD_DIM == 64)
    wgmma_m64n64k16_rs_bt(gradient_rmem, weights_rmem, B, true);
  else
    wgmma_m64n128k16_rs_bt(gradient_rmem, weights_rmem, B, true);
}

// Starts this warpgroup's 64 x 64 of dQ = dS K, from the keys of both warpgroups.
template <class C>
__device__ __forceinline__ void start_dQ(float (&dQ_rmem)[C::DQ_OUTPUTS], uint32_t dS_smem, uint32_t K_smem) {
  const uint64_t dS = wgmma_descriptor(dS_smem), K = wgmma_descriptor(K_smem);
  wgmma_forget(dQ_rmem);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < C::BLOCK_KV / WGMMA_K; ++step)
    wgmma_m64n64k16_ss_atbt(dQ_rmem, wgmma_descriptor_after(dS, step * STEP_BYTES),
                            wgmma_descriptor_after(K, step * STEP_BYTES), step > 0);
  wgmma_commit();
}

// Rounds 64 x 16 accumulators to elements, as the A operand of one step of a product.
template <int COUNT>
__device__ __forceinline__ void round_weights(uint32_t (&weights_rmem)[4], const float (&scores_rmem)[COUNT],
                                              int step) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    weights_rmem[i] = pack_elements(scores_rmem[8 * step + 2 * i], scores_rmem[8 * step + 2 * i + 1]);
}

// Stores 64 rows of an output from a warpgroup's accumulators, 16 bytes at a time: four lanes each hold two of every
// eight columns, and exchange them so that each has eight adjacent ones. row: this lane's first; it has row + 8, too.
template <int COLUMNS>
__device__ __forceinline__ void store_rows(const float (&rows_rmem)[COLUMNS / 2], float factor, Element* to,
                                           size_t row_elements, int row, int rows) {
  const int quad_lane = threadIdx.x & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int block = 0; block < COLUMNS / 32; ++block) {
      uint32_t pair[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int i = 16 * block + 4 * n + 2 * h;
        pair[n] = pack_elements(rows_rmem[i] * factor, rows_rmem[i + 1] * factor);
      }
    // A 4 x 4 transposition in two rounds: first with the lane next to this one, then with the lane two away.
#pragma unroll
      for (int distance = 1; distance <= 2; distance *= 2)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (n & distance) continue;
          const bool upper = quad_lane & distance;
          const uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? pair[n] : pair[n + distance], distance);
          pair[n] = upper ? received : pair[n];
          pair[n + distance] = upper ? pair[n + distance] : received;
        }
      if (row + 8 * h < rows)
        *reinterpret_cast<uint4*>(to + size_t(row + 8 * h) * row_elements + 32 * block + 8 * quad_lane) =
            make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}

// Adds a warpgroup's 64 rows of dV and dK to the sums of all sharers. By then the CTA's whole shared memory is free.
template <class C>
__device__ __forceinline__ void add_to_sums(const float (&dV_rmem)[C::OUTPUTS], const float (&dK_rmem)[C::OUTPUTS],
                                            const Problem& problem, const Work<C>& work, unsigned char* smem,
                                            int consumer, int thread) {
  constexpr int FLOATS = WGMMA_M * C::HEAD_DIM, BYTES = FLOATS * 4;
  const int kv_tiles = (problem.Skv + C::BLOCK_KV - 1) / C::BLOCK_KV;
  const auto add = [&](const float (&rows_rmem)[C::OUTPUTS], int gradient) {
    unsigned char* const own = smem + (gradient * C::CONSUMERS + consumer) * BYTES;
#pragma unroll
    for (int i = 0; i < C::OUTPUTS; i += 4)
      *reinterpret_cast<float4*>(own + 16 * thread + 4 * i * WARPGROUP) =
          make_float4(rows_rmem[i], rows_rmem[i + 1], rows_rmem[i + 2], rows_rmem[i + 3]);
    async_proxy_fence();
    named_barrier_sync(DQ_WRITTEN + consumer, WARPGROUP);
    const int tile = gradient * (gridDim.x / problem.sharers) + work.kv_head * kv_tiles + work.first_key / C::BLOCK_KV;
    if (thread == 0) {
      bulk_reduce_add(problem.dKV_sums + (size_t(tile) * C::CONSUMERS + consumer) * FLOATS, smem_address(own), BYTES);
      bulk_commit();
    }
  };
  if (work.first_tile >= work.q_tiles) return;
  named_barrier_sync(DS_WRITTEN, C::CONSUMER_THREADS);  // the other warpgroup no longer needs its last operands
  add(dV_rmem, 0);
  add(dK_rmem, 1);
  if (thread == 0) bulk_wait_read();
}

// Computes dK, dV of a warpgroup's 64 keys. P_ij = exp(scale Q_i . K_j - LSE_i), dS_ij = P_ij (dO_i . V_j - delta_i);
// dQ_i = scale * sum of dS_ij K_j, dK_j = scale * sum of dS_ij Q_i, dV_j = sum of P_ij dO_i.
// Scores are transposed (keys by queries), so that P and dS are A operands in registers. While the warpgroup turns S
// into P, the tensor cores compute dP and begin dV; while it turns dP into dS, they continue dV and begin dK; while it
// stores dQ, they compute the next tile's S. Their operands keep shared memory busy, so a warp's own accesses are slow:
// it loads LSE and delta a step ahead, and the fence after dQ's stores comes late, when the stores are done.
template <class C>
__device__ __forceinline__ void consume(const Problem& problem, const Work<C>& work, unsigned char* smem,
                                        const Barriers<C>& barriers) {
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1;
  const int thread = threadIdx.x % WARPGROUP, warp = thread / WARP, lane = threadIdx.x % WARP;
  const int own_rows = consumer * WGMMA_M;  // in the CTA's tile of keys
  const int key = work.first_key + own_rows + warp * 16 + (lane >> 2);  // this lane's first key; it also has key + 8
  const int last_key = work.first_key + own_rows + WGMMA_M - 1;
  const uint32_t K_smem = smem_address(smem), own_K_smem = K_smem + own_rows * PANEL_ROW_BYTES,
                 own_V_smem = own_K_smem + C::V_OFFSET, Q_smem = K_smem + C::Q_OFFSET, dO_smem = K_smem + C::DO_OFFSET;
  const uint32_t dS_smem = K_smem + C::DS_OFFSET,
                 dQ_K_smem = K_smem + (C::SPLITS_COLUMNS ? consumer * C::KV_PANEL_BYTES : 0),
                 dQ_dS_smem = dS_smem + (C::SPLITS_COLUMNS ? 0 : consumer * C::KV_PANEL_BYTES);
  const float scale_log2 = problem.scale * LOG2_E;
  Place<C> place(work, problem);

  float dK_rmem[C::OUTPUTS] = {}, dV_rmem[C::OUTPUTS] = {}, S_rmem[C::SCORES], dP_rmem[C::SCORES];
  float dQ_rmem[C::DQ_OUTPUTS];
  float2 LSE_rmem[C::Q_STEPS][2], delta_rmem[C::Q_STEPS][2];
  uint32_t P_rmem[C::Q_STEPS][4], dS_rmem[C::Q_STEPS][4];
  bool dO_there;  // whether the next dO_full was complete when last checked

  const auto start_S = [&] {
    mbarrier_wait(barriers.Q_full(place.stage), place.parity);
    start_scores<C>(S_rmem, own_K_smem, Q_smem + place.stage * C::Q_BYTES);
  };
  // Loads LSE or delta of a step's queries c, c + 1, c + 8 and c + 9, where c = 2 (lane & 3).
  const auto load_figures = [&](float2(&figures_rmem)[2], int kind, int step) {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      figures_rmem[n] = *reinterpret_cast<const float2*>(smem + C::FIGURES_OFFSET +
                                                         (kind * C::STAGES + place.stage) * C::FIGURE_BYTES +
                                                         4 * (16 * step + 8 * n + 2 * (lane & 3)));
  };
  const auto look_ahead = [&] {
    load_figures(LSE_rmem[0], 0, 0);
    dO_there = mbarrier_complete(barriers.dO_full(place.stage), place.parity);
  };
  const auto start_dP = [&] {
    if (!dO_there) mbarrier_wait(barriers.dO_full(place.stage), place.parity);
    start_scores<C>(dP_rmem, own_V_smem, dO_smem + place.stage * C::Q_BYTES);
  };
  // Keys past the end, and keys that a query may not see, get no weight.
  const auto mask = [&] {
    if (last_key < problem.Skv && last_key <= place.first_query() + problem.diagonal) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int own_key = key + 8 * h, first_seeing = own_key < problem.Skv ? own_key - problem.diagonal : NEVER;
      const int hidden = first_seeing - place.first_query() - 2 * (lane & 3);
#pragma unroll
      for (int n = 0; n < C::BLOCK_Q / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (8 * n + i < hidden) S_rmem[4 * n + 2 * h + i] = -INFINITY;
    }
  };
  const auto store_dS = [&](int step) {
    const int row = own_rows + warp * 16 + (lane & 15);
    stmatrix_x4(dS_smem + place.stage * C::DS_BYTES + step / 4 * C::KV_PANEL_BYTES +
                    swizzled_offset<PANEL_ROW_BYTES>(row, step % 4 * 2 + (lane >> 4)),
                dS_rmem[step][0], dS_rmem[step][1], dS_rmem[step][2], dS_rmem[step][3]);
  };
  const auto add_to_dV = [&](int step) {
    round_weights(P_rmem[step], S_rmem, step);
    start_gradient<C>(dV_rmem, P_rmem[step], dO_smem + place.stage * C::Q_BYTES, step);
  };
  // Computes P of a tile whose S and dP have been started, and starts the first steps of dV. Calls `add_dQ` on the way.
  // When it returns, dP is complete.
  const auto weigh = [&](const auto& add_dQ) {
    wgmma_wait<1>();
    wgmma_hold(S_rmem);
    mask();
#pragma unroll
    for (int step = 0; step < C::Q_STEPS; ++step) {
      if (step + 1 < C::Q_STEPS) load_figures(LSE_rmem[step + 1], 0, step + 1);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float2 LSE = LSE_rmem[step][i / 4];
        float& score = S_rmem[8 * step + i];
        score = exp2_approx(fmaf(score, scale_log2, -(i & 1 ? LSE.y : LSE.x)));
      }
      if (step < C::EARLY_STEPS) add_to_dV(step);
      if (step == 0) add_dQ();
    }
    wgmma_commit();
    load_figures(delta_rmem[0], 1, 0);
    wgmma_wait<1>();
    wgmma_hold(dP_rmem);
  };
  // Computes dS of the tile, and starts dK, dQ and the other steps of dV.
  const auto go_back = [&] {
#pragma unroll
    for (int step = 0; step < C::Q_STEPS; ++step) {
      if (step >= C::EARLY_STEPS) add_to_dV(step);
      if (step + 1 < C::Q_STEPS) load_figures(delta_rmem[step + 1], 1, step + 1);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float2 delta = delta_rmem[step][i / 4];
        float& score = dP_rmem[8 * step + i];
        score = S_rmem[8 * step + i] * (score - (i & 1 ? delta.y : delta.x));
      }
      round_weights(dS_rmem[step], dP_rmem, step);
      store_dS(step);
      start_gradient<C>(dK_rmem, dS_rmem[step], Q_smem + place.stage * C::Q_BYTES, step);
    }
    wgmma_commit();
    async_proxy_fence();
    if (thread == 0) bulk_wait_read();
    // Both warpgroups have written dS, and have read the buffer that the next step writes to.
    named_barrier_sync(DS_WRITTEN, C::CONSUMER_THREADS);
    wgmma_wait<1>();  // the early steps of dV no longer need P's registers
    start_dQ<C>(dQ_rmem, dQ_dS_smem + place.stage * C::DS_BYTES, dQ_K_smem);
  };
  unsigned char* const own_dQ = smem + C::DQ_OFFSET + consumer * C::DQ_BYTES;
  // Called when all products of a tile are complete.
  const auto store_dQ = [&](int stage) {
    wgmma_hold(dQ_rmem);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(barriers.Q_empty(stage)), mbarrier_arrive(barriers.dO_empty(stage));
#pragma unroll
    for (int i = 0; i < C::DQ_OUTPUTS; i += 4)
      *reinterpret_cast<float4*>(own_dQ + 16 * thread + 4 * i * WARPGROUP) =
          make_float4(dQ_rmem[i], dQ_rmem[i + 1], dQ_rmem[i + 2], dQ_rmem[i + 3]);
  };
  // Adds the stored 64 x 64 of dQ to the sums in device memory.
  const auto add_dQ = [&](int tile_of_all) {
    async_proxy_fence();
    named_barrier_sync(DQ_WRITTEN + consumer, WARPGROUP);
    if (thread == 0) {
      bulk_reduce_add(problem.dQ_sums + (size_t(tile_of_all) * C::CONSUMERS + consumer) * WGMMA_M * WGMMA_M,
                      smem_address(own_dQ), C::DQ_BYTES);
      bulk_commit();
    }
  };

  // An iteration begins when S and dP of a tile are complete and ends when those of the next tile are. Then only dV,
  // which nothing in the loop reads, is in flight. Otherwise ptxas would serialise all products.
  if (const int steps = work.steps(problem); steps > 0) {
    mbarrier_wait(barriers.K_full(), 0);
    start_S();
    mbarrier_wait(barriers.V_full(), 0);
    look_ahead();
    start_dP();
    weigh([] {});
#pragma unroll 1
    for (int step = 1; step < steps; ++step) {
      go_back();
      const int stage = place.stage, tile_of_all = place.tile_of_all();
      place.next();
      start_S();
      look_ahead();
      wgmma_wait<1>();
      store_dQ(stage);
      start_dP();
      weigh([&] { add_dQ(tile_of_all); });
    }
    go_back();
    wgmma_wait<0>();
    store_dQ(place.stage);
    add_dQ(place.tile_of_all());
    wgmma_hold(dV_rmem);
    wgmma_hold(dK_rmem);
    if (thread == 0) bulk_wait_read();  // the bulk adds must have read shared memory before the CTA ends
  }
  if (problem.sharers > 1) return add_to_sums<C>(dV_rmem, dK_rmem, problem, work, smem, consumer, thread);
  const HeadRows rows = rows_of_head(work.kv_head, problem.Skv, C::HEAD_DIM, problem.Hkv);
  store_rows<C::HEAD_DIM>(dV_rmem, 1.0f, problem.dV + rows.first, rows.stride, key, problem.Skv);
  store_rows<C::HEAD_DIM>(dK_rmem, problem.scale, problem.dK + rows.first, rows.stride, key, problem.Skv);
}

template <class C>
__device__ __forceinline__ void gradients(const Problem& problem) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const Barriers<C> barriers{smem_address(smem) + C::BARRIERS_OFFSET};
  const Work<C> work = Work<C>::of_grid(problem);
  if (threadIdx.x < WARPGROUP) {
    registers_decrease<C::PRODUCER_REGISTERS>();
    if (threadIdx.x < WARP) {
      if (threadIdx.x == 0) barriers.initialise();
      __syncwarp();
      named_barrier_arrive(READY, C::CONSUMER_THREADS + WARP);  // the producer itself need not wait for the others
      if (threadIdx.x == 0) produce<C>(problem, work, smem_address(smem), barriers);
    }
  } else {
    registers_increase<C::CONSUMER_REGISTERS>();
    named_barrier_sync(READY, C::CONSUMER_THREADS + WARP);
    consume<C>(problem, work, smem, barriers);
  }
}

// First launch: delta = dO . O per row, the gradient that reaches all logits of the row through its normaliser; LSE in
// log2 units; zeros for all sums. HEAD_DIM / 8 lanes per row. Rows that only pad a head's last tile get no weight.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS)
    backward_hopper_delta(const Element* __restrict__ O,  // [heads, S, HEAD_DIM]
                          const Element* __restrict__ dO,  // [heads, S, HEAD_DIM]
                          const float* __restrict__ LSE,  // [heads, S]
                          float* __restrict__ LSE_log2, float* __restrict__ delta,  // [heads, padded_S]
                          float* __restrict__ dQ_sums,  // heads * padded_S * HEAD_DIM, see Problem
                          float4* __restrict__ dKV_sums, int dKV_fours,  // float4s; 0 unless shares add up dK, dV
                          int heads, int S, int padded_S, int D, int H) {
  for (int i = blockIdx.x * ROWS_THREADS + threadIdx.x; i < dKV_fours; i += gridDim.x * ROWS_THREADS)
    dKV_sums[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  const int chunks = D / 8, chunk = threadIdx.x % chunks;
  const int row = blockIdx.x * (ROWS_THREADS / chunks) + threadIdx.x / chunks, head = row / padded_S;
  const int query = row - head * padded_S;
  const bool wanted = head < heads, real = wanted && query < S;
  float sum = 0.0f;
  if (real) {
    const HeadRows rows = rows_of_head(head, S, D, H);
    const size_t at = rows.first + query * rows.stride + chunk * 8;
    const uint4 O_pairs = *reinterpret_cast<const uint4*>(O + at), dO_pairs = *reinterpret_cast<const uint4*>(dO + at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = to_float2(reinterpret_cast<const Element2*>(&O_pairs)[i]),
                   b = to_float2(reinterpret_cast<const Element2*>(&dO_pairs)[i]);
      sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
    }
  }
  for (int offset = chunks / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (!wanted) return;
  float4* const sums = reinterpret_cast<float4*>(dQ_sums + size_t(row) * D + chunk * 8);
  sums[0] = sums[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (chunk > 0) return;
  delta[row] = sum;
  LSE_log2[row] = real ? LSE[size_t(head) * S + query] * LOG2_E : INFINITY;
}

// Loads a warpgroup's sums, 64 rows of COUNT * 2 columns, in the order in which its lanes hold them.
template <int COUNT>
__device__ __forceinline__ void load_sums(float (&sums_rmem)[COUNT], const float* sums) {
#pragma unroll
  for (int i = 0; i < COUNT; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(sums + i * WARPGROUP + 4 * (threadIdx.x % WARPGROUP));
    sums_rmem[i] = four.x, sums_rmem[i + 1] = four.y, sums_rmem[i + 2] = four.z, sums_rmem[i + 3] = four.w;
  }
}

// This lane's first row of the 64 rows whose sums its warpgroup has loaded.
__device__ __forceinline__ int first_row() { return threadIdx.x % WARPGROUP / WARP * 16 + threadIdx.x % WARP / 4; }

// Third launch: dQ = scale times its sums. A CTA takes a tile of queries, each warpgroup a 64 x 64 block of its sums.
template <class C>
__device__ __forceinline__ void round_dQ(const float* dQ_sums, Element* dQ, int S, int q_tiles, float scale, int H) {
  const int head = blockIdx.x / q_tiles, tile = blockIdx.x % q_tiles, part = threadIdx.x / WARPGROUP;
  float dQ_rmem[C::DQ_OUTPUTS];
  load_sums(dQ_rmem, dQ_sums + (size_t(blockIdx.x) * C::CONSUMERS + part) * WGMMA_M * WGMMA_M);
  const int row = tile * C::BLOCK_Q + (C::SPLITS_COLUMNS ? 0 : part * WGMMA_M) + first_row();
  const HeadRows rows = rows_of_head(head, S, C::HEAD_DIM, H);
  store_rows<WGMMA_M>(dQ_rmem, scale, dQ + rows.first + (C::SPLITS_COLUMNS ? part * WGMMA_M : 0), rows.stride, row, S);
}

// Fourth launch, if shares added up dK, dV: the first row of CTAs rounds dV, the second dK. A CTA has a tile of keys.
template <class C>
__device__ __forceinline__ void round_dKV(const float* dKV_sums, Element* dK, Element* dV, int Skv, int kv_tiles,
                                          float scale, int Hkv) {
  const int head = blockIdx.x / kv_tiles, tile = blockIdx.x % kv_tiles, part = threadIdx.x / WARPGROUP;
  const size_t tile_of_all = size_t(blockIdx.y) * gridDim.x + blockIdx.x;
  float rows_rmem[C::OUTPUTS];
  load_sums(rows_rmem, dKV_sums + (tile_of_all * C::CONSUMERS + part) * WGMMA_M * C::HEAD_DIM);
  const HeadRows rows = rows_of_head(head, Skv, C::HEAD_DIM, Hkv);
  store_rows<C::HEAD_DIM>(rows_rmem, blockIdx.y == 0 ? 1.0f : scale, (blockIdx.y == 0 ? dV : dK) + rows.first,
                          rows.stride, tile * C::BLOCK_KV + part * WGMMA_M + first_row(), Skv);
}

// Defines the entries of a head dimension; asserts that they have the threads and bytes of the launches in kernel.yaml.
#define BACKWARD_HOPPER_ENTRIES(D, CUT, LAUNCHED_BYTES)                                                             \
  static_assert(CUT::THREADS == GRADIENT_THREADS && CUT::BLOCK_KV == BLOCK_KEYS);                                   \
  static_assert(CUT::SMEM_BYTES == (LAUNCHED_BYTES) && CUT::CONSUMER_THREADS == ROWS_THREADS);                      \
  extern "C" __global__ void __launch_bounds__(GRADIENT_THREADS, 1) backward_hopper_d##D(                           \
      const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map,                         \
      const __grid_constant__ CUtensorMap V_map, const __grid_constant__ CUtensorMap dO_map, const float* LSE_log2, \
      const float* delta, float* dQ_sums, float* dKV_sums, Element* dK, Element* dV, int shares, int S, int Skv,    \
      int group, int sharers, int diagonal, int section_shares, int last_shares, float scale, int H, int Hkv) {     \
    if constexpr (FLASHCORE_WANTED(backward_hopper_d##D))                                                           \
      gradients<CUT>(                                                                                               \
          {&Q_map, &K_map, &V_map, &dO_map, LSE_log2, delta,          dQ_sums,     dKV_sums, dK, dV, shares,        \
           S,      Skv,    group,  sharers, diagonal, section_shares, last_shares, scale,    H,  Hkv});             \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(ROWS_THREADS)                                                        \
      backward_hopper_d##D##_dq(const float* dQ_sums, Element* dQ, int S, int q_tiles, float scale, int H) {        \
    if constexpr (FLASHCORE_WANTED(backward_hopper_d##D##_dq)) round_dQ<CUT>(dQ_sums, dQ, S, q_tiles, scale, H);    \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(ROWS_THREADS) backward_hopper_d##D##_dkv(                            \
      const float* dKV_sums, Element* dK, Element* dV, int Skv, int kv_tiles, float scale, int Hkv) {               \
    if constexpr (FLASHCORE_WANTED(backward_hopper_d##D##_dkv))                                                     \
      round_dKV<CUT>(dKV_sums, dK, dV, Skv, kv_tiles, scale, Hkv);                                                  \
  }

using D64 = Cut<64, D64_QUERIES>;
using D128 = Cut<128, D128_QUERIES>;
BACKWARD_HOPPER_ENTRIES(64, D64, D64_BYTES)
BACKWARD_HOPPER_ENTRIES(128, D128, D128_BYTES)
