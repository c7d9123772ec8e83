// The bulk tensor copy engine (sm_90): tiles from device memory to shared memory by a tensor map, completing on an
// mbarrier. Coordinates count elements, innermost dimension first; elements past the tensor's end read as zero.
#pragma once
#include <cstdint>
#include <cuda.h>

__device__ __forceinline__ void tma_load_3d(uint32_t tile_smem, const CUtensorMap* map, uint32_t barrier_smem, int x,
                                            int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n" ::
          "r"(tile_smem),
      "l"(map), "r"(barrier_smem), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void tma_load_4d(uint32_t tile_smem, const CUtensorMap* map, uint32_t barrier_smem, int x,
                                            int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];\n" ::"r"(tile_smem),
      "l"(map), "r"(barrier_smem), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

// Copies `bytes` (a multiple of 16) unchanged from device memory. Both addresses are aligned to 16 bytes.
__device__ __forceinline__ void bulk_load(uint32_t to_smem, const void* from, uint32_t barrier_smem, int bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(to_smem),
      "l"(from), "r"(bytes), "r"(barrier_smem)
      : "memory");
}

// To be called before a barrier. The copy engine and the tensor cores then see what this thread wrote to shared memory.
__device__ __forceinline__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
