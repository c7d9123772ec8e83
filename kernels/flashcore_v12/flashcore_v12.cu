// flashcore_v12: one kernel for every shape. The tensor cores sum rows, by a column of ones next to V. In large grids
// two or three warpgroups take turns; small grids divide keys among warpgroups and the CTAs of a cluster; the shortest
// sequences use mma.sync, without tensor maps. Heads of Q may share keys; windows, sinks and capped logits have entries
// of their own at HEAD_DIM 64 and 128. Limits: fp16 or bf16, HEAD_DIM 64, 96, 128, 256, or 192 with values of 128,
// lengths >= 1, sm_90a only.
//
// Compared with flashcore_v11: no addition per weight, and row sums add P as rounded to an
// element, so that numerator and denominator have the same rounding errors; Q stays in shared
// memory as an operand, which leaves registers for a third warpgroup; persistent CTAs also at
// HEAD_DIM 64, whose producer announces works; clusters where a grid would leave SMs idle.
#include "direct_rows.cuh"
#include "tiling.cuh"
#include "warpgroup_rows.cuh"
#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"
#include "primitives/registers.cuh"

constexpr int READY = 1, TURN = 2, Q_READ = 6;  // named barriers; the last two have one barrier per warpgroup
constexpr float LOG2_E = 1.4426950408889634f;

// The producer, one thread for all work of this CTA: it announces work items and fills the ring.
template <class T>
struct Producer {
  const Problem& problem;
  const uint32_t smem;
  Work<T>* const announced;
  const typename T::Barriers barriers;
  RingPlace<T::STAGES> place = {};
  int Q_parity = 0, slot = 0;

  // If groups divide the keys, the K tiles of all groups come before any V tile.
  __device__ __forceinline__ void bring(const Work<T>& work) {
    mbarrier_wait(barriers.Q_empty(), Q_parity ^ 1);  // the first wait returns at once, because Q is still empty
    Q_parity ^= 1;
    if constexpr (T::PERSISTENT) {
      announced[slot] = work;
      slot = next_slot(slot);
      if (work.is_end()) return mbarrier_arrive(barriers.Q_full());
    }
    const int batch = batch_of_head(work.head, problem.H);
    load_head_tile<T::BLOCK_Q, T::PANELS>(smem, problem.Q_map, barriers.Q_full(), work.first_row, work.head, batch,
                                          problem.H);
    const uint32_t K_ring = smem + T::Q_BYTES, V_ring = smem + T::V_OFFSET;
    const int kv_head = problem.form.kv_head(work.head);
    const int first_part = T::CLUSTER > 1 ? cluster_rank() * T::WGS_KV : 0;
#pragma unroll 1
    for (int first = T::FORMED ? work.first_tile(problem) : first_part; first < work.kv_tiles; first += T::KV_PARTS) {
      const int tiles = min(T::WGS_KV, work.kv_tiles - first);
      RingPlace<T::STAGES> V_place = place;
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.K_empty(place.stage), place.parity ^ 1);
        load_head_tile<T::BLOCK_KV, T::PANELS>(K_ring + place.stage * T::K_BYTES, problem.K_map,
                                               barriers.K_full(place.stage), (first + i) * T::BLOCK_KV, kv_head, batch,
                                               problem.Hkv);
        place.step(1);
      }
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.V_empty(V_place.stage), V_place.parity ^ 1);
        load_head_tile<T::BLOCK_KV, T::V_PANELS>(V_ring + V_place.stage * T::V_BYTES, problem.V_map,
                                                 barriers.V_full(V_place.stage), (first + i) * T::BLOCK_KV, kv_head,
                                                 batch, problem.Hkv);
        V_place.step(1);
      }
    }
  }

  __device__ __forceinline__ void run() {
    if constexpr (!T::PERSISTENT) return bring(Work<T>::of_grid(problem));
    const Rounds<T> rounds{problem};
    for (int round = 0;; ++round) {
      const Work<T> work = rounds.work(round);
      bring(work);
      if (work.is_end()) break;
    }
  }
};

