// How flashcore_v12 divides a problem into work items for CTAs, and an item into tiles for warpgroups.
#pragma once
#include <cuda.h>

#include "forms.cuh"
#include "mechanisms/attention_form.cuh"
#include "mechanisms/element.cuh"
#include "mechanisms/head_layout.cuh"
#include "mechanisms/merge_parts.cuh"
#include "mechanisms/tma_ring.cuh"
#include "primitives/cluster.cuh"

constexpr int AS_HEAD_DIM = 0;  // head dimension of V and O
constexpr int WARP = 32, WARPGROUP = 128, WGMMA_M = 64, WGMMA_K = 16;
constexpr int WORK_BYTES = 16;  // as wide as a load, because nvcc would otherwise read four bytes of the next one, too
// An announcement is read again when the item's outputs are stored. By then
// the next item is under way, and the one after that may already be announced.
constexpr int WORK_SLOTS = 3;

// A launch's arguments. Q is [heads][S][HEAD_DIM], with the heads of all batches in sequence, O [heads][S][VALUE_DIM],
// K [heads / group][Skv][HEAD_DIM] and V [heads / group][Skv][VALUE_DIM], or with BSHD as head_layout.cuh says.
struct Problem {
  const CUtensorMap *Q_map, *K_map, *V_map;
  Element* O;
  float* LSE;  // [heads][S]: natural logarithm of each row's sum of weights; null: not wanted
  int heads;
  AttentionForm form;
  float scale;
  int paired_heads;  // see Rounds; even, and 0 without a mask
  int H, Hkv;  // heads per batch, of Q and O, and of K and V; only BSHD uses them
  Forms forms = {};  // only for FORMED entries
};

// The constants that follow from a CTA's tiling CUT: CUT::WGS_Q x CUT::WGS_KV consumer warpgroups in each of
// CUT::CLUSTER CTAs; each takes 64 query rows and every KV_PARTS-th tile of BLOCK_KV keys.
template <class CUT>
struct Tiling : CUT {
  using CUT::HEAD_DIM, CUT::WGS_Q, CUT::WGS_KV, CUT::BLOCK_KV, CUT::STAGES, CUT::PERSISTENT, CUT::CONSUMER_REGISTERS,
      CUT::CTAS_AN_SM, CUT::CLUSTER, CUT::SUMS_BY_ONES;
  static constexpr int PRODUCER_REGISTERS = 24;
  static constexpr int CONSUMERS = WGS_Q * WGS_KV, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
  static constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
  // Consumers must not ask for more registers than the CTA got at its launch, or they would wait forever.
  static_assert(CONSUMER_THREADS * CONSUMER_REGISTERS + WARPGROUP * PRODUCER_REGISTERS <=
                THREADS * (65536 / CTAS_AN_SM / THREADS / 8 * 8));
  static constexpr int KV_PARTS = CLUSTER * WGS_KV;
  static_assert(!PERSISTENT || KV_PARTS == 1, "a persistent CTA's warpgroups take the same tiles");
  static_assert(!SUMS_BY_ONES || KV_PARTS == 1, "parts are merged with sums of their own");
  static_assert(PERSISTENT || !CUT::FORMED, "windows, sinks and capped logits are the persistent CTAs'");
  // If keys are divided, each warpgroup has few tiles, and nearly every tile raises a maximum. In
  // persistent CTAs the branch costs more than the multiplication, which overlaps with exponentials.
  static constexpr bool SKIP_RESCALE = !PERSISTENT && KV_PARTS == 1;
  static constexpr int BLOCK_Q = WGS_Q * WGMMA_M, D_STEPS = HEAD_DIM / WGMMA_K;
  static constexpr int VALUE_DIM = CUT::VALUE_DIM == AS_HEAD_DIM ? HEAD_DIM : CUT::VALUE_DIM;
  // TMA fills the rest of a last panel with zeros, which no product reads.
  static constexpr int PANELS = (HEAD_DIM + PANEL - 1) / PANEL, V_PANELS = (VALUE_DIM + PANEL - 1) / PANEL;
  // Accumulators per thread: 64 rows x N over 128 threads. With eight columns of ones next to V, O ends with row sums.
  static constexpr int SCORES = BLOCK_KV / 2, OUTPUTS = VALUE_DIM / 2, SUMS = SUMS_BY_ONES ? 4 : 0;
  static constexpr int Q_PANEL_BYTES = BLOCK_Q * PANEL_ROW_BYTES, KV_PANEL_BYTES = BLOCK_KV * PANEL_ROW_BYTES;
  static constexpr int Q_BYTES = PANELS * Q_PANEL_BYTES;
  static constexpr int K_BYTES = PANELS * KV_PANEL_BYTES, V_BYTES = V_PANELS * KV_PANEL_BYTES;
  // The product reads the ones as the panel after V's panel: 16 rows, which every step reads. (If V had two panels,
  // the ones would have to follow each stage of V, as far from its second panel as that is from the first.)
  static_assert(!SUMS_BY_ONES || V_PANELS == 1);
  static constexpr int ONES_BYTES = SUMS_BY_ONES ? WGMMA_K * PANEL_ROW_BYTES : 0;
  using Barriers = RingBarriers<STAGES, CONSUMERS, WGS_Q>;
  using Merge = MergeBuffer<VALUE_DIM / 8, 4>;
  static constexpr int V_OFFSET = Q_BYTES + STAGES * K_BYTES, ONES_OFFSET = V_OFFSET + STAGES * V_BYTES;
  static constexpr int MERGE_OFFSET = ONES_OFFSET + ONES_BYTES;
  static constexpr int CLUSTER_MERGE_OFFSET = MERGE_OFFSET + (CONSUMERS - WGS_Q) * Merge::SLOT_BYTES;
  static constexpr int BARRIERS_OFFSET = CLUSTER_MERGE_OFFSET + (CLUSTER - 1) * Merge::SLOT_BYTES;
  static constexpr int WORK_OFFSET = BARRIERS_OFFSET + Barriers::BYTES;
  static constexpr int SMEM_BYTES = WORK_OFFSET + (PERSISTENT ? WORK_SLOTS * WORK_BYTES : 0);
};

