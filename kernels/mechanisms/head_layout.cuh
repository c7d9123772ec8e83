// How the rows of a head are laid out, by the parameter BSHD. 0: [heads of all batches][rows][columns], as PyTorch's
// SDPA has them. 1: [batches][rows][heads of a batch][columns], as a projection writes them and FlashAttention takes them.
#pragma once
#include <cstddef>

#include "tma_ring.cuh"

struct HeadRows {
  size_t first, stride;  // in elements: where the first row starts, and the distance between rows
};

// The batch of a head, if the batch is a separate coordinate.
__device__ __forceinline__ int batch_of_head(int head, int heads_of_batch) { return BSHD ? head / heads_of_batch : 0; }

// Heads are numbered across batches.
__device__ __forceinline__ HeadRows rows_of_head(int head, int rows, int columns, int heads_of_batch) {
  if constexpr (BSHD) {
    const int batch = batch_of_head(head, heads_of_batch);
    const size_t stride = size_t(heads_of_batch) * columns;
    return {batch * rows * stride + size_t(head - batch * heads_of_batch) * columns, stride};
  }
  return {size_t(head) * rows * columns, size_t(columns)};
}

// Copies a tile of a head's rows by a tensor map, which has batches in a dimension of their own where heads are inside.
template <int ROWS, int PANELS>
__device__ __forceinline__ void load_head_tile(uint32_t tile_smem, const CUtensorMap* map, uint32_t full, int first_row,
                                               int head, int batch, int heads_of_batch) {
  if constexpr (BSHD)
    load_tile<ROWS, PANELS>(tile_smem, map, full, first_row, head - batch * heads_of_batch, batch);
  else
    load_tile<ROWS, PANELS>(tile_smem, map, full, first_row, head);
}
