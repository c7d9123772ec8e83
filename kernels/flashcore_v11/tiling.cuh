// How flashcore_v11 divides a problem into work items for CTAs, and an item into tiles for warpgroups.
#pragma once
#include <cuda.h>
#include <cuda_fp16.h>

#include "mechanisms/merge_parts.cuh"
#include "mechanisms/tma_ring.cuh"

constexpr int WARP = 32, WARPGROUP = 128, WGMMA_M = 64, WGMMA_K = 16;

// A launch's arguments. Tensors are [heads][S][HEAD_DIM], with the heads of all batches one after another.
struct Problem {
  const CUtensorMap *Q_map, *K_map, *V_map;
  half* O;
  int heads, S;
  float scale;
  int causal;
};

// The constants that follow from a CTA's tiling CUT. It has CUT::WGS_Q x CUT::WGS_KV consumer warpgroups; each takes 64
// query rows and every WGS_KV-th tile of BLOCK_KV keys.
template <class CUT>
struct Tiling : CUT {
  using CUT::HEAD_DIM, CUT::WGS_Q, CUT::WGS_KV, CUT::BLOCK_KV, CUT::STAGES, CUT::PERSISTENT, CUT::CONSUMER_REGISTERS,
      CUT::CTAS_AN_SM;
  static constexpr int PRODUCER_REGISTERS = 24;
  static constexpr int CONSUMERS = WGS_Q * WGS_KV, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
  static constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
  // Consumers must not ask for more registers than the CTA got at its launch, or they would wait forever.
  static_assert(CONSUMER_THREADS * CONSUMER_REGISTERS + WARPGROUP * PRODUCER_REGISTERS <=
                THREADS * (65536 / CTAS_AN_SM / THREADS / 8 * 8));
  static_assert(!PERSISTENT || WGS_KV == 1, "a persistent CTA's warpgroups take the same tiles");
  static constexpr bool SKIP_RESCALE =
      WGS_KV == 1;  // divided keys are few tiles per warpgroup: nearly each raises some row's maximum
  static constexpr int BLOCK_Q = WGS_Q * WGMMA_M, PANELS = HEAD_DIM / PANEL, D_STEPS = HEAD_DIM / WGMMA_K;
  static constexpr int SCORES = BLOCK_KV / 2,
                       OUTPUTS = HEAD_DIM / 2;  // accumulators per thread: 64 rows x N over 128 threads
  static constexpr int Q_PANEL_BYTES = BLOCK_Q * PANEL_ROW_BYTES, KV_PANEL_BYTES = BLOCK_KV * PANEL_ROW_BYTES;
  static constexpr int Q_BYTES = PANELS * Q_PANEL_BYTES, KV_BYTES = PANELS * KV_PANEL_BYTES;
  using Barriers = RingBarriers<STAGES, CONSUMERS, WGS_Q>;
  static constexpr int MERGE_OFFSET = Q_BYTES + 2 * STAGES * KV_BYTES;
  static constexpr int BARRIERS_OFFSET = MERGE_OFFSET + (CONSUMERS - WGS_Q) * MergeBuffer<HEAD_DIM / 8, 4>::SLOT_BYTES;
  static constexpr int SMEM_BYTES = BARRIERS_OFFSET + Barriers::BYTES;
};

// One unit of work: BLOCK_Q rows of one head. A grid of (heads, tiles of rows) has one per CTA; persistent CTAs divide
// them. Under a causal mask the last rows see the most keys. They come first, for all heads, so that short items fill
// the gaps at the end. Without a mask, neighbouring persistent CTAs work on the same head, whose K and V are then read
// from device memory once: 126 MB instead of 603 at (4,16,2048,128,n). The saved power allows a higher clock: 249 to
// 254 instead of 278 to 281 us in a steady state, H200.
template <class T>
struct Work {
  int head, first_row, kv_tiles;
  __device__ __forceinline__ Work(int index, const Problem& problem) {
    const int q_tiles = (problem.S + T::BLOCK_Q - 1) / T::BLOCK_Q;
    int q_tile = blockIdx.y;
    head = blockIdx.x;  // no division on the critical path
    if constexpr (T::PERSISTENT) {
      head = problem.causal ? index % problem.heads : index / q_tiles;
      q_tile = problem.causal ? index / problem.heads : index % q_tiles;
    }
    first_row = (problem.causal ? q_tiles - 1 - q_tile : q_tile) * T::BLOCK_Q;
    const int keys = problem.causal ? min(problem.S, first_row + T::BLOCK_Q) : problem.S;
    kv_tiles = (keys + T::BLOCK_KV - 1) / T::BLOCK_KV;
  }
};

// A persistent CTA's work in a round, -1 after the last. Every other round goes
// backwards: the CTA with the longest work of one round gets the shortest of the next.
template <class T>
__device__ __forceinline__ int work_of_round(int round, const Problem& problem) {
  const int works = problem.heads * ((problem.S + T::BLOCK_Q - 1) / T::BLOCK_Q);
  const int index = round * gridDim.x + (round & 1 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  return index < works ? index : -1;
}
