// flashcore_v11: attention on Hopper's own units. A producer warp copies K and V by TMA, and warpgroups multiply
// with wgmma. The softmax of a tile runs while the tensor cores compute the scores of the next tile and the weighted
// values of this one (after FlashAttention-3). Limits: fp16, HEAD_DIM 64 or 128, S any length >= 1, sm_90a only.
//
// Compared with flashcore_v10: no thread copies anything, the tensor cores themselves read K and V from shared memory,
// and products are asynchronous, so that one warpgroup overlaps its own softmax. Short sequences: the warpgroups of a
// CTA divide the keys and merge.
#include "tiling.cuh"
#include "warpgroup_rows.cuh"
#include "mechanisms/first_entries.cuh"
#include "primitives/registers.cuh"

constexpr int READY = 1, TURN = 2, Q_READ = 6;  // named barriers; the last two have one barrier per warpgroup
constexpr float LOG2_E = 1.4426950408889634f;

// The thread that fills the ring, for all work items of this CTA. If groups divide the keys, the K tiles of all groups
// come before any V tile.
template <class T>
__device__ __forceinline__ void produce(const Problem& problem, uint32_t smem, typename T::Barriers barriers) {
  const uint32_t K_ring = smem + T::Q_BYTES, V_ring = K_ring + T::STAGES * T::KV_BYTES;
  RingPlace<T::STAGES> place;
  int Q_parity = 0;
  for (int round = 0, index = blockIdx.x; index >= 0; index = T::PERSISTENT ? work_of_round<T>(++round, problem) : -1) {
    const Work<T> work(index, problem);
    mbarrier_wait(barriers.Q_empty(), Q_parity ^ 1);  // the first wait returns at once, because Q is still empty
    load_tile<T::BLOCK_Q, T::PANELS>(smem, problem.Q_map, barriers.Q_full(), work.first_row, work.head);
#pragma unroll 1
    for (int first = 0; first < work.kv_tiles; first += T::WGS_KV) {
      const int tiles = min(T::WGS_KV, work.kv_tiles - first);
      RingPlace<T::STAGES> V_place = place;
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.K_empty(place.stage), place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(K_ring + place.stage * T::KV_BYTES, problem.K_map,
                                          barriers.K_full(place.stage), (first + i) * T::BLOCK_KV, work.head);
        place.step(1);
      }
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.V_empty(V_place.stage), V_place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(V_ring + V_place.stage * T::KV_BYTES, problem.V_map,
                                          barriers.V_full(V_place.stage), (first + i) * T::BLOCK_KV, work.head);
        V_place.step(1);
      }
    }
    Q_parity ^= 1;
  }
}