// Whether some row of a warpgroup does not see all of a tile. The two cases have
// loops of their own, because code for masks costs time where no mask is needed.
struct Masked {
  static constexpr bool MASKED = true;
};
struct Unmasked {
  static constexpr bool MASKED = false;
};

// A consumer warpgroup of a persistent CTA, for all of its work items. The softmax of a tile overlaps with the other
// warpgroups' products, and with this one's product with V of the previous tile. An item's first scores overlap with
// the last product of the previous item.
template <class T>
__device__ __forceinline__ void consume_works(const Problem& problem, uint32_t smem_base, unsigned char* smem,
                                              typename T::Barriers barriers) {
  static_assert(sizeof(Work<T>) == WORK_BYTES);
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1;
  const int lane = threadIdx.x % WARP,
            row_in_tile = consumer * WGMMA_M + threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
  const bool signals =
      threadIdx.x % WARPGROUP == 0;  // one arrival per warpgroup: wgmma_wait has waited for all four warps' products
  const uint32_t Q_smem = smem_base + consumer * WGMMA_M * PANEL_ROW_BYTES, K_smem = smem_base + T::Q_BYTES,
                 V_smem = smem_base + T::V_OFFSET, ones_smem = smem_base + T::ONES_OFFSET;
  const Work<T>* const announced = reinterpret_cast<const Work<T>*>(smem + T::WORK_OFFSET);
  const float scale_log2 = (T::CAPPED ? problem.forms.softcap : problem.scale) * LOG2_E;
  const Cap cap(problem.scale / problem.forms.softcap);
  const AttentionForm& form = problem.form;

  float O_rmem[T::OUTPUTS + T::SUMS], S_rmem[T::SCORES], row_max[2], row_sum[2], alpha[2];
  uint32_t P_rmem[T::BLOCK_KV / WGMMA_K][4], Q_rmem[T::D_STEPS][4];
  RingPlace<T::STAGES> K_place, V_place;
  int Q_parity = 0, slot = 0;
  Work<T> work = {};

  // Warpgroups issue their products in turn, so that one computes its softmax during the others' products.
  const auto my_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_sync(TURN + consumer, 2 * WARPGROUP);
  };
  const auto next_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_arrive(TURN + (consumer + 1) % T::CONSUMERS, 2 * WARPGROUP);
  };
  const auto multiply_scores = [&] {
    mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
    my_turn();
    start_scores<T>(S_rmem, Q_rmem, Q_smem, K_smem + K_place.stage * T::K_BYTES);
  };
  const auto multiply_values = [&] {
    mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
    start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::V_BYTES, ones_smem);
    next_turn();
  };
  const auto release_K = [&](bool now) {
    if (signals && now) mbarrier_arrive(barriers.K_empty(K_place.stage));
    K_place.step(1);
  };
  const auto values_there = [&] {
    wgmma_hold(O_rmem);
    if (signals) mbarrier_arrive(barriers.V_empty(V_place.stage));
    V_place.step(1);
  };
  // Products that read Q from shared memory need Q until the work item's last tile.
  const auto tile_has_read_Q = [&](int tile) {
    if constexpr (!T::Q_IN_REGISTERS)
      if (signals && tile + 1 == work.kv_tiles) mbarrier_arrive(barriers.Q_empty());
  };
  const auto mask = [&](int tile) {
    mask_scores<T>(S_rmem, work.first_row + row_in_tile, tile * T::BLOCK_KV, problem, lane);
  };
  const auto raise_maxima = [&] {
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 0);
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 1);
  };

  // The scores of a tile, during O += P V of the previous tile. How much of the softmax comes before the wait for that
  // product decides how fast the loop is: with too little the warpgroup waits there, with too much it comes late to its
  // turn (NOTES.md). ptxas moves a wait as far ahead as it can, so its place is pinned: K's stage is released before
  // it, and only when the sum of the first EARLY weights is known not to be negative, which no sum of exponentials is.
  // (The condition also holds for NaN, so that nobody waits for ever.)
  const auto step = [&](int tile, auto masked) {
    multiply_scores();
    multiply_values();
    wgmma_wait<1>();
    wgmma_hold(S_rmem);
    tile_has_read_Q(tile);
    if constexpr (T::CAPPED) cap(S_rmem);
    if constexpr (decltype(masked)::MASKED) mask(tile);
    if constexpr (T::RAISES_BY_VOTE)
      raise_row_maxima_by_vote<T>(S_rmem, row_max, row_sum, alpha, scale_log2);
    else
      raise_maxima();
    weigh<T, 0, T::EARLY>(S_rmem, row_max, row_sum, scale_log2);
    const float last_early = T::SUMS_BY_ONES ? S_rmem[2 * T::EARLY - 3] : row_sum[0];
    release_K(!(last_early < 0.0f));
    wgmma_wait<0>();
    values_there();
    weigh<T, T::EARLY, T::SCORES>(S_rmem, row_max, row_sum, scale_log2);
    round_weights<T>(P_rmem, S_rmem);
    rescale<T>(O_rmem, alpha);
  };
  // Returns whether there is another work item. If so, its Q has arrived.
  const auto take_Q = [&] {
    mbarrier_wait(barriers.Q_full(), Q_parity);
    Q_parity ^= 1;
    if (announced[slot].is_end()) return false;
    if constexpr (T::Q_IN_REGISTERS) {
      load_Q_fragments<T>(Q_rmem, Q_smem);
      named_barrier_sync(Q_READ + consumer, WARPGROUP);  // the four warps read their rows one by one
      if (signals) mbarrier_arrive(barriers.Q_empty());  // the next work item's Q may be copied
    }
    return true;
  };
  int first_tile = 0, first_whole = 0,
      whole_tiles = 0;  // tiles that all rows see entirely: [first_whole, whole_tiles)
  // Called when the first scores of a work item have been computed. Computes the weights and clears O.
  const auto begin = [&] {
    work = announced[slot];
    slot = next_slot(slot);
    whole_tiles = form.keys_before(work.first_row + consumer * WGMMA_M + 1) / T::BLOCK_KV;
    if constexpr (T::FORMED) {
      const int last_row = work.first_row + (consumer + 1) * WGMMA_M - 1;
      first_tile = work.first_tile(problem);
      first_whole = max(0, problem.forms.keys_hidden(last_row, form) + T::BLOCK_KV - 1) / T::BLOCK_KV;
    }
    tile_has_read_Q(first_tile);
    if constexpr (T::CAPPED) cap(S_rmem);
    if (T::FORMED ? first_tile < first_whole || first_tile >= whole_tiles : whole_tiles == 0) mask(first_tile);
    row_max[0] = row_max[1] = NO_ROW_MAX;
    row_sum[0] = row_sum[1] = 0.0f;
    raise_maxima();
    weigh<T, 0, T::SCORES>(S_rmem, row_max, row_sum, scale_log2);
    round_weights<T>(P_rmem, S_rmem);
#pragma unroll
    for (int i = 0; i < T::OUTPUTS + T::SUMS; ++i) O_rmem[i] = 0.0f;
  };
  const auto store = [&] {
    add_lanes<T>(O_rmem, row_sum);
    if constexpr (T::FORMED)
      for (int h = 0; h < 2; ++h) row_sum[h] += problem.forms.sink_weight(work.head, LOG2_E, row_max[h]);
    store_rows<T>(O_rmem, row_sum, problem, work.head, work.first_row + row_in_tile, lane);
    if constexpr (WRITE_LSE) store_lse<T>(row_max, row_sum, problem, work.head, work.first_row + row_in_tile, lane);
  };

  if constexpr (T::PING_PONG)
    if (consumer == T::CONSUMERS - 1) next_turn();  // the first turn belongs to the first warpgroup
  take_Q();
  multiply_scores();
  next_turn();
  wgmma_wait<0>();
  wgmma_hold(S_rmem);
  release_K(true);
  begin();
  while (true) {
    int tile = first_tile + 1;
    if constexpr (T::FORMED) {
#pragma unroll 1
      for (const int end = min(first_whole, work.kv_tiles); tile < end; ++tile) step(tile, Masked{});
    }
#pragma unroll 1
    for (const int end = min(whole_tiles, work.kv_tiles); tile < end; ++tile) step(tile, Unmasked{});
#pragma unroll 1
    for (; tile < work.kv_tiles; ++tile) step(tile, Masked{});
    if (!take_Q()) break;
    multiply_scores();  // of the next work item
    multiply_values();
    wgmma_wait<1>();
    wgmma_hold(S_rmem);
    release_K(true);
    wgmma_wait<0>();
    values_there();
    store();
    begin();
  }
  my_turn();
  multiply_values();
  wgmma_wait<0>();
  values_there();
  store();
  if constexpr (T::PING_PONG)
    if (consumer == 0) my_turn();  // takes the last turn, so that no barrier is left with arrivals
}

