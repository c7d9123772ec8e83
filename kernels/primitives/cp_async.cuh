// Asynchronous copies from device memory to shared memory that bypass registers (sm_80 and later).
#pragma once
#include <cstdint>

#ifndef FLASHCORE_EMULATOR

// Copies 16 bytes (both addresses 16-byte aligned). If in_bounds is false, writes zeros and does not read the source.
// .cg caches only in L2, because a CTA reads a tile once and it would only pollute L1.
__device__ __forceinline__ void cp_async_16(uint32_t destination_smem, const void* source, bool in_bounds) {
  const int source_bytes = in_bounds ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(destination_smem), "l"(source),
               "r"(source_bytes)
               : "memory");
}

// Copies 16 bytes that are always in bounds.
__device__ __forceinline__ void cp_async_16(uint32_t destination_smem, const void* source) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(destination_smem), "l"(source) : "memory");
}

// Commits this thread's current group of copies.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most PENDING of this thread's latest groups are in flight. To use other threads' copies, a barrier
// must follow.
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

#else  // for the emulator

#include "flashcore_emulator/memory.h"

// The copy runs at the matching wait and not earlier, so that a missing wait shows.
inline void cp_async_16(uint32_t destination_smem, const void* source, bool in_bounds) {
  flashcore::emu::cp_async(flashcore::emu::shared_pointer(destination_smem), source, 16, in_bounds ? 16 : 0);
}
inline void cp_async_16(uint32_t destination_smem, const void* source) { cp_async_16(destination_smem, source, true); }
inline void cp_async_commit() { flashcore::emu::cp_async_commit(); }

template <int PENDING>
inline void cp_async_wait() {
  flashcore::emu::cp_async_wait(PENDING);
}

#endif
