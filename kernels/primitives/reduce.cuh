// Adds to sums in device memory that other threads may add to as well. Nothing is read back.
#pragma once
#include <cstdint>

// Adds floats in shared memory to floats in device memory. `bytes` is a multiple of 16, and both addresses are aligned
// to 16 bytes. The copy engine does this some time after bulk_commit.
__device__ __forceinline__ void bulk_reduce_add(float* sums, uint32_t from_smem, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n" ::"l"(sums),
               "r"(from_smem), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// Waits until the copy engine has read the shared memory of everything that this thread has committed.
__device__ __forceinline__ void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;\n" ::: "memory"); }