// A consumer warpgroup of a CTA with one work item. Warpgroups and the CTAs of a cluster may divide the item's keys.
template <class T>
__device__ __forceinline__ void consume_work(const Problem& problem, uint32_t smem_base, unsigned char* smem,
                                             typename T::Barriers barriers) {
  // A stage always serves the same group, because a group that waited for a
  // stage two laps ahead would mistake the previous lap's parity for its own.
  static_assert(T::STAGES % T::WGS_KV == 0);
  static_assert(!T::PING_PONG && !T::SUMS_BY_ONES);
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1, q_part = consumer % T::WGS_Q,
            group = consumer / T::WGS_Q;
  const int lane = threadIdx.x % WARP,
            row_in_tile = q_part * WGMMA_M + threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
  const bool signals = threadIdx.x % WARPGROUP == 0;
  const uint32_t Q_smem = smem_base + q_part * WGMMA_M * PANEL_ROW_BYTES, K_smem = smem_base + T::Q_BYTES,
                 V_smem = smem_base + T::V_OFFSET;
  const int rank = T::CLUSTER > 1 ? cluster_rank() : 0;
  const float scale_log2 = problem.scale * LOG2_E;
  const AttentionForm& form = problem.form;
  const Work<T> work = Work<T>::of_grid(problem);

  float O_rmem[T::OUTPUTS] = {}, S_rmem[T::SCORES], row_max[2] = {NO_ROW_MAX, NO_ROW_MAX}, row_sum[2] = {}, alpha[2];
  uint32_t P_rmem[T::BLOCK_KV / WGMMA_K][4], Q_rmem[T::D_STEPS][4];
  RingPlace<T::STAGES> K_place, V_place;
  if constexpr (T::WGS_KV > 1) K_place.step(group), V_place.step(group);
  int tile = rank * T::WGS_KV + group;

  const auto multiply_scores = [&] {
    mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
    start_scores<T>(S_rmem, Q_rmem, Q_smem, K_smem + K_place.stage * T::K_BYTES);
  };
  const auto multiply_values = [&] {
    mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
    start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::V_BYTES, 0);
  };
  const auto scores_there = [&] {
    wgmma_hold(S_rmem);
    if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage));
    K_place.step(T::WGS_KV);
  };
  const auto values_there = [&] {
    wgmma_hold(O_rmem);
    if (signals) mbarrier_arrive(barriers.V_empty(V_place.stage));
    V_place.step(T::WGS_KV);
  };
  // The softmax in two parts, around the wait for the product that runs at the same time. Only one row's maximum comes
  // before it: ptxas schedules the rest as a block, with the exponentials of one row beside the other's maximum and the
  // rounding (special-function units beside ALUs). All of it before the wait is 4 % slower on average, up to 11 %.
  const auto begin_softmax = [&] {
    const int first_key = tile * T::BLOCK_KV, row = work.first_row + row_in_tile;
    if (first_key + T::BLOCK_KV > form.keys_before(row - (lane >> 2) + 1))
      mask_scores<T>(S_rmem, row, first_key, problem, lane);
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 0);
  };
  const auto finish_softmax = [&] {
    weigh<T, 0, T::SCORES / 2>(S_rmem, row_max, row_sum, scale_log2);
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 1);
    weigh<T, T::SCORES / 2, T::SCORES>(S_rmem, row_max, row_sum, scale_log2);
    round_weights<T>(P_rmem, S_rmem);
  };

  // A warpgroup whose rows are all above a tile leaves the tile to the others.
  const int own_end = (form.keys_before(work.first_row + (q_part + 1) * WGMMA_M) + T::BLOCK_KV - 1) / T::BLOCK_KV;
  if (tile < own_end) {
    mbarrier_wait(barriers.Q_full(), 0);
    if constexpr (T::Q_IN_REGISTERS) load_Q_fragments<T>(Q_rmem, Q_smem);
    multiply_scores();
    wgmma_wait<0>();
    scores_there();
    begin_softmax();
    // The loop is cut between the softmax's parts: the code after it waits for the product that runs at the same time,
    // and ptxas moves that wait to the front of its basic block (with it inside the loop nothing overlapped).
    for (bool started = false;; started = true) {
      wgmma_wait<0>();
      wgmma_hold(O_rmem);
      if (started) values_there();
      finish_softmax();
      tile += T::KV_PARTS;
      if (tile >= own_end) break;
      multiply_scores();
      rescale<T>(O_rmem, alpha);  // during the product just started, which does not touch O
      multiply_values();
      wgmma_wait<1>();
      scores_there();
      begin_softmax();
    }
    rescale<T>(O_rmem, alpha);
    multiply_values();
    wgmma_wait<0>();
    values_there();
  }
  for (tile = max(tile, own_end); tile < work.kv_tiles; tile += T::KV_PARTS) {  // releases tiles that it does not need
    mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
    mbarrier_wait(barriers.V_full(K_place.stage), K_place.parity);
    if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage)), mbarrier_arrive(barriers.V_empty(K_place.stage));
    K_place.step(T::WGS_KV);
  }
  add_lanes<T>(O_rmem, row_sum);
  if constexpr (T::WGS_KV > 1) merge_groups<T>(O_rmem, row_max, row_sum, smem + T::MERGE_OFFSET, consumer, lane);
  if constexpr (T::CLUSTER > 1)
    if (group == 0) merge_cluster<T>(O_rmem, row_max, row_sum, smem + T::CLUSTER_MERGE_OFFSET, rank, lane);
  if (group == 0 && rank == 0) {
    store_rows<T>(O_rmem, row_sum, problem, work.head, work.first_row + row_in_tile, lane);
    if constexpr (WRITE_LSE) store_lse<T>(row_max, row_sum, problem, work.head, work.first_row + row_in_tile, lane);
  }
}