// A work item: BLOCK_Q rows of one head. A grid of (heads, tiles of rows) has one per CTA or cluster. A persistent CTA
// takes one per round: its producer computes which one and announces it along with Q. If consumers had to wait for that
// division, short heads would take up to 9 % longer.
template <class T>
struct alignas(WORK_BYTES) Work {
  int head, first_row, kv_tiles;

  __device__ __forceinline__ static Work of(int head, int q_tile, const Problem& problem) {
    const int first_row = q_tile * T::BLOCK_Q, keys = problem.form.keys_before(first_row + T::BLOCK_Q);
    return {head, first_row, (keys + T::BLOCK_KV - 1) / T::BLOCK_KV};
  }
  // Under a causal mask the last rows see the most keys, so they come first.
  __device__ __forceinline__ static Work of_grid(const Problem& problem) {
    return of(blockIdx.x, problem.form.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.y, problem);
  }
  // The first tile that some row sees; of rows that see no key, the last one, in which all keys are hidden.
  __device__ __forceinline__ int first_tile(const Problem& problem) const {
    return max(0, min(problem.forms.keys_hidden(first_row, problem.form) / T::BLOCK_KV, kv_tiles - 1));
  }
  __device__ __forceinline__ static Work end() { return {0, 0, 0}; }
  __device__ __forceinline__ bool is_end() const { return kv_tiles == 0; }
};

__device__ __forceinline__ int next_slot(int slot) { return slot + 1 < WORK_SLOTS ? slot + 1 : 0; }

// The work items of a persistent CTA. Without a mask its neighbours work on the same head, whose K and V
// then come from device memory once. Under a causal mask, if there are few items, they are ordered longest
// first over all heads, so that short ones fill the gaps at the end. Every other round goes backwards: the
// CTA with the longest item of one round gets the shortest of the next. K and V of many heads would not stay
// in L2, so `paired_heads` come first, two at a time: a long item of one head is paired with a short item of
// the other, and all pairs are equally long.
template <class T>
struct Rounds {
  const Problem& problem;
  const int q_tiles = (problem.form.S + T::BLOCK_Q - 1) / T::BLOCK_Q;

  __device__ __forceinline__ Work<T> work(int round) const {
    const int ctas = gridDim.x, cta = blockIdx.x;
    int ahead = 0;  // CTAs that have one pair less, and start earlier on the unpaired items
    if (problem.paired_heads > 0) {
      const int pairs = problem.paired_heads / 2 * q_tiles, full_rounds = pairs / ctas,
                rest = pairs - full_rounds * ctas;
      const int own_pairs = full_rounds + (cta < rest);
      if (round < 2 * own_pairs) {
        const int pair = (round >> 1) * ctas + cta, couple = pair / q_tiles, shorter = pair - couple * q_tiles;
        return Work<T>::of(2 * couple + (round & 1), round & 1 ? shorter : q_tiles - 1 - shorter, problem);
      }
      round -= 2 * own_pairs;
      ahead = rest > 0 ? ctas - rest : 0;
      if (cta >= ctas - ahead && round-- == 0) return unpaired(cta - rest);
    }
    // The first CTAs had the longest items, so the next round goes backwards.
    const bool backwards = (round & 1) != (ahead > 0);
    return unpaired(ahead + round * ctas + (backwards ? ctas - 1 - cta : cta));
  }

 private:
  __device__ __forceinline__ Work<T> unpaired(int index) const {
    const int heads = problem.heads - problem.paired_heads, divisor = problem.form.causal ? heads : q_tiles,
              quotient = index / divisor, rest = index - quotient * divisor;
    if (index >= heads * q_tiles) return Work<T>::end();
    return problem.form.causal ? Work<T>::of(problem.paired_heads + rest, q_tiles - 1 - quotient, problem)
                               : Work<T>::of(quotient, rest, problem);
  }
};