// A consumer warpgroup, for all work items of this CTA, which form one stream of tiles. An item's first scores overlap
// with the last product of the previous item, and O is stored while other warpgroups multiply.
template <class T>
__device__ __forceinline__ void consume(const Problem& problem, uint32_t smem_base, unsigned char* smem,
                                        typename T::Barriers barriers) {
  // A stage always serves the same group, because a group that waited for a
  // stage two laps ahead would mistake the previous lap's parity for its own.
  static_assert(T::STAGES % T::WGS_KV == 0);
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1, q_part = consumer % T::WGS_Q,
            group = consumer / T::WGS_Q;
  const int lane = threadIdx.x % WARP,
            row_in_tile = q_part * WGMMA_M + threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
  const bool signals =
      threadIdx.x % WARPGROUP == 0;  // one arrival per warpgroup: wgmma_wait has waited for all four warps' products
  const uint32_t Q_smem = smem_base + q_part * WGMMA_M * PANEL_ROW_BYTES, K_smem = smem_base + T::Q_BYTES,
                 V_smem = K_smem + T::STAGES * T::KV_BYTES;
  const float scale_log2 = problem.scale * LOG2_E;
  const int S = problem.S, causal = problem.causal;

  float O_rmem[T::OUTPUTS] = {}, S_rmem[T::SCORES], row_max[2] = {NO_ROW_MAX, NO_ROW_MAX}, row_sum[2] = {}, alpha[2];
  uint32_t P_rmem[T::BLOCK_KV / WGMMA_K][4], Q_rmem[T::D_STEPS][4];
  RingPlace<T::STAGES> K_place, V_place;
  if constexpr (T::WGS_KV > 1) K_place.step(group), V_place.step(group);
  int Q_parity = 0;

  // Warpgroups issue their products in turn, so that one computes its softmax during the other's products.
  const auto my_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_sync(TURN + consumer, 2 * WARPGROUP);
  };
  const auto next_turn = [&] {
    if constexpr (T::PING_PONG) named_barrier_arrive(TURN + (consumer + 1) % T::CONSUMERS, 2 * WARPGROUP);
  };
  const auto take_Q = [&] {
    mbarrier_wait(barriers.Q_full(), Q_parity);
    Q_parity ^= 1;
    load_Q_fragments<T>(Q_rmem, Q_smem);
    if constexpr (T::PERSISTENT) {
      named_barrier_sync(Q_READ + consumer, WARPGROUP);  // the four warps read their rows one by one
      if (signals) mbarrier_arrive(barriers.Q_empty());  // the next work item's Q may be copied
    }
  };
  const auto multiply_scores = [&] {
    mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
    my_turn();
    start_scores<T>(S_rmem, Q_rmem, K_smem + K_place.stage * T::KV_BYTES);
  };
  const auto multiply_values = [&](bool accumulate) {
    mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
    start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::KV_BYTES, accumulate);
    next_turn();
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
  const auto softmax = [&](const Work<T>& work, int tile) {
    const int first_key = tile * T::BLOCK_KV, row = work.first_row + row_in_tile;
    if (first_key + T::BLOCK_KV > (causal ? min(S, row - (lane >> 2) + 1) : S))
      mask_scores<T>(S_rmem, row, first_key, S, causal, lane);
    raise_row_max<T>(S_rmem, row_max, row_sum, alpha, scale_log2);
    weigh<T>(S_rmem, row_max, row_sum, scale_log2);
  };
  const auto store = [&](const Work<T>& work, float (&sums)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // up to here each lane has only the sum of its own columns
      sums[h] += __shfl_xor_sync(0xffffffffu, sums[h], 1);
      sums[h] += __shfl_xor_sync(0xffffffffu, sums[h], 2);
    }
    if constexpr (T::WGS_KV > 1) merge_groups<T>(O_rmem, row_max, sums, smem + T::MERGE_OFFSET, consumer, lane);
    if (group == 0)
      store_rows<T>(O_rmem, sums, problem.O + size_t(work.head) * S * T::HEAD_DIM, work.first_row + row_in_tile, S,
                    lane);
  };

  int round = 0, tile = group;
  Work<T> work(blockIdx.x, problem), O_work = work;  // S_rmem has scores of `work`, O_rmem sums of `O_work`
  // A warpgroup whose rows are all above a tile leaves the tile to the others (in a persistent CTA none does).
  const int own_end = T::PERSISTENT || !causal
                          ? work.kv_tiles
                          : min(work.kv_tiles, (work.first_row + (q_part + 1) * WGMMA_M - 1) / T::BLOCK_KV + 1);
  if (group < own_end) {
    if constexpr (T::PING_PONG)
      if (consumer == T::CONSUMERS - 1) next_turn();  // the first turn belongs to the first warpgroup
    take_Q();
    multiply_scores();
    next_turn();
    wgmma_wait<0>();
    scores_there();
    softmax(work, tile);
    bool first_tile = true;
    // The loop is cut where the softmax ends: the code after it waits for the product that ran at the same time, and
    // ptxas moves that wait to the front of its basic block (with it inside the loop nothing overlapped: 281 instead of
    // 265 us at (4,16,2048,128,n), 176 instead of 166 at (2,16,4096,64,y), H200).
    float O_sum[2];
    for (bool started = false;; started = true) {
      wgmma_wait<0>();
      wgmma_hold(O_rmem);
      if (started) {
        values_there();
        if (T::PERSISTENT && first_tile) {
          store(O_work, O_sum);
          O_work = work;
        }
      }
      round_weights<T>(P_rmem, S_rmem);
      tile += T::WGS_KV;
      const bool last_tile = tile >= (T::PERSISTENT ? work.kv_tiles : own_end);
      if (last_tile) {
        const int index = T::PERSISTENT ? work_of_round<T>(++round, problem) : -1;
        if (index < 0) break;
        work = Work<T>(index, problem);
        tile = 0;
        take_Q();
      }
      multiply_scores();
      rescale<T>(O_rmem, alpha);  // during the product just started, which does not touch O
      multiply_values(!first_tile);
      wgmma_wait<1>();
      scores_there();
      first_tile = last_tile;
      if (T::PERSISTENT && first_tile) {
#pragma unroll
        for (int h = 0; h < 2; ++h) O_sum[h] = row_sum[h], row_sum[h] = 0.0f, row_max[h] = NO_ROW_MAX;
      }
      softmax(work, tile);
    }
    rescale<T>(O_rmem, alpha);
    my_turn();
    multiply_values(!first_tile);
    wgmma_wait<0>();
    values_there();
    if constexpr (T::PING_PONG)
      if (consumer == 0) my_turn();  // takes the last turn, so that no barrier is left with arrivals
  }
  if constexpr (!T::PERSISTENT)
    for (tile = max(tile, own_end); tile < work.kv_tiles;
         tile += T::WGS_KV, K_place.step(T::WGS_KV)) {  // releases tiles that it does not need
      mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
      mbarrier_wait(barriers.V_full(K_place.stage), K_place.parity);
      if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage)), mbarrier_arrive(barriers.V_empty(K_place.stage));
    }
  store(O_work, row_sum);
}

