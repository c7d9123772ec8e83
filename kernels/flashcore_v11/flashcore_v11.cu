// flashcore_v11: attention on Hopper's own units. A producer warp keeps K and V coming by TMA, warpgroups multiply with wgmma, and while
// the tensor cores form the scores of the next tile and weigh the values of this one, the softmax runs beside them (after FlashAttention-3).
// Limits: fp16, HEAD_DIM 64 or 128, S any length >= 1, sm_90a only.
//
// Against flashcore_v10: no thread copies anything, K and V are read from shared memory by the tensor cores themselves, and products are
// asynchronous, so that one warpgroup overlaps its own softmax. Short sequences: the warpgroups of a CTA divide the keys and merge.
#include <cuda_fp16.h>

#include "mechanisms/merge_parts.cuh"
#include "mechanisms/tma_ring.cuh"
#include "primitives/barrier.cuh"
#include "primitives/convert.cuh"
#include "primitives/exp2.cuh"
#include "primitives/ldmatrix.cuh"
#include "primitives/registers.cuh"
#include "primitives/smem.cuh"
#include "primitives/wgmma.cuh"

constexpr int WARP = 32, WARPGROUP = 128, WGMMA_M = 64, WGMMA_K = 16;
constexpr int READY = 1, TURN = 2, Q_READ = 6, PAIR = 10;   // named barriers; of the last three, one a warpgroup
constexpr float LOG2_E = 1.4426950408889634f;
constexpr float NO_ROW_MAX = -1e30f;   // below every logit of fp16 inputs, and finite: (-inf) - NO_ROW_MAX is no NaN

// How a CTA is cut: WGS_Q x WGS_KV consumer warpgroups; each takes 64 query rows and every WGS_KV-th tile of BLOCK_KV keys.
template <int HEAD_DIM_, int WGS_Q_, int WGS_KV_, int BLOCK_KV_, int STAGES_, bool PERSISTENT_, bool PING_PONG_,
          int CONSUMER_REGISTERS_, int CTAS_AN_SM_>
struct Tiling {
  static constexpr int HEAD_DIM = HEAD_DIM_, WGS_Q = WGS_Q_, WGS_KV = WGS_KV_, BLOCK_KV = BLOCK_KV_, STAGES = STAGES_;
  static constexpr bool PERSISTENT = PERSISTENT_, PING_PONG = PING_PONG_;
  static constexpr int CONSUMER_REGISTERS = CONSUMER_REGISTERS_, PRODUCER_REGISTERS = 24, CTAS_AN_SM = CTAS_AN_SM_;
  static constexpr int CONSUMERS = WGS_Q * WGS_KV, THREADS = (CONSUMERS + 1) * WARPGROUP;
  // What consumers take must have been dealt to the CTA at its launch: they would wait for it for ever.
  static_assert(CONSUMERS * WARPGROUP * CONSUMER_REGISTERS + WARPGROUP * PRODUCER_REGISTERS <= THREADS * (65536 / CTAS_AN_SM / THREADS / 8 * 8));
  static constexpr int BLOCK_Q = WGS_Q * WGMMA_M, PANELS = HEAD_DIM / PANEL, D_STEPS = HEAD_DIM / WGMMA_K;
  static constexpr int SCORES = BLOCK_KV / 2, OUTPUTS = HEAD_DIM / 2;   // accumulators a thread: 64 rows x N over 128 threads
  static constexpr int Q_PANEL_BYTES = BLOCK_Q * PANEL_ROW_BYTES, KV_PANEL_BYTES = BLOCK_KV * PANEL_ROW_BYTES;
  static constexpr int Q_BYTES = PANELS * Q_PANEL_BYTES, KV_BYTES = PANELS * KV_PANEL_BYTES;
  using Barriers = RingBarriers<STAGES, CONSUMERS, WGS_Q>;
  static constexpr int MERGE_OFFSET = Q_BYTES + 2 * STAGES * KV_BYTES;
  static constexpr int BARRIERS_OFFSET = MERGE_OFFSET + (CONSUMERS - WGS_Q) * MergeBuffer<HEAD_DIM / 8, 4>::SLOT_BYTES;
};