// The consumers write the column of ones while the first copies are under way, before any product reads it.
template <class T>
__device__ __forceinline__ void write_ones(unsigned char* smem) {
  for (int i = threadIdx.x - WARPGROUP; i < T::ONES_BYTES / 4; i += T::CONSUMER_THREADS)
    reinterpret_cast<uint32_t*>(smem + T::ONES_OFFSET)[i] = ELEMENT2_ONES;
  async_proxy_fence();
}

template <class T>
__device__ __forceinline__ void attention(const Problem& problem) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t smem_base = smem_address(smem);
  const typename T::Barriers barriers{smem_base + T::BARRIERS_OFFSET};
  if constexpr (T::CLUSTER > 1) cluster_arrive();  // merge_cluster waits for it
  if (threadIdx.x < WARPGROUP) {
    registers_decrease<T::PRODUCER_REGISTERS>();
    if (threadIdx.x < WARP) {
      if (threadIdx.x == 0) barriers.initialise();
      __syncwarp();
      named_barrier_arrive(READY, T::CONSUMER_THREADS + WARP);  // the producer itself need not wait for the others
      if (threadIdx.x == 0)
        Producer<T>{problem, smem_base, reinterpret_cast<Work<T>*>(smem + T::WORK_OFFSET), barriers}.run();
    }
  } else {
    registers_increase<T::CONSUMER_REGISTERS>();
    if constexpr (T::SUMS_BY_ONES) write_ones<T>(smem);
    named_barrier_sync(READY, T::CONSUMER_THREADS + WARP);
    if constexpr (T::PERSISTENT)
      consume_works<T>(problem, smem_base, smem, barriers);
    else
      consume_work<T>(problem, smem_base, smem, barriers);
  }
}

