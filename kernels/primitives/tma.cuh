// The bulk tensor copy engine (sm_90): tiles between device memory and shared memory by a tensor map, completing on an mbarrier.
// Coordinates count elements, innermost dimension first; elements past the tensor's end read as zero and are not written.
#pragma once
#include <cstdint>
#include <cuda.h>

__device__ __forceinline__ void tma_prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];\n" :: "l"(map) : "memory");
}

__device__ __forceinline__ void tma_load_3d(uint32_t tile_smem, const CUtensorMap* map, uint32_t barrier_smem, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];\n"
               :: "r"(tile_smem), "l"(map), "r"(barrier_smem), "r"(x), "r"(y), "r"(z) : "memory");
}

// The same tile to the same offset of every CTA whose bit is set in cta_mask, each one's own barrier counting its bytes.
__device__ __forceinline__ void tma_load_3d_multicast(uint32_t tile_smem, const CUtensorMap* map, uint32_t barrier_smem,
                                                      int x, int y, int z, uint16_t cta_mask) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
               " [%0], [%1, {%3, %4, %5}], [%2], %6;\n"
               :: "r"(tile_smem), "l"(map), "r"(barrier_smem), "r"(x), "r"(y), "r"(z), "h"(cta_mask) : "memory");
}

__device__ __forceinline__ void tma_store_3d(const CUtensorMap* map, uint32_t tile_smem, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\n"
               :: "l"(map), "r"(tile_smem), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// Waits until this thread's stores have read their shared memory (it may then be reused or given back).
__device__ __forceinline__ void tma_store_wait() { asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory"); }

// Ordinary shared-memory stores of this thread become visible to the copy engine and to wgmma; a barrier must follow.
__device__ __forceinline__ void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }
