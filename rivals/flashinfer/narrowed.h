// FlashInfer's choice of tiles, narrowed to one for each kernel, so that a quarter as many kernels are compiled. Included
// before FlashInfer's other headers.
#pragma once
#include <flashinfer/exception.h>
#include <flashinfer/utils.cuh>

// The keys of a tile, in steps of 16 for each warp, as FlashInfer chooses them for 228 KiB of shared memory.
constexpr uint32_t steps_on_hopper(uint32_t rows, uint32_t width) {
  return rows == 16 ? 256 / width : width == 256 ? 4 : 8;
}

#undef DISPATCH_NUM_MMA_KV
#define DISPATCH_NUM_MMA_KV(most, NUM_MMA_KV, ...)                                \
  {                                                                               \
    constexpr size_t NUM_MMA_KV = steps_on_hopper(CTA_TILE_Q, HEAD_DIM_VO);       \
    if (most < NUM_MMA_KV || (most >= 2 * NUM_MMA_KV && NUM_MMA_KV < 8))          \
      FLASHINFER_ERROR("FlashInfer chooses another tile on a GPU like this one"); \
    __VA_ARGS__                                                                   \
  }