// One unit of work: BLOCK_Q rows of one head. A grid of (heads, tiles of rows) has one a CTA; a persistent CTA takes every gridDim.x-th.
template <class T>
struct Work {
  int head, first_row, kv_tiles;
  // The last rows see the most keys under a causal mask: they come first, so that the short ones fill the gaps at the end.
  __device__ __forceinline__ Work(int index, int heads, int S, int causal) {
    const int q_tiles = (S + T::BLOCK_Q - 1) / T::BLOCK_Q, q_tile = T::PERSISTENT ? index / heads : blockIdx.y;   // no division where it is waited for
    head = T::PERSISTENT ? index % heads : blockIdx.x;
    first_row = (causal ? q_tiles - 1 - q_tile : q_tile) * T::BLOCK_Q;
    const int keys = causal ? min(S, first_row + T::BLOCK_Q) : S;
    kv_tiles = (keys + T::BLOCK_KV - 1) / T::BLOCK_KV;
  }
};

// Calls do_work(index) for all of this CTA's work.
template <class T, class F>
__device__ __forceinline__ void for_each_work(int works, F do_work) {
  if constexpr (!T::PERSISTENT) do_work(0);
  else for (int index = blockIdx.x; index < works; index += gridDim.x) do_work(index);
}

// One thread feeds the ring, for all of this CTA's work. Where keys are divided, each group's K comes before anyone's V.
template <class T>
__device__ __forceinline__ void produce(const CUtensorMap* Q_map, const CUtensorMap* K_map, const CUtensorMap* V_map, uint32_t smem,
                                        typename T::Barriers barriers, int heads, int works, int S, int causal) {
  const uint32_t K_ring = smem + T::Q_BYTES, V_ring = K_ring + T::STAGES * T::KV_BYTES;
  RingPlace<T::STAGES> place;
  int Q_parity = 0;
  for_each_work<T>(works, [&](int index) {
    const Work<T> work(index, heads, S, causal);
    mbarrier_wait(barriers.Q_empty(), Q_parity ^ 1);   // the first wait passes at once: nothing has to be emptied
    load_tile<T::BLOCK_Q, T::PANELS>(smem, Q_map, barriers.Q_full(), work.first_row, work.head);
#pragma unroll 1
    for (int round = 0; round < work.kv_tiles; round += T::WGS_KV) {
      const int tiles = min(T::WGS_KV, work.kv_tiles - round);
      RingPlace<T::STAGES> V_place = place;
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.K_empty(place.stage), place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(K_ring + place.stage * T::KV_BYTES, K_map, barriers.K_full(place.stage), (round + i) * T::BLOCK_KV, work.head);
        place.step(1);
      }
#pragma unroll
      for (int i = 0; i < T::WGS_KV; ++i) {
        if (i >= tiles) break;
        mbarrier_wait(barriers.V_empty(V_place.stage), V_place.parity ^ 1);
        load_tile<T::BLOCK_KV, T::PANELS>(V_ring + V_place.stage * T::KV_BYTES, V_map, barriers.V_full(V_place.stage), (round + i) * T::BLOCK_KV, work.head);
        V_place.step(1);
      }
    }
    Q_parity ^= 1;
  });
}

// This warpgroup's 64 rows of Q as A operands: the products then read only K from shared memory.
template <class T>
__device__ __forceinline__ void load_Q_fragments(uint32_t (&Q_rmem)[T::D_STEPS][4], uint32_t Q_smem) {
  const int row = threadIdx.x % WARPGROUP / WARP * 16 + (threadIdx.x & 15), upper_chunk = threadIdx.x % WARP / 16;
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step)
    ldmatrix_x4(Q_rmem[step][0], Q_rmem[step][1], Q_rmem[step][2], Q_rmem[step][3],
                Q_smem + step / 4 * T::Q_PANEL_BYTES + swizzled_offset<PANEL_ROW_BYTES>(row, step % 4 * 2 + upper_chunk));
}

