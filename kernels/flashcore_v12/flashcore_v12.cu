// flashcore_v12: one kernel for every shape. Rows are summed by the tensor cores, from a column of ones beside V; two or
// three warpgroups take turns at large grids, small ones divide the keys over warpgroups and the CTAs of a cluster, and
// the shortest go by mma.sync, without tensor maps.
// Heads of Q may share keys. Limits: fp16 or bf16, HEAD_DIM 64 or 128, lengths >= 1, sm_90a only.
//
// Against flashcore_v11: no addition a weight, and what is summed is P as rounded to an element, so that a weight's rounding
// error stands in numerator and denominator alike; Q as an operand in shared memory leaves registers for a third
// warpgroup; persistent CTAs also at HEAD_DIM 64, whose producer says what comes next; clusters where a grid leaves SMs
// idle.
#include "direct_rows.cuh"
#include "tiling.cuh"
#include "warpgroup_rows.cuh"
#include "mechanisms/first_entries.cuh"
#include "mechanisms/register_rows.cuh"
#include "primitives/registers.cuh"

constexpr int READY = 1, TURN = 2, Q_READ = 6;  // named barriers; of the last two, one a warpgroup
constexpr float LOG2_E = 1.4426950408889634f;

// What one thread does: it says what comes next and feeds the ring, for all of this CTA's work.
template <class T>
struct Producer {
  const Problem& problem;
  const uint32_t smem;
  Work<T>* const announced;
  const typename T::Barriers barriers;
  RingPlace<T::STAGES> place = {};
  int Q_parity = 0, slot = 0;