// Features of entries in addition to lengths and a causal mask: windows and sinks, or these and capped logits.
struct Plain {
  static constexpr bool FORMED = false, CAPPED = false;
  static constexpr int VALUE_DIM = AS_HEAD_DIM;
};
template <class CUT>
struct Formed : CUT {
  static constexpr bool FORMED = true;
};
template <class CUT>
struct Capped : Formed<CUT> {
  static constexpr bool CAPPED = true;
};

// The tilings of the entries. Rows and keys of a CTA's tiles (the boxes
// of its tensor maps), stages, threads and bytes come from kernel.yaml.
struct D64Small : Plain {  // short sequences: one work item per CTA, 3 CTAs per SM
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 128, CTAS_AN_SM = 3;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D64Split : Plain {  // few CTAs: two warpgroups take alternate tiles
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 2, BLOCK_KV = LONG_KEYS,
                       STAGES = SPLIT_STAGES;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D64SplitCausal : D64Split {  // shorter tiles waste less above the diagonal
  static constexpr int BLOCK_KV = SHORT_KEYS;
};
struct D64Cluster : D64Split {  // even fewer CTAs: those of a cluster take alternate tiles, too
  static constexpr int CLUSTER = CLUSTER_CTAS;
};
struct D64Rows64 : Plain {  // many short heads: two CTAs per SM
  static constexpr int EARLY = 8;
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 208, CTAS_AN_SM = 2;
  static constexpr bool PERSISTENT = true, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = true,
                        RAISES_BY_VOTE = false;
};
struct D64Causal : Plain {  // tiles of 64 keys waste less above the diagonal
  static constexpr int EARLY = 16;
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 128, CTAS_AN_SM = 3;
  static constexpr bool PERSISTENT = true, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = true,
                        RAISES_BY_VOTE = false;
};
struct D64Rows128 : Plain {
  static constexpr int EARLY = 8;
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_TWO / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = true, PING_PONG = true, Q_IN_REGISTERS = true, SUMS_BY_ONES = true,
                        RAISES_BY_VOTE = true;
};
struct D64Rows192 : D64Rows128 {  // three warpgroups: Q stays in shared memory
  static constexpr int WGS_Q = ROWS_OF_THREE / WGMMA_M, CONSUMER_REGISTERS = 160, EARLY = 16;
  static constexpr bool Q_IN_REGISTERS = false, RAISES_BY_VOTE = false;
};
struct D128Cluster : Plain {
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 2, BLOCK_KV = LONG_KEYS, STAGES = 2;
  static constexpr int CLUSTER = CLUSTER_CTAS, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D128Small : Plain {
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 208, CTAS_AN_SM = 2;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D128Rows64 : D128Small {  // many short heads
  static constexpr int EARLY = 9;
  static constexpr bool PERSISTENT = true, RAISES_BY_VOTE = false;
};
struct D128Rows128 : Plain {  // without ones, whose space the third stage takes
  static constexpr int EARLY = 18;
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_TWO / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = true, PING_PONG = true, Q_IN_REGISTERS = true, SUMS_BY_ONES = false,
                        RAISES_BY_VOTE = false;
};
// Other head dimensions. Where S and O leave no registers, Q stays in shared memory.
struct D96Small : D128Small {
  static constexpr int HEAD_DIM = 96;
};
struct D192Small : D128Small {
  static constexpr int HEAD_DIM = 192, VALUE_DIM = 128;
};
struct D256Small : D128Small {
  static constexpr int HEAD_DIM = 256, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool Q_IN_REGISTERS = false;
};
struct D96Rows128 : D128Rows128 {
  static constexpr int HEAD_DIM = 96;
};
struct D192Rows128 : D128Rows128 {
  static constexpr int HEAD_DIM = 192, VALUE_DIM = 128, STAGES = 2;
  static constexpr bool Q_IN_REGISTERS = false;
};
struct D256Rows128 : D128Rows128 {
  static constexpr int EARLY = 5;
  static constexpr int HEAD_DIM = 256, BLOCK_KV = WIDE_KEYS, STAGES = 2;
  static constexpr bool Q_IN_REGISTERS = false;
};

#if WRITE_LSE
#define LSE_PARAMETER , float* LSE
#define LSE_ARGUMENT LSE
#else
#define LSE_PARAMETER
#define LSE_ARGUMENT nullptr
#endif

// Defines an entry. It checks that the manifest launches it with the right number of threads and bytes.
#define FLASHCORE_V12_ENTRY(NAME, CUT, LAUNCHED_THREADS, LAUNCHED_BYTES)                                   \
  static_assert(Tiling<CUT>::THREADS == LAUNCHED_THREADS && Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));  \
  extern "C" __global__ void __launch_bounds__(Tiling<CUT>::THREADS, CUT::CTAS_AN_SM)                      \
      NAME(const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map,           \
           const __grid_constant__ CUtensorMap V_map, Element* O LSE_PARAMETER, int heads, int S, int Skv, \
           unsigned reciprocal, float scale, int causal, int diagonal, int paired_heads, int H, int Hkv) { \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                  \
      attention<Tiling<CUT>>({&Q_map,                                                                      \
                              &K_map,                                                                      \
                              &V_map,                                                                      \
                              O,                                                                           \
                              LSE_ARGUMENT,                                                                \
                              heads,                                                                       \
                              {S, Skv, reciprocal, causal, diagonal},                                      \
                              scale,                                                                       \
                              paired_heads,                                                                \
                              H,                                                                           \
                              Hkv});                                                                       \
  }

#define FLASHCORE_V12_FORMED_ENTRY(NAME, CUT, LAUNCHED_THREADS, LAUNCHED_BYTES)                                       \
  static_assert(Tiling<CUT>::THREADS == LAUNCHED_THREADS && Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));             \
  extern "C" __global__ void __launch_bounds__(Tiling<CUT>::THREADS, CUT::CTAS_AN_SM)                                 \
      NAME(const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map,                      \
           const __grid_constant__ CUtensorMap V_map, const float* sinks, Element* O LSE_PARAMETER, int heads, int S, \
           int Skv, unsigned reciprocal, float scale, int causal, int diagonal, int paired_heads, int H, int Hkv,     \
           int window, float softcap) {                                                                               \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                             \
      attention<Tiling<CUT>>({&Q_map,                                                                                 \
                              &K_map,                                                                                 \
                              &V_map,                                                                                 \
                              O,                                                                                      \
                              LSE_ARGUMENT,                                                                           \
                              heads,                                                                                  \
                              {S, Skv, reciprocal, causal, diagonal},                                                 \
                              scale,                                                                                  \
                              paired_heads,                                                                           \
                              H,                                                                                      \
                              Hkv,                                                                                    \
                              {sinks, H, window, softcap}});                                                          \
  }

static_assert(PANEL == BOX_COLUMNS, "a tensor map's box is a panel wide");
// The manifest chooses the entry for a shape.
FLASHCORE_V12_ENTRY(flashcore_v12_d64_small, D64Small, ONE_CONSUMER, D64_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_split, D64Split, TWO_CONSUMERS, D64_SPLIT_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_split_causal, D64SplitCausal, TWO_CONSUMERS, D64_SPLIT_CAUSAL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_cluster, D64Cluster, TWO_CONSUMERS, D64_CLUSTER_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows64, D64Rows64, ONE_CONSUMER, D64_ROWS64_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_causal, D64Causal, ONE_CONSUMER, D64_CAUSAL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows128, D64Rows128, TWO_CONSUMERS, D64_ROWS128_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows192, D64Rows192, THREE_CONSUMERS, D64_ROWS192_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_small, D128Small, ONE_CONSUMER, D128_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_cluster, D128Cluster, TWO_CONSUMERS, D128_CLUSTER_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_rows64, D128Rows64, ONE_CONSUMER, D128_ROWS64_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_rows128, D128Rows128, TWO_CONSUMERS, D128_ROWS128_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d96_small, D96Small, ONE_CONSUMER, D128_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d192_small, D192Small, ONE_CONSUMER, D192_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d256_small, D256Small, ONE_CONSUMER, D256_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d96_rows128, D96Rows128, TWO_CONSUMERS, D128_ROWS128_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d192_rows128, D192Rows128, TWO_CONSUMERS, D192_ROWS128_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d256_rows128, D256Rows128, TWO_CONSUMERS, D256_ROWS128_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d64_formed64, Formed<D64Causal>, ONE_CONSUMER, D64_CAUSAL_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d64_formed128, Formed<D64Rows128>, TWO_CONSUMERS, D64_ROWS128_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d64_formed192, Formed<D64Rows192>, THREE_CONSUMERS, D64_ROWS192_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d64_capped64, Capped<D64Causal>, ONE_CONSUMER, D64_CAUSAL_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d64_capped128, Capped<D64Rows128>, TWO_CONSUMERS, D64_ROWS128_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d128_formed64, Formed<D128Rows64>, ONE_CONSUMER, D128_ROWS64_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d128_formed128, Formed<D128Rows128>, TWO_CONSUMERS, D128_ROWS128_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d128_capped64, Capped<D128Rows64>, ONE_CONSUMER, D128_ROWS64_BYTES)
FLASHCORE_V12_FORMED_ENTRY(flashcore_v12_d128_capped128, Capped<D128Rows128>, TWO_CONSUMERS, D128_ROWS128_BYTES)

// Few short heads: warps of 16 rows with mma.sync, without tensor maps, barriers to set up or a producer to wait for.
struct D64Few {
  static constexpr int HEAD_DIM = 64, WARPS_Q = 2, WARPS_KV = 2, WARP_Q = FEW_ROWS / WARPS_Q;
  static constexpr int BLOCK_KV = SHORT_KEYS, STAGES = FEW_STAGES, CTAS_AN_SM = 2;
};
struct D128Few : D64Few {
  static constexpr int HEAD_DIM = 128, BLOCK_KV = SHORTEST_KEYS;
};

#define FLASHCORE_V12_FEW_ENTRY(NAME, CUT, LAUNCHED_BYTES)                                                             \
  static_assert(register_rows::Tiling<CUT>::THREADS == FEW_THREADS &&                                                  \
                register_rows::Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));                                           \
  extern "C" __global__ void __launch_bounds__(FEW_THREADS, CUT::CTAS_AN_SM)                                           \
      NAME(const Element* Q, const Element* K, const Element* V, Element* O, int S, int Skv, unsigned reciprocal,      \
           float scale, int causal, int diagonal) {                                                                    \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                              \
      register_rows::attention<register_rows::Tiling<CUT>>(Q, K, V, O, {S, Skv, reciprocal, causal, diagonal}, scale); \
  }

FLASHCORE_V12_FEW_ENTRY(flashcore_v12_d64_few, D64Few, D64_FEW_BYTES)
FLASHCORE_V12_FEW_ENTRY(flashcore_v12_d128_few, D128Few, D128_FEW_BYTES)

#define FLASHCORE_V12_DIRECT_ENTRY(NAME, HEAD_DIM, CTAS_AN_SM, LAUNCHED_BYTES)                                    \
  static_assert(direct_rows::Tiling<HEAD_DIM>::SMEM_BYTES == (LAUNCHED_BYTES));                                   \
  static_assert(direct_rows::KEYS == DIRECT_KEYS && direct_rows::ROWS == DIRECT_ROWS);                            \
  extern "C" __global__ void __launch_bounds__(direct_rows::MOST_WARPS* WARP, CTAS_AN_SM)                         \
      NAME(const Element* Q, const Element* K, const Element* V, Element* O, int S, int Skv, unsigned reciprocal, \
           float scale, int causal, int diagonal) {                                                               \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                         \
      direct_rows::attention<HEAD_DIM>(Q, K, V, O, {S, Skv, reciprocal, causal, diagonal}, scale);                \
  }

// The CTAs per SM are a bound, because without one, or for 12 CTAs, ptxas spills at HEAD_DIM 128.
FLASHCORE_V12_DIRECT_ENTRY(flashcore_v12_d64_direct, 64, 16, D64_DIRECT_BYTES)
FLASHCORE_V12_DIRECT_ENTRY(flashcore_v12_d128_direct, 128, 10, D128_DIRECT_BYTES)