// Starts S = Q K^T for this warpgroup's 64 rows.
template <class T>
__device__ __forceinline__ void start_scores(float (&S_rmem)[T::SCORES], const uint32_t (&Q_rmem)[T::D_STEPS][4], uint32_t K_smem) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::D_STEPS; ++step) {
    const uint64_t K = wgmma_descriptor(K_smem + step / 4 * T::KV_PANEL_BYTES + step % 4 * WGMMA_K * 2);
    if constexpr (T::BLOCK_KV == 128) wgmma_m64n128k16_rs(S_rmem, Q_rmem[step], K, step > 0);
    else wgmma_m64n64k16_rs(S_rmem, Q_rmem[step], K, step > 0);
  }
  wgmma_commit();
}

// Starts O += P V.
template <class T>
__device__ __forceinline__ void start_values(float (&O_rmem)[T::OUTPUTS], const uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4], uint32_t V_smem) {
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < T::BLOCK_KV / WGMMA_K; ++step) {
    const uint64_t b = wgmma_descriptor(V_smem + step * WGMMA_K * PANEL_ROW_BYTES, T::KV_PANEL_BYTES);
    if constexpr (T::HEAD_DIM == 128) wgmma_m64n128k16_rs_bt(O_rmem, P_rmem[step], b, 1);
    else wgmma_m64n64k16_rs_bt(O_rmem, P_rmem[step], b, 1);
  }
  wgmma_commit();
}

// Keys that a row may not see (past the end, or later than the row) score minus infinity. row: of S_rmem's elements 0 and 1 modulo 4.
template <class T>
__device__ __forceinline__ void mask_scores(float (&S_rmem)[T::SCORES], int row, int first_key, int S, int causal, int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int keys = (causal ? min(S, row + (i >> 1) * 8 + 1) : S) - first_key - 2 * (lane & 3) - (i & 1);
#pragma unroll
    for (int n = 0; n < T::BLOCK_KV / 8; ++n)
      if (n * 8 >= keys) S_rmem[4 * n + i] = -INFINITY;
  }
}

// S becomes exp2(S - max) in place; alpha is what O has to be multiplied with. Row maxima are in log2 units.
template <class T>
__device__ __forceinline__ void online_softmax(float (&S_rmem)[T::SCORES], float (&row_max)[2], float (&row_sum)[2], float (&alpha)[2], float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float tile_max = fmaxf(S_rmem[2 * h], S_rmem[2 * h + 1]);
#pragma unroll
    for (int i = 4 + 2 * h; i < T::SCORES; i += 4) tile_max = fmaxf(tile_max, fmaxf(S_rmem[i], S_rmem[i + 1]));
    tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
    tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
    const float raised = fmaxf(row_max[h], tile_max * scale_log2);
    alpha[h] = exp2_approx(row_max[h] - raised);
    row_max[h] = raised;
    row_sum[h] *= alpha[h];
  }
#pragma unroll
  for (int i = 0; i < T::SCORES; ++i) {
    const int h = (i >> 1) & 1;
    // exp(x - m) as exp2((x - m) * log2e): one FFMA and one MUFU instead of a subtract, a multiply and a MUFU.
    S_rmem[i] = exp2_approx(fmaf(S_rmem[i], scale_log2, -row_max[h]));
    row_sum[h] += S_rmem[i];
  }
}

template <class T>
__device__ __forceinline__ void round_weights(uint32_t (&P_rmem)[T::BLOCK_KV / WGMMA_K][4], const float (&S_rmem)[T::SCORES]) {
#pragma unroll
  for (int i = 0; i < T::SCORES / 2; ++i) P_rmem[i / 4][i % 4] = pack_half2(S_rmem[2 * i], S_rmem[2 * i + 1]);
}