  // Where keys are divided, each group's K comes before anyone's V.
  __device__ __forceinline__ void bring(const Work<T>& work) {
    mbarrier_wait(barriers.Q_empty(), Q_parity ^ 1);  // the first wait passes at once: nothing has to be emptied
    Q_parity ^= 1;
    if constexpr (T::PERSISTENT) {
      announced[slot] = work;
      slot = next_slot(slot);
      if (work.is_end()) return mbarrier_arrive(barriers.Q_full());
    }
    load_tile<T::BLOCK_Q, T::PANELS>(smem, problem.Q_map, barriers.Q_full(), work.first_row, work.head);
    const uint32_t K_ring = smem + T::Q_BYTES, V_ring = smem + T::V_OFFSET;
    const int kv_head = problem.form.kv_head(work.head);
    const int first_part = T::CLUSTER > 1 ? cluster_rank() * T::WGS_KV : 0;
#pragma unroll 1
    for (int first = first_part; first < work.kv_tiles; first += T::KV_PARTS) {
      const int tiles = min(T::WGS_KV, work.kv_tiles - first);
      RingPlace<T::STAGES> V_place = place;
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.K_empty(place.stage), place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(K_ring + place.stage * T::KV_BYTES, problem.K_map,
                                          barriers.K_full(place.stage), (first + i) * T::BLOCK_KV, kv_head);
        place.step(1);
      }
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.V_empty(V_place.stage), V_place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(V_ring + V_place.stage * T::KV_BYTES, problem.V_map,
                                          barriers.V_full(V_place.stage), (first + i) * T::BLOCK_KV, kv_head);
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

// A consumer warpgroup, for all of this CTA's work: one stream of tiles, whichever work they belong to. The first
// scores of a work run beside the last product of the work before, and O is stored while other warpgroups multiply.
template <class T>
__device__ __forceinline__ void consume(const Problem& problem, uint32_t smem_base, unsigned char* smem,
                                        typename T::Barriers barriers) {
  // A stage always serves the same group: one that waited for a stage two laps ahead would take the last lap's parity
  // for its own.
  static_assert(T::STAGES % T::WGS_KV == 0);
  static_assert(sizeof(Work<T>) == WORK_BYTES);
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1, q_part = consumer % T::WGS_Q,
            group = consumer / T::WGS_Q;
  const int lane = threadIdx.x % WARP,
            row_in_tile = q_part * WGMMA_M + threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
  const bool signals =
      threadIdx.x % WARPGROUP == 0;  // one arrival a warpgroup: wgmma_wait has waited for all four warps' products
  const uint32_t Q_smem = smem_base + q_part * WGMMA_M * PANEL_ROW_BYTES, K_smem = smem_base + T::Q_BYTES,
                 V_smem = smem_base + T::V_OFFSET, ones_smem = smem_base + T::ONES_OFFSET;
  const Work<T>* const announced = reinterpret_cast<const Work<T>*>(smem + T::WORK_OFFSET);
  const int rank = T::CLUSTER > 1 ? cluster_rank() : 0, part = rank * T::WGS_KV + group;
  const float scale_log2 = problem.scale * LOG2_E;
  const AttentionForm& form = problem.form;

  float O_rmem[T::OUTPUTS + T::SUMS] = {}, S_rmem[T::SCORES], row_max[2] = {NO_ROW_MAX, NO_ROW_MAX}, row_sum[2] = {},
                            alpha[2];
  uint32_t P_rmem[T::BLOCK_KV / WGMMA_K][4], Q_rmem[T::D_STEPS][4];
  RingPlace<T::STAGES> K_place, V_place;
  if constexpr (T::WGS_KV > 1) K_place.step(group), V_place.step(group);
  int Q_parity = 0;

  // Warpgroups issue their products in turn, so that one's softmax falls into the other's products.
  const auto my_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_sync(TURN + consumer, 2 * WARPGROUP);
  };
  const auto next_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_arrive(TURN + (consumer + 1) % T::CONSUMERS, 2 * WARPGROUP);
  };
  // Whose scores S_rmem holds, and whose outputs O_rmem. Of a persistent CTA's only what each tile needs stays in
  // registers; the rest is read again where O is stored.
  Work<T> work = Work<T>::of_grid(problem), O_work = work;
  int slot = 0, O_slot = 0;
  const auto take_Q = [&] {
    mbarrier_wait(barriers.Q_full(), Q_parity);
    Q_parity ^= 1;
    if constexpr (T::PERSISTENT) {
      work = announced[slot];
      if (work.is_end()) return;
    }
    if constexpr (!T::Q_IN_REGISTERS) return;
    load_Q_fragments<T>(Q_rmem, Q_smem);
    if constexpr (T::PERSISTENT) {
      named_barrier_sync(Q_READ + consumer, WARPGROUP);  // the four warps read their rows one by one
      if (signals) mbarrier_arrive(barriers.Q_empty());  // the next work's Q may come
    }
  };
  const auto multiply_scores = [&] {
    mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
    my_turn();
    start_scores<T>(S_rmem, Q_rmem, Q_smem, K_smem + K_place.stage * T::KV_BYTES);
  };
  int seen = 0;  // keys of the tile whose weights P_rmem holds
  const auto multiply_values = [&](bool accumulate) {
    mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
    start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::KV_BYTES, ones_smem, accumulate, seen);
    next_turn();
  };
  int tile = part;
  const auto scores_there = [&] {
    wgmma_hold(S_rmem);
    if constexpr (T::PERSISTENT && !T::Q_IN_REGISTERS)  // the products read Q to the work's last tile
      if (signals && tile + 1 == work.kv_tiles) mbarrier_arrive(barriers.Q_empty());
    if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage));
    K_place.step(T::WGS_KV);
  };
  const auto values_there = [&] {
    wgmma_hold(O_rmem);
    if (signals) mbarrier_arrive(barriers.V_empty(V_place.stage));
    V_place.step(T::WGS_KV);
  };
  constexpr bool THREE_IN_TURNS = T::PING_PONG && T::CONSUMERS == 3;
  const auto weigh_rows = [&] {
    if constexpr (THREE_IN_TURNS) raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 1);
    weigh<T>(S_rmem, row_max, row_sum, scale_log2, 0);
    if constexpr (!THREE_IN_TURNS) raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 1);
    weigh<T>(S_rmem, row_max, row_sum, scale_log2, 1);
  };
  // The softmax in two parts, around the wait for the product that runs beside it. Only one row's maximum comes before:
  // ptxas sees the rest as one stretch, and lays the exponentials of one row beside the other's maximum and the rounding
  // (special-function units beside ALUs). As a whole before that wait: 4 % slower on average, up to 11 %. But where three
  // warpgroups take turns, the others fill those units: there it stays whole (1x53x5013x64c: 367 us, in parts 402).
  const auto begin_softmax = [&] {
    const int first_key = tile * T::BLOCK_KV, row = work.first_row + row_in_tile;
    if (first_key + T::BLOCK_KV > form.keys_before(row - (lane >> 2) + 1))
      mask_scores<T>(S_rmem, row, first_key, form, lane);
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2, 0);
    if constexpr (THREE_IN_TURNS) weigh_rows();
  };
  const auto finish_softmax = [&] {
    if constexpr (!THREE_IN_TURNS) weigh_rows();
    round_weights<T>(P_rmem, S_rmem);
  };
  const auto store = [&](float (&sums)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if constexpr (T::SUMS_BY_ONES) {
        sums[h] = O_rmem[T::OUTPUTS + 2 * h];
      } else {  // until here each lane has summed its own columns only
        sums[h] += __shfl_xor_sync(0xffffffffu, sums[h], 1);
        sums[h] += __shfl_xor_sync(0xffffffffu, sums[h], 2);
      }
    }
    if constexpr (T::WGS_KV > 1) merge_groups<T>(O_rmem, row_max, sums, smem + T::MERGE_OFFSET, consumer, lane);
    if constexpr (T::CLUSTER > 1)
      if (group == 0) merge_cluster<T>(O_rmem, row_max, sums, smem + T::CLUSTER_MERGE_OFFSET, rank, lane);
    if constexpr (T::PERSISTENT) O_work = announced[O_slot];
    if (group == 0 && rank == 0)
      store_rows<T>(O_rmem, sums, problem.O + size_t(O_work.head) * form.S * T::HEAD_DIM,
                    O_work.first_row + row_in_tile, form.S, lane);
  };

  // A warpgroup whose rows all lie above a tile leaves it to the others (in a persistent CTA all keep step).
  int own_end = 0;
  if constexpr (!T::PERSISTENT)
    own_end = (form.keys_before(work.first_row + (q_part + 1) * WGMMA_M) + T::BLOCK_KV - 1) / T::BLOCK_KV;
  if (T::PERSISTENT || part < own_end) {
    if constexpr (T::PING_PONG)
      if (consumer == T::CONSUMERS - 1) next_turn();  // the first turn is the first warpgroup's
    take_Q();
    multiply_scores();
    next_turn();
    wgmma_wait<0>();
    scores_there();
    begin_softmax();
    bool first_tile = true;
    // The loop is cut between the softmax's parts: what follows waits for the product that runs beside it, and ptxas moves
    // that wait to the front of its basic block (with it inside the loop nothing overlapped: 281 instead of 265 us at
    // (4,16,2048,128,n), 176 instead of 166 at (2,16,4096,64,y), H200).
    float O_sum[2];
    for (bool started = false;; started = true) {
      wgmma_wait<0>();
      wgmma_hold(O_rmem);
      if (started) {
        values_there();
        if (T::PERSISTENT && first_tile) {
          store(O_sum);
          O_slot = slot;
        }
      }
      finish_softmax();
      if constexpr (T::SHORTENS_LAST)
        seen = form.keys_before(work.first_row + (q_part + 1) * WGMMA_M) - tile * T::BLOCK_KV;
      tile += T::KV_PARTS;
      const bool last_tile = tile >= (T::PERSISTENT ? work.kv_tiles : own_end);
      if (last_tile) {
        if constexpr (!T::PERSISTENT) break;
        slot = next_slot(slot);
        take_Q();
        if (work.is_end()) break;
        tile = 0;
      }
      multiply_scores();
      rescale<T>(O_rmem, alpha);  // beside the product just started, which does not touch O
      multiply_values(!first_tile);
      wgmma_wait<1>();
      scores_there();
      first_tile = last_tile;
      if (T::PERSISTENT && first_tile) {
#pragma unroll
        for (int h = 0; h < 2; ++h) O_sum[h] = row_sum[h], row_sum[h] = 0.0f, row_max[h] = NO_ROW_MAX;
      }
      begin_softmax();
    }
    rescale<T>(O_rmem, alpha);
    my_turn();
    multiply_values(!first_tile);
    wgmma_wait<0>();
    values_there();
    if constexpr (T::PING_PONG)
      if (consumer == 0) my_turn();  // takes the turn that is left over: no barrier ends half full
  }
  if constexpr (!T::PERSISTENT)
    for (tile = max(tile, own_end); tile < work.kv_tiles;
         tile += T::KV_PARTS, K_place.step(T::WGS_KV)) {  // hands on what it has no use for
      mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
      mbarrier_wait(barriers.V_full(K_place.stage), K_place.parity);
      if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage)), mbarrier_arrive(barriers.V_empty(K_place.stage));
    }
  store(row_sum);
}