template <class T>
__device__ __forceinline__ void attention(const Problem& problem) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t smem_base = smem_address(smem);
  const typename T::Barriers barriers{smem_base + T::BARRIERS_OFFSET};
  if (threadIdx.x < WARPGROUP) {
    registers_decrease<T::PRODUCER_REGISTERS>();
    if (threadIdx.x < WARP) {
      if (threadIdx.x == 0) barriers.initialise();
      __syncwarp();
      named_barrier_arrive(READY, T::CONSUMER_THREADS + WARP);  // the producer itself need not wait for the others
      if (threadIdx.x == 0) produce<T>(problem, smem_base, barriers);
    }
  } else {
    registers_increase<T::CONSUMER_REGISTERS>();
    named_barrier_sync(READY, T::CONSUMER_THREADS + WARP);
    consume<T>(problem, smem_base, smem, barriers);
  }
}

// The tilings of the entries. Rows and keys of a CTA's tiles (the boxes
// of its tensor maps), stages, threads and bytes come from kernel.yaml.
struct D64Split {
  static constexpr int HEAD_DIM = 64, WGS_Q = D64_ROWS / WGMMA_M, WGS_KV = 2, BLOCK_KV = SHORT_TILE_KEYS;
  static constexpr int STAGES = SPLIT_STAGES, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = false, PING_PONG = false;
};
struct D64Tiles128 {
  static constexpr int HEAD_DIM = 64, WGS_Q = D64_ROWS / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_TILE_KEYS;
  static constexpr int STAGES = D64_STAGES, CONSUMER_REGISTERS = 208, CTAS_AN_SM = 2;
  static constexpr bool PERSISTENT = false, PING_PONG = false;
};
struct D64Tiles64 {
  static constexpr int HEAD_DIM = 64, WGS_Q = D64_ROWS / WGMMA_M, WGS_KV = 1, BLOCK_KV = SHORT_TILE_KEYS;
  static constexpr int STAGES = D64_STAGES, CONSUMER_REGISTERS = 128, CTAS_AN_SM = 3;
  static constexpr bool PERSISTENT = false, PING_PONG = false;
};
struct D128 {
  static constexpr int HEAD_DIM = 128, WGS_Q = D128_ROWS / WGMMA_M, WGS_KV = 1, BLOCK_KV = LONG_TILE_KEYS;
  static constexpr int STAGES = D128_STAGES, CONSUMER_REGISTERS = 240, CTAS_AN_SM = 1;
  static constexpr bool PERSISTENT = true, PING_PONG = true;
};

// Defines an entry. It checks that the manifest launches it with the right number of threads and bytes.
#define FLASHCORE_V11_ENTRY(NAME, CUT, LAUNCHED_THREADS, LAUNCHED_BYTES)                                    \
  static_assert(Tiling<CUT>::THREADS == LAUNCHED_THREADS && Tiling<CUT>::SMEM_BYTES == (LAUNCHED_BYTES));   \
  extern "C" __global__ void __launch_bounds__(Tiling<CUT>::THREADS, CUT::CTAS_AN_SM)                       \
      NAME(const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map,            \
           const __grid_constant__ CUtensorMap V_map, half* O, int heads, int S, float scale, int causal) { \
    if constexpr (FLASHCORE_WANTED(NAME))                                                                   \
      attention<Tiling<CUT>>({&Q_map, &K_map, &V_map, O, heads, S, scale, causal});                         \
  }

static_assert(PANEL == BOX_COLUMNS, "a tensor map's box is a panel wide");
FLASHCORE_V11_ENTRY(flashcore_v11_d64_split, D64Split, TWO_CONSUMERS, SPLIT_BYTES)
FLASHCORE_V11_ENTRY(flashcore_v11_d64_tiles128, D64Tiles128, ONE_CONSUMER, D64_TILES128_BYTES)
FLASHCORE_V11_ENTRY(flashcore_v11_d64_tiles64, D64Tiles64, ONE_CONSUMER, D64_TILES64_BYTES)
FLASHCORE_V11_ENTRY(flashcore_v11_d128, D128, TWO_CONSUMERS, D128_BYTES)