template <class T>
__device__ __forceinline__ void rescale(float (&O_rmem)[T::OUTPUTS], const float (&alpha)[2]) {
  if (!__any_sync(0xffffffffu, alpha[0] != 1.0f || alpha[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < T::OUTPUTS; ++i) O_rmem[i] *= alpha[(i >> 1) & 1];
}

// O / row sum as 16-byte stores: four lanes hold eight columns of a row two by two and trade them for eight in a row.
template <class T>
__device__ __forceinline__ void store_rows(const float (&O_rmem)[T::OUTPUTS], const float (&row_sum)[2], half* O, int row, int S, int lane) {
  const int quad_lane = lane & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float norm = 1.0f / row_sum[h];
#pragma unroll
    for (int block = 0; block < T::HEAD_DIM / 32; ++block) {
      uint32_t pair[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) pair[n] = pack_half2(O_rmem[16 * block + 4 * n + 2 * h] * norm, O_rmem[16 * block + 4 * n + 2 * h + 1] * norm);
      // A 4 x 4 transposition in two rounds: first with the lane beside, then with the lane two away.
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
      if (row + 8 * h < S)
        *reinterpret_cast<uint4*>(O + size_t(row + 8 * h) * T::HEAD_DIM + 32 * block + 8 * quad_lane) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
  }
}

// The groups' parts of O become one in log2(WGS_KV) steps: the upper half of the groups hands over to the lower half and is done.
template <class T>
__device__ __forceinline__ void merge_groups(float (&O_rmem)[T::OUTPUTS], float (&row_max)[2], float (&row_sum)[2], unsigned char* smem, int consumer, int lane) {
  const MergeBuffer<T::HEAD_DIM / 8, 4> buffer{smem};   // slot by the consumer that hands over
  const int stripe = threadIdx.x % WARPGROUP / WARP;
#pragma unroll
  for (int half = T::CONSUMERS / 2; half >= T::WGS_Q; half /= 2) {
    if (half <= consumer && consumer < 2 * half) {
      buffer.hand_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], consumer - T::WGS_Q, stripe, lane);
      named_barrier_arrive(PAIR + consumer, 2 * WARPGROUP);   // an id of its own for each that hands over: none completes for another
    } else if (consumer < half) {
      named_barrier_sync(PAIR + consumer + half, 2 * WARPGROUP);
      buffer.take_over(O_rmem, row_max[0], row_max[1], row_sum[0], row_sum[1], consumer + half - T::WGS_Q, stripe, lane);
    }
  }
}