// The column of ones, before any product reads it: by the consumers, while the first copies are under way.
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
      named_barrier_arrive(READY, T::CONSUMER_THREADS + WARP);  // the producer itself need not wait for anyone
      if (threadIdx.x == 0)
        Producer<T>{problem, smem_base, reinterpret_cast<Work<T>*>(smem + T::WORK_OFFSET), barriers}.run();
    }
  } else {
    registers_increase<T::CONSUMER_REGISTERS>();
    if constexpr (T::SUMS_BY_ONES) write_ones<T>(smem);
    named_barrier_sync(READY, T::CONSUMER_THREADS + WARP);
    consume<T>(problem, smem_base, smem, barriers);
  }
}

// How the entries are cut. Rows and keys of a CTA's tiles (the boxes of its tensor maps), stages, threads and bytes are
// the manifest's.
struct D64Small {  // short sequences, one work a CTA, three CTAs an SM
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 128, CTAS_AN_SM = 3;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D64Split {  // few CTAs: two warpgroups take every other tile
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 2, BLOCK_KV = LONG_KEYS,
                       STAGES = SPLIT_STAGES;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D64SplitCausal : D64Split {  // shorter tiles: less of one lies above the diagonal
  static constexpr int BLOCK_KV = SHORT_KEYS;
};
struct D64Cluster : D64Split {  // fewer still: so do the CTAs of a cluster
  static constexpr int CLUSTER = CLUSTER_CTAS;
};
struct D64Rows64 {  // many short heads: two CTAs an SM
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 208, CTAS_AN_SM = 2;
  static constexpr bool PERSISTENT = true, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = true;
};
struct D64Causal {  // tiles of 64 keys: less of one lies above the diagonal
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 128, CTAS_AN_SM = 3;
  static constexpr bool PERSISTENT = true, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = true;
};
struct D64Rows128 {
  static constexpr int HEAD_DIM = 64, WGS_Q = ROWS_OF_TWO / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = true, PING_PONG = true, Q_IN_REGISTERS = true, SUMS_BY_ONES = true;
};
struct D64Keys192 : D64Rows128 {  // the longest tile that two warpgroups have registers for
  static constexpr int BLOCK_KV = LONGEST_KEYS;
};
struct D64Rows192 : D64Rows128 {  // three warpgroups: Q stays in shared memory
  static constexpr int WGS_Q = ROWS_OF_THREE / WGMMA_M, CONSUMER_REGISTERS = 160;
  static constexpr bool Q_IN_REGISTERS = false;
};
struct D128Cluster {
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 2, BLOCK_KV = LONG_KEYS, STAGES = 2;
  static constexpr int CLUSTER = CLUSTER_CTAS, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D128Small {
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_ONE / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_KEYS, STAGES = 2;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 208, CTAS_AN_SM = 2;
  static constexpr bool PERSISTENT = false, PING_PONG = false, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};
struct D128Rows64 : D128Small {  // many short heads
  static constexpr bool PERSISTENT = true;
};
struct D128Rows128 {  // no ones, which would take the room of the third stage
  static constexpr int HEAD_DIM = 128, WGS_Q = ROWS_OF_TWO / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_KEYS, STAGES = 3;
  static constexpr int CLUSTER = 1, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = true, PING_PONG = true, Q_IN_REGISTERS = true, SUMS_BY_ONES = false;
};

// An entry, held to the threads and bytes that the manifest launches it with.
#define FLASHCORE_V12_ENTRY(NAME, CUT, LAUNCHED_THREADS, LAUNCHED_BYTES)                                          \
  static_assert(Tiling<CUT>::THREADS == LAUNCHED_THREADS && Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));         \
  extern "C" __global__ void __launch_bounds__(Tiling<CUT>::THREADS, CUT::CTAS_AN_SM)                             \
      NAME(const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map,                  \
           const __grid_constant__ CUtensorMap V_map, Element* O, int heads, int S, int Skv, unsigned reciprocal, \
           float scale, int causal, int diagonal, int paired_heads) {                                             \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                         \
      attention<Tiling<CUT>>(                                                                                     \
          {&Q_map, &K_map, &V_map, O, heads, {S, Skv, reciprocal, causal, diagonal}, scale, paired_heads});       \
  }

static_assert(PANEL == BOX_COLUMNS, "a tensor map's box is a panel wide");
// Which one a shape gets is the manifest's choice.
FLASHCORE_V12_ENTRY(flashcore_v12_d64_small, D64Small, ONE_CONSUMER, D64_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_split, D64Split, TWO_CONSUMERS, D64_SPLIT_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_split_causal, D64SplitCausal, TWO_CONSUMERS, D64_SPLIT_CAUSAL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_cluster, D64Cluster, TWO_CONSUMERS, D64_CLUSTER_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows64, D64Rows64, ONE_CONSUMER, D64_ROWS64_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_causal, D64Causal, ONE_CONSUMER, D64_CAUSAL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows128, D64Rows128, TWO_CONSUMERS, D64_ROWS128_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_keys192, D64Keys192, TWO_CONSUMERS, D64_KEYS192_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d64_rows192, D64Rows192, THREE_CONSUMERS, D64_ROWS192_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_small, D128Small, ONE_CONSUMER, D128_SMALL_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_cluster, D128Cluster, TWO_CONSUMERS, D128_CLUSTER_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_rows64, D128Rows64, ONE_CONSUMER, D128_ROWS64_BYTES)
FLASHCORE_V12_ENTRY(flashcore_v12_d128_rows128, D128Rows128, TWO_CONSUMERS, D128_ROWS128_BYTES)

// Few short heads: warps of 16 rows by mma.sync. No tensor map to fetch, no barriers to set up, no producer to wait for.
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

// CTAs an SM: without a bound, or for 12 CTAs, ptxas spills at HEAD_DIM 128.
FLASHCORE_V12_DIRECT_ENTRY(flashcore_v12_d64_direct, 64, 16, D64_DIRECT_BYTES)
FLASHCORE_V12_DIRECT_ENTRY(flashcore_v12_d128_direct, 128, 10, D128_DIRECT_BYTES)
