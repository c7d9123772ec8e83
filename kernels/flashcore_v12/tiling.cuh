// How flashcore_v12 cuts a problem: into works for CTAs, a work into tiles for warpgroups.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>

#include "mechanisms/merge_parts.cuh"
#include "mechanisms/tma_ring.cuh"
#include "primitives/cluster.cuh"

constexpr int WARP = 32, WARPGROUP = 128, WGMMA_M = 64, WGMMA_K = 16;

// A launch's arguments. Tensors are [heads][S][HEAD_DIM], heads of all batches in a row.
struct Problem {
  const CUtensorMap *Q_map, *K_map, *V_map;
  half* O;
  int heads, S;
  float scale;
  int causal;
  int heads_together;  // persistent CTAs finish so many heads before the next ones; 0: all at once
};

// What follows from how a CTA is cut: CUT::WGS_Q x CUT::WGS_KV consumer warpgroups in each of CUT::CLUSTER CTAs; each
// takes 64 query rows and every KV_PARTS-th tile of BLOCK_KV keys.
template <class CUT>
struct Tiling : CUT {
  using CUT::HEAD_DIM, CUT::WGS_Q, CUT::WGS_KV, CUT::BLOCK_KV, CUT::STAGES, CUT::PERSISTENT, CUT::CONSUMER_REGISTERS,
      CUT::CTAS_AN_SM, CUT::CLUSTER, CUT::SUMS_BY_ONES;
  static constexpr int PRODUCER_REGISTERS = 24;
  static constexpr int CONSUMERS = WGS_Q * WGS_KV, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
  static constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
  // What consumers take must have been dealt to the CTA at its launch: they would wait for it for ever.
  static_assert(CONSUMER_THREADS * CONSUMER_REGISTERS + WARPGROUP * PRODUCER_REGISTERS <=
                THREADS * (65536 / CTAS_AN_SM / THREADS / 8 * 8));
  static constexpr int KV_PARTS = CLUSTER * WGS_KV;
  static_assert(!PERSISTENT || KV_PARTS == 1, "a persistent CTA's warpgroups take the same tiles");
  static_assert(!SUMS_BY_ONES || KV_PARTS == 1, "parts are merged with sums of their own");
  // Divided keys are few tiles a warpgroup: nearly each raises some row's maximum.
  static constexpr bool SKIP_RESCALE = KV_PARTS == 1;
  static constexpr int BLOCK_Q = WGS_Q * WGMMA_M, PANELS = HEAD_DIM / PANEL, D_STEPS = HEAD_DIM / WGMMA_K;
  // Accumulators a thread: 64 rows x N over 128 threads. Eight columns of ones beside V make O's last ones row sums.
  static constexpr int SCORES = BLOCK_KV / 2, OUTPUTS = HEAD_DIM / 2, SUMS = SUMS_BY_ONES ? 4 : 0;
  static constexpr int Q_PANEL_BYTES = BLOCK_Q * PANEL_ROW_BYTES, KV_PANEL_BYTES = BLOCK_KV * PANEL_ROW_BYTES;
  static constexpr int Q_BYTES = PANELS * Q_PANEL_BYTES, KV_BYTES = PANELS * KV_PANEL_BYTES;
  // The ones stand where the product looks for the panel after V's last: with one panel anywhere, 16 rows for every
  // step; with two, as far from the second as that from the first, so after each stage of V.
  static constexpr int ONES_BYTES = SUMS_BY_ONES && PANELS == 1 ? WGMMA_K * PANEL_ROW_BYTES : 0;
  static constexpr int V_BYTES = KV_BYTES + (SUMS_BY_ONES && PANELS == 2 ? KV_PANEL_BYTES : 0);
  using Barriers = RingBarriers<STAGES, CONSUMERS, WGS_Q>;
  using Merge = MergeBuffer<HEAD_DIM / 8, 4>;
  static constexpr int V_OFFSET = Q_BYTES + STAGES * KV_BYTES, ONES_OFFSET = V_OFFSET + STAGES * V_BYTES;
  static constexpr int MERGE_OFFSET = ONES_OFFSET + ONES_BYTES;
  static constexpr int CLUSTER_MERGE_OFFSET = MERGE_OFFSET + (CONSUMERS - WGS_Q) * Merge::SLOT_BYTES;
  static constexpr int BARRIERS_OFFSET = CLUSTER_MERGE_OFFSET + (CLUSTER - 1) * Merge::SLOT_BYTES;
  static constexpr int SMEM_BYTES = BARRIERS_OFFSET + Barriers::BYTES;
};

// One unit of work: BLOCK_Q rows of one head. A grid of (heads, tiles of rows) has one work a CTA or cluster; persistent
// CTAs divide them. Under a causal mask the last rows see the most keys: they come first, of all heads or of
// `heads_together`, so that the short ones fill the gaps at the end. Without one a CTA's neighbours work on the same
// head, whose K and V then come from device memory once.
template <class T>
struct Work {
  int head, first_row, kv_tiles;
  __device__ __forceinline__ Work(int index, const Problem& problem) {
    const int q_tiles = (problem.S + T::BLOCK_Q - 1) / T::BLOCK_Q;
    int q_tile = blockIdx.y;
    head = blockIdx.x;  // no division where it is waited for
    if constexpr (T::PERSISTENT) {
      int heads = problem.heads, first_head = 0;
      if (problem.heads_together > 0) {
        first_head = index / (problem.heads_together * q_tiles) * problem.heads_together;
        heads = min(problem.heads_together, heads - first_head);
        index -= first_head * q_tiles;
      }
      const int divisor = problem.causal ? heads : q_tiles, quotient = index / divisor,
                rest = index - quotient * divisor;
      head = first_head + (problem.causal ? rest : quotient);
      q_tile = problem.causal ? quotient : rest;
    }
    first_row = (problem.causal ? q_tiles - 1 - q_tile : q_tile) * T::BLOCK_Q;
    const int keys = problem.causal ? min(problem.S, first_row + T::BLOCK_Q) : problem.S;
    kv_tiles = (keys + T::BLOCK_KV - 1) / T::BLOCK_KV;
  }
};

// A persistent CTA's work of that round, -1 after the last. Every other round goes backwards: who had the longest of
// one gets the shortest of the next.
template <class T>
__device__ __forceinline__ int work_of_round(int round, const Problem& problem) {
  const int works = problem.heads * ((problem.S + T::BLOCK_Q - 1) / T::BLOCK_Q);
  const int index = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  return index < works ? index : -1;
}