// A consumer warpgroup, for all of this CTA's work.
template <class T>
__device__ __forceinline__ void consume(half* O, uint32_t smem_base, unsigned char* smem, typename T::Barriers barriers, int heads, int works, int S,
                                        float scale, int causal) {
  // A stage always serves the same group: one that waited for a stage two laps ahead would take the last lap's parity for its own.
  static_assert(T::STAGES % T::WGS_KV == 0);
  const int consumer = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0) - 1, q_part = consumer % T::WGS_Q, group = consumer / T::WGS_Q;
  const int lane = threadIdx.x % WARP, row_in_tile = q_part * WGMMA_M + threadIdx.x % WARPGROUP / WARP * 16 + (lane >> 2);
  const bool signals = threadIdx.x % WARPGROUP == 0;   // one arrival a warpgroup: wgmma_wait has waited for all four warps' products
  const uint32_t Q_smem = smem_base + q_part * WGMMA_M * PANEL_ROW_BYTES, K_smem = smem_base + T::Q_BYTES, V_smem = K_smem + T::STAGES * T::KV_BYTES;
  const float scale_log2 = scale * LOG2_E;
  // Warpgroups issue their products in turn, so that one's softmax falls into the other's products.
  const auto my_turn = [&] { if constexpr (T::PING_PONG) named_barrier_sync(TURN + consumer, 2 * WARPGROUP); };
  const auto next_turn = [&] { if constexpr (T::PING_PONG) named_barrier_arrive(TURN + (consumer + 1) % T::CONSUMERS, 2 * WARPGROUP); };
  if constexpr (T::PING_PONG) if (consumer == T::CONSUMERS - 1) next_turn();   // the first turn is the first warpgroup's

  RingPlace<T::STAGES> work_place;   // where this work's first tile lies
  int Q_parity = 0;
  for_each_work<T>(works, [&](int index) {
    const Work<T> work(index, heads, S, causal);
    const int row = work.first_row + row_in_tile, warp_first_row = row - (lane >> 2);
    float O_rmem[T::OUTPUTS] = {}, S_rmem[T::SCORES], row_max[2] = {NO_ROW_MAX, NO_ROW_MAX}, row_sum[2] = {0.0f, 0.0f}, alpha[2];
    uint32_t P_rmem[T::BLOCK_KV / WGMMA_K][4], Q_rmem[T::D_STEPS][4];
    // A warpgroup whose rows all lie above a tile leaves it to the others (in turns, all have to keep step).
    const int own_end = T::PING_PONG || !causal ? work.kv_tiles : min(work.kv_tiles, (work.first_row + (q_part + 1) * WGMMA_M - 1) / T::BLOCK_KV + 1);
    const auto mask_where_needed = [&](int tile) {
      const int first_key = tile * T::BLOCK_KV;
      if (first_key + T::BLOCK_KV > (causal ? min(S, warp_first_row + 1) : S)) mask_scores<T>(S_rmem, row, first_key, S, causal, lane);
    };

    RingPlace<T::STAGES> K_place = work_place, V_place;
    if constexpr (T::WGS_KV > 1) K_place.step(group);
    work_place.advance(work.kv_tiles);
    V_place = K_place;
    if (group < own_end) {
      mbarrier_wait(barriers.Q_full(), Q_parity);
      load_Q_fragments<T>(Q_rmem, Q_smem);
      named_barrier_sync(Q_READ + consumer, WARPGROUP);   // the four warps read their rows one by one
      if (signals) mbarrier_arrive(barriers.Q_empty());   // the next work's Q may come
      mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
      start_scores<T>(S_rmem, Q_rmem, K_smem + K_place.stage * T::KV_BYTES);
      wgmma_wait<0>();
      wgmma_hold(S_rmem);
      if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage));
      mask_where_needed(group);
      online_softmax<T>(S_rmem, row_max, row_sum, alpha, scale_log2);
      // The loop is cut where the softmax ends: what follows waits for the product that ran beside it, and ptxas moves that wait
      // to the front of its basic block (with it inside the loop nothing overlapped: 281 instead of 265 us at
      // (4,16,2048,128,n), 176 instead of 166 at (2,16,4096,64,y), H200).
      for (int tile = group;; K_place.step(T::WGS_KV)) {
        if (tile > group) {
          wgmma_wait<0>();
          wgmma_hold(O_rmem);
          if (signals) mbarrier_arrive(barriers.V_empty(V_place.stage));
          V_place.step(T::WGS_KV);
          rescale<T>(O_rmem, alpha);
        }
        round_weights<T>(P_rmem, S_rmem);
        tile += T::WGS_KV;
        if (tile >= own_end) break;
        RingPlace<T::STAGES> next = K_place;
        next.step(T::WGS_KV);
        mbarrier_wait(barriers.K_full(next.stage), next.parity);
        my_turn();
        start_scores<T>(S_rmem, Q_rmem, K_smem + next.stage * T::KV_BYTES);
        mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
        start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::KV_BYTES);
        next_turn();
        wgmma_wait<1>();
        wgmma_hold(S_rmem);
        if (signals) mbarrier_arrive(barriers.K_empty(next.stage));
        mask_where_needed(tile);
        online_softmax<T>(S_rmem, row_max, row_sum, alpha, scale_log2);
      }
      mbarrier_wait(barriers.V_full(V_place.stage), V_place.parity);
      start_values<T>(O_rmem, P_rmem, V_smem + V_place.stage * T::KV_BYTES);
      wgmma_wait<0>();
      wgmma_hold(O_rmem);
      if (signals) mbarrier_arrive(barriers.V_empty(V_place.stage));
      K_place.step(T::WGS_KV);
    }
    int tile = group < own_end ? group + (own_end - 1 - group) / T::WGS_KV * T::WGS_KV + T::WGS_KV : group;
    for (; tile < work.kv_tiles; tile += T::WGS_KV, K_place.step(T::WGS_KV)) {   // hands on what it has no use for
      mbarrier_wait(barriers.K_full(K_place.stage), K_place.parity);
      mbarrier_wait(barriers.V_full(K_place.stage), K_place.parity);
      if (signals) mbarrier_arrive(barriers.K_empty(K_place.stage)), mbarrier_arrive(barriers.V_empty(K_place.stage));
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {   // until here each lane has summed its own columns only
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 1);
      row_sum[h] += __shfl_xor_sync(0xffffffffu, row_sum[h], 2);
    }
    if constexpr (T::WGS_KV > 1) merge_groups<T>(O_rmem, row_max, row_sum, smem + T::MERGE_OFFSET, consumer, lane);
    if (group == 0) store_rows<T>(O_rmem, row_sum, O + size_t(work.head) * S * T::HEAD_DIM, row, S, lane);
    Q_parity ^= 1;
  });
  if constexpr (T::PING_PONG) if (consumer == 0) my_turn();   // takes the turn that is left over: no barrier ends half full
}

template <class T>
__device__ __forceinline__ void attention(const CUtensorMap* Q_map, const CUtensorMap* K_map, const CUtensorMap* V_map, half* O,
                                          int heads, int S, float scale, int causal) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const uint32_t smem_base = smem_address(smem);
  const typename T::Barriers barriers{smem_base + T::BARRIERS_OFFSET};
  const int works = heads * ((S + T::BLOCK_Q - 1) / T::BLOCK_Q);
  constexpr int READY_THREADS = T::CONSUMERS * WARPGROUP + WARP;
  if (threadIdx.x < WARPGROUP) {
    registers_decrease<T::PRODUCER_REGISTERS>();
    if (threadIdx.x < WARP) {
      if (threadIdx.x == 0) barriers.initialise();
      __syncwarp();
      named_barrier_arrive(READY, READY_THREADS);   // the producer itself need not wait for anyone
      if (threadIdx.x == 0) produce<T>(Q_map, K_map, V_map, smem_base, barriers, heads, works, S, causal);
    }
  } else {
    registers_increase<T::CONSUMER_REGISTERS>();
    named_barrier_sync(READY, READY_THREADS);
    consume<T>(O, smem_base, smem, barriers, heads, works, S, scale, causal);
  }
}

#define FLASHCORE_V11_ENTRY(NAME, ...)                                                                                                      \
  extern "C" __global__ void __launch_bounds__(Tiling<__VA_ARGS__>::THREADS, Tiling<__VA_ARGS__>::CTAS_AN_SM)                                                 \
      NAME(const __grid_constant__ CUtensorMap Q_map, const __grid_constant__ CUtensorMap K_map, const __grid_constant__ CUtensorMap V_map, \
           half* O, int heads, int S, float scale, int causal) {                                                             \
    attention<Tiling<__VA_ARGS__>>(&Q_map, &K_map, &V_map, O, heads, S, scale, causal);                                                  \
  }

// Which one a shape gets is the manifest's choice.
FLASHCORE_V11_ENTRY(flashcore_v11_d64_split, 64, 1, 2, 64, 4, false, false, 240, 1)
FLASHCORE_V11_ENTRY(flashcore_v11_d64_tiles128, 64, 1, 1, 128, 2, false, false, 208, 2)
FLASHCORE_V11_ENTRY(flashcore_v11_d64_tiles64, 64, 1, 1, 64, 2, false, false, 128, 3)
FLASHCORE_V11_ENTRY(flashcore_v11_d128, 128, 2, 1, 128, 3, true, true, 240, 1)
